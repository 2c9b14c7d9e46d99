"""What the config chooses for families of usage: the metrics of a cloud, and profiling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ValidationInfo, field_validator, model_serializer

from trainfleet_exporter.config import Collector, Section
from trainfleet_exporter.families.usage import PROFILES, Family


class ChosenMetrics(Section):
    """`usage.metrics` of the config: for each family that can be fed (its name after `trainfleet_` is the key), the
    metric that takes the place of the table's. A cloud makes its own section of this, with a key for each family."""

    @model_serializer  # a running config does not list what is not in the file
    def given(self) -> dict[str, Any]:
        """Return the values of the config, by family."""
        found = {suffix: getattr(self, suffix) for suffix in type(self).model_fields}
        return {suffix: metric for suffix, metric in found.items() if metric is not None}


class ProfiledUsage(Collector):
    """The base of `usage` of a cloud with two sources of usage: `bulk`, and `one_by_one`, which has no profiling. A
    subclass has the keys source, profiling and metrics, in this order; `families` are those of its metrics."""

    bulk: ClassVar[str]
    one_by_one: ClassVar[str]
    families: ClassVar[Mapping[str, Family]]

    @field_validator("profiling", check_fields=False)
    @classmethod
    def _has_source(cls, profiling: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if profiling and info.data.get("source") == cls.one_by_one:
            allowed = f"no list, or source: auto or {cls.bulk}"
            raise ValueError(f"found a list with source: {cls.one_by_one}, which has none of this; allowed: {allowed}")
        return profiling

    @field_validator("metrics", check_fields=False)
    @classmethod
    def _is_profiled(cls, metrics: ChosenMetrics, info: ValidationInfo) -> ChosenMetrics:
        profiles = info.data.get("profiling", PROFILES)
        for suffix in metrics.given():
            if (profile := cls.families[suffix].profile) and profile not in profiles:
                allowed = f"families that are on, and this one if usage.profiling names {profile}"
                raise ValueError(f"found {suffix}, which is off; allowed: {allowed}")
        return metrics
