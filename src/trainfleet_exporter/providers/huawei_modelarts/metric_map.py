"""Which metric of AOM feeds which readings: a table, what the config puts in its place, and the queries that follow.

Percent are 0 to 100. Megabytes are MiB by habit, disk kilobytes are KiB a second whatever their name (both unproven);
the names of NPU and network metrics are unproven as well, so that several are tried, and none where AOM has none.

https://support.huaweicloud.com/intl/en-us/productdesc-aom2/aom_01_0026.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Literal, TypeAlias

from trainfleet_exporter.model import Accelerator

Level: TypeAlias = Literal["job", "pod", "device"]
LEVELS: tuple[Level, ...] = ("job", "pod", "device")
"""From the coarsest: each is made from the next."""

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
"""How series may tell pods and cards apart; which of these labels exist is unproven. A query groups by all of them,
and those that its answer has are believed, the first one first. A card's label may tell its kind."""

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""What means something in a regular expression of RE2."""

_BYTES = {
    "Bytes": 1.0,
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
RATIO = MappingProxyType({"%": 0.01, "ratio": 1.0})
BYTES = MappingProxyType(_BYTES)
RATE = MappingProxyType({f"{unit}/s": factor for unit, factor in _BYTES.items()})
CORES = MappingProxyType({"Core": 1.0, "mCore": 0.001})
WATTS = MappingProxyType({"W": 1.0, "mW": 0.001, "kW": 1000.0})


@dataclass(frozen=True, slots=True)
class Source:
    """Metrics of AOM that tell the same, each with its unit: the first that exists is asked for."""

    names: tuple[tuple[str, str], ...]
    accelerator: Accelerator | None = None
    """The kind whose cards have series of their own; None for metrics of whole pods."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What families of one meaning read, at every level: a field of UsageValues, and perhaps of DeviceUsage."""

    suffix: str
    """After the level in the names of families."""
    field: str
    units: Mapping[str, float]
    """The words for units, and how many base units each is."""
    sources: tuple[Source, ...]
    device: tuple[str, str] | None = None
    """What devices have: the suffix of the family after `device_`, and the field."""
    bounded: bool = False
    """Of a ratio: whether it cannot exceed 1."""

    @property
    def is_ratio(self) -> bool:
        """Whether a whole is the mean of its parts; of everything else it is their sum."""
        return self.units is RATIO

    def families(self) -> Iterator[tuple[Level, str]]:
        """The levels that it has, with the families' names after `trainfleet_`."""
        yield "job", f"job_{self.suffix}"
        yield "pod", f"pod_{self.suffix}"
        if self.device is not None:
            yield "device", f"device_{self.device[0]}"

    def exposed(self, deny: Sequence[str]) -> frozenset[Level]:
        """The levels whose family no glob of `deny` matches."""
        return frozenset(
            level
            for level, family in self.families()
            if not any(fnmatchcase(f"trainfleet_{family}", glob) for glob in deny)
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """What the config says of one family: a query whose answer it is, and the unit."""

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
    """A reading and its queries: what is polled, and shown, as one part."""

    reading: Reading
    queries: tuple[Query, ...]

    @property
    def key(self) -> str:
        """The name of the part."""
        return self.reading.suffix


def _of_pods(*names: tuple[str, str]) -> tuple[Source, ...]:
    return (Source(names),)


def _of_cards(gpu: tuple[tuple[str, str], ...], npu: tuple[tuple[str, str], ...]) -> tuple[Source, ...]:
    return Source(gpu, "gpu"), Source(npu, "npu")


ACCELERATORS = "accelerator_utilization_ratio"

READINGS: tuple[Reading, ...] = (
    Reading("cpu_utilization_ratio", "cpu", RATIO, _of_pods(("ma_container_cpu_util", "%"))),
    Reading(
        ACCELERATORS,
        "accelerator_utilization",
        RATIO,
        _of_cards(
            gpu=(("ma_container_gpu_util", "%"),),
            npu=(("ma_container_npu_util", "%"), ("ma_container_npu_ai_core_util", "%")),
        ),
        device=("utilization_ratio", "utilization"),
        bounded=True,
    ),
    Reading("memory_utilization_ratio", "memory", RATIO, _of_pods(("ma_container_memory_util", "%")), bounded=True),
    Reading(
        "accelerator_memory_utilization_ratio",
        "accelerator_memory",
        RATIO,
        _of_cards(
            gpu=(("ma_container_gpu_mem_util", "%"),),
            npu=(("ma_container_npu_memory_util", "%"), ("ma_container_npu_mem_util", "%")),
        ),
        device=("memory_utilization_ratio", "memory_utilization"),
        bounded=True,
    ),
    Reading(
        "network_receive_bytes_per_second",
        "network_receive",
        RATE,
        _of_pods(
            ("ma_container_network_receive_bytes", "Bytes/s"),
            ("ma_container_network_receive_kilobytes", "KiB/s"),
            ("ma_container_network_rx_bytes", "Bytes/s"),
        ),
    ),
    Reading(
        "network_transmit_bytes_per_second",
        "network_transmit",
        RATE,
        _of_pods(
            ("ma_container_network_transmit_bytes", "Bytes/s"),
            ("ma_container_network_transmit_kilobytes", "KiB/s"),
            ("ma_container_network_tx_bytes", "Bytes/s"),
        ),
    ),
    Reading("disk_read_bytes_per_second", "disk_read", RATE, _of_pods(("ma_container_disk_read_kilobytes", "KiB/s"))),
    Reading(
        "disk_write_bytes_per_second", "disk_write", RATE, _of_pods(("ma_container_disk_write_kilobytes", "KiB/s"))
    ),
    Reading("cpu_usage_cores", "cpu_cores", CORES, _of_pods(("ma_container_cpu_used_core", "Core"))),
    Reading("memory_usage_bytes", "memory_bytes", BYTES, _of_pods(("ma_container_memory_used_megabytes", "MiB"))),
    Reading(
        "accelerator_memory_usage_bytes",
        "accelerator_memory_bytes",
        BYTES,
        _of_cards(
            gpu=(("ma_container_gpu_mem_used_megabytes", "MiB"),),
            npu=(
                ("ma_container_npu_memory_used_megabytes", "MiB"),
                ("ma_container_npu_mem_used_megabytes", "MiB"),
            ),
        ),
    ),
    Reading(
        "accelerator_memory_capacity_bytes",
        "accelerator_memory_capacity_bytes",
        BYTES,
        _of_cards(
            gpu=(("ma_container_gpu_mem_total_megabytes", "MiB"),),
            npu=(
                ("ma_container_npu_memory_total_megabytes", "MiB"),
                ("ma_container_npu_mem_total_megabytes", "MiB"),
            ),
        ),
    ),
    Reading(
        "accelerator_power_watts",
        "accelerator_power_watts",
        WATTS,
        _of_cards(
            gpu=(("ma_container_gpu_power_usage_watts", "W"),),
            npu=(("ma_container_npu_power_usage_watts", "W"), ("ma_container_npu_power_watts", "W")),
        ),
        device=("power_watts", "power_watts"),
    ),
)

UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {family: reading.units for reading in READINGS for _, family in reading.families()}
)
"""By family (after `trainfleet_`), the words that the config takes for its unit."""


def plans(existing: Collection[str] | None, chosen: Mapping[str, Choice], deny: Sequence[str] = ()) -> list[Plan]:
    """What is asked for, given the names of the metrics that exist, and what the config chose.

    None: the names could not be learned; then the first name of each source is tried. Nothing is asked for that only
    families would show which `deny` keeps from being exposed.
    """
    found = []
    for reading in READINGS:
        shown = reading.exposed(deny)
        queries = (*_chosen(reading, chosen, shown), *_known(reading, existing, chosen, shown))
        if queries:
            found.append(Plan(reading, queries))
    return found


def is_complete(found: Collection[Plan], everything: Collection[Plan]) -> bool:
    """Whether every source of the table that is wanted has a metric, given the plans where all of them have."""
    return sum(len(plan.queries) for plan in found) >= sum(len(plan.queries) for plan in everything)


def _chosen(reading: Reading, chosen: Mapping[str, Choice], shown: Collection[Level]) -> Iterator[Query]:
    """The config's queries. Each serves its own level, and those above it that have none of their own."""
    free: list[Level] = []
    for level, family in reading.families():
        free.append(level)
        if family in chosen:
            choice = chosen[family]
            factor = reading.units[choice.unit]
            if levels := frozenset(free).intersection(shown):
                yield Query(family, factor, levels, promql=choice.promql)
            free = []


def _known(
    reading: Reading, existing: Collection[str] | None, chosen: Mapping[str, Choice], shown: Collection[Level]
) -> Iterator[Query]:
    """The table's queries, for the levels that are shown below those that the config serves."""
    levels = [level for level, _ in reading.families()]
    for level, family in reading.families():
        if family in chosen:
            levels = levels[levels.index(level) + 1 :]
    levels = [level for level in levels if level in shown]
    for source in reading.sources if levels else ():
        names = source.names[:1] if existing is None else [pair for pair in source.names if pair[0] in existing]
        for name, unit in names[:1]:
            yield Query(name, reading.units[unit], frozenset(levels), source.accelerator)
