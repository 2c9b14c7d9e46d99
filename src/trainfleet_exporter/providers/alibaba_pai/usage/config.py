"""The collector `usage` of a provider of platform `alibaba_pai`, as the config file says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationInfo, create_model, field_validator

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.config.kinds import CountFrom0, Duration, Text
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.alibaba_pai.usage.metrics import FAMILIES, UNITS, Choice
from trainfleet_exporter.providers.usage.table import PROFILES, ChosenMetrics, Family, Profile


class _UsageMetrics(ChosenMetrics):
    """One key for each family that can be fed: its name after `trainfleet_`."""

    def choices(self) -> dict[str, Choice]:
        """The values of the config, by family."""
        return {
            suffix: Choice(metric.name or "", metric.unit or "", metric.statistic or "")
            for suffix, metric in self.given().items()
        }


def _metric_of(family: Family) -> type[Section]:
    """Build the section for one family. A family without a default metric requires a name, and the unit must fit."""
    name: Any = (Text | None, None) if family.names else (Text, ...)
    unit: Any = Literal[tuple(UNITS[family.quantity])]
    fields: dict[str, Any] = {"name": name, "unit": (unit | None, None), "statistic": (Text | None, None)}
    return create_model(f"MetricOf_{family.suffix}", __base__=Section, **fields)


if TYPE_CHECKING:
    UsageMetrics = _UsageMetrics
else:
    UsageMetrics = create_model(
        "UsageMetrics",
        __base__=_UsageMetrics,
        **{suffix: (_metric_of(family) | None, None) for suffix, family in FAMILIES.items()},
    )


class Usage(Collector):
    """Utilization and usage of jobs, pods, accelerators and pools."""

    interval: Duration | None = 120.0
    source: Literal["auto", "cloudmonitor", "job_metrics"] = "auto"
    """`cloudmonitor` reads all jobs together. `job_metrics` makes calls for each job. `auto` reads pay-as-you-go jobs
    on general computing with `job_metrics`, and all others from CloudMonitor. Only CloudMonitor has power and usage of
    pools."""
    profiling: tuple[Profile, ...] = ()
    """Profiling metrics and health of accelerators to read. `nvlink` and `pcie` are two metrics each; every other name
    is one metric. A metric costs one call per poll and 1,440 accelerators. Not allowed with `job_metrics`."""
    metrics: UsageMetrics = UsageMetrics()
    """Metrics to read for certain families, instead of the defaults."""
    max_jobs: CountFrom0 = 500
    """Largest number of jobs that the exporter polls one by one, newest first. It does not limit CloudMonitor."""

    @field_validator("profiling")
    @classmethod
    def _has_source(cls, profiling: tuple[Profile, ...], info: ValidationInfo) -> tuple[Profile, ...]:
        if profiling and info.data.get("source") == "job_metrics":
            raise ValueError(
                "found a list with source: job_metrics, which has none of this; "
                "allowed: no list, or source: auto or cloudmonitor"
            )
        return profiling

    @field_validator("metrics")
    @classmethod
    def _is_profiled(cls, metrics: UsageMetrics, info: ValidationInfo) -> UsageMetrics:
        metrics.check_profiles(FAMILIES, info.data.get("profiling", PROFILES))
        return metrics

    @property
    def by_cloudmonitor(self) -> bool:
        """Whether CloudMonitor serves some jobs, and pools."""
        return self.source in ("auto", "cloudmonitor")

    def source_of(self, job: Job) -> str:
        """The source that serves a job. GetJobMetrics is kept up for pay-as-you-go jobs on general computing only, and
        CloudMonitor has all others."""
        if self.source != "auto":
            return self.source
        is_pay_as_you_go = job.payment_type == "PostPaid" and job.resource_type in ("", "ECS")
        return "job_metrics" if is_pay_as_you_go else "cloudmonitor"
