"""What each source calls each reading: the HELP of the usage families is made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["job", "pod", "pool"]

JOB_METRICS = "PAI-DLC GetJobMetrics"
CATALOGUE = "PAI CloudMonitor acs_pai_dlc (or DLC GetMetrics)"
TASK_METRICS = "ModelArts training-jobs/{id}/metrics/{task}"
AOM = "ModelArts AOM"
V1 = "ModelArts v1 metric-statistic"
QUOTA = "PAI CloudMonitor acs_pai_quota"
MONITOR = "ModelArts pools/{pool}/monitor"
_UNSERVED = f"none by default; {QUOTA}, a metric that usage.metrics of the config names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of one reading; empty where a source does not serve it."""

    job_metrics: str = ""
    catalogue_job: str = ""
    catalogue_pod: str = ""
    tasks: str = ""
    aom: str = ""
    v1: str = ""
    quota: str = ""
    pool_monitor: str = ""

    def sources(self, level: Level) -> list[str]:
        """API and name of the reading at every source that serves the level. Sources of pods serve their jobs too."""
        if level == "pool":
            found = [(QUOTA, self.quota), (MONITOR, self.pool_monitor)]
            return [f"{api}, {name}" for api, name in found if name] or [_UNSERVED]
        found = [
            (JOB_METRICS, self.job_metrics and f"MetricType {self.job_metrics}"),
            (CATALOGUE, (self.catalogue_job or self.catalogue_pod) if level == "job" else self.catalogue_pod),
            (TASK_METRICS, self.tasks),
            (AOM, self.aom),
            (V1, self.v1),
        ]
        return [f"{api}, {name}" for api, name in found if name]


NAMES: dict[str, Names] = {
    "cpu_utilization_ratio": Names(
        job_metrics="CpuCoreUsage",
        catalogue_job="JOB_CPU_UTIL",
        catalogue_pod="POD_CPU_UTIL",
        tasks="cpuUsage",
        aom="ma_container_cpu_util",
        v1="CpuUsage",
        quota="QUOTA_CPU_UTIL",
        pool_monitor="cpuUsage",
    ),
    "memory_utilization_ratio": Names(
        job_metrics="MemoryUsage",
        catalogue_job="JOB_MEMORY_UTIL",
        catalogue_pod="POD_MEMORY_UTIL",
        tasks="memUsage",
        aom="ma_container_memory_util",
        v1="MemUsage",
        quota="QUOTA_MEMORY_UTIL",
        pool_monitor="memUsedRate",
    ),
    "accelerator_utilization_ratio": Names(
        job_metrics="GpuCoreUsage",
        catalogue_job="JOB_GPU_ACCELERATOR_DUTTY_UTIL",
        catalogue_pod="POD_GPU_ACCELERATOR_DUTTY_UTIL",
        tasks="gpuUtil, npuUtil",
        aom="ma_container_gpu_util, ma_container_npu_util",
        v1="GpuUtil",
        quota="QUOTA_GPU_ACCELERATOR_DUTTY_UTIL",
        pool_monitor="gpuUtil, npuUtil",
    ),
    "accelerator_memory_utilization_ratio": Names(
        job_metrics="GpuMemoryUsage",
        catalogue_job="JOB_GPU_ACCELERATOR_MEMORY_UTIL",
        catalogue_pod="POD_GPU_ACCELERATOR_MEMORY_UTIL",
        tasks="gpuMemUsage, npuMemUsage",
        aom="ma_container_gpu_mem_util, ma_container_npu_memory_util",
        v1="GpuMemUsage",
        quota="QUOTA_GPU_ACCELERATOR_MEMORY_UTIL",
        pool_monitor="gpuMemUsage, npuMemUsage",
    ),
    "network_receive_bytes_per_second": Names(
        job_metrics="NetworkInputRate",
        catalogue_job="JOB_NETWORK_RECEVICE_RATE",
        catalogue_pod="POD_NETWORK_RECEVICE_RATE",
        aom="ma_container_network_receive_bytes",
        v1="RecvBytesRate",
    ),
    "network_transmit_bytes_per_second": Names(
        job_metrics="NetworkOutputRate",
        catalogue_job="JOB_NETWORK_TRANSMIT_RATE",
        catalogue_pod="POD_NETWORK_TRANSMIT_RATE",
        aom="ma_container_network_transmit_bytes",
        v1="SendBytesRate",
    ),
    "disk_read_bytes_per_second": Names(
        job_metrics="DiskReadRate",
        catalogue_job="JOB_DISK_READ_RATE",
        catalogue_pod="POD_DISK_READ_RATE",
        aom="ma_container_disk_read_kilobytes",
        v1="DiskReadRate",
    ),
    "disk_write_bytes_per_second": Names(
        job_metrics="DiskWriteRate",
        catalogue_job="JOB_DISK_WRITE_RATE",
        catalogue_pod="POD_DISK_WRITE_RATE",
        aom="ma_container_disk_write_kilobytes",
        v1="DiskWriteRate",
    ),
    "cpu_usage_cores": Names(catalogue_pod="POD_CPU_USED", aom="ma_container_cpu_used_core"),
    "memory_usage_bytes": Names(catalogue_pod="POD_MEMORY_USED", aom="ma_container_memory_used_megabytes"),
    "accelerator_memory_usage_bytes": Names(
        catalogue_pod="POD_GPU_MEMORY_USED",
        aom="ma_container_gpu_mem_used_megabytes, ma_container_npu_memory_used_megabytes",
    ),
    "accelerator_memory_capacity_bytes": Names(
        catalogue_pod="POD_GPU_MEMORY_TOTAL",
        aom="ma_container_gpu_mem_total_megabytes, ma_container_npu_memory_total_megabytes",
    ),
    "accelerator_power_watts": Names(
        aom="ma_container_gpu_power_usage_watts, ma_container_npu_power_usage_watts", quota="QUOTA_GPU_POWER_USAGE"
    ),
}
"""By what follows the level in the name of a family."""
