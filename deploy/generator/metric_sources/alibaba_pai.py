"""The sources of each family: APIs and fields of PAI, and what is unproven.

Names of metrics are those of `usage.metrics` and `usage.job_metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfleet_exporter.families.usage import Family
from trainfleet_exporter.providers.alibaba_pai.metrics import FAMILIES
from trainfleet_exporter.providers.alibaba_pai.usage import METRIC_TYPES

_LIST = "PAI ListJobs, Jobs[]"
_SPECS = "or JobSpecs[] with ListEcsSpecs"
_INFO = (
    "DisplayName, JobType, WorkspaceId, ResourceId, UserId, Username, ResourceType, "
    "and JobSpecs[].UseSpotInstance for payment_type"
)
_DETAIL = "PAI GetJob"
_PODS = f"{_DETAIL}, Pods[]"
_STATUSES = f"{_LIST}.StatusHistory[] (or GetJob, StatusHistory[])"
_RESTARTS = f"{_DETAIL}, RestartRecord[]"
_QUOTAS = "PAI ListQuotas, Quotas[]"
_AMOUNTS = f"{_QUOTAS}.QuotaDetails"
_HAS, _HELD = f"{_AMOUNTS}.ActualMinQuota", f"{_AMOUNTS}.AllocatedQuota (or UsedQuota)"
_WORKLOADS = "PAI ListQuotaWorkloads"
_NODES = "PAI ListNodes, Nodes[]"
_JOB_METRICS = "PAI GetJobMetrics"
_CATALOGUE = "PAI CloudMonitor"


def _usage_sources(family: Family) -> list[str]:
    found = [
        f"{_JOB_METRICS}, {name}"
        for name, suffix in METRIC_TYPES.items()
        if family.suffix in (f"job_{suffix}", f"pod_{suffix}")
    ]
    name = family.names[0] if family.names else f"for {family.level}s only by usage.metrics"
    return [*found, f"{_CATALOGUE}, {name}"]


SOURCES: Mapping[str, Sequence[str]] = {
    "trainfleet_provider_info": ["the config file"],
    "trainfleet_workspace_info": ["PAI ListWorkspaces, Workspaces[].WorkspaceName"],
    "trainfleet_jobs": [f"{_LIST}.Status for live jobs, TotalCount for finished ones"],
    "trainfleet_jobs_finished_total": [f"{_LIST}.Status"],
    "trainfleet_job_info": [f"{_LIST}.{_INFO}"],
    "trainfleet_job_labels": [f"{_LIST}.Settings.Tags"],
    "trainfleet_job_status": [f"{_LIST}.Status and SubStatus"],
    "trainfleet_job_platform_status": [f"{_LIST}.Status"],
    "trainfleet_job_status_reason": [f"{_LIST}.ReasonCode"],
    "trainfleet_job_holds_resources": [f"{_LIST}.Status and SubStatus"],
    "trainfleet_job_queue_position": [f"{_WORKLOADS}, Workloads[].Position"],
    "trainfleet_job_priority": [f"{_LIST}.Priority"],
    "trainfleet_job_created_timestamp_seconds": [f"{_LIST}.GmtCreateTime"],
    "trainfleet_job_submitted_timestamp_seconds": [f"{_LIST}.GmtSubmittedTime"],
    "trainfleet_job_started_timestamp_seconds": [f"{_LIST}.GmtRunningTime"],
    "trainfleet_job_finished_timestamp_seconds": [
        f"{_LIST}.GmtFinishTime, or GmtSuccessedTime, GmtFailedTime, GmtStoppedTime"
    ],
    "trainfleet_job_duration_seconds": [f"{_LIST}.Duration"],
    "trainfleet_job_restarts_total": [f"{_LIST}.RestartTimes"],
    "trainfleet_job_restarts_allowed": [f"{_DETAIL}, RestartTimes"],
    "trainfleet_job_requested_cpu_cores": [f"{_LIST}.RequestCPU, {_SPECS}"],
    "trainfleet_job_requested_memory_bytes": [f"{_LIST}.RequestMemory, {_SPECS}"],
    "trainfleet_job_requested_nodes": [f"{_LIST}.NodeCount"],
    "trainfleet_job_requested_accelerators": [f"{_LIST}.RequestGPU, {_SPECS}"],
    "trainfleet_job_requested_pods": [f"{_DETAIL}, JobSpecs[].PodCount"],
    "trainfleet_job_replaced_pods": [f"{_PODS}.HistoryPods[]"],
    "trainfleet_job_pods": [f"{_PODS}.Type and Status"],
    "trainfleet_pod_info": [f"{_PODS}.Type, NodeName, Ip"],
    "trainfleet_pod_status": [f"{_PODS}.Status"],
    "trainfleet_pod_evicted": [f"{_PODS}.SubStatus, Pods[].HistoryPods[].SubStatus"],
    "trainfleet_pod_evictions_total": [f"{_PODS}.SubStatus, Pods[].HistoryPods[].SubStatus"],
    "trainfleet_pod_created_timestamp_seconds": [f"{_PODS}.GmtCreateTime"],
    "trainfleet_pod_started_timestamp_seconds": [f"{_PODS}.GmtStartTime"],
    "trainfleet_pod_finished_timestamp_seconds": [f"{_PODS}.GmtFinishTime"],
    "trainfleet_pool_info": [f"{_QUOTAS}.QuotaName, ResourceType, ParentQuotaId"],
    "trainfleet_pool_status": [f"{_QUOTAS}.Status"],
    "trainfleet_pool_allocated_nodes": [f"{_AMOUNTS}.NodeStatistics.AllocatedNodeNum"],
    "trainfleet_pool_empty_nodes": [f"{_AMOUNTS}.NodeStatistics.EmptyNodeNum"],
    "trainfleet_pool_queued_accelerators": [f"{_WORKLOADS}, Workloads[].Resource.GPU where Status is Enqueued"],
    "trainfleet_pool_capacity_cpu_cores": [f"{_HAS}.CPU"],
    "trainfleet_pool_capacity_memory_bytes": [f"{_HAS}.Memory"],
    "trainfleet_pool_capacity_accelerators": [f"{_HAS}.GPU and GPUType"],
    "trainfleet_pool_allocated_cpu_cores": [f"{_HELD}.CPU"],
    "trainfleet_pool_allocated_memory_bytes": [f"{_HELD}.Memory"],
    "trainfleet_pool_allocated_accelerators": [f"{_HELD}.GPU and GPUType"],
    "trainfleet_pool_workloads": [f"{_WORKLOADS}, TotalCount"],
    "trainfleet_pool_user_accelerators": [
        "PAI ListQuotaActiveUserUsages, QuotaUserUsages[].Resources.Used.GPU",
        f"{_WORKLOADS}, Workloads[].Resource.GPU where WorkloadStatus is Running",
    ],
    "trainfleet_node_info": [f"{_NODES}.NodeType"],
    "trainfleet_node_status": [f"{_NODES}.NodeStatus"],
    "trainfleet_node_status_reason": [f"{_NODES}.ReasonCode, or OrderStatus if the node is not ready"],
    "trainfleet_node_expiry_timestamp_seconds": [f"{_NODES}.GmtExpiredTime"],
    "trainfleet_node_capacity_cpu_cores": [f"{_NODES}.CPU"],
    "trainfleet_node_capacity_memory_bytes": [f"{_NODES}.Memory"],
    "trainfleet_node_capacity_accelerators": [f"{_NODES}.GPU and GPUType"],
    "trainfleet_node_allocated_cpu_cores": [f"{_NODES}.RequestCPU"],
    "trainfleet_node_allocated_memory_bytes": [f"{_NODES}.RequestMemory"],
    "trainfleet_node_allocated_accelerators": [f"{_NODES}.RequestGPU and GPUType"],
    **{f"trainfleet_{suffix}": _usage_sources(family) for suffix, family in FAMILIES.items()},
    "trainfleet_job_usage_info": [_JOB_METRICS, _CATALOGUE],
    "trainfleet_job_usage_timestamp_seconds": [
        f"{_JOB_METRICS}, PodMetrics[].Metrics[].Time",
        f"{_CATALOGUE}, timestamp of a data point",
    ],
    "trainfleet_job_phase_seconds": [f"{_STATUSES}; GetJob, RestartRecord[].OccurTime and RestartDurationInSec"],
    "trainfleet_job_faults_total": [
        f"{_RESTARTS}.DetailErrorInfoList[].ErrorCode or Reason at OccurTime; or StatusHistory[].ReasonCode"
    ],
    "trainfleet_job_recoveries_total": [f"{_RESTARTS}.RestartLevelType and RestartStatus"],
    "trainfleet_job_recovery_seconds_total": [f"{_RESTARTS}.RestartDurationInSec"],
    "trainfleet_node_faults_total": [f"{_RESTARTS}.DetailErrorInfoList[].Node"],
    "trainfleet_job_queue_wait_seconds": [f"{_STATUSES}, until the first Running"],
    "trainfleet_job_startup_seconds": [f"{_STATUSES}, EnvPreparing and SanityChecking before the first Running"],
    "trainfleet_job_pending_reason": [f"{_WORKLOADS}, Workloads[].Code where Status is Enqueued"],
}
"""By family, the source of its values: API and fields."""
