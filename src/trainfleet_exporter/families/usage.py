"""Families of usage: the same readings at the level of jobs, pods and pools; disks of pools; devices; sources."""

from __future__ import annotations

from typing import Literal

from trainfleet_exporter.families.family import MetricFamily, NumberByAccelerator, number, word
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, UsageSource

_USAGE_FIELDS = (
    ("cpu_utilization_ratio", "CPU utilization of a {}, 0 to 1, where 1 is the platform's 100 %", "cpu"),
    ("memory_utilization_ratio", "Memory utilization of a {}, 0 to 1, where 1 is the platform's 100 %", "memory"),
    (
        "accelerator_utilization_ratio",
        "Accelerator utilization of a {}, 0 to 1, mean of its devices",
        "accelerator_utilization",
    ),
    (
        "accelerator_memory_utilization_ratio",
        "Accelerator memory utilization of a {}, 0 to 1, mean of its devices",
        "accelerator_memory",
    ),
    ("network_receive_bytes_per_second", "Bytes per second that a {} receives over the network", "network_receive"),
    ("network_transmit_bytes_per_second", "Bytes per second that a {} sends over the network", "network_transmit"),
    ("disk_read_bytes_per_second", "Bytes per second that a {} reads from disks", "disk_read"),
    ("disk_write_bytes_per_second", "Bytes per second that a {} writes to disks", "disk_write"),
    ("cpu_usage_cores", "CPU cores that a {} uses", "cpu_cores"),
    ("memory_usage_bytes", "Memory in bytes that a {} uses", "memory_bytes"),
    ("accelerator_memory_usage_bytes", "Accelerator memory in bytes that a {} uses", "accelerator_memory_bytes"),
    (
        "accelerator_memory_capacity_bytes",
        "Accelerator memory in bytes of all devices of a {}",
        "accelerator_memory_capacity_bytes",
    ),
    ("accelerator_power_watts", "Power in watts that the accelerators of a {} draw", "accelerator_power_watts"),
)
"""The part of the name after the level, the meaning, and the field of UsageValues."""
_WITHOUT_READING = " Absent without a recent reading."
_PROFILED_FIELDS = (
    ("sm_utilization_ratio", "Share of time in which the multiprocessors of {} are busy, 0 to 1", "sm_utilization"),
    ("tensor_active_ratio", "Share of time in which the tensor cores of {} are active, 0 to 1", "tensor_active"),
    ("dram_active_ratio", "Share of time in which the memory of {} moves data, 0 to 1", "dram_active"),
    ("tensor_flops_per_second", "Floating-point operations per second on the tensor cores of {}", "tensor_flops"),
    ("nvlink_receive_bytes_per_second", "Bytes per second received over NVLink by {}", "nvlink_receive"),
    ("nvlink_transmit_bytes_per_second", "Bytes per second sent over NVLink by {}", "nvlink_transmit"),
    ("pcie_receive_bytes_per_second", "Bytes per second received over PCIe by {}", "pcie_receive"),
    ("pcie_transmit_bytes_per_second", "Bytes per second sent over PCIe by {}", "pcie_transmit"),
)
"""The same of what profilers measure: of the accelerators of a job, pod or pool, and of one accelerator. The field of
DeviceUsage has the same name."""
_BY_ACCELERATOR = frozenset({"accelerator_utilization", "accelerator_memory", *(row[2] for row in _PROFILED_FIELDS)})
"""Fields whose families have the kind of accelerator as a label."""


def _combined(suffix: str) -> str:
    """Return how the values of parts combine to the value of a whole."""
    return "Mean" if suffix.endswith("_ratio") else "Sum"


def _level(level: Literal["job", "pod", "pool"], of: type) -> tuple[MetricFamily, ...]:
    """The families of one level. Pools have no rates."""
    rows = []
    for suffix, meaning, field in _USAGE_FIELDS:
        pods = f" {_combined(suffix)} of its pods if the source reports pods only." if level == "job" else ""
        rows.append((suffix, f"{meaning.format(level)}.{pods}", field))
    for suffix, meaning, field in _PROFILED_FIELDS:
        whose = meaning.format(f"the accelerators of a {level}")
        rows.append((suffix, f"{whose}. {_combined(suffix)} of its devices.", field))
    found = []
    for suffix, meaning, field in rows:
        if level == "pool" and suffix.endswith("_per_second"):
            continue
        name, text, path = f"trainfleet_{level}_{suffix}", f"{meaning}{_WITHOUT_READING}", f"values.{field}"
        if field in _BY_ACCELERATOR:
            found.append(MetricFamily(name, text, of, NumberByAccelerator(path), ("accelerator",)))
        else:
            found.append(MetricFamily(name, text, of, number(path)))
    return tuple(found)


USAGE_FAMILIES = (
    *_level("job", JobUsage),
    *_level("pod", PodUsage),
    *_level("pool", PoolUsage),
    MetricFamily(
        "trainfleet_pool_disk_utilization_ratio",
        "Share of the disk space of a pool's nodes that is in use, 0 to 1." + _WITHOUT_READING,
        PoolUsage,
        number("disk_utilization"),
    ),
    MetricFamily(
        "trainfleet_pool_disk_capacity_bytes",
        "Disk space in bytes of a pool's nodes." + _WITHOUT_READING,
        PoolUsage,
        number("disk_capacity_bytes"),
    ),
    MetricFamily(
        "trainfleet_pool_disk_available_bytes",
        "Free disk space in bytes of a pool's nodes." + _WITHOUT_READING,
        PoolUsage,
        number("disk_available_bytes"),
    ),
    MetricFamily(
        "trainfleet_device_utilization_ratio",
        "Utilization of one accelerator of a pod, 0 to 1." + _WITHOUT_READING,
        DeviceUsage,
        number("utilization"),
    ),
    MetricFamily(
        "trainfleet_device_memory_utilization_ratio",
        "Memory utilization of one accelerator of a pod, 0 to 1." + _WITHOUT_READING,
        DeviceUsage,
        number("memory_utilization"),
    ),
    MetricFamily(
        "trainfleet_device_power_watts",
        "Power in watts that one accelerator of a pod draws." + _WITHOUT_READING,
        DeviceUsage,
        number("power_watts"),
    ),
    *(
        MetricFamily(
            f"trainfleet_device_{suffix}",
            f"{meaning.format('one accelerator of a pod')}.{_WITHOUT_READING}",
            DeviceUsage,
            number(field),
        )
        for suffix, meaning, field in _PROFILED_FIELDS
    ),
    MetricFamily(
        "trainfleet_device_healthy",
        "1 if the platform reports one accelerator of a pod as healthy, else 0." + _WITHOUT_READING,
        DeviceUsage,
        number("healthy"),
    ),
    MetricFamily(
        "trainfleet_device_temperature_celsius",
        "Temperature in degrees Celsius of one accelerator of a pod." + _WITHOUT_READING,
        DeviceUsage,
        number("temperature_celsius"),
    ),
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
