"""The collector `usage` of a provider of platform `huawei_modelarts`, as the config file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.config.kinds import CountFrom0, Duration, Text, choice
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import DEFAULT_INSTANCE
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import UNITS, Choice
from trainfleet_exporter.providers.usage.table import ChosenMetrics

_SOURCES = ("auto", "aom", "task_metrics")


class Metric(Section):
    """What takes the place of the metric that a family is made of."""

    promql: Text
    """A query whose answer has the labels of AOM's series (metrics)."""
    unit: str


class _Metrics(ChosenMetrics):
    """The base of `Metrics`."""

    def choices(self) -> Mapping[str, Choice]:
        """What is given, by family."""
        return {family: Choice(metric.promql, metric.unit) for family, metric in self.given().items()}


def _metric(units: Mapping[str, float]) -> type[Metric]:
    """The section of a family that is counted in one of these units."""
    unit: Any = (Annotated[str, choice(tuple(units))], Field(default=None, validate_default=True))
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
    """How much jobs and their tasks use of what they have."""

    foreign_keys = {"profiling": "only Alibaba Cloud has metrics of profilers; leave it out"}  # noqa: RUF012 - as in the base

    interval: Duration | None = 120.0
    source: Annotated[Literal["auto", "aom", "task_metrics"], choice(_SOURCES)] = "auto"
    """`aom` reads all jobs together, `task_metrics` each task of each job. `auto` is AOM, and task metrics for the jobs
    that it lacks."""
    metrics: Metrics = Metrics()
    """Which metric of the source feeds which family, instead of the platform's own table."""
    aom_instance: Text = DEFAULT_INSTANCE
    """The Prometheus instance of AOM that ModelArts reports to."""
    max_jobs: CountFrom0 = 500
    """How many jobs at most are read by task metrics, newest first."""

    @property
    def asks_aom(self) -> bool:
        """Whether AOM is asked at all."""
        return self.enabled and self.source != "task_metrics"
