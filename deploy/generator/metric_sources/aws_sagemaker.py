"""The sources of each family on SageMaker: APIs and fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfleet_exporter.providers.aws_sagemaker.usage import METRICS

_JOB = "SageMaker Search, Results[].TrainingJob"
_CONFIG = f"{_JOB}.ResourceConfig"
_STATUS = f"{_JOB}.TrainingJobStatus and SecondaryStatus"
_HISTORY = f"{_JOB}.SecondaryStatusTransitions[]"
_TYPE = "by instance type"
_GROUP = "SageMaker DescribeCluster, InstanceGroups[]"
_NODE = "SageMaker ListClusterNodes, ClusterNodeSummaries[]"
_PLAN = "SageMaker ListTrainingPlans, TrainingPlanSummaries[]"

SOURCES: Mapping[str, Sequence[str]] = {
    "trainfleet_provider_info": ["the config file"],
    "trainfleet_workspace_info": ["a constant, because SageMaker has no workspaces"],
    "trainfleet_jobs": [f"{_STATUS} for live jobs, TotalHits for finished ones"],
    "trainfleet_jobs_finished_total": [f"{_JOB}.TrainingJobStatus"],
    "trainfleet_job_info": [f"{_JOB}.TrainingJobName, TuningJobArn, EnableManagedSpotTraining, ResourceConfig"],
    "trainfleet_job_labels": [f"{_JOB}.Tags[]"],
    "trainfleet_job_status": [_STATUS],
    "trainfleet_job_platform_status": [_STATUS],
    "trainfleet_job_status_reason": [f"{_JOB}.FailureReason, or SecondaryStatus of a stopped job"],
    "trainfleet_job_holds_resources": [
        f"{_JOB}.TrainingJobStatus, SecondaryStatus, TrainingStartTime, WarmPoolStatus.Status"
    ],
    "trainfleet_job_created_timestamp_seconds": [f"{_JOB}.CreationTime"],
    "trainfleet_job_started_timestamp_seconds": [f"{_JOB}.TrainingStartTime"],
    "trainfleet_job_finished_timestamp_seconds": [f"{_JOB}.TrainingEndTime"],
    "trainfleet_job_duration_seconds": [f"{_JOB}.TrainingTimeInSeconds"],
    "trainfleet_job_restarts_total": [_HISTORY],
    "trainfleet_job_requested_cpu_cores": [f"{_CONFIG}, {_TYPE}"],
    "trainfleet_job_requested_nodes": [f"{_CONFIG}.InstanceCount or InstanceGroups[]"],
    "trainfleet_job_requested_accelerators": [f"{_CONFIG}, {_TYPE}"],
    "trainfleet_pod_info": [f"{_CONFIG}.InstanceCount or InstanceGroups[]"],
    "trainfleet_pool_info": [f"{_GROUP}.InstanceGroupName, TrainingPlanArn", f"{_PLAN}.TrainingPlanName"],
    "trainfleet_pool_status": [f"{_GROUP}.Status", f"{_PLAN}.Status"],
    "trainfleet_pool_nodes": [f"{_NODE}.InstanceStatus.Status"],
    "trainfleet_pool_allocated_nodes": [f"{_PLAN}.InUseInstanceCount"],
    "trainfleet_pool_empty_nodes": [f"{_PLAN}.AvailableInstanceCount"],
    "trainfleet_pool_capacity_cpu_cores": [f"{_GROUP}.CurrentCount, {_TYPE}"],
    "trainfleet_pool_capacity_accelerators": [
        f"{_GROUP}.CurrentCount, {_TYPE}",
        f"{_PLAN}.TotalInstanceCount, ReservedCapacitySummaries[], {_TYPE}",
    ],
    "trainfleet_pool_allocated_accelerators": [f"{_PLAN}.InUseInstanceCount, {_TYPE}"],
    "trainfleet_node_info": [f"{_NODE}.InstanceId, InstanceType"],
    "trainfleet_node_status": [f"{_NODE}.InstanceStatus.Status"],
    "trainfleet_node_status_reason": [f"{_NODE}.InstanceStatus.Status of a node that is not ready"],
    "trainfleet_node_expiry_timestamp_seconds": [f"{_PLAN}.EndTime of the plan of its instance group"],
    "trainfleet_node_capacity_cpu_cores": [f"{_NODE}.InstanceType, {_TYPE}"],
    "trainfleet_node_capacity_accelerators": [f"{_NODE}.InstanceType, {_TYPE}"],
    **{
        f"trainfleet_{family.suffix}": [f"SageMaker CloudWatch, {metric.key} of each Host"]
        for metric in METRICS
        for family in metric.targets
    },
    "trainfleet_job_usage_info": ["SageMaker CloudWatch"],
    "trainfleet_job_usage_timestamp_seconds": ["SageMaker CloudWatch, Timestamps[]"],
    "trainfleet_job_phase_seconds": [f"{_HISTORY}.Status, StartTime, EndTime"],
    "trainfleet_job_faults_total": [f"{_HISTORY}.Status"],
    "trainfleet_job_recoveries_total": [f"{_HISTORY}.Status, from Interrupted or Restarting to Training"],
    "trainfleet_job_recovery_seconds_total": [f"{_HISTORY}.Status, StartTime"],
    "trainfleet_job_queue_wait_seconds": [f"{_HISTORY}.Status of Pending, StartTime, EndTime"],
    "trainfleet_job_startup_seconds": [f"{_HISTORY}.Status, StartTime, EndTime"],
}
"""By family: the API and fields of its values."""
