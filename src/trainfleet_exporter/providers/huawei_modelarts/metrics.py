"""The metrics of AOM and the families that they feed: a table, its replacements in the config, and the queries.

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
from trainfleet_exporter.fleet.quantities import UNITS as UNITS_OF
from trainfleet_exporter.model import Accelerator

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


@dataclass(frozen=True, slots=True)
class Reading:
    """What feeds the families of one meaning."""

    measure: Measure
    sources: Mapping[Accelerator | None, Sequence[str]]
    """The metrics of AOM by the kind of cards that have series (None: whole pods). The first that exists is read."""

    @property
    def key(self) -> str:
        """What follows the level in the names of families."""
        return self.measure.suffix

    @property
    def families(self) -> list[Family]:
        """The families, from the coarsest level."""
        return [family for level in LEVELS if (family := self.measure.at(level)) is not None]


_TABLE: Mapping[str, Mapping[Accelerator | None, str]] = {
    "cpu_utilization_ratio": {None: "cpu_util"},
    "accelerator_utilization_ratio": {"gpu": "gpu_util", "npu": "npu_util npu_ai_core_util"},
    "memory_utilization_ratio": {None: "memory_util"},
    "accelerator_memory_utilization_ratio": {"gpu": "gpu_mem_util", "npu": "npu_memory_util npu_mem_util"},
    "network_receive_bytes_per_second": {
        None: "network_receive_bytes network_receive_kilobytes network_rx_bytes",
    },
    "network_transmit_bytes_per_second": {
        None: "network_transmit_bytes network_transmit_kilobytes network_tx_bytes",
    },
    "disk_read_bytes_per_second": {None: "disk_read_kilobytes"},
    "disk_write_bytes_per_second": {None: "disk_write_kilobytes"},
    "cpu_usage_cores": {None: "cpu_used_core"},
    "memory_usage_bytes": {None: "memory_used_megabytes"},
    "accelerator_memory_usage_bytes": {
        "gpu": "gpu_mem_used_megabytes",
        "npu": "npu_memory_used_megabytes npu_mem_used_megabytes",
    },
    "accelerator_memory_capacity_bytes": {
        "gpu": "gpu_mem_total_megabytes",
        "npu": "npu_memory_total_megabytes npu_mem_total_megabytes",
    },
    "accelerator_power_watts": {"gpu": "gpu_power_usage_watts", "npu": "npu_power_usage_watts npu_power_watts"},
    "healthy": {"npu": "npu_ai_core_health_status"},
    "temperature_celsius": {"npu": "npu_ai_core_temperature_celsius"},
}
"""By suffix, as in Reading, the names after `ma_container_`. The first one is read first: it shows whether AOM
responds at all."""
_UNITS = {
    "util": "%",
    "bytes": "Bytes/s",
    "kilobytes": "KiB/s",
    "megabytes": "MiB",
    "core": "Core",
    "watts": "W",
    "status": "flag",
    "celsius": "C",
}
"""The unit of a metric, by the last word of its name."""
ACCELERATORS = "accelerator_utilization_ratio"
READINGS = tuple(
    Reading(
        {**MEASURES, **PROFILING}[suffix],
        {kind: [f"ma_container_{name}" for name in names.split()] for kind, names in sources.items()},
    )
    for suffix, sources in _TABLE.items()
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.suffix: family for reading in READINGS for family in reading.families}
)
"""By suffix."""
UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {suffix: UNITS_OF[family.quantity] for suffix, family in FAMILIES.items()}
)
"""By family (after `trainfleet_`), the words that the config takes for its unit."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The config of one family: its query, and its unit."""

    promql: str
    unit: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and how many base units a value of its answer counts."""

    metric: str
    factor: float
    accelerator: Accelerator | None = None
    """The kind of the cards that have series; None: what is not known to be of cards."""
    promql: str = ""
    """As the config wrote it; empty for a metric of the table."""

    def text(self, window: float, job_ids: Collection[str] = ()) -> str:
        """PromQL for all jobs, or those named; `window` is how old a sample may be, in seconds. What the config wrote
        is asked for all jobs as it is."""
        if self.promql:
            return self.promql
        groups = [JOB_LABEL, *POD_LABELS, *(CARD_LABELS if self.accelerator else ())]
        whole = max(60, int(window))
        age = f"{whole}s" if whole % 60 else f"{whole // 60}m"
        only = "|".join(map(re.escape, job_ids))
        jobs = f",{JOB_LABEL}=~{json.dumps(only)}" if only else ""  # Go reads such texts alike
        series = f'{self.metric}{{container_name="modelarts-training"{jobs}}}'
        return f"avg by ({', '.join(groups)}) (last_over_time({series}[{age}]))"


@dataclass(frozen=True, slots=True)
class Plan:
    """The queries that feed a measure at some levels. Their answers are shown as one part."""

    key: str
    measure: Measure
    levels: frozenset[Level]
    queries: tuple[Query, ...]
    of_cards: bool
    """Whether cards have series."""

    @property
    def is_chosen(self) -> bool:
        """Whether the query is the config's."""
        return self.queries[0].promql != ""


def plans(
    existing: Collection[str | None] | None,
    chosen: Mapping[str, Choice],
    deny: Sequence[str] = (),
    profiles: Container[str] = (),
) -> list[Plan]:
    """Return the queries of the existing metrics, and of the choices of the config.

    If `existing` is None, the names are unknown, and the first name of each source is tried, as for sources without a
    name if it has a None. Families that are denied (`deny`), or of other profiles, have no query.
    """
    return [plan for reading in READINGS for plan in _plans(reading, existing, chosen, deny, profiles)]


def _plans(
    reading: Reading,
    existing: Collection[str | None] | None,
    chosen: Mapping[str, Choice],
    deny: Sequence[str],
    profiles: Container[str],
) -> Iterator[Plan]:
    """A query of the config serves its level, and the levels above it that have none. The table serves the others."""
    units, of_cards = UNITS_OF[reading.measure.quantity], None not in reading.sources
    shown = {family.level for family in exposed(reading.families, deny, profiles)}
    free: set[Level] = set()
    for family in reading.families:
        free |= {family.level} & shown
        if (choice := chosen.get(family.suffix)) is not None:
            if free:
                query = Query(family.suffix, units[choice.unit], promql=choice.promql)
                yield Plan(family.suffix, reading.measure, frozenset(free), (query,), of_cards)
            free = set()
    queries = []
    for kind, names in reading.sources.items():
        known = [name for name in names if existing is None or name in existing]
        if known or None in (existing or ()):
            metric = (known or names)[0]
            queries.append(Query(metric, units[_UNITS[metric.rpartition("_")[2]]], kind))
    if free and queries:
        yield Plan(reading.key, reading.measure, frozenset(free), tuple(queries), of_cards)
