"""Families of usage: the same readings at the level of jobs, pods and pools; disks of pools; devices; sources."""

from __future__ import annotations

from typing import Literal

from trainfleet_exporter.families.family import MetricFamily, NumberByAccelerator, Read, number, word
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, UsageSource

_USAGE_FIELDS = (
    ("cpu_utilization_ratio", "CPU use of a {} as a share of what the platform takes as 100 %", "cpu"),
    ("memory_utilization_ratio", "Memory use of a {} as a share of what the platform takes as 100 %", "memory"),
    ("accelerator_utilization_ratio", "Accelerator use of a {}, mean over its devices", "accelerator_utilization"),
    (
        "accelerator_memory_utilization_ratio",
        "Accelerator memory use of a {}, mean over its devices",
        "accelerator_memory",
    ),
    ("network_receive_bytes_per_second", "Network bytes that a {} receives in a second", "network_receive"),
    ("network_transmit_bytes_per_second", "Network bytes that a {} sends in a second", "network_transmit"),
    ("disk_read_bytes_per_second", "Bytes that a {} reads from disks in a second", "disk_read"),
    ("disk_write_bytes_per_second", "Bytes that a {} writes to disks in a second", "disk_write"),
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
"""What follows the level in the name, the meaning, and the field of UsageValues."""
_PROFILED_FIELDS = (
    ("sm_utilization_ratio", "Share of time in which the multiprocessors of {} are busy", "sm_utilization"),
    ("tensor_active_ratio", "Share of time in which the tensor cores of {} are active", "tensor_active"),
    ("dram_active_ratio", "Share of time in which the memory of {} moves data", "dram_active"),
    ("tensor_flops_per_second", "Floating-point operations in a second on the tensor cores of {}", "tensor_flops"),
    ("nvlink_receive_bytes_per_second", "Bytes received over NVLink in a second by {}", "nvlink_receive"),
    ("nvlink_transmit_bytes_per_second", "Bytes sent over NVLink in a second by {}", "nvlink_transmit"),
    ("pcie_receive_bytes_per_second", "Bytes received over PCIe in a second by {}", "pcie_receive"),
    ("pcie_transmit_bytes_per_second", "Bytes sent over PCIe in a second by {}", "pcie_transmit"),
)
"""The same of what profilers measure: of the accelerators of a job, pod or pool, and of one accelerator. The field of
DeviceUsage has the same name."""
_BY_ACCELERATOR = frozenset({"accelerator_utilization", "accelerator_memory", *(row[2] for row in _PROFILED_FIELDS)})
"""Fields whose families have the kind of accelerator as a label."""


def _level(level: Literal["job", "pod", "pool"], of: type) -> tuple[MetricFamily, ...]:
    """The families of one level. Pools have no rates."""
    made = " (over its pods where the source knows pods only)" if level == "job" else ""
    rows = [(suffix, f"{meaning.format(level)}{made}.", field) for suffix, meaning, field in _USAGE_FIELDS]
    for suffix, meaning, field in _PROFILED_FIELDS:
        over = "mean over its devices" if suffix.endswith("_ratio") else "sum over its devices"
        rows.append((suffix, f"{meaning.format(f'the accelerators of a {level}')}, {over}.", field))
    found = []
    for suffix, text, field in rows:
        if level == "pool" and suffix.endswith("_per_second"):
            continue
        name, path = f"trainfleet_{level}_{suffix}", f"values.{field}"
        if field in _BY_ACCELERATOR:
            found.append(MetricFamily(name, text, "gauge", of, ("accelerator",), NumberByAccelerator(path)))
        else:
            found.append(MetricFamily(name, text, "gauge", of, (), number(path)))
    return tuple(found)


def _gauge(suffix: str, meaning: str, of: type, read: Read, labels: tuple[str, ...] = ()) -> MetricFamily:
    return MetricFamily(f"trainfleet_{suffix}", meaning, "gauge", of, labels, read)


USAGE_FAMILIES = (
    *_level("job", JobUsage),
    *_level("pod", PodUsage),
    *_level("pool", PoolUsage),
    _gauge(
        "pool_disk_utilization_ratio",
        "Use of the disks of a pool's nodes as a share of what they hold.",
        PoolUsage,
        number("disk_utilization"),
    ),
    _gauge(
        "pool_disk_capacity_bytes",
        "What the disks of a pool's nodes hold.",
        PoolUsage,
        number("disk_capacity_bytes"),
    ),
    _gauge(
        "pool_disk_available_bytes",
        "Free bytes on the disks of a pool's nodes.",
        PoolUsage,
        number("disk_available_bytes"),
    ),
    _gauge("device_utilization_ratio", "Use of one accelerator of a pod.", DeviceUsage, number("utilization")),
    _gauge(
        "device_memory_utilization_ratio",
        "Memory use of one accelerator of a pod.",
        DeviceUsage,
        number("memory_utilization"),
    ),
    _gauge("device_power_watts", "Power that one accelerator of a pod draws.", DeviceUsage, number("power_watts")),
    *(
        _gauge(f"device_{suffix}", f"{meaning.format('one accelerator of a pod')}.", DeviceUsage, number(field))
        for suffix, meaning, field in _PROFILED_FIELDS
    ),
    _gauge(
        "job_usage_info",
        "Which source served the usage of a job, always 1.",
        UsageSource,
        word("source"),
        ("source",),
    ),
    _gauge(
        "job_usage_timestamp_seconds",
        "Unix time of the newest usage reading of a job.",
        UsageSource,
        number("timestamp"),
    ),
)
