"""Families of usage: the same readings at the level of jobs, pods and pools; disks of pools; devices; sources."""

from __future__ import annotations

from trainfleet_exporter.exposition.family import Family, NumberByAccelerator, Read, described, number, word
from trainfleet_exporter.exposition.usage_sources import (
    AOM,
    CATALOGUE,
    JOB_METRICS,
    MONITOR,
    NAMES,
    TASK_METRICS,
    V1,
    Level,
)
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, UsageSource

_UNIT = "the unit of the source is unproven"
_NAME_AND_UNIT = "name and unit at the source are unproven"


_RATIOS = (
    ("cpu_utilization_ratio", "CPU use of a {} as a share of what the platform takes as 100 %", "cpu"),
    ("memory_utilization_ratio", "Memory use of a {} as a share of what the platform takes as 100 %", "memory"),
)
_ACCELERATOR_RATIOS = (
    ("accelerator_utilization_ratio", "Accelerator use of a {}, mean over its devices", "accelerator_utilization"),
    (
        "accelerator_memory_utilization_ratio",
        "Accelerator memory use of a {}, mean over its devices",
        "accelerator_memory",
    ),
)
_RATES = (
    ("network_receive_bytes_per_second", "Network bytes that a {} receives in a second", "network_receive"),
    ("network_transmit_bytes_per_second", "Network bytes that a {} sends in a second", "network_transmit"),
    ("disk_read_bytes_per_second", "Bytes that a {} reads from disks in a second", "disk_read"),
    ("disk_write_bytes_per_second", "Bytes that a {} writes to disks in a second", "disk_write"),
)
_AMOUNTS = (
    ("cpu_usage_cores", "CPU cores that a {} keeps busy", "cpu_cores"),
    ("memory_usage_bytes", "Memory that a {} uses", "memory_bytes"),
    ("accelerator_memory_usage_bytes", "Accelerator memory that a {} uses", "accelerator_memory_bytes"),
    (
        "accelerator_memory_capacity_bytes",
        "Accelerator memory that the devices of a {} have",
        "accelerator_memory_capacity_bytes",
    ),
    ("accelerator_power_watts", "Power that the accelerators of a {} draw", "accelerator_power_watts"),
)


def _level(level: Level, of: type) -> tuple[Family, ...]:
    """The families of one level. Pools have no rates."""
    made = " (over its pods where the source knows pods only)" if level == "job" else ""

    def family(suffix: str, meaning: str, read: Read, labels: tuple[str, ...] = (), experimental: str = "") -> Family:
        text = described(meaning.format(level) + made, *NAMES[suffix].sources(level), experimental=experimental)
        return Family(f"trainfleet_{level}_{suffix}", text, "gauge", of, labels, read)

    return (
        *(family(suffix, meaning, number(f"values.{field}")) for suffix, meaning, field in _RATIOS),
        *(
            family(suffix, meaning, NumberByAccelerator(f"values.{field}"), ("accelerator",))
            for suffix, meaning, field in _ACCELERATOR_RATIOS
        ),
        *(
            family(suffix, meaning, number(f"values.{field}"), experimental=_UNIT)
            for suffix, meaning, field in (() if level == "pool" else _RATES)
        ),
        *(
            family(suffix, meaning, number(f"values.{field}"), experimental=_NAME_AND_UNIT)
            for suffix, meaning, field in _AMOUNTS
        ),
    )


def _pool_disk(suffix: str, meaning: str, metric: str) -> Family:
    help_text = described(meaning, f"{MONITOR}, {metric}")
    field = f"disk_{suffix.removesuffix('_ratio')}"
    return Family(f"trainfleet_pool_disk_{suffix}", help_text, "gauge", PoolUsage, (), number(field))


def _device(suffix: str, meaning: str, *sources: str, read: Read, experimental: str = "") -> Family:
    help_text = described(meaning, *sources, experimental=experimental)
    return Family(f"trainfleet_device_{suffix}", help_text, "gauge", DeviceUsage, (), read)


USAGE_FAMILIES = (
    *_level("job", JobUsage),
    *_level("pod", PodUsage),
    *_level("pool", PoolUsage),
    _pool_disk("utilization_ratio", "Use of the disks of a pool's nodes as a share of what they hold", "diskUsedRate"),
    _pool_disk("capacity_bytes", "What the disks of a pool's nodes hold", "diskCapacity"),
    _pool_disk("available_bytes", "Free bytes on the disks of a pool's nodes", "diskAvailableCapacity"),
    _device(
        "utilization_ratio",
        "Use of one accelerator of a pod",
        f"{CATALOGUE}, CARD_GPU_DUTY_CYCLE",
        f"{AOM}, ma_container_gpu_util and ma_container_npu_util by card",
        f"{V1}, GpuUtil with statistic_type=each",
        read=number("utilization"),
    ),
    _device(
        "memory_utilization_ratio",
        "Memory use of one accelerator of a pod",
        f"{CATALOGUE}, CARD_GPU_MEMORY_UTIL",
        f"{AOM}, ma_container_gpu_mem_util and ma_container_npu_memory_util by card",
        f"{V1}, GpuMemUsage with statistic_type=each",
        read=number("memory_utilization"),
    ),
    _device(
        "power_watts",
        "Power that one accelerator of a pod draws",
        f"{CATALOGUE}, CARD_GPU_POWER_USAGE",
        f"{AOM}, ma_container_gpu_power_usage_watts and ma_container_npu_power_usage_watts by card",
        read=number("power_watts"),
        experimental=_NAME_AND_UNIT,
    ),
    Family(
        name="trainfleet_job_usage_info",
        help=described(
            "Which source served the usage of a job, always 1",
            f"{JOB_METRICS}, {CATALOGUE}, {TASK_METRICS}, {AOM} and {V1}, that it had readings",
        ),
        kind="gauge",
        of=UsageSource,
        labels=("source",),
        read=word("source"),
    ),
    Family(
        name="trainfleet_job_usage_timestamp_seconds",
        help=described(
            "Unix time of the newest usage reading of a job",
            f"{JOB_METRICS}, PodMetrics[].Metrics[].Time",
            f"{CATALOGUE}, timestamp of a data point",
        ),
        kind="gauge",
        of=UsageSource,
        labels=(),
        read=number("timestamp"),
    ),
)
