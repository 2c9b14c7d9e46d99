"""The sources of each family: APIs and fields of ModelArts, and what is unproven.

Names of metrics are those of `metrics` (AOM), `task_metrics` (tasks, v1) and `pools`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainfleet_exporter.families.usage import Level
from trainfleet_exporter.providers.huawei_modelarts.metrics import READINGS, Reading
from trainfleet_exporter.providers.huawei_modelarts.pools import MONITORED
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import METRICS

_JOBS = "ModelArts training-job-searches, items[]"
_RUNS = f"{_JOBS}.status.running_records[]"
_ATTEMPTS = f"{_RUNS}.recover_records[]"
_V1 = "ModelArts v1 training-jobs"
_POOLS = "ModelArts pools, items[]"
_RUNTIME = "ModelArts metrics/runtime/pools, items[].table"
_WORKLOADS = "ModelArts pools/{pool}/workloads, items[]"
_NODES = "ModelArts pools/{pool}/nodes, items[]"
_NODE_HAS = f"{_NODES}.status.resources"
_NODE_HELD = f"{_NODE_HAS} minus status.availableResources"
_JOB_QUOTA = "ModelArts training-quotas, resource job-num, quotas[]"
_TASKS = "ModelArts training-jobs/{id}/metrics/{task}"
_AOM = "ModelArts AOM"
_V1_METRICS = "ModelArts v1 metric-statistic"
_POOL_MONITOR = "ModelArts pools/{pool}/monitor"


def _usage_sources(reading: Reading, level: Level) -> Iterator[str]:
    """Return the sources of a reading of jobs, pods or devices."""
    arrays = [metric for metric, (suffix, _) in METRICS.items() if suffix == reading.key]
    of_v1 = ", ".join(metric[0].upper() + metric[1:] for metric in arrays if not metric.startswith("npu"))
    of_aom = ", ".join(reading.sources.values())
    if arrays and reading.measure.is_ratio and level != "device":
        yield f"{_TASKS}, {', '.join(arrays)}"
    yield f"{_AOM}, {of_aom}"
    if of_v1:
        yield f"{_V1_METRICS}, {of_v1}"


def _pool_sources() -> Iterator[tuple[str, list[str]]]:
    """By family, what feeds a reading of pools."""
    by_family: dict[str, list[str]] = {}
    for metric, (family, _) in MONITORED.items():
        by_family.setdefault(family.suffix, []).append(metric)
    for suffix, metrics in by_family.items():
        yield f"trainfleet_{suffix}", [f"{_POOL_MONITOR}, {', '.join(metrics)}"]


SOURCES: Mapping[str, Sequence[str]] = {
    "trainfleet_provider_info": [
        "the config file",
        "ModelArts IAM projects, projects[].id for a project_id that the config leaves out",
    ],
    "trainfleet_workspace_info": ["ModelArts workspaces, workspaces[].name"],
    "trainfleet_jobs": [
        f"{_JOBS}.status.phase for live jobs, total for finished ones",
        "ModelArts v1 training-jobs, jobs[].status",
    ],
    "trainfleet_jobs_finished_total": ["ModelArts training-jobs, status.phase"],
    "trainfleet_job_info": [f"{_JOBS}.metadata.name, kind, metadata.user_name, spec.resource", _V1],
    "trainfleet_job_labels": [f"{_JOBS}.metadata.annotations and tags"],
    "trainfleet_job_status": [f"{_JOBS}.status.phase", _V1],
    "trainfleet_job_platform_status": [f"{_JOBS}.status.phase", _V1],
    "trainfleet_job_status_reason": [f"{_JOBS}.status.running_records[].end_reason"],
    "trainfleet_job_holds_resources": [f"{_JOBS}.status.phase", _V1],
    "trainfleet_job_queue_position": [f"{_WORKLOADS}.pendingPosition"],
    "trainfleet_job_priority": [f"{_JOBS}.spec.schedule_policy.priority"],
    "trainfleet_job_created_timestamp_seconds": [f"{_JOBS}.metadata.create_time", _V1],
    "trainfleet_job_started_timestamp_seconds": [f"{_JOBS}.status.start_time", _V1],
    "trainfleet_job_finished_timestamp_seconds": [f"{_JOBS}.status.running_records[].end_at"],
    "trainfleet_job_duration_seconds": [f"{_JOBS}.status.duration", _V1],
    "trainfleet_job_restarts_total": [f"{_JOBS}.status.running_records[]"],
    "trainfleet_job_restarts_allowed": [f"{_JOBS}.metadata.annotations"],
    "trainfleet_job_requested_cpu_cores": [f"{_JOBS}.spec.resource"],
    "trainfleet_job_requested_memory_bytes": [f"{_JOBS}.spec.resource"],
    "trainfleet_job_requested_nodes": [f"{_JOBS}.spec.resource.node_count"],
    "trainfleet_job_requested_accelerators": [f"{_JOBS}.spec.resource", _V1],
    "trainfleet_pod_info": [f"{_JOBS}.status.tasks, task_ips[] if nodes is on", "ModelArts v1 log/file-names"],
    "trainfleet_pool_info": [f"{_POOLS}.metadata.labels, spec.type, status.parent"],
    "trainfleet_pool_status": [f"{_POOLS}.status.phase"],
    "trainfleet_pool_nodes": [f"{_POOLS}.status.resources"],
    "trainfleet_pool_queued_accelerators": [f"{_WORKLOADS}.resourceRequirement where status is Queue"],
    "trainfleet_pool_capacity_cpu_cores": [f"{_RUNTIME}.capacity.value"],
    "trainfleet_pool_capacity_memory_bytes": [f"{_RUNTIME}.capacity.value"],
    "trainfleet_pool_capacity_accelerators": [f"{_RUNTIME}.capacity.value"],
    "trainfleet_pool_allocated_cpu_cores": [f"{_RUNTIME}.allocated.value"],
    "trainfleet_pool_allocated_memory_bytes": [f"{_RUNTIME}.allocated.value"],
    "trainfleet_pool_allocated_accelerators": [f"{_RUNTIME}.allocated.value"],
    "trainfleet_pool_user_accelerators": [f"{_WORKLOADS}.resourceRequirement, userName, type, status and hostIps"],
    "trainfleet_pool_workloads": ["ModelArts statistics/pools/{pool}/workloads, statistics.items[].status"],
    "trainfleet_node_info": [f"{_NODES}.spec.flavor, status.privateIp"],
    "trainfleet_node_status": [f"{_NODES}.status.phase"],
    "trainfleet_node_capacity_cpu_cores": [_NODE_HAS],
    "trainfleet_node_capacity_memory_bytes": [_NODE_HAS],
    "trainfleet_node_capacity_accelerators": [_NODE_HAS],
    "trainfleet_node_allocated_cpu_cores": [_NODE_HELD],
    "trainfleet_node_allocated_memory_bytes": [_NODE_HELD],
    "trainfleet_node_allocated_accelerators": [_NODE_HELD],
    "trainfleet_node_maintenance_timestamp_seconds": [
        "ModelArts scheduled-events, events[].notBefore, or startTime, or publishTime"
    ],
    "trainfleet_provider_job_quota": [f"{_JOB_QUOTA}.quota"],
    "trainfleet_provider_job_quota_used": [f"{_JOB_QUOTA}.used"],
    **{
        f"trainfleet_{family.suffix}": list(_usage_sources(reading, family.level))
        for reading in READINGS
        for family in reading.families
    },
    **dict(_pool_sources()),
    "trainfleet_job_usage_info": [_TASKS, _AOM, _V1_METRICS],
    "trainfleet_job_phase_seconds": [
        f"{_RUNS}.start_at, xpu_start_at, end_at, recover_records[]; metadata.create_time"
    ],
    "trainfleet_job_faults_total": [f"{_ATTEMPTS}.fault_scenario at recover_start_at"],
    "trainfleet_job_recoveries_total": [f"{_ATTEMPTS}.recover and recover_result"],
    "trainfleet_job_recovery_seconds_total": [f"{_ATTEMPTS}.recover_end_at minus recover_start_at"],
    "trainfleet_job_queue_wait_seconds": [f"{_JOBS}.metadata.create_time to status.running_records[].start_at"],
    "trainfleet_job_startup_seconds": [f"{_RUNS}.start_at to xpu_start_at"],
    "trainfleet_pod_exit_code": [f"{_JOBS}.status.task_statuses[].exit_code"],
}
"""By family, the source of its values: API and fields."""
