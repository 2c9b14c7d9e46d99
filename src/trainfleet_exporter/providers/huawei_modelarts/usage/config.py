"""The collector `usage` of a provider of platform `huawei_modelarts`, as the config file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationInfo, create_model, field_validator

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.config.kinds import CountFrom0, Duration, Text
from trainfleet_exporter.fleet.chosen_metrics import ChosenMetrics
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import DEFAULT_INSTANCE
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import FAMILIES, UNITS, Choice

_PROFILES = ("health",)


class Metric(Section):
    """The query that replaces the metric of a family."""

    promql: Text
    """A query whose result has the labels of AOM's series (metrics)."""
    unit: str
    """The unit of the values: one of those of the family in docs/configuration.md."""


class _Metrics(ChosenMetrics):
    """The base of `Metrics`."""

    def choices(self) -> Mapping[str, Choice]:
        """The values of the config, by family."""
        return {family: Choice(metric.promql, metric.unit) for family, metric in self.given().items()}


def _metric(units: Mapping[str, float]) -> type[Metric]:
    """The section of a family that is counted in one of these units."""
    unit: Any = (Literal[tuple(units)], ...)
    return create_model("Metric", __base__=Metric, __module__=__name__, unit=unit)


if TYPE_CHECKING:
    Metrics = _Metrics
else:
    # A key for each family that can be fed, named as it is after `trainfleet_`.
    Metrics = create_model(
        "Metrics",
        __base__=_Metrics,
        __module__=__name__,
        **{family: (_metric(units) | None, None) for family, units in UNITS.items()},
    )


class Usage(Collector):
    """Utilization and usage of jobs, pods and accelerators."""

    interval: Duration | None = 120.0
    source: Literal["auto", "aom", "task_metrics"] = "auto"
    """`aom` reads all jobs together. `task_metrics` makes calls for each pod of each job. `auto` reads
    AOM, and task metrics for jobs that AOM does not have."""
    profiling: tuple[Literal["health"], ...] = ()
    """`health` reads health and temperature of NPUs from AOM. It costs two calls per poll."""
    metrics: Metrics = Metrics()
    """Metrics to read for certain families, instead of the defaults."""
    aom_instance: Text = DEFAULT_INSTANCE
    """The Prometheus instance of AOM that ModelArts reports to."""
    max_jobs: CountFrom0 = 500
    """Largest number of jobs that the exporter polls for task metrics, newest first."""

    @field_validator("profiling")
    @classmethod
    def _has_source(cls, profiling: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if profiling and info.data.get("source") == "task_metrics":
            raise ValueError(
                "found a list with source: task_metrics, which has none of this; "
                "allowed: no list, or source: auto or aom"
            )
        return profiling

    @field_validator("metrics")
    @classmethod
    def _is_profiled(cls, metrics: Metrics, info: ValidationInfo) -> Metrics:
        metrics.check_profiles(FAMILIES, info.data.get("profiling", _PROFILES))
        return metrics

    @property
    def asks_aom(self) -> bool:
        """Whether AOM is asked at all."""
        return self.enabled and self.source != "task_metrics"
