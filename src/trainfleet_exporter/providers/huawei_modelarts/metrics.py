"""The metrics of AOM and the families that they feed: a table, its replacements in the config, and the queries.

Percent are 0 to 100. Megabytes are MiB by convention, and disk kilobytes are KiB a second in spite of their name (both
unproven). The names of NPU and network metrics are unproven as well: AOM is asked which metrics it has.

https://support.huaweicloud.com/intl/en-us/productdesc-aom2/aom_01_0026.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from trainfleet_exporter.families.usage import LEVELS, MEASURES, PROFILING, Family, Level, Measure, exposed
from trainfleet_exporter.fleet.quantities import UNITS as UNITS_OF
from trainfleet_exporter.fleet.usage import SourceMetric
from trainfleet_exporter.model import Accelerator

DEFAULT_INSTANCE = "0"
"""The id of Prometheus_AOM_Default, which paths need not contain."""
JOB_LABEL, POD_LABEL = "service_id", "pod_name"
CARD_LABELS = ("npu_id", "gpu_index")
"""Only the label of the job is proven. Series without one of the others are of the whole pod, or the whole job."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What feeds the families of one meaning."""

    measure: Measure
    unit: str
    sources: Mapping[Accelerator | None, str]
    """The metrics of AOM by the kind of cards that have series (None: whole pods)."""

    @property
    def key(self) -> str:
        """What follows the level in the names of families."""
        return self.measure.suffix

    @property
    def families(self) -> list[Family]:
        """The families, from the coarsest level."""
        return [family for level in LEVELS if (family := self.measure.at(level)) is not None]


_TABLE: Mapping[str, tuple[str, Mapping[Accelerator | None, str]]] = {
    "cpu_utilization_ratio": ("%", {None: "cpu_util"}),
    "accelerator_utilization_ratio": ("%", {"gpu": "gpu_util", "npu": "npu_util"}),
    "memory_utilization_ratio": ("%", {None: "memory_util"}),
    "accelerator_memory_utilization_ratio": ("%", {"gpu": "gpu_mem_util", "npu": "npu_memory_util"}),
    "network_receive_bytes_per_second": ("Bytes/s", {None: "network_receive_bytes"}),
    "network_transmit_bytes_per_second": ("Bytes/s", {None: "network_transmit_bytes"}),
    "disk_read_bytes_per_second": ("KiB/s", {None: "disk_read_kilobytes"}),
    "disk_write_bytes_per_second": ("KiB/s", {None: "disk_write_kilobytes"}),
    "cpu_usage_cores": ("Core", {None: "cpu_used_core"}),
    "memory_usage_bytes": ("MiB", {None: "memory_used_megabytes"}),
    "accelerator_memory_usage_bytes": ("MiB", {"gpu": "gpu_mem_used_megabytes", "npu": "npu_memory_used_megabytes"}),
    "accelerator_memory_capacity_bytes": (
        "MiB",
        {"gpu": "gpu_mem_total_megabytes", "npu": "npu_memory_total_megabytes"},
    ),
    "accelerator_power_watts": ("W", {"gpu": "gpu_power_usage_watts", "npu": "npu_power_usage_watts"}),
    "healthy": ("flag", {"npu": "npu_ai_core_health_status"}),
    "temperature_celsius": ("C", {"npu": "npu_ai_core_temperature_celsius"}),
}
"""By suffix, as in Reading, the unit, and the names after `ma_container_`."""
ACCELERATORS = "accelerator_utilization_ratio"
READINGS = tuple(
    Reading({**MEASURES, **PROFILING}[suffix], unit, {kind: f"ma_container_{name}" for kind, name in names.items()})
    for suffix, (unit, names) in _TABLE.items()
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
class Query:
    """A query for a metric of the table, or as the config wrote it (`promql`)."""

    metric: str
    accelerator: Accelerator | None = None
    """The kind of the cards that have series; None: what is not known to be of cards."""
    promql: str = ""

    def text(self, window: float, job_ids: Collection[str] = ()) -> str:
        """PromQL for all jobs, or those named; `window` is how old a sample may be, in seconds. What the config wrote
        is asked for all jobs as it is."""
        if self.promql:
            return self.promql
        groups = [JOB_LABEL, POD_LABEL, *(CARD_LABELS if self.accelerator else ())]
        only = "|".join(map(re.escape, job_ids))
        jobs = f",{JOB_LABEL}=~{json.dumps(only)}" if only else ""  # Go reads such texts alike
        series = f'{self.metric}{{container_name="modelarts-training"{jobs}}}'
        return f"avg by ({', '.join(groups)}) (last_over_time({series}[{max(60, int(window))}s]))"


@dataclass(slots=True, eq=False)
class Plan(SourceMetric):
    """The queries of one measure. Their answers are shown as one part.

    `level` is that of the readings that sums are made of. Of coarser ones, only ratios are believed.
    """

    suffix: str
    """Of the measure."""
    queries: Sequence[Query]


def plans(
    existing: Collection[str | None] | None,
    chosen: Mapping[str, Any],
    deny: Sequence[str] = (),
    profiles: Container[str] = (),
) -> list[Plan]:
    """Return the queries of the existing metrics, and of the choices of the config.

    A choice is a `Metric` of the config, by family: its query serves the level of the family, and the levels above it
    that have none. The table serves the others. All metrics are tried if `existing` is None, because the names are
    unknown, or has a None, an unreadable name.
    Families that are denied (`deny`), or of other profiles, have no query.
    """
    found, is_tried = list[Plan](), existing is None or None in existing
    for reading in READINGS:
        units, shown, free = (
            UNITS_OF[reading.measure.quantity],
            exposed(reading.families, deny, profiles),
            list[Family](),
        )
        for family in reading.families:
            free += [family] if family in shown else []
            if (choice := chosen.get(family.suffix)) is not None:
                targets, queries = dict.fromkeys(free, units[choice.unit]), [Query("", promql=choice.promql)]
                found += [Plan(family.suffix, family.level, targets, reading.key, queries)] if free else []
                free = []
        queries = [Query(name, kind) for kind, name in reading.sources.items() if is_tried or name in (existing or ())]
        if free and queries:
            level: Level = "pod" if None in reading.sources else "device"
            targets = dict.fromkeys(free, units[reading.unit])
            found.append(Plan(reading.key, level, targets, reading.key, queries))
    return found
