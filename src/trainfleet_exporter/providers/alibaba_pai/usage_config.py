"""`usage.metrics` of the config: for any family of usage, the metric that feeds it, its unit and its statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import create_model

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import Text, choice
from trainfleet_exporter.providers.alibaba_pai.metric_map import FAMILIES, Choice
from trainfleet_exporter.providers.alibaba_pai.units import UNITS
from trainfleet_exporter.providers.usage.table import ChosenMetrics, Family


class _UsageMetrics(ChosenMetrics):
    """One key for each family that can be fed: its name after `trainfleet_`."""

    def choices(self) -> dict[str, Choice]:
        """What the file says, by family."""
        return {
            suffix: Choice(metric.name or "", metric.unit or "", metric.statistic or "")
            for suffix, metric in self.given().items()
        }


def _metric_of(family: Family) -> type[Section]:
    """The section for one family: one that no metric feeds by itself needs a name, and the unit must fit."""
    name: Any = (Text | None, None) if family.names else (Text, ...)
    unit = Annotated[str, choice(tuple(UNITS[family.quantity]))]
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
