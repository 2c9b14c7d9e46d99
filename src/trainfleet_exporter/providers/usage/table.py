"""Which families of usage there are: each quantity at the level of jobs, pods, devices and pools.

A cloud's table says which of its metrics feed them; the config may name others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from pydantic import model_serializer

from trainfleet_exporter.config import Section
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage
from trainfleet_exporter.providers.usage.quantities import RATIOS, Quantity

Level: TypeAlias = Literal["job", "pod", "device", "pool"]
"""What there is a value for each of."""
LEVELS: tuple[Level, ...] = ("job", "pod", "device")
"""The levels of jobs, from the coarsest: each may be made from those after it."""
SHOWN_AS: Mapping[Level, type] = MappingProxyType(
    {"job": JobUsage, "pod": PodUsage, "device": DeviceUsage, "pool": PoolUsage}
)
"""The class of the model that shows a level."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of usage: its name after `trainfleet_`, and what it reads."""

    suffix: str
    level: Level
    path: str
    """As `field` of model.Readings."""
    quantity: Quantity
    names: tuple[str, ...] = ()
    """The metrics of a cloud that can feed it, best first."""

    @property
    def is_ratio(self) -> bool:
        """Whether a whole is the mean of its parts; of everything else it is their sum."""
        return self.quantity in RATIOS

    @property
    def of_accelerators(self) -> bool:
        """Whether jobs without accelerators have nothing to show in it."""
        return self.level == "device" or "accelerator" in self.path


@dataclass(frozen=True, slots=True)
class Measure:
    """What families of one meaning read, at every level."""

    suffix: str
    """After the level in the names of families."""
    field: str
    """Of UsageValues."""
    quantity: Quantity
    device: tuple[str, str] | None = None
    """What devices have: the suffix of the family after `device_`, and the field of DeviceUsage."""

    @property
    def is_ratio(self) -> bool:
        """As of a family."""
        return self.quantity in RATIOS

    def at(self, level: Level) -> Family | None:
        """The family of a level; None where it has none."""
        if level == "device":
            return self.device and Family(f"device_{self.device[0]}", level, self.device[1], self.quantity)
        if level == "pool" and self.quantity == "bytes_per_second":
            return None
        return Family(f"{level}_{self.suffix}", level, f"values.{self.field}", self.quantity)


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        each.suffix: each
        for each in (
            Measure("cpu_utilization_ratio", "cpu", "ratio"),
            Measure("memory_utilization_ratio", "memory", "bounded_ratio"),
            Measure(
                "accelerator_utilization_ratio",
                "accelerator_utilization",
                "bounded_ratio",
                ("utilization_ratio", "utilization"),
            ),
            Measure(
                "accelerator_memory_utilization_ratio",
                "accelerator_memory",
                "bounded_ratio",
                ("memory_utilization_ratio", "memory_utilization"),
            ),
            Measure("network_receive_bytes_per_second", "network_receive", "bytes_per_second"),
            Measure("network_transmit_bytes_per_second", "network_transmit", "bytes_per_second"),
            Measure("disk_read_bytes_per_second", "disk_read", "bytes_per_second"),
            Measure("disk_write_bytes_per_second", "disk_write", "bytes_per_second"),
            Measure("cpu_usage_cores", "cpu_cores", "cores"),
            Measure("memory_usage_bytes", "memory_bytes", "bytes"),
            Measure("accelerator_memory_usage_bytes", "accelerator_memory_bytes", "bytes"),
            Measure("accelerator_memory_capacity_bytes", "accelerator_memory_capacity_bytes", "bytes"),
            Measure("accelerator_power_watts", "accelerator_power_watts", "watts", ("power_watts", "power_watts")),
        )
    }
)
"""By suffix."""


def families(level: Level, names: Mapping[str, tuple[str, ...]] | None = None) -> Iterator[Family]:
    """The families of one level; `names` are the metrics that feed them, by the family's suffix after its level."""
    for measure in MEASURES.values():
        family = measure.at(level)
        if family is not None:
            yield replace(family, names=(names or {}).get(family.suffix.removeprefix(f"{level}_"), ()))


def is_exposed(family: Family, deny: Sequence[str]) -> bool:
    """Whether no glob of `deny` matches: what is not exposed need not be asked for."""
    return not any(fnmatchcase(f"trainfleet_{family.suffix}", glob) for glob in deny)


def exposed(given: Iterable[Family], deny: Sequence[str]) -> list[Family]:
    """The families that no glob of `deny` matches."""
    return [family for family in given if is_exposed(family, deny)]


class ChosenMetrics(Section):
    """`usage.metrics` of the config: for each family that can be fed (its name after `trainfleet_` is the key), the
    metric that takes the place of the table's. A cloud makes its own section of this, with a key for each family."""

    def given(self) -> dict[str, Any]:
        """What the file says, by family."""
        found = {suffix: getattr(self, suffix) for suffix in type(self).model_fields}
        return {suffix: metric for suffix, metric in found.items() if metric is not None}

    @model_serializer
    def _given(self) -> dict[str, Any]:
        """Only what the file says: a running config does not list what is not in it."""
        return self.given()
