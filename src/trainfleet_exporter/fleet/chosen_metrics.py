"""The metrics of a cloud that the config chooses for families of usage."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from pydantic import model_serializer

from trainfleet_exporter.config import Section
from trainfleet_exporter.families.usage import Family


class ChosenMetrics(Section):
    """`usage.metrics` of the config: for each family that can be fed (its name after `trainfleet_` is the key), the
    metric that takes the place of the table's. A cloud makes its own section of this, with a key for each family."""

    def given(self) -> dict[str, Any]:
        """Return the values of the config, by family."""
        found = {suffix: getattr(self, suffix) for suffix in type(self).model_fields}
        return {suffix: metric for suffix, metric in found.items() if metric is not None}

    def check_profiles(self, known: Mapping[str, Family], profiles: Container[str]) -> None:
        """Raise ValueError for a metric of a family that is off; `known` are the families by name."""
        for suffix in self.given():
            profile = known[suffix].profile
            if profile and profile not in profiles:
                allowed = f"families that are on, and this one if usage.profiling names {profile}"
                raise ValueError(f"found {suffix}, which is off; allowed: {allowed}")

    @model_serializer
    def _given(self) -> dict[str, Any]:
        """Only what the file says: a running config does not list what is not in it."""
        return self.given()
