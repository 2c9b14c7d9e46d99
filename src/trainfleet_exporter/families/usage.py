"""The table of usage: each quantity at the levels of jobs, pods, pools and devices, for the page and for the readings.

A cloud's table says which of its metrics feed these families; the config may name others.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from trainfleet_exporter.families.family import MetricFamily, is_denied, number, word
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, UsageSource

Quantity: TypeAlias = Literal[
    "ratio", "bounded_ratio", "bytes", "bytes_per_second", "cores", "watts", "flops_per_second", "flag", "celsius"
]
"""What a family counts; a bounded ratio cannot exceed 1, a flag is 0 or 1."""
RATIOS: frozenset[Quantity] = frozenset({"ratio", "bounded_ratio"})
Level: TypeAlias = Literal["job", "pod", "device", "pool"]
"""The kinds of things that have a value."""
LEVELS: tuple[Level, ...] = ("job", "pod", "device")
"""The levels of jobs, from the coarsest: each may be made from those after it."""
SHOWN_AS: Mapping[Level, type] = MappingProxyType(
    {"job": JobUsage, "pod": PodUsage, "device": DeviceUsage, "pool": PoolUsage}
)
"""The class of the model that shows a level."""
Profile: TypeAlias = Literal["sm", "tensor", "dram", "flops", "nvlink", "pcie", "health"]
"""What is read of accelerators only if the config names it: mostly what profilers measure."""
PROFILES: tuple[Profile, ...] = get_args(Profile)
_KINDS_OF_RATIOS = frozenset({"values.accelerator_utilization", "values.accelerator_memory"})
QUANTITIES: Mapping[str, Quantity] = {
    "_ratio": "bounded_ratio",
    "_bytes_per_second": "bytes_per_second",
    "_flops_per_second": "flops_per_second",
    "_bytes": "bytes",
    "_cores": "cores",
    "_watts": "watts",
    "_celsius": "celsius",
    "healthy": "flag",
}
"""What a family counts, by the end of its name."""


def _quantity(suffix: str) -> Quantity:
    return next(quantity for end, quantity in QUANTITIES.items() if suffix.endswith(end))


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

    @property
    def is_by_accelerator(self) -> bool:
        """Whether its series have the kind of accelerator as a label, although it does not name their subject."""
        return self.level != "device" and (self.profile is not None or self.path in _KINDS_OF_RATIOS)


@dataclass(frozen=True, slots=True)
class Measure:
    """What families of one meaning read, at every level."""

    suffix: str
    """After the level in the names of families."""
    field: str
    """Of UsageValues; empty of what only devices have."""
    meaning: str
    """For HELP, with a place for whose value it is."""
    device: tuple[str, str] | None = None
    """What devices have: the suffix of the family after `device_`, and the field of DeviceUsage."""
    profile: Profile | None = None
    """What the config calls it in `usage.profiling`, without which it is not read; None for what is always read."""

    @property
    def quantity(self) -> Quantity:
        """What its families count. Only CPU may exceed 1: a pod may use more than it asked for."""
        return "ratio" if self.field == "cpu" else _quantity(self.suffix)

    @property
    def is_ratio(self) -> bool:
        """As of a family."""
        return self.quantity in RATIOS

    def of(self, level: Level) -> Family:
        """Return the family of a level that has one."""
        family = self.at(level)
        assert family is not None
        return family

    def at(self, level: Level) -> Family | None:
        """Return the family of a level; None if it has none. Pools have no rates."""
        if level == "device":
            if self.device is None:
                return None
            return Family(f"device_{self.device[0]}", level, self.device[1], self.quantity, profile=self.profile)
        if not self.field or (level == "pool" and self.suffix.endswith("_per_second")):
            return None
        return Family(f"{level}_{self.suffix}", level, f"values.{self.field}", self.quantity, profile=self.profile)

    def help(self, level: Level) -> str:
        """Return what the family of a level measures, as a sentence or two."""
        if level == "device":
            return f"{_DEVICES.get(self.suffix) or self.meaning.format('one accelerator of a pod')}."
        combined = "Mean" if self.is_ratio else "Sum"
        if self.profile is not None:
            return f"{self.meaning.format(f'the accelerators of a {level}')}. {combined} of its devices."
        pods = f" {combined} of its pods if the source reports pods only." if level == "job" else ""
        return f"{self.meaning.format(level)}.{pods}"


def _by_suffix(*measures: Measure) -> Mapping[str, Measure]:
    return MappingProxyType({measure.suffix: measure for measure in measures})


_AT_100 = "where 1 is the platform's 100 %"
_RATES = (
    ("network_receive", "receives over the network"),
    ("network_transmit", "sends over the network"),
    ("disk_read", "reads from disks"),
    ("disk_write", "writes to disks"),
)
_CAPACITY, _POWER = "accelerator_memory_capacity_bytes", "accelerator_power_watts"
MEASURES = _by_suffix(
    Measure("cpu_utilization_ratio", "cpu", f"CPU utilization of a {{}}, 0 to 1, {_AT_100}"),
    Measure("memory_utilization_ratio", "memory", f"Memory utilization of a {{}}, 0 to 1, {_AT_100}"),
    *(
        Measure(f"{name}_utilization_ratio", field, f"{meaning} of a {{}}, 0 to 1, mean of its devices", device)
        for name, field, meaning, device in (
            ("accelerator", "accelerator_utilization", "Accelerator utilization", ("utilization_ratio", "utilization")),
            (
                *("accelerator_memory", "accelerator_memory", "Accelerator memory utilization"),
                ("memory_utilization_ratio", "memory_utilization"),
            ),
        )
    ),
    *(Measure(f"{what}_bytes_per_second", what, f"Bytes per second that a {{}} {does}") for what, does in _RATES),
    Measure("cpu_usage_cores", "cpu_cores", "CPU cores that a {} uses"),
    Measure("memory_usage_bytes", "memory_bytes", "Memory in bytes that a {} uses"),
    Measure("accelerator_memory_usage_bytes", "accelerator_memory_bytes", "Accelerator memory in bytes that a {} uses"),
    Measure(_CAPACITY, _CAPACITY, "Accelerator memory in bytes of all devices of a {}"),
    Measure(_POWER, _POWER, "Power in watts that the accelerators of a {} draw", ("power_watts", "power_watts")),
)
"""What is always read, by suffix."""
_PROFILERS: Sequence[tuple[Profile, str, str, str]] = (
    ("sm", "sm_utilization", "_ratio", "Share of time in which the multiprocessors of {} are busy, 0 to 1"),
    ("tensor", "tensor_active", "_ratio", "Share of time in which the tensor cores of {} are active, 0 to 1"),
    ("dram", "dram_active", "_ratio", "Share of time in which the memory of {} moves data, 0 to 1"),
    ("flops", "tensor_flops", "_per_second", "Floating-point operations per second on the tensor cores of {}"),
    ("nvlink", "nvlink_receive", "_bytes_per_second", "Bytes per second received over NVLink by {}"),
    ("nvlink", "nvlink_transmit", "_bytes_per_second", "Bytes per second sent over NVLink by {}"),
    ("pcie", "pcie_receive", "_bytes_per_second", "Bytes per second received over PCIe by {}"),
    ("pcie", "pcie_transmit", "_bytes_per_second", "Bytes per second sent over PCIe by {}"),
)
PROFILING = _by_suffix(
    *(
        Measure(field + unit, field, meaning, device=(field + unit, field), profile=profile)
        for profile, field, unit, meaning in _PROFILERS
    ),
    *(
        Measure(name, "", meaning, device=(name, name), profile="health")
        for name, meaning in (
            ("healthy", "1 if the platform reports {} as healthy, else 0"),
            ("temperature_celsius", "Temperature in degrees Celsius of {}"),
        )
    ),
)
"""What is read of accelerators only if the config names the profile, by suffix."""
_DEVICES = {
    "accelerator_utilization_ratio": "Utilization of one accelerator of a pod, 0 to 1",
    "accelerator_memory_utilization_ratio": "Memory utilization of one accelerator of a pod, 0 to 1",
    _POWER: "Power in watts that one accelerator of a pod draws",
}
"""What devices of a pod have, by the suffix of the measure that is made of it."""
_DISKS = (
    ("utilization_ratio", "disk_utilization", "Share of the disk space of a pool's nodes that is in use, 0 to 1."),
    ("capacity_bytes", "disk_capacity_bytes", "Disk space in bytes of a pool's nodes."),
    ("available_bytes", "disk_available_bytes", "Free disk space in bytes of a pool's nodes."),
)
DISKS = {suffix: Family(f"pool_disk_{suffix}", "pool", field, _quantity(suffix)) for suffix, field, _ in _DISKS}
"""What only pools have, by the suffix after `pool_disk_`."""


def families(
    level: Level,
    names: Mapping[str, tuple[str, ...]] | None = None,
    measures: Mapping[str, Measure] = MEASURES,
) -> Iterator[Family]:
    """Yield the families of one level; `names` are the metrics that feed them, by the suffix after the level."""
    for measure in measures.values():
        if family := measure.at(level):
            yield replace(family, names=(names or {}).get(family.suffix.removeprefix(f"{level}_"), ()))


def exposed(given: Iterable[Family], deny: Sequence[str], profiles: Container[str] = ()) -> list[Family]:
    """Return the families that no glob of `deny` matches, and of those of profilers the ones of `profiles`."""
    return [
        family
        for family in given
        if not is_denied(f"trainfleet_{family.suffix}", deny) and (family.profile is None or family.profile in profiles)
    ]


def _row(family: Family, meaning: str) -> MetricFamily:
    """Return the row of a family in the table of all."""
    kinds = ("values.accelerator",) if family.is_by_accelerator else ()
    return MetricFamily(
        f"trainfleet_{family.suffix}",
        f"{meaning} Absent without a recent reading.",
        SHOWN_AS[family.level],
        number(family.path, *kinds),
        ("accelerator",) if kinds else (),
        field=family.path,
    )


def _level(level: Level) -> Iterator[MetricFamily]:
    for measure in (*MEASURES.values(), *PROFILING.values()):
        if family := measure.at(level):
            yield _row(family, measure.help(level))


USAGE_FAMILIES = (
    *_level("job"),
    *_level("pod"),
    *_level("pool"),
    *(_row(DISKS[suffix], meaning) for suffix, _, meaning in _DISKS),
    *_level("device"),
    MetricFamily(
        "trainfleet_job_usage_info",
        "Name of the source of the usage of a job; always 1. Absent if the job has no usage.",
        UsageSource,
        word("source"),
        ("source",),
    ),
    MetricFamily(
        "trainfleet_job_usage_timestamp_seconds",
        "Unix time in seconds of the newest usage reading of a job. Absent if the source reports no timestamps.",
        UsageSource,
        number("timestamp"),
    ),
)
