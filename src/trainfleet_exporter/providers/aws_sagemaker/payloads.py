"""Responses of SageMaker and CloudWatch, with the fields that the exporter reads (transport.payload).

Every field may be absent or null. Times are Unix seconds. Only Search returns tags.
"""

from __future__ import annotations

from msgspec import Raw, Struct, field

# Jobs: SageMaker 2017-07-24.


class InstanceGroup(Struct, rename="pascal", gc=False):
    """Instances of one type in a job with several types (InstanceGroup)."""

    instance_type: str | None = None
    instance_count: float | None = None


class ResourceConfig(Struct, rename="pascal", gc=False):
    """The instances of a job (ResourceConfig)."""

    instance_type: str | None = None
    instance_count: float | None = None
    instance_groups: list[InstanceGroup | None] | None = None
    selected_instance_type: str | None = None
    selected_instance_count: float | None = None
    training_plan_arn: str | None = None


class Transition(Struct, rename="pascal", gc=False):
    """An earlier or the current secondary status of a job (SecondaryStatusTransition)."""

    status: str | None = None
    start_time: float | None = None
    end_time: float | None = None


class WarmPoolStatus(Struct, rename="pascal", gc=False):
    """The instances that a job keeps for the next job (WarmPoolStatus)."""

    status: str | None = None


class Tag(Struct, rename="pascal", gc=False):
    """A tag (Tag)."""

    key: str | None = None
    value: str | None = None


class Job(Struct, rename="pascal", gc=False):
    """A training job (TrainingJob) of Search, or the response of DescribeTrainingJob. The duration is in seconds."""

    training_job_name: str | None = None
    training_job_status: str | None = None
    secondary_status: str | None = None
    failure_reason: str | None = None
    tuning_job_arn: str | None = None
    labeling_job_arn: str | None = None
    auto_ml_job_arn: str | None = field(name="AutoMLJobArn", default=None)
    resource_config: ResourceConfig | None = None
    warm_pool_status: WarmPoolStatus | None = None
    creation_time: float | None = None
    training_start_time: float | None = None
    training_end_time: float | None = None
    last_modified_time: float | None = None
    secondary_status_transitions: list[Transition | None] | None = None
    enable_managed_spot_training: bool | None = None
    duration: float | None = field(name="TrainingTimeInSeconds", default=None)
    tags: list[Tag | None] | None = None


class SearchRecord(Struct, rename="pascal", gc=False):
    """A result of Search (SearchRecord)."""

    training_job: Job | None = None


class TotalHits(Struct, rename="pascal", gc=False):
    """The number of results of a search, or a lower bound (TotalHits)."""

    value: float | None = None
    relation: str | None = None


class SearchPage(Struct, rename="pascal", gc=False):
    """A page of Search."""

    rows: list[SearchRecord | None] | None = field(name="Results", default=None)
    next_token: str | None = None
    total_hits: TotalHits | None = None


# Pools: HyperPod clusters and training plans.


class ClusterGroup(Struct, rename="pascal", gc=False):
    """An instance group of a cluster (ClusterInstanceGroupDetails)."""

    instance_group_name: str | None = None
    instance_type: str | None = None
    current_count: float | None = None
    status: str | None = None
    training_plan_arn: str | None = None


class Cluster(Struct, rename="pascal", gc=False):
    """The response of DescribeCluster, or a row of ListClusters, which has only the name."""

    cluster_name: str | None = None
    instance_groups: list[ClusterGroup | None] | None = None
    restricted_instance_groups: list[ClusterGroup | None] | None = None


class Clusters(Struct, rename="pascal", gc=False):
    """A page of ListClusters."""

    rows: list[Cluster | None] | None = field(name="ClusterSummaries", default=None)
    next_token: str | None = None


class NodeStatus(Struct, rename="pascal", gc=False):
    """The status of a node (ClusterInstanceStatusDetails)."""

    status: str | None = None


class Node(Struct, rename="pascal", gc=False):
    """A row of ListClusterNodes (ClusterNodeSummary)."""

    instance_group_name: str | None = None
    instance_id: str | None = None
    instance_type: str | None = None
    instance_status: NodeStatus | None = None


class Nodes(Struct, rename="pascal", gc=False):
    """A page of ListClusterNodes."""

    rows: list[Node | None] | None = field(name="ClusterNodeSummaries", default=None)
    next_token: str | None = None


class ReservedCapacity(Struct, rename="pascal", gc=False):
    """A part of a training plan (ReservedCapacitySummary)."""

    instance_type: str | None = None
    total_instance_count: float | None = None


class TrainingPlan(Struct, rename="pascal", gc=False):
    """A row of ListTrainingPlans (TrainingPlanSummary)."""

    training_plan_arn: str | None = None
    training_plan_name: str | None = None
    status: str | None = None
    total_instance_count: float | None = None
    end_time: float | None = None
    available_instance_count: float | None = None
    in_use_instance_count: float | None = None
    reserved_capacity_summaries: list[ReservedCapacity | None] | None = None


class TrainingPlans(Struct, rename="pascal", gc=False):
    """A page of ListTrainingPlans."""

    rows: list[TrainingPlan | None] | None = field(name="TrainingPlanSummaries", default=None)
    next_token: str | None = None


# CloudWatch 2010-08-01.


class MetricResult(Struct, rename="pascal", gc=False):
    """The points of one metric (MetricDataResult), newest first."""

    id: str | None = None
    timestamps: list[float | None] | None = None
    values: list[float | None] | None = None
    status_code: str | None = None


class MetricData(Struct, rename="pascal", gc=False):
    """A page of GetMetricData. Its results are decoded one by one."""

    rows: list[Raw | None] | None = field(name="MetricDataResults", default=None)
    next_token: str | None = None
