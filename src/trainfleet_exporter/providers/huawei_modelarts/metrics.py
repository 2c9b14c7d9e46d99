"""The metrics of AOM and the families that they feed: a table, its replacements in the config, and the queries.

Percent are 0 to 100. Megabytes are MiB by convention, and disk kilobytes are KiB a second in spite of their name (both
unproven). The names of NPU and network metrics are unproven as well, so several are tried, and none if AOM has none.

https://support.huaweicloud.com/intl/en-us/productdesc-aom2/aom_01_0026.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Special characters in a regular expression of RE2."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What feeds the families of one meaning."""

    measure: Measure
    sources: Mapping[Accelerator | None, Sequence[str]]
    """The metrics of AOM by the kind of cards that have series (None: whole pods). The first that exists is read."""
    queries: tuple[Query, ...] = ()
    """Those of a poll, which are shown as one part."""

    @property
    def key(self) -> str:
        """The name of the part: what follows the level in the names of families."""
        return self.measure.suffix

    @property
    def of_cards(self) -> bool:
        """Whether cards have series."""
        return None not in self.sources

    @property
    def families(self) -> list[Family]:
        """The families, from the coarsest level."""
        return [family for level in LEVELS if (family := self.measure.at(level)) is not None]

    def factor(self, unit: str) -> float:
        """Return the number of base units in a unit."""
        return UNITS_OF[self.measure.quantity][unit]


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
    """One query of a reading, for the levels named."""

    metric: str
    """Its name at AOM; of a query that the config wrote, the family's."""
    factor: float
    levels: frozenset[Level]
    accelerator: Accelerator | None = None
    promql: str = ""
    """As the config wrote it; empty for the table's own."""

    def text(self, window: float, job_ids: Collection[str] = ()) -> str:
        """PromQL for all jobs, or those named; `window` is how old a sample may be, in seconds. What the config wrote
        is asked for all jobs as it is."""
        if self.promql:
            return self.promql
        groups = [JOB_LABEL, *POD_LABELS, *(CARD_LABELS if self.accelerator else ())]
        whole = max(60, int(window))
        age = f"{whole}s" if whole % 60 else f"{whole // 60}m"
        only = "|".join(_SPECIAL.sub(r"\\\g<0>", job_id) for job_id in job_ids)
        jobs = f",{JOB_LABEL}=~{json.dumps(only)}" if only else ""  # Go reads such texts alike
        series = f'{self.metric}{{container_name="modelarts-training"{jobs}}}'
        return f"avg by ({', '.join(groups)}) (last_over_time({series}[{age}]))"


def plans(
    existing: Collection[str | None] | None,
    chosen: Mapping[str, Choice],
    deny: Sequence[str] = (),
    profiles: Container[str] = (),
) -> list[Reading]:
    """Return the readings with queries for the existing metrics, with the choices of the config.

    If `existing` is None, the names are unknown, and the first name of each source is tried, as for sources without a
    name if it has a None. Readings that only feed denied families (`deny`), or those of other profiles, have no query.
    """
    found = []
    for reading in READINGS:
        shown = {family.level for family in exposed(reading.families, deny, profiles)}
        if queries := tuple(_queries(reading, existing, chosen, shown)):
            found.append(replace(reading, queries=queries))
    return found


def _queries(
    reading: Reading, existing: Collection[str | None] | None, chosen: Mapping[str, Choice], shown: Collection[Level]
) -> Iterator[Query]:
    """A query of the config serves its level, and the levels above it that have none. The table serves the others."""
    free: list[Level] = []
    for family in reading.families:
        free.append(family.level)
        if (choice := chosen.get(family.suffix)) is not None:
            if levels := frozenset(free).intersection(shown):
                yield Query(family.suffix, reading.factor(choice.unit), levels, promql=choice.promql)
            free = []
    levels = frozenset(free).intersection(shown)
    for kind, names in reading.sources.items() if levels else ():
        known = [name for name in names if existing is None or name in existing]
        metric = known[0] if known else names[0] if existing is not None and None in existing else None
        if metric is not None:
            yield Query(metric, reading.factor(_UNITS[metric.rpartition("_")[2]]), levels, kind)
