"""Responses of PAI's APIs, with the fields that the exporter reads (transport.payload): one struct for each object.

Every field may be absent or null. Numbers are numbers or text. Times are ISO 8601 texts. An amount of memory has a
suffix (`512Gi`) or is in GiB; `translate` decides which.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

# Jobs: DLC 2020-12-03.


class ResourceConfig(Struct, gc=False):
    """The requested resources of each pod of a role (ResourceConfig): cores, memory with its suffix, accelerators."""

    cpu: str | float | None = field(name="CPU", default=None)
    memory: str | float | None = field(name="Memory", default=None)
    gpu: str | float | None = field(name="GPU", default=None)
    gpu_type: str | None = field(name="GPUType", default=None)


class JobSpec(Struct, rename="pascal", gc=False):
    """One role of a job (JobSpec). `ecs_spec` is a machine type, on public resources."""

    type: str | None = None
    pod_count: float | None = None
    ecs_spec: str | None = None
    resource_config: ResourceConfig | None = None
    use_spot_instance: bool | None = None


class JobSettings(Struct, rename="pascal", gc=False):
    """Settings of a job (JobSettings)."""

    tags: dict[str, object] | None = None


class StatusTransition(Struct, rename="pascal", gc=False):
    """A status that a job had (StatusTransitionItem)."""

    status: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    reason_code: str | None = None


class Job(Struct, rename="pascal", gc=False):
    """A row of ListJobs (JobItem), or the answer of GetJob. The duration is in seconds.

    `request_memory` has a suffix in ListJobs and counts GiB in GetJob; `restart_times` is "1" and "1/10".
    """

    job_id: str | None = None
    display_name: str | None = None
    job_type: str | None = None
    workspace_id: str | None = None
    resource_id: str | None = None
    user_id: str | None = None
    username: str | None = None
    resource_type: str | None = None
    payment_type: str | None = None
    status: str | None = None
    sub_status: str | None = None
    reason_code: str | None = None
    priority: float | None = None
    gmt_create_time: str | None = None
    gmt_submitted_time: str | None = None
    gmt_running_time: str | None = None
    gmt_finish_time: str | None = None
    gmt_successed_time: str | None = None
    gmt_failed_time: str | None = None
    gmt_stopped_time: str | None = None
    duration: float | None = None
    restart_times: str | None = None
    request_cpu: str | float | None = field(name="RequestCPU", default=None)
    request_memory: str | float | None = None
    request_gpu: str | float | None = field(name="RequestGPU", default=None)
    node_count: float | None = None
    job_specs: list[JobSpec | None] | None = None
    settings: JobSettings | None = None
    status_history: list[StatusTransition] | None = None


class RestartError(Struct, rename="pascal", gc=False):
    """An error behind a restart (DetailErrorInfoList)."""

    error_code: str | None = None
    error_source: str | None = None
    node: str | None = None
    pod: str | None = None
    trigger_restart: bool | None = None


class RestartRecord(Struct, rename="pascal", gc=False):
    """A restart of a job (RestartRecord), at the time of its cause. The duration is in seconds."""

    occur_time: str | None = None
    reason: str | None = None
    restart_duration_in_sec: float | None = None
    restart_fail_reason: str | None = None
    restart_level_type: str | None = None
    restart_status: str | None = None
    trigger_id: str | None = field(name="TriggerID", default=None)
    detail_error_info_list: list[RestartError | None] | None = None


class JobDetail(Job, rename="pascal", gc=False):
    """The answer of GetJob, as a row of ListJobs and its restarts."""

    restart_record: list[RestartRecord | None] | None = None


class JobRecords(Struct, rename="pascal", gc=False):
    """GetJob, with the fields of a job's history."""

    job_id: str | None = None
    status_history: list[StatusTransition | None] | None = None
    restart_record: list[RestartRecord | None] | None = None


class JobsPage(Struct, rename="pascal", gc=False):
    """ListJobs."""

    total_count: float | None = None
    rows: list[Job | None] | None = field(name="Jobs", default=None)


class EarlierPod(Struct, rename="pascal", gc=False):
    """An earlier incarnation of a pod (HistoryPods)."""

    type: str | None = None
    sub_status: str | None = None


class Pod(Struct, rename="pascal", gc=False):
    """A pod of a job (Pods)."""

    pod_id: str | None = None
    type: str | None = None
    node_name: str | None = None
    ip: str | None = None
    pod_ip: str | None = None
    status: str | None = None
    sub_status: str | None = None
    gmt_create_time: str | None = None
    gmt_start_time: str | None = None
    gmt_finish_time: str | None = None
    history_pods: list[EarlierPod] | None = None


class Role(Struct, rename="pascal", gc=False):
    """The number of pods of a role of a job (JobSpec, with the fields of the pods collector)."""

    type: str | None = None
    pod_count: float | None = None


class JobPods(JobRecords, rename="pascal", gc=False):
    """GetJob, only its pods and history. Null is an empty list of pods; without the field nothing is known of them."""

    restart_times: str | None = None
    job_specs: list[Role | None] | None = None
    pods: list[Pod | None] | UnsetType | None = UNSET


class EcsSpec(Struct, rename="pascal", gc=False):
    """A row of ListEcsSpecs (EcsSpec): a machine type. `memory` counts GiB."""

    instance_type: str | None = None
    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None
    gpu_type: str | None = None


class EcsSpecsPage(Struct, rename="pascal", gc=False):
    """ListEcsSpecs."""

    total_count: float | None = None
    rows: list[EcsSpec | None] | None = field(name="EcsSpecs", default=None)


class MetricPoint(Struct, rename="pascal", gc=False):
    """A reading (Metric): Unix milliseconds; percent, or MB/s."""

    time: float | None = None
    value: str | float | None = None


class PodMetric(Struct, rename="pascal", gc=False):
    """The readings of a pod (PodMetric)."""

    pod_id: str | None = None
    metrics: list[MetricPoint | None] | None = None


class JobMetrics(Struct, rename="pascal", gc=False):
    """GetJobMetrics."""

    job_id: str | None = None
    pod_metrics: list[PodMetric | None] | None = None


class Total(Struct, rename="pascal", gc=False):
    """Any list, only its length."""

    total_count: float | None = None


# Quotas: PaiStudio 2022-01-12.


class ResourceAmount(Struct, gc=False):
    """Amounts of a quota (ResourceAmount): cores, memory with its suffix, accelerators, all as text."""

    cpu: str | float | None = field(name="CPU", default=None)
    memory: str | float | None = field(name="Memory", default=None)
    gpu: str | float | None = field(name="GPU", default=None)


class NodeStatistics(Struct, rename="pascal", gc=False):
    """Nodes of a quota (QuotaNodeStatistics)."""

    allocated_node_num: float | None = None
    empty_node_num: float | None = None


class QuotaDetails(Struct, rename="pascal", gc=False):
    """The capacity of a quota, and its use (QuotaDetails). Only responses with Verbose have it."""

    actual_min_quota: ResourceAmount | None = None
    allocated_quota: ResourceAmount | None = None
    used_quota: ResourceAmount | None = None
    node_statistics: NodeStatistics | None = None


class QuotaConfig(Struct, rename="pascal", gc=False):
    """Config of a quota (QuotaConfig)."""

    workload_types: list[str] | None = None


class Quota(Struct, rename="pascal", gc=False):
    """A row of ListQuotas (Quota)."""

    quota_id: str | None = None
    quota_name: str | None = None
    resource_type: str | None = None
    parent_quota_id: str | None = None
    status: str | None = None
    gpu_type: str | None = field(name="GPUType", default=None)
    quota_config: QuotaConfig | None = None
    quota_details: QuotaDetails | None = None


class QuotasPage(Struct, rename="pascal", gc=False):
    """ListQuotas."""

    total_count: float | None = None
    rows: list[Quota | None] | None = field(name="Quotas", default=None)


class WorkloadResource(Struct, gc=False):
    """The requested resources of a workload (ResourceAmount), unchanged: an unreadable amount is not the same as
    none."""

    cpu: object = field(name="CPU", default=None)
    memory: object = field(name="Memory", default=None)
    gpu: object = field(name="GPU", default=None)
    gpu_type: object = field(name="GPUType", default=None)


class UserResources(Struct, rename="pascal", gc=False):
    """Resources of a user in a quota (QuotaUserResources): what placed workloads use, not how busy it is."""

    used: ResourceAmount | None = None


class QuotaUser(Struct, rename="pascal", gc=False):
    """A row of ListQuotaActiveUserUsages (QuotaUser)."""

    user_id: str | None = None
    username: str | None = None
    resources: UserResources | None = None


class QuotaUsersPage(Struct, rename="pascal", gc=False):
    """ListQuotaActiveUserUsages. The SDK has two names for the list."""

    total_count: float | None = None
    quota_user_usages: list[QuotaUser | None] | None = None
    quota_user_usage: list[QuotaUser | None] | None = None

    @property
    def rows(self) -> list[QuotaUser | None] | None:
        """The list of either name."""
        return self.quota_user_usages or self.quota_user_usage or self.quota_user_usages


class Workload(Struct, rename="pascal", gc=False):
    """A row of ListQuotaWorkloads (QueueInfo)."""

    workload_id: str | None = None
    workload_type: str | None = None
    status: str | None = None
    quota_id: str | None = None
    position: float | None = None
    code: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    resource: WorkloadResource | None = None


class WorkloadsPage(Struct, rename="pascal", gc=False):
    """ListQuotaWorkloads."""

    total_count: float | None = None
    rows: list[Workload | None] | None = field(name="Workloads", default=None)


class Node(Struct, rename="pascal", gc=False):
    """A row of ListNodes (Node). Bare numbers of memory count GiB."""

    node_name: str | None = None
    node_type: str | None = None
    node_status: str | None = None
    reason_code: str | None = None
    order_status: str | None = None
    gmt_expired_time: str | None = None
    gpu_type: str | None = field(name="GPUType", default=None)
    cpu: str | float | None = field(name="CPU", default=None)
    memory: str | float | None = None
    gpu: str | float | None = field(name="GPU", default=None)
    request_cpu: str | float | None = field(name="RequestCPU", default=None)
    request_memory: str | float | None = None
    request_gpu: str | float | None = field(name="RequestGPU", default=None)


class NodesPage(Struct, rename="pascal", gc=False):
    """ListNodes."""

    total_count: float | None = None
    rows: list[Node | None] | None = field(name="Nodes", default=None)


# Workspaces: AIWorkSpace 2021-02-04.


class Workspace(Struct, rename="pascal", gc=False):
    """A row of ListWorkspaces."""

    workspace_id: str | None = None
    workspace_name: str | None = None
    status: str | None = None


class WorkspacesPage(Struct, rename="pascal", gc=False):
    """ListWorkspaces."""

    total_count: float | None = None
    rows: list[Workspace | None] | None = field(name="Workspaces", default=None)


# CloudMonitor 2019-01-01.


class MetricMeta(Struct, rename="pascal", gc=False):
    """A row of DescribeMetricMetaList: one metric. Dimensions, periods (seconds) and statistics are comma-separated."""

    metric_name: str | None = None
    unit: str | None = None
    dimensions: str | None = None
    periods: str | None = None
    statistics: str | None = None


class MetricMetas(Struct, rename="pascal", gc=False):
    """The rows of a page of DescribeMetricMetaList."""

    resource: list[MetricMeta | None] | None = None


class MetricMetasPage(Struct, rename="pascal", gc=False):
    """A page of DescribeMetricMetaList."""

    total_count: float | None = None
    resources: MetricMetas | None = None


class PointsPage(Struct, rename="pascal", gc=False):
    """A page of DescribeMetricLast or DescribeMetricList. Its points are a text of JSON: see points.PointReader."""

    points: object = field(name="Datapoints", default=None)
    next_token: str | None = None


class Point(Struct, gc=False):
    """A data point: its time in Unix milliseconds, and its subject.

    The statistics, and the keys that identify cards, differ by metric: points.PointReader adds them.
    """

    timestamp: float | None = None
    job_id: str | None = field(name="jobId", default=None)
    quota_id: str | None = field(name="quotaId", default=None)
    quota_name: str | None = field(name="quotaName", default=None)
    pod: str | None = None
    pod_id: str | None = field(name="podId", default=None)
    pod_name: str | None = field(name="podName", default=None)


# Credentials: STS 2015-04-01, the metadata service, and files of profiles.


class TemporaryKeys(Struct, rename="pascal", gc=False):
    """Keys for a while. The expiration is an ISO 8601 text."""

    access_key_id: str | None = None
    access_key_secret: str | None = None
    security_token: str | None = None
    expiration: str | None = None


class StsAnswer(Struct, rename="pascal", gc=False):
    """AssumeRole, AssumeRoleWithOIDC."""

    credentials: TemporaryKeys | None = None


class MachineKeys(TemporaryKeys, rename="pascal", gc=False):
    """The keys of a machine's role, or of a credentials URI."""

    code: str | None = None


class CliConfig(Struct, gc=False):
    """`~/.aliyun/config.json`."""

    current: str | None = None
    profiles: list[dict[str, object]] | None = None
