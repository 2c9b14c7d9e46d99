"""Which metric of CloudMonitor feeds which family of usage: the catalogue of metrics, their units, and the table.

The catalogue (DescribeMetricMetaList) has the dimensions, the unit and the statistics of each metric. For each family,
the first name of the table that the catalogue has is used. If there is no metric of jobs, a job's family uses a metric
of pods. Misspellings (DUTTY, RECEVICE) are part of names, and have priority over the correct spellings. Names in the
config have priority over the table. The unit is the catalogue's or the config's. Without a certain unit, no value is
shown.

Catalogues write the same unit in several ways, none of them documented. An ambiguous unit does not count: `Kb/s` may be
bits or bytes. K, M, G and T count thousands, Ki, Mi, Gi and Ti 1024s.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.alibaba_pai.payloads import MetricMeta
from trainfleet_exporter.providers.usage.columns import Target
from trainfleet_exporter.providers.usage.quantities import UNITS as COMMON
from trainfleet_exporter.providers.usage.quantities import Quantity
from trainfleet_exporter.providers.usage.table import LEVELS, PROFILING, Family, Level, families
from trainfleet_exporter.transport.json_fields import printable

DLC = "acs_pai_dlc"
QUOTA = "acs_pai_quota"

POD_KEYS = ("pod", "podId", "podName")
"""Possible names of the dimension of a pod."""
_NODE_KEYS = ("nodeId", "nodeName")
_KNOWN_KEYS = frozenset(
    {"userId", "regionId", "workspaceId", "jobId", "quotaId", "quotaName", "instanceId", *POD_KEYS, *_NODE_KEYS}
)
_DEVICE = re.compile("gpu|card|device|npu", re.IGNORECASE)
_OF_A_DEVICE = re.compile("(type|model|name|count|num)$", re.IGNORECASE)
_BY_NAME: Mapping[str, Level] = {"JOB": "job", "POD": "pod", "CARD": "device", "QUOTA": "pool"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a namespace. Empty if the catalogue does not say; periods are seconds."""

    name: str
    unit: str = ""
    dimensions: tuple[str, ...] = ()
    periods: tuple[int, ...] = ()
    statistics: tuple[str, ...] = ()

    @property
    def period(self) -> int | None:
        """The period to ask for, None for the default: minutes, since what is finer costs as much and goes sooner."""
        if 60 in self.periods:
            return 60
        return min((each for each in self.periods if each > 60), default=max(self.periods, default=None))

    @property
    def level(self) -> Level | None:
        """The level of the metric by its dimensions; None if no family has this level (nodes)."""
        dimensions = self.dimensions
        if not dimensions:
            return _BY_NAME.get(self.name.partition("_")[0])
        if "jobId" not in dimensions:
            is_pool = "quotaId" in dimensions or "quotaName" in dimensions
            return "pool" if is_pool and not set(_NODE_KEYS) & set(dimensions) else None
        if any(map(is_device_key, dimensions)):
            return "device"
        return "pod" if set(POD_KEYS) & set(dimensions) else "job"


def is_device_key(dimension: str) -> bool:
    """Return whether a dimension names the cards of a pod. Its name is not documented."""
    return (
        dimension not in _KNOWN_KEYS
        and _DEVICE.search(dimension) is not None
        and _OF_A_DEVICE.search(dimension) is None
    )


def metric(row: MetricMeta) -> Metric:
    """A row of the catalogue."""
    return Metric(
        name=row.metric_name or "",
        unit=row.unit or "",
        dimensions=_listed(row.dimensions),
        periods=tuple(int(period) for period in _listed(row.periods) if period.isascii() and period.isdigit()),
        statistics=_listed(row.statistics),
    )


def _listed(given: str | None) -> tuple[str, ...]:
    return tuple(item for item in (part.strip() for part in (given or "").split(",")) if item)


_BITS = {f"{prefix}bit/s": 1000.0**power / 8 for power, prefix in enumerate(("", "K", "M", "G", "T"))}

UNITS: Mapping[Quantity, Mapping[str, float]] = MappingProxyType(
    {**COMMON, "bytes_per_second": {**COMMON["bytes_per_second"], **_BITS}}
)
"""By quantity, the words that the config takes for units, and how many base units each is."""

_WORDS = {
    "percent": "%",
    "percentage": "%",
    "core": "Core",
    "cores": "Core",
    "mcore": "mCore",
    "mcores": "mCore",
    "millicore": "mCore",
    "millicores": "mCore",
    "watt": "W",
    "watts": "W",
    "milliwatt": "mW",
    "milliwatts": "mW",
    "kilowatt": "kW",
    "kilowatts": "kW",
    "celsius": "C",
    "\N{DEGREE SIGN}c": "C",
    "\N{DEGREE CELSIUS}": "C",
}
_FLOPS = re.compile("([KMGTP]?)flop(?:s|/s|s/s)", re.ASCII | re.IGNORECASE)
_PREFIXES = {"kilo": "K", "mega": "M", "giga": "G", "tera": "T", "k": "K"}
_DATA = re.compile(
    r"(?P<prefix>|k|[KMGT]i?|(?i:kilo|mega|giga|tera))"
    r"(?:(?P<bytes>B|(?i:bytes?))|(?P<bits>(?i:bits?)|b(?=ps$)))"
    r"(?P<second>|ps|/(?i:s|sec|second))",
    re.ASCII,
)


def base_units(unit: str, quantity: Quantity) -> float | None:
    """Return how many base units of a quantity one `unit` is; None if that is not certain."""
    unit = unit.strip()
    known = UNITS[quantity]
    for word in (unit, _WORDS.get(unit.lower(), ""), _data_unit(unit), _flops_unit(unit)):
        if word in known:
            return known[word]
    return None


def _data_unit(unit: str) -> str:
    """`Megabytes/sec` and `MBps` as `MB/s`; empty for what is not an amount of data."""
    match = _DATA.fullmatch(unit)
    if match is None:
        return ""
    prefix = _PREFIXES.get(match["prefix"].lower(), match["prefix"])
    word = "bit" if match["bits"] else "B" if prefix else "Bytes"
    return f"{prefix}{word}{'/s' if match['second'] else ''}"


def _flops_unit(unit: str) -> str:
    """`TFlops` and `TFLOP/s` as `TFLOPS`; empty for what is not floating-point operations a second."""
    match = _FLOPS.fullmatch(unit)
    return f"{match[1].upper()}FLOPS" if match else ""


log = logging.getLogger(__name__)

STATISTICS = ("Average", "Value")
"""In order of preference; which of them a metric has differs."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The config of a family; empty without one."""

    name: str = ""
    unit: str = ""
    statistic: str = ""


@dataclass(frozen=True, slots=True)
class Feed:
    """A metric that is asked for, what its points are of, and every family that it feeds."""

    metric: Metric
    level: Level
    targets: tuple[Target, ...]
    statistics: tuple[tuple[str, ...], ...]
    """The statistics that targets read, by number: the names of each in order of preference."""

    @property
    def key(self) -> str:
        """The name of the metric."""
        return self.metric.name

    @property
    def of_accelerators(self) -> bool:
        """Whether jobs without accelerators have no points of it."""
        return all(target.family.of_accelerators for target in self.targets)

    def feeding(self, target: Target, statistic: tuple[str, ...]) -> Feed:
        """The same with one more target, which reads this statistic."""
        statistics = tuple(dict.fromkeys((*self.statistics, statistic)))
        numbered = target._replace(statistic=statistics.index(statistic))
        return Feed(self.metric, self.level, (*self.targets, numbered), statistics)


@dataclass(frozen=True, slots=True)
class Unfed:
    """A family that is not shown although a metric for it is there, or is named by the config; and why, in words."""

    suffix: str
    name: str
    reason: str


_OF_JOBS: Mapping[str, tuple[str, ...]] = {
    "cpu_utilization_ratio": ("JOB_CPU_UTIL", "JOB_CPU_UTILIZATION"),
    "memory_utilization_ratio": ("JOB_MEMORY_UTIL", "JOB_MEM_UTIL"),
    "accelerator_utilization_ratio": (
        "JOB_GPU_ACCELERATOR_DUTTY_UTIL",
        "JOB_GPU_ACCELERATOR_DUTY_UTIL",
        "JOB_GPU_DUTY_CYCLE",
    ),
    "accelerator_memory_utilization_ratio": ("JOB_GPU_ACCELERATOR_MEMORY_UTIL", "JOB_GPU_MEMORY_UTIL"),
    "network_receive_bytes_per_second": ("JOB_NETWORK_RECEVICE_RATE", "JOB_NETWORK_RECEIVE_RATE"),
    "network_transmit_bytes_per_second": ("JOB_NETWORK_TRANSMIT_RATE",),
    "disk_read_bytes_per_second": ("JOB_DISK_READ_RATE",),
    "disk_write_bytes_per_second": ("JOB_DISK_WRITE_RATE",),
}
_OF_PODS: Mapping[str, tuple[str, ...]] = {
    "cpu_utilization_ratio": ("POD_CPU_UTIL", "POD_CPU_UTILIZATION"),
    "memory_utilization_ratio": ("POD_MEMORY_UTIL", "POD_MEM_UTIL"),
    "accelerator_utilization_ratio": (
        "POD_GPU_ACCELERATOR_DUTTY_UTIL",
        "POD_GPU_ACCELERATOR_DUTY_UTIL",
        "POD_GPU_DUTY_CYCLE",
    ),
    "accelerator_memory_utilization_ratio": ("POD_GPU_ACCELERATOR_MEMORY_UTIL", "POD_GPU_MEMORY_UTIL"),
    "network_receive_bytes_per_second": ("POD_NETWORK_RECEVICE_RATE", "POD_NETWORK_RECEIVE_RATE"),
    "network_transmit_bytes_per_second": ("POD_NETWORK_TRANSMIT_RATE",),
    "disk_read_bytes_per_second": ("POD_DISK_READ_RATE",),
    "disk_write_bytes_per_second": ("POD_DISK_WRITE_RATE",),
    "cpu_usage_cores": ("POD_CPU_USED",),
    "memory_usage_bytes": ("POD_MEMORY_USED",),
    "accelerator_memory_usage_bytes": ("POD_GPU_MEMORY_USED",),
    "accelerator_memory_capacity_bytes": ("POD_GPU_MEMORY_TOTAL",),
}
_OF_POOLS: Mapping[str, tuple[str, ...]] = {
    "cpu_utilization_ratio": ("QUOTA_CPU_UTIL",),
    "memory_utilization_ratio": ("QUOTA_MEMORY_UTIL",),
    "accelerator_utilization_ratio": ("QUOTA_GPU_ACCELERATOR_DUTTY_UTIL", "QUOTA_GPU_ACCELERATOR_DUTY_UTIL"),
    "accelerator_memory_utilization_ratio": ("QUOTA_GPU_ACCELERATOR_MEMORY_UTIL",),
    "accelerator_power_watts": ("QUOTA_GPU_POWER_USAGE",),
}

_OF_DEVICES: Mapping[str, tuple[str, ...]] = {
    "utilization_ratio": ("CARD_GPU_DUTY_CYCLE", "CARD_GPU_ACCELERATOR_DUTTY_UTIL"),
    "memory_utilization_ratio": ("CARD_GPU_MEMORY_UTIL", "CARD_GPU_ACCELERATOR_MEMORY_UTIL"),
    "power_watts": ("CARD_GPU_POWER_USAGE",),
}
_PROFILED: Mapping[str, tuple[str, ...]] = {
    "sm_utilization_ratio": ("CARD_GPU_SM_UTIL",),
    "tensor_active_ratio": ("CARD_GPU_PIP_TENSOR_ACTIVE", "CARD_GPU_PIPE_TENSOR_ACTIVE"),
    "dram_active_ratio": ("CARD_GPU_DRAM_ACTIVE_UTIL",),
    "tensor_flops_per_second": ("CARD_GPU_TENSORTFLOPS_USED",),
    "nvlink_receive_bytes_per_second": ("CARD_GPU_NVLINK_RECEIVE",),
    "nvlink_transmit_bytes_per_second": ("CARD_GPU_NVLINK_TRANSMIT",),
    "pcie_receive_bytes_per_second": ("CARD_GPU_PCIE_RECEIVE",),
    "pcie_transmit_bytes_per_second": ("CARD_GPU_PCIE_TRANSMIT",),
    "healthy": ("CARD_GPU_HEALTH",),
}
"""Metrics of profilers and of health, by card. Pods and jobs are computed from them, so that each is requested only
once."""
_JOBS_OR_PODS = {suffix: (*_OF_JOBS.get(suffix, ()), *_OF_PODS.get(suffix, ())) for suffix in (*_OF_JOBS, *_OF_PODS)}

JOB_FAMILIES = (
    *families("job", _JOBS_OR_PODS),
    *families("pod", _OF_PODS),
    *families("device", _OF_DEVICES),
    *(family for level in LEVELS for family in families(level, _PROFILED, PROFILING)),
)
"""The families that acs_pai_dlc feeds."""
POOL_FAMILIES = (*families("pool", _OF_POOLS), *families("pool", measures=PROFILING))
"""The families that acs_pai_quota feeds."""
FAMILIES: Mapping[str, Family] = MappingProxyType({family.suffix: family for family in (*JOB_FAMILIES, *POOL_FAMILIES)})
"""By suffix."""


def feeds(
    catalogue: Mapping[str, Metric], wanted: Iterable[Family], choices: Mapping[str, Choice]
) -> tuple[dict[str, Feed], list[Unfed]]:
    """Return the metrics to request, by name, and those that cannot be shown."""
    found: dict[str, Feed] = {}
    unfed: list[Unfed] = []
    for family in wanted:
        choice = choices.get(family.suffix, Choice())
        names = (choice.name,) if choice.name else family.names
        name = next((name for name in names if name in catalogue), "")
        if not name:
            if choice.name:
                unfed.append(Unfed(family.suffix, choice.name, "the catalogue does not have it"))
            continue
        fed = _feed(catalogue[name], family, choice, found.get(name))
        if isinstance(fed, Unfed):
            unfed.append(fed)
        else:
            found[name] = fed
    return found, unfed


def log_unfed(source: str, unfed: Iterable[Unfed], logged: set[Unfed]) -> None:
    """Log what cannot be shown, and note it in `logged`: each once."""
    for each in unfed:
        if each not in logged:
            logged.add(each)
            name = printable(each.name, 80)
            facts = fields(reading=each.suffix, source=source, source_metric=name, cause=each.reason)
            log.warning("cannot use a metric of the source", extra=facts)


def _feed(metric: Metric, family: Family, choice: Choice, before: Feed | None) -> Feed | Unfed:
    def unfed(reason: str) -> Unfed:
        return Unfed(family.suffix, metric.name, reason)

    level = metric.level
    if level is None or not _can_feed(level, family.level):
        return unfed("its dimensions do not match the family")
    # A flag has no unit, even if the catalogue has one.
    factor = 1.0 if family.quantity == "flag" else base_units(choice.unit or metric.unit, family.quantity)
    if factor is None:
        return unfed(f"its unit {printable(metric.unit, 40)!r} is not known for it")
    statistics = (choice.statistic,) if choice.statistic else STATISTICS
    if metric.statistics and not set(statistics) & set(metric.statistics):
        return unfed(f"of {' and '.join(statistics)} it has none")
    return (before or Feed(metric, level, (), ())).feeding(Target(family, factor), statistics)


def _can_feed(level: Level, family: Level) -> bool:
    """A metric of something finer feeds the whole; never the other way round."""
    if "pool" in (level, family):
        return level == family
    return LEVELS.index(level) >= LEVELS.index(family)
