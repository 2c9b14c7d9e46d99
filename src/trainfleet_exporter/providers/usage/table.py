"""Which families of usage there are: each quantity at the level of jobs, pods, devices and pools.

A cloud's table says which of its metrics feed them; the config may name others.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from pydantic import model_serializer

from trainfleet_exporter.config import Section
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage
from trainfleet_exporter.providers.usage.quantities import RATIOS, Quantity

Level: TypeAlias = Literal["job", "pod", "device", "pool"]
"""The kinds of things that have a value."""
Profile: TypeAlias = Literal["sm", "tensor", "dram", "flops", "nvlink", "pcie", "health"]
"""What is read of accelerators only if the config names it: mostly what profilers measure."""
PROFILES: tuple[Profile, ...] = get_args(Profile)
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
    profile: Profile | None = None
    """As of Measure."""

    @property
    def is_ratio(self) -> bool:
        """Whether a whole is the mean of its parts; of everything else it is their sum."""
        return self.quantity in RATIOS

    @property
    def of_accelerators(self) -> bool:
        """Whether jobs without accelerators have nothing to show in it."""
        return self.level == "device" or "accelerator" in self.path or self.profile is not None


@dataclass(frozen=True, slots=True)
class Measure:
    """What families of one meaning read, at every level."""

    suffix: str
    """After the level in the names of families."""
    field: str
    """Of UsageValues; empty of what only devices have."""
    quantity: Quantity
    device: tuple[str, str] | None = None
    """What devices have: the suffix of the family after `device_`, and the field of DeviceUsage."""
    profile: Profile | None = None
    """What the config calls it in `usage.profiling`, without which it is not read; None for what is always read."""

    @property
    def is_ratio(self) -> bool:
        """As of a family."""
        return self.quantity in RATIOS

    def of(self, level: Level) -> Family:
        """The family of a level that has one."""
        family = self.at(level)
        assert family is not None
        return family

    def at(self, level: Level) -> Family | None:
        """The family of a level; None if it has none."""
        if level == "device":
            if self.device is None:
                return None
            return Family(f"device_{self.device[0]}", level, self.device[1], self.quantity, profile=self.profile)
        if not self.field or (level == "pool" and self.suffix.endswith("_per_second")):
            return None
        return Family(f"{level}_{self.suffix}", level, f"values.{self.field}", self.quantity, profile=self.profile)


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


def _profiled(profile: Profile, suffix: str, field: str, quantity: Quantity) -> Measure:
    return Measure(suffix, field, quantity, device=(suffix, field), profile=profile)


def _of_devices(name: str, quantity: Quantity) -> Measure:
    """Health of single devices, which no whole is made of. The field of DeviceUsage has the same name."""
    return Measure(name, "", quantity, device=(name, name), profile="health")


PROFILING: Mapping[str, Measure] = MappingProxyType(
    {
        each.suffix: each
        for each in (
            _profiled("sm", "sm_utilization_ratio", "sm_utilization", "bounded_ratio"),
            _profiled("tensor", "tensor_active_ratio", "tensor_active", "bounded_ratio"),
            _profiled("dram", "dram_active_ratio", "dram_active", "bounded_ratio"),
            _profiled("flops", "tensor_flops_per_second", "tensor_flops", "flops_per_second"),
            _profiled("nvlink", "nvlink_receive_bytes_per_second", "nvlink_receive", "bytes_per_second"),
            _profiled("nvlink", "nvlink_transmit_bytes_per_second", "nvlink_transmit", "bytes_per_second"),
            _profiled("pcie", "pcie_receive_bytes_per_second", "pcie_receive", "bytes_per_second"),
            _profiled("pcie", "pcie_transmit_bytes_per_second", "pcie_transmit", "bytes_per_second"),
            _of_devices("healthy", "flag"),
            _of_devices("temperature_celsius", "celsius"),
        )
    }
)
"""What is read of accelerators only if the config names the profile, by suffix."""


def families(
    level: Level,
    names: Mapping[str, tuple[str, ...]] | None = None,
    measures: Mapping[str, Measure] = MEASURES,
) -> Iterator[Family]:
    """The families of one level; `names` are the metrics that feed them, by the family's suffix after its level."""
    for measure in measures.values():
        family = measure.at(level)
        if family is not None:
            yield replace(family, names=(names or {}).get(family.suffix.removeprefix(f"{level}_"), ()))


def exposed(given: Iterable[Family], deny: Sequence[str], profiles: Container[str] = ()) -> list[Family]:
    """The families that no glob of `deny` matches, and of those of profilers the ones of `profiles`."""
    return [
        family
        for family in given
        if not any(fnmatchcase(f"trainfleet_{family.suffix}", glob) for glob in deny)
        and (family.profile is None or family.profile in profiles)
    ]


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
