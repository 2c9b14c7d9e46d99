"""The metrics of AOM and the readings that they feed: a table, its replacements in the config, and the queries.

Percent are 0 to 100. Megabytes are MiB by convention, and disk kilobytes are KiB a second in spite of their name (both
unproven). The names of NPU and network metrics are unproven as well, so several are tried, and none if AOM has none.

https://support.huaweicloud.com/intl/en-us/productdesc-aom2/aom_01_0026.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from trainfleet_exporter.families.usage import LEVELS, MEASURES, PROFILING, Family, Level, Measure, exposed
from trainfleet_exporter.model import Accelerator
from trainfleet_exporter.providers.usage.quantities import UNITS as UNITS_OF

DEFAULT_INSTANCE = "0"
"""The id of Prometheus_AOM_Default, which paths need not contain."""
JOB_LABEL = "service_id"
POD_LABELS = ("pod_name", "task_id", "task_name", "pod_id", "pod")
CARD_LABELS: Mapping[str, Accelerator | None] = MappingProxyType(
    {
        "npu_id": "npu",
        "gpu_id": "gpu",
        "npu_index": "npu",
        "gpu_index": "gpu",
        "gpu_uuid": "gpu",
        "device_id": None,
        "card_id": None,
    }
)
"""The labels that may name pods and cards; which of them exist is unproven. A query groups by all of them,
and those that its answer has are believed, the first one first. A card's label may name its kind."""

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Special characters in a regular expression of RE2."""


@dataclass(frozen=True, slots=True)
class Source:
    """Metrics of AOM with the same meaning, each with its unit: the first that exists is asked for."""

    names: tuple[tuple[str, str], ...]
    accelerator: Accelerator | None = None
    """The kind of the cards that have series; None for metrics of whole pods."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The source of families with one meaning: its fields and its metrics."""

    measure: Measure
    sources: tuple[Source, ...]

    @property
    def suffix(self) -> str:
        """After the level in the names of families."""
        return self.measure.suffix

    @property
    def of_cards(self) -> bool:
        """Whether cards have series."""
        return self.sources[0].accelerator is not None

    def families(self) -> list[Family]:
        """The families, from the coarsest level."""
        return [family for level in LEVELS if (family := self.measure.at(level)) is not None]

    def factor(self, unit: str) -> float:
        """Return the number of base units in a unit."""
        return UNITS_OF[self.measure.quantity][unit]


@dataclass(frozen=True, slots=True)
class Choice:
    """The config of one family: its query, and its unit."""

    promql: str
    unit: str


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a reading, for the levels named."""

    metric: str
    """Its name at AOM; of a query that the config wrote, the family's."""
    factor: float
    levels: frozenset[Level]
    accelerator: Accelerator | None = None
    promql: str = ""
    """As the config wrote it; empty for the table's own."""

    def text(self, fineness: Level, window: float, job_ids: Collection[str] = ()) -> str:
        """PromQL for all jobs, or those named, grouped as finely as named; `window` is how old a sample may be, in
        seconds. What the config wrote is asked for all jobs as it is."""
        if self.promql:
            return self.promql
        groups: list[str] = [JOB_LABEL]
        groups += POD_LABELS if fineness != "job" else ()
        groups += CARD_LABELS if fineness == "device" else ()
        whole = max(60, int(window))
        age = f"{whole}s" if whole % 60 else f"{whole // 60}m"
        only = "|".join(_SPECIAL.sub(r"\\\g<0>", job_id) for job_id in job_ids)
        jobs = f",{JOB_LABEL}=~{json.dumps(only)}" if only else ""  # Go reads such texts alike
        series = f'{self.metric}{{container_name="modelarts-training"{jobs}}}'
        return f"avg by ({', '.join(groups)}) (last_over_time({series}[{age}]))"


@dataclass(frozen=True, slots=True)
class Plan:
    """A reading and its queries, polled and shown as one part."""

    reading: Reading
    queries: tuple[Query, ...]

    @property
    def key(self) -> str:
        """The name of the part."""
        return self.reading.suffix


_PODS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "cpu_utilization_ratio": (("ma_container_cpu_util", "%"),),
    "memory_utilization_ratio": (("ma_container_memory_util", "%"),),
    "network_receive_bytes_per_second": (
        ("ma_container_network_receive_bytes", "Bytes/s"),
        ("ma_container_network_receive_kilobytes", "KiB/s"),
        ("ma_container_network_rx_bytes", "Bytes/s"),
    ),
    "network_transmit_bytes_per_second": (
        ("ma_container_network_transmit_bytes", "Bytes/s"),
        ("ma_container_network_transmit_kilobytes", "KiB/s"),
        ("ma_container_network_tx_bytes", "Bytes/s"),
    ),
    "disk_read_bytes_per_second": (("ma_container_disk_read_kilobytes", "KiB/s"),),
    "disk_write_bytes_per_second": (("ma_container_disk_write_kilobytes", "KiB/s"),),
    "cpu_usage_cores": (("ma_container_cpu_used_core", "Core"),),
    "memory_usage_bytes": (("ma_container_memory_used_megabytes", "MiB"),),
}
"""Metrics of whole pods, by the suffix of what they feed, each with its unit."""
_CARDS: Mapping[str, tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]] = {
    "accelerator_utilization_ratio": (
        (("ma_container_gpu_util", "%"),),
        (("ma_container_npu_util", "%"), ("ma_container_npu_ai_core_util", "%")),
    ),
    "accelerator_memory_utilization_ratio": (
        (("ma_container_gpu_mem_util", "%"),),
        (("ma_container_npu_memory_util", "%"), ("ma_container_npu_mem_util", "%")),
    ),
    "accelerator_memory_usage_bytes": (
        (("ma_container_gpu_mem_used_megabytes", "MiB"),),
        (("ma_container_npu_memory_used_megabytes", "MiB"), ("ma_container_npu_mem_used_megabytes", "MiB")),
    ),
    "accelerator_memory_capacity_bytes": (
        (("ma_container_gpu_mem_total_megabytes", "MiB"),),
        (("ma_container_npu_memory_total_megabytes", "MiB"), ("ma_container_npu_mem_total_megabytes", "MiB")),
    ),
    "accelerator_power_watts": (
        (("ma_container_gpu_power_usage_watts", "W"),),
        (("ma_container_npu_power_usage_watts", "W"), ("ma_container_npu_power_watts", "W")),
    ),
    "healthy": ((), (("ma_container_npu_ai_core_health_status", "flag"),)),
    "temperature_celsius": ((), (("ma_container_npu_ai_core_temperature_celsius", "C"),)),
}
"""Metrics of cards, of GPUs and of NPUs."""


def _sources(suffix: str) -> tuple[Source, ...]:
    if suffix in _PODS:
        return (Source(_PODS[suffix]),)
    gpu, npu = _CARDS[suffix]
    return tuple(source for source in (Source(gpu, "gpu"), Source(npu, "npu")) if source.names)


ACCELERATORS = "accelerator_utilization_ratio"
_ORDER = ("cpu_utilization_ratio", ACCELERATORS, *MEASURES)
"""The readings to read first; the first one also shows whether AOM responds at all."""

READINGS: tuple[Reading, ...] = (
    *(Reading(MEASURES[suffix], _sources(suffix)) for suffix in dict.fromkeys(_ORDER)),
    *(Reading(measure, _sources(suffix)) for suffix, measure in PROFILING.items() if suffix in _CARDS),
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.suffix: family for reading in READINGS for family in reading.families()}
)
"""By suffix."""

UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {suffix: UNITS_OF[family.quantity] for suffix, family in FAMILIES.items()}
)
"""By family (after `trainfleet_`), the words that the config takes for its unit."""


def plans(
    existing: Collection[str] | None,
    chosen: Mapping[str, Choice],
    deny: Sequence[str] = (),
    profiles: Container[str] = (),
) -> list[Plan]:
    """Return the queries for the existing metrics, with the choices of the config.

    If `existing` is None, the names are unknown, and the first name of each source is tried. Readings that only feed
    denied families (`deny`), or families of other profiles, have no query.
    """
    found = []
    for reading in READINGS:
        shown = frozenset(family.level for family in exposed(reading.families(), deny, profiles))
        queries = (*_chosen(reading, chosen, shown), *_known(reading, existing, chosen, shown))
        if queries:
            found.append(Plan(reading, queries))
    return found


def is_complete(found: Collection[Plan], everything: Collection[Plan]) -> bool:
    """Return whether every source of the table that is wanted has a metric, given the plans where all of them have."""
    return sum(len(plan.queries) for plan in found) >= sum(len(plan.queries) for plan in everything)


def _chosen(reading: Reading, chosen: Mapping[str, Choice], shown: Collection[Level]) -> Iterator[Query]:
    """Return the config's queries. Each serves its level, and the levels above it that have no query."""
    free: list[Level] = []
    for family in reading.families():
        free.append(family.level)
        if family.suffix in chosen:
            choice = chosen[family.suffix]
            if levels := frozenset(free).intersection(shown):
                yield Query(family.suffix, reading.factor(choice.unit), levels, promql=choice.promql)
            free = []


def _known(
    reading: Reading, existing: Collection[str] | None, chosen: Mapping[str, Choice], shown: Collection[Level]
) -> Iterator[Query]:
    """The table's queries, for the levels that are shown below those that the config serves."""
    levels = [family.level for family in reading.families()]
    for family in reading.families():
        if family.suffix in chosen:
            levels = levels[levels.index(family.level) + 1 :]
    levels = [level for level in levels if level in shown]
    for source in reading.sources if levels else ():
        names = source.names[:1] if existing is None else [pair for pair in source.names if pair[0] in existing]
        for name, unit in names[:1]:
            yield Query(name, reading.factor(unit), frozenset(levels), source.accelerator)
