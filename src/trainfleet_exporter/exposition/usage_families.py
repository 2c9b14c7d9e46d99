"""Families of usage: the same readings at the level of jobs and of pods."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from trainfleet_exporter.exposition.family import Family, Read, Samples, described, number, word
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage

_API = "PAI-DLC GetJobMetrics"
_V2 = "ModelArts training-jobs/{id}/metrics/{task}"
_V1 = "ModelArts v1 metric-statistic"
_V2_METRICS = {
    "cpu": "cpuUsage",
    "memory": "memUsage",
    "accelerator": "gpuUtil, npuUtil",
    "accelerator_memory": "gpuMemUsage, npuMemUsage",
}
_V1_METRICS = {
    "cpu": "CpuUsage",
    "memory": "MemUsage",
    "accelerator": "GpuUtil",
    "accelerator_memory": "GpuMemUsage",
    "network_receive": "RecvBytesRate",
    "network_transmit": "SendBytesRate",
    "disk_read": "DiskReadRate",
    "disk_write": "DiskWriteRate",
}
_UNIT = "the unit of the source is unproven"


def _by_accelerator(path: str) -> Read:
    get = attrgetter(path)

    def read(found: Any) -> Samples:
        value = get(found)
        return () if value is None else (((found.values.accelerator,), value),)

    return read


def _level(level: str, of: type, made: str) -> tuple[Family, ...]:
    """The families of one level; `made` says how its values come from the pod readings that the API serves."""

    def family(suffix: str, meaning: str, metric: str, read: Read, labels: tuple[str, ...] = ()) -> Family:
        experimental = _UNIT if suffix.endswith("_bytes_per_second") else ""
        what = suffix.removesuffix("_utilization_ratio").removesuffix("_bytes_per_second")
        sources = [f"{_API}, MetricType {metric}{made}"]
        sources += [f"{_V2}, {_V2_METRICS[what]}{made}"] if what in _V2_METRICS else []
        sources += [f"{_V1}, {_V1_METRICS[what]}{made}"]
        text = described(meaning.format(level), *sources, experimental=experimental)
        return Family(f"trainfleet_{level}_{suffix}", text, "gauge", of, labels, read)

    per_accelerator = ("accelerator",)
    return (
        family(
            "cpu_utilization_ratio",
            "CPU use of a {} as a share of what the platform takes as 100 %",
            "CpuCoreUsage",
            number("values.cpu"),
        ),
        family(
            "memory_utilization_ratio",
            "Memory use of a {} as a share of what the platform takes as 100 %",
            "MemoryUsage",
            number("values.memory"),
        ),
        family(
            "accelerator_utilization_ratio",
            "Accelerator use of a {}, mean over its devices",
            "GpuCoreUsage",
            _by_accelerator("values.accelerator_utilization"),
            per_accelerator,
        ),
        family(
            "accelerator_memory_utilization_ratio",
            "Accelerator memory use of a {}, mean over its devices",
            "GpuMemoryUsage",
            _by_accelerator("values.accelerator_memory"),
            per_accelerator,
        ),
        family(
            "network_receive_bytes_per_second",
            "Network bytes that a {} receives in a second",
            "NetworkInputRate",
            number("values.network_receive"),
        ),
        family(
            "network_transmit_bytes_per_second",
            "Network bytes that a {} sends in a second",
            "NetworkOutputRate",
            number("values.network_transmit"),
        ),
        family(
            "disk_read_bytes_per_second",
            "Bytes that a {} reads from disks in a second",
            "DiskReadRate",
            number("values.disk_read"),
        ),
        family(
            "disk_write_bytes_per_second",
            "Bytes that a {} writes to disks in a second",
            "DiskWriteRate",
            number("values.disk_write"),
        ),
    )


USAGE_FAMILIES = (
    *_level("job", JobUsage, " over its pods"),
    *_level("pod", PodUsage, ""),
    Family(
        name="trainfleet_device_utilization_ratio",
        help=described("Use of one accelerator of a pod", f"{_V1}, GpuUtil with statistic_type=each"),
        kind="gauge",
        of=DeviceUsage,
        labels=(),
        read=number("utilization"),
    ),
    Family(
        name="trainfleet_device_memory_utilization_ratio",
        help=described("Memory use of one accelerator of a pod", f"{_V1}, GpuMemUsage with statistic_type=each"),
        kind="gauge",
        of=DeviceUsage,
        labels=(),
        read=number("memory_utilization"),
    ),
    Family(
        name="trainfleet_job_usage_info",
        help=described(
            "Which source served the usage of a job, always 1", f"{_API}, {_V2} and {_V1}, that it had readings"
        ),
        kind="gauge",
        of=JobUsage,
        labels=("source",),
        read=word("source"),
    ),
    Family(
        name="trainfleet_job_usage_timestamp_seconds",
        help=described("Unix time of the newest usage reading of a job", f"{_API}, PodMetrics[].Metrics[].Time"),
        kind="gauge",
        of=JobUsage,
        labels=(),
        read=number("timestamp"),
    ),
)
