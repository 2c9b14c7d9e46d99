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
    """The query that replaces the metric of a family."""

    promql: Text
    """A query whose result has the labels of AOM's series (metrics)."""
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
    """Utilization and usage of jobs and tasks."""

    foreign_keys = {"profiling": "only Alibaba Cloud has metrics of profilers; leave it out"}  # noqa: RUF012 - as in the base

    interval: Duration | None = 120.0
    source: Annotated[Literal["auto", "aom", "task_metrics"], choice(_SOURCES)] = "auto"
    """`aom` reads all jobs at once. `task_metrics` makes calls for each task of each job. `auto` is AOM, with task
    metrics for jobs that AOM lacks."""
    metrics: Metrics = Metrics()
    """Metrics of families, which replace or extend the table of this platform."""
    aom_instance: Text = DEFAULT_INSTANCE
    """The Prometheus instance of AOM that ModelArts reports to."""
    max_jobs: CountFrom0 = 500
    """Largest number of jobs that the exporter polls for task metrics, newest first."""

    @property
    def asks_aom(self) -> bool:
        """Whether AOM is asked at all."""
        return self.enabled and self.source != "task_metrics"
