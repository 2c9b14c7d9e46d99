"""Which metric of CloudMonitor feeds which family of usage: the table, the catalogue of metrics, their units.

The catalogue (DescribeMetricMetaList) has the dimensions, the unit and the statistics of each metric. For each family,
the first name of the table that the catalogue has is used; names in the config have priority. If there is no metric of
jobs, a job's family uses a metric of pods. The unit is the catalogue's or the config's. Without a certain unit, no
value is shown: `Kb/s` may be bits or bytes. K, M, G and T count thousands, Ki, Mi, Gi and Ti 1024s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from msgspec import Struct

from trainfleet_exporter.config import Section
from trainfleet_exporter.config.kinds import Text
from trainfleet_exporter.families.usage import LEVELS, PROFILING, Family, Level, Quantity, families
from trainfleet_exporter.fleet.quantities import UNITS as COMMON
from trainfleet_exporter.fleet.usage import SourceMetric
from trainfleet_exporter.transport.json_fields import printable

DLC, QUOTA = "acs_pai_dlc", "acs_pai_quota"
"""The namespaces of jobs and of pools."""

# Metrics that feed families, best first. Misspellings (DUTTY, RECEVICE) are part of names, and come first.

_DUTY = ("GPU_ACCELERATOR_DUTTY_UTIL", "GPU_ACCELERATOR_DUTY_UTIL")
_WORKLOADS: Mapping[str, tuple[str, ...]] = {
    "cpu_utilization_ratio": ("CPU_UTIL", "CPU_UTILIZATION"),
    "memory_utilization_ratio": ("MEMORY_UTIL", "MEM_UTIL"),
    "accelerator_utilization_ratio": (*_DUTY, "GPU_DUTY_CYCLE"),
    "accelerator_memory_utilization_ratio": ("GPU_ACCELERATOR_MEMORY_UTIL", "GPU_MEMORY_UTIL"),
    "network_receive_bytes_per_second": ("NETWORK_RECEVICE_RATE", "NETWORK_RECEIVE_RATE"),
    "network_transmit_bytes_per_second": ("NETWORK_TRANSMIT_RATE",),
    "disk_read_bytes_per_second": ("DISK_READ_RATE",),
    "disk_write_bytes_per_second": ("DISK_WRITE_RATE",),
}
"""After JOB_ or POD_."""
_OF_JOBS = {suffix: tuple(f"JOB_{name}" for name in names) for suffix, names in _WORKLOADS.items()}
_OF_PODS = {suffix: tuple(f"POD_{name}" for name in names) for suffix, names in _WORKLOADS.items()} | {
    "cpu_usage_cores": ("POD_CPU_USED",),
    "memory_usage_bytes": ("POD_MEMORY_USED",),
    "accelerator_memory_usage_bytes": ("POD_GPU_MEMORY_USED",),
    "accelerator_memory_capacity_bytes": ("POD_GPU_MEMORY_TOTAL",),
}
_OF_POOLS: Mapping[str, tuple[str, ...]] = {
    "cpu_utilization_ratio": ("QUOTA_CPU_UTIL",),
    "memory_utilization_ratio": ("QUOTA_MEMORY_UTIL",),
    "accelerator_utilization_ratio": tuple(f"QUOTA_{name}" for name in _DUTY),
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
JOB_FAMILIES = (
    *families("job", {suffix: (*_OF_JOBS.get(suffix, ()), *names) for suffix, names in _OF_PODS.items()}),
    *families("pod", _OF_PODS),
    *families("device", _OF_DEVICES),
    *(family for level in LEVELS for family in families(level, _PROFILED, PROFILING)),
)
"""The families that acs_pai_dlc feeds."""
POOL_FAMILIES = (*families("pool", _OF_POOLS), *families("pool", measures=PROFILING))
"""The families that acs_pai_quota feeds."""
FAMILIES: Mapping[str, Family] = MappingProxyType({family.suffix: family for family in (*JOB_FAMILIES, *POOL_FAMILIES)})
"""By suffix."""

# Units. Catalogues write the same unit in several ways, none of them documented.

_BITS = {f"{prefix}bit/s": 1000.0**power / 8 for power, prefix in enumerate(("", "K", "M", "G", "T"))}
UNITS: Mapping[Quantity, Mapping[str, float]] = MappingProxyType(
    {**COMMON, "bytes_per_second": {**COMMON["bytes_per_second"], **_BITS}}
)
"""By quantity, the words that the config takes for units, and how many base units each is."""
_WORDS = {
    "percent(age)?": "%",
    "cores?": "Core",
    "m(illi)?cores?": "mCore",
    "watts?": "W",
    "celsius|\N{DEGREE SIGN}c|\N{DEGREE CELSIUS}": "C",
}
"""By pattern, in any case, what these words mean."""
_FLOPS = re.compile("([KMGTP]?)flop(?:s|/s|s/s)", re.ASCII | re.IGNORECASE)
_PREFIXES = {"kilo": "K", "mega": "M", "giga": "G", "tera": "T", "k": "K"}
_DATA = re.compile(
    r"(?P<prefix>|k|[KMGT]i?|(?i:kilo|mega|giga|tera))"
    r"(?:(?P<bytes>B|(?i:bytes?))|(?P<bits>(?i:bits?)|b(?=ps$)))"
    r"(?P<second>|ps|/(?i:s|sec|second))",
    re.ASCII,
)


def base_units(unit: str, quantity: Quantity) -> float | None:
    """How many base units of a quantity one `unit` is; None if that is not certain."""
    unit = unit.strip()
    words = [unit, *(word for pattern, word in _WORDS.items() if re.fullmatch(pattern, unit, re.IGNORECASE))]
    if match := _DATA.fullmatch(unit):  # `Megabytes/sec` and `MBps` as `MB/s`
        prefix = _PREFIXES.get(match["prefix"].lower(), match["prefix"])
        data = "bit" if match["bits"] else "B" if prefix else "Bytes"
        words.append(f"{prefix}{data}{'/s' if match['second'] else ''}")
    if match := _FLOPS.fullmatch(unit):
        words.append(f"{match[1].upper()}FLOPS")
    return next((UNITS[quantity][word] for word in words if word in UNITS[quantity]), None)


# The catalogue.

POD_KEYS = ("pod", "podId", "podName")
"""Possible names of the dimension of a pod."""
_NODE_KEYS = {"nodeId", "nodeName"}
_OTHER_KEYS = {"userId", "regionId", "workspaceId", "jobId", "quotaId", "quotaName", "instanceId"}
_KNOWN_KEYS = {*_OTHER_KEYS, *POD_KEYS, *_NODE_KEYS}
_DEVICE = re.compile("gpu|card|device|npu", re.IGNORECASE)
_OF_A_DEVICE = re.compile("(type|model|name|count|num)$", re.IGNORECASE)
_BY_NAME: Mapping[str, Level] = {"JOB": "job", "POD": "pod", "CARD": "device", "QUOTA": "pool"}
_FEEDS: Mapping[Level, Sequence[Level]] = {"pool": ("pool",), "job": ("job",), "pod": ("job", "pod"), "device": LEVELS}
"""By level of a metric, those of families: something finer feeds the whole, never the other way round."""
STATISTICS = ("Average", "Value")
"""In order of preference; which of them a metric has differs."""


class MetricMeta(Struct, rename="pascal", gc=False):
    """A row of DescribeMetricMetaList. Dimensions, periods (seconds) and statistics are comma-separated."""

    metric_name: str | None = None
    unit: str | None = None
    dimensions: str | None = None
    periods: str | None = None
    statistics: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return _listed(self.dimensions)

    def period(self, step: int = 60) -> int | None:
        """The shortest period of at least `step` seconds, or else the longest; None for the default. Finer points cost
        as much and are deleted sooner."""
        periods = [int(period) for period in _listed(self.periods) if period.isascii() and period.isdigit()]
        return min((each for each in periods if each >= step), default=max(periods, default=None))

    @property
    def level(self) -> Level | None:
        """The level by the dimensions; None if no family has this level (nodes)."""
        keys = set(self.keys)
        if not keys:
            return _BY_NAME.get((self.metric_name or "").partition("_")[0])
        if "jobId" not in keys:
            return "pool" if keys & {"quotaId", "quotaName"} and not keys & _NODE_KEYS else None
        if any(map(is_device_key, keys)):
            return "device"
        return "pod" if keys & set(POD_KEYS) else "job"


def is_device_key(dimension: str) -> bool:
    """Return whether a dimension names the cards of a pod. Its name is not documented."""
    is_unknown = dimension not in _KNOWN_KEYS and dimension.isprintable() and not set(dimension) & {'"', "\\"}
    return is_unknown and bool(_DEVICE.search(dimension)) and not _OF_A_DEVICE.search(dimension)


def _listed(given: str | None) -> tuple[str, ...]:
    return tuple(item for part in (given or "").split(",") if (item := part.strip()))


class Choice(Section):
    """What the config chooses for a family."""

    name: Text | None = None
    unit: str | None = None
    statistic: Text | None = None


@dataclass(slots=True)
class Feed(SourceMetric):
    """A metric that is asked for. `statistics` are the names of the statistic to read, best first."""

    metric: MetricMeta
    statistics: tuple[str, ...]


def feeds(
    catalogue: Mapping[str, MetricMeta], wanted: Iterable[Family], choices: Mapping[str, Choice]
) -> tuple[dict[str, Feed], list[tuple[str, str, str]]]:
    """The metrics to request, by key; and each family whose metric cannot feed it, this metric, and why."""
    found: dict[str, Feed] = {}
    unfed: list[tuple[str, str, str]] = []
    for family in wanted:
        choice = choices.get(family.suffix, Choice())
        names = (choice.name,) if choice.name else family.names
        name = next((name for name in names if name in catalogue), "")
        if not name:
            if choice.name:
                unfed.append((family.suffix, choice.name, "the catalogue does not have it"))
            continue
        metric, level = catalogue[name], catalogue[name].level
        statistics, given = (choice.statistic,) if choice.statistic else STATISTICS, _listed(metric.statistics)
        # A flag has no unit, even if the catalogue has one.
        factor = 1.0 if family.quantity == "flag" else base_units(choice.unit or metric.unit or "", family.quantity)
        if level is None or family.level not in _FEEDS[level]:
            unfed.append((family.suffix, name, "its dimensions do not match the family"))
        elif factor is None:
            unfed.append((family.suffix, name, f"its unit {printable(metric.unit or '', 40)!r} is not known for it"))
        elif given and not set(statistics) & set(given):
            unfed.append((family.suffix, name, f"of {' and '.join(statistics)} it has none"))
        else:
            key = f"{name} {choice.statistic}" if choice.statistic else name
            found.setdefault(key, Feed(key, level, {}, metric, statistics)).targets[family] = factor
    return found, unfed
