"""`usage.metrics` of the config: for any family of usage, the metric that feeds it, its unit and its statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import create_model, model_serializer

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import Text, choice
from trainfleet_exporter.providers.alibaba_pai.metric_map import FAMILIES, Choice, Family
from trainfleet_exporter.providers.alibaba_pai.units import UNITS


class _UsageMetrics(Section):
    """One key for each family that can be fed: its name after `trainfleet_`."""

    def choices(self) -> dict[str, Choice]:
        """What the file says, by family."""
        given = {suffix: getattr(self, suffix) for suffix in type(self).model_fields}
        return {
            suffix: Choice(metric.name or "", metric.unit or "", metric.statistic or "")
            for suffix, metric in given.items()
            if metric is not None
        }

    @model_serializer
    def _given(self) -> dict[str, Any]:
        """Only what the file says: a running config does not list what is not in it."""
        return {suffix: value for suffix in type(self).model_fields if (value := getattr(self, suffix)) is not None}


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
