"""Responses of ModelArts and AOM, with the fields that the exporter reads: one struct for each object.

Every field may be missing or null. transport.payload handles values that do not fit.
"""

from __future__ import annotations

import msgspec

# ModelArts: https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
#
# Times count milliseconds and 0 is "never", unless a docstring says otherwise. A list of rows is UNSET where the answer
# has none, or something else in its place; a row that is no object is null.

Amounts = dict[str, str | float | None]
"""Resources by their keys, such as `cpu`, `memory` or `huawei.com/ascend-1980`: Kubernetes quantities."""


class Workspace(msgspec.Struct, gc=False):
    """A row of ListWorkspaces."""

    id: str | None = None
    name: str | None = None


class WorkspacesPage(msgspec.Struct, gc=False):
    """ListWorkspaces."""

    total_count: float | None = None
    workspaces: list[Workspace | None] | None = None


# Training jobs.


class Tag(msgspec.Struct, gc=False):
    """A tag of a job."""

    key: str | None = None
    value: str | None = None


class JobMetadata(msgspec.Struct, gc=False):
    """The identity of a job. Annotations are texts."""

    id: str | None = None
    name: str | None = None
    workspace_id: str | None = None
    create_time: float | None = None
    user_name: str | None = None
    annotations: dict[str, str | float | None] | None = None
    tags: list[Tag] | None = None


class RecoverRecord(msgspec.Struct, gc=False):
    """One attempt to recover from a fault. Times are Unix seconds; it starts when the fault occurs."""

    recover_start_at: float | None = None
    recover_end_at: float | None = None
    recover: str | None = None
    fault_scenario: str | None = None
    recover_result: str | None = None
    related_task: str | None = None


class RunningRecord(msgspec.Struct, gc=False):
    """One run of a job. Times are Unix seconds. `end_recover` is the strategy that followed its end."""

    start_at: float | None = None
    xpu_start_at: float | None = None
    end_at: float | None = None
    end_reason: str | None = None
    end_related_task: str | None = None
    end_recover: str | None = None
    recover_records: list[RecoverRecord | None] | None = None


class TaskStatus(msgspec.Struct, gc=False):
    """The end of a task."""

    task: str | None = None
    exit_code: float | None = None


class JobStatus(msgspec.Struct, gc=False):
    """The state of a job. `duration` is in milliseconds. `tasks` are the names of its tasks, such as `worker-0`.

    A number among `tasks` is not a name.
    """

    phase: str | None = None
    start_time: float | None = None
    duration: float | None = None
    tasks: list[str | float | None] | None = None
    running_records: list[RunningRecord | None] | None = None
    task_statuses: list[TaskStatus | None] | None = None


class CpuInfo(msgspec.Struct, gc=False):
    """The CPU of a flavor."""

    core_num: float | None = None


class DeviceInfo(msgspec.Struct, gc=False):
    """The accelerators of a flavor."""

    unit_num: float | None = None
    product_name: str | None = None


class MemoryInfo(msgspec.Struct, gc=False):
    """The memory of a flavor: an amount of `unit`."""

    size: float | None = None
    unit: str | None = None


class FlavorInfo(msgspec.Struct, gc=False):
    """The resources of one node of a flavor."""

    cpu: CpuInfo | None = None
    gpu: DeviceInfo | None = None
    npu: DeviceInfo | None = None
    memory: MemoryInfo | None = None


class AllocatedResources(msgspec.Struct, gc=False):
    """The resources of the main container on one node. `mem_size` counts GiB."""

    cpu_core_num: float | None = None
    mem_size: float | None = None
    accelerator_num: float | None = None
    accelerator_type: str | None = None


class Flavor(msgspec.Struct, gc=False):
    """A kind of node: the flavor of a job, or what one role of a job asks for."""

    flavor_type: str | None = None
    flavor_info: FlavorInfo | None = None
    main_container_allocated_resources: AllocatedResources | None = None


class Resource(msgspec.Struct, gc=False):
    """The requested resources of a job. `flavor_detail` is that of public pools, `pool_id` of dedicated ones."""

    policy: str | None = None
    node_count: float | None = None
    pool_id: str | None = None
    flavor_detail: Flavor | None = None
    main_container_allocated_resources: AllocatedResources | None = None


class SchedulePolicy(msgspec.Struct, gc=False):
    """The scheduling of a job: priority 0 to 3."""

    priority: float | None = None


class JobSpec(msgspec.Struct, gc=False):
    """The requested job."""

    resource: Resource | None = None
    schedule_policy: SchedulePolicy | None = None
    tags: list[Tag] | None = None


class JobRole(msgspec.Struct, gc=False):
    """One role of a heterogeneous job."""

    role: str | None = None
    task_resource: Flavor | None = None


class Job(msgspec.Struct, gc=False):
    """A row of ListTrainingJobs; ShowTrainingJobDetails answers the same object."""

    kind: str | None = None
    metadata: JobMetadata | None = None
    status: JobStatus | None = None
    spec: JobSpec | None = None
    tasks: list[JobRole | None] | None = None
    tags: list[Tag] | None = None


class JobsPage(msgspec.Struct, gc=False):
    """ListTrainingJobs. `total` is how many jobs match in all."""

    total: float | None = None
    items: list[Job | None] | None = None


class MetricValues(msgspec.Struct, gc=False):
    """One metric of a task or pod: a value for each interval, oldest first, in percent or a rate. -1 is none."""

    metric: str | None = None
    value: list[str | float | None] | None = None


class Metrics(msgspec.Struct, gc=False):
    """ShowTrainingJobMetrics (a minute between values), or metric-statistic of v1 (`interval` minutes)."""

    metrics: list[MetricValues] | None = None
    interval: float | None = None


class TrainingQuota(msgspec.Struct, gc=False):
    """The limit and the number of a resource. A quota of -1 is none."""

    resource: str | None = None
    quota: float | None = None
    used: float | None = None


class TrainingQuotas(msgspec.Struct, gc=False):
    """ShowTrainingQuotas."""

    quotas: list[TrainingQuota] | None = None


# Pools.


class PoolLabels(msgspec.Struct, gc=False):
    """The labels of a pool."""

    name: str | None = msgspec.field(name="os.modelarts/name", default=None)


class PoolMetadata(msgspec.Struct, gc=False):
    """`name` is the id of a pool; people know it by its label."""

    name: str | None = None
    labels: PoolLabels | None = None


class PoolSpec(msgspec.Struct, gc=False):
    """`type` is `Dedicate` or `Logical`."""

    type: str | None = None


class FlavorCount(msgspec.Struct, gc=False):
    """How many nodes of one flavor."""

    count: float | None = None


NodesOfCondition = list[FlavorCount | None] | FlavorCount | str | float | bool | None
"""The API page and its examples have a list, the SDK one object. Nothing but a list is taken."""


class PoolNodes(msgspec.Struct, gc=False):
    """The nodes of a pool by their condition. A condition that no node is in is left out."""

    available: NodesOfCondition = None
    abnormal: NodesOfCondition = None
    creating: NodesOfCondition = None
    deleting: NodesOfCondition = None


class PoolStatus(msgspec.Struct, gc=False):
    """The state of a pool. `parent` and `root` are ids of pools."""

    phase: str | None = None
    resources: PoolNodes | None = None
    parent: str | None = None
    root: str | None = None


class Pool(msgspec.Struct, gc=False):
    """A row of ListPools."""

    metadata: PoolMetadata | None = None
    spec: PoolSpec | None = None
    status: PoolStatus | None = None


class Pools(msgspec.Struct, gc=False):
    """ListPools."""

    items: list[Pool | None] | msgspec.UnsetType | None = msgspec.UNSET


class PoolAmounts(msgspec.Struct, gc=False):
    """An amount of a pool's resources."""

    value: Amounts | None = None


class PoolTable(msgspec.Struct, gc=False):
    """The capacity and allocation of a pool."""

    capacity: PoolAmounts | None = None
    allocated: PoolAmounts | None = None


class PoolRuntimeMetrics(msgspec.Struct, gc=False):
    """A row of ShowPoolRuntimeMetrics."""

    metadata: PoolMetadata | None = None
    table: PoolTable | None = None


class PoolsRuntimeMetrics(msgspec.Struct, gc=False):
    """ShowPoolRuntimeMetrics."""

    items: list[PoolRuntimeMetrics | None] | msgspec.UnsetType | None = msgspec.UNSET


class WorkloadCounts(msgspec.Struct, gc=False):
    """The workloads of one type by status. A status that is left out has none."""

    type: str | None = None
    status: dict[str, float | None] | None = None


class WorkloadStatistics(msgspec.Struct, gc=False):
    """The workloads of a pool, by type; one that is left out has none."""

    items: list[WorkloadCounts | None] | msgspec.UnsetType | None = msgspec.UNSET


class WorkloadStatisticsAnswer(msgspec.Struct, gc=False):
    """ShowWorkloadStatistics. The table of the API page calls it `statics`, the example `statistics`."""

    statistics: WorkloadStatistics | None = None
    statics: WorkloadStatistics | None = None


class Workload(msgspec.Struct, gc=False, rename="camel"):
    """A row of ListWorkloads. Amounts have units: `2 Cores`, `6.52 GiB`, `8`. A position of -1 is none."""

    uid: str | None = None
    name: str | None = None
    job_uuid: str | None = msgspec.field(name="jobUUID", default=None)
    type: str | None = None
    user_name: str | None = None
    pending_position: float | None = None
    resource_requirement: Amounts | None = None


class WorkloadsPage(msgspec.Struct, gc=False):
    """ListWorkloads. Whether `total` is there is contradicted."""

    total: float | None = None
    items: list[Workload | None] | msgspec.UnsetType | None = msgspec.UNSET


class MonitorName(msgspec.Struct, gc=False, rename="camel"):
    """Which metric of a pool's monitor."""

    metric_name: str | None = None


class MonitorValue(msgspec.Struct, gc=False):
    """One statistic of a point. -1 is "no data"."""

    statistic: str | None = None
    value: str | float | None = None


class MonitorPoint(msgspec.Struct, gc=False):
    """A point of a metric, in `Percent` or `Megabytes`."""

    timestamp: float | None = None
    unit: str | None = None
    statistics: list[MonitorValue] | None = None


class MonitorMetric(msgspec.Struct, gc=False, rename="camel"):
    """One metric of a pool's monitor."""

    metric: MonitorName | None = None
    data_points: list[MonitorPoint] | None = None


class PoolMonitor(msgspec.Struct, gc=False):
    """ShowPoolMonitor."""

    metrics: list[MonitorMetric] | msgspec.UnsetType | None = msgspec.UNSET


class NodeMetadata(msgspec.Struct, gc=False):
    """Which node."""

    name: str | None = None


class NodeSpec(msgspec.Struct, gc=False):
    """The requested node."""

    flavor: str | None = None


class NodeStatus(msgspec.Struct, gc=False, rename="camel"):
    """The state of a node. Resources that are not available are allocated."""

    phase: str | None = None
    private_ip: str | None = None
    resources: Amounts | None = None
    available_resources: Amounts | None = None


class Node(msgspec.Struct, gc=False):
    """A row of ListPoolNodes."""

    metadata: NodeMetadata | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class NodesMetadata(msgspec.Struct, gc=False):
    """The token for the next page; without it there is none."""

    next_page: str | None = msgspec.field(name="continue", default=None)


class NodesPage(msgspec.Struct, gc=False):
    """ListPoolNodes."""

    metadata: NodesMetadata | None = None
    items: list[Node | None] | msgspec.UnsetType | None = msgspec.UNSET


class ScheduledEvent(msgspec.Struct, gc=False, rename="camel"):
    """A row of ListScheduledEvents: work on a node. Times such as `2025-09-15T07:02:30Z`.

    Without `not_before`, it begins at once.
    """

    id: str | None = None
    type: str | None = None
    state: str | None = None
    node_name: str | None = None
    pool_name: str | None = None
    publish_time: str | None = None
    start_time: str | None = None
    not_before: str | None = None


class ScheduledEventsPage(msgspec.Struct, gc=False):
    """ListScheduledEvents. `count` is how many events there are in all."""

    count: float | None = None
    events: list[ScheduledEvent | None] | None = None


# The v1 training API: https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0044.html
# Its ids are numbers (v1.id_text).


class JobV1(msgspec.Struct, gc=False):
    """A row of the v1 list of jobs, about the newest version of each. `status` is a number (v1.status)."""

    job_id: str | int | None = None
    job_name: str | None = None
    version_id: str | int | None = None
    status: str | float | None = None
    create_time: float | None = None
    duration: float | None = None


class JobsPageV1(msgspec.Struct, gc=False):
    """GET /v1/{project}/training-jobs."""

    job_total_count: float | None = None
    jobs: list[JobV1 | None] | None = None


class VersionV1(msgspec.Struct, gc=False):
    """A version of a job. `gpu_num` and `npu_info` are of one of its `worker_server_num` nodes."""

    version_id: str | int | None = None
    status: str | float | None = None
    create_time: float | None = None
    start_time: float | None = None
    duration: float | None = None
    worker_server_num: float | None = None
    gpu_num: float | None = None
    gpu_type: str | None = None
    npu_info: DeviceInfo | None = None
    pool_id: str | None = None
    user_name: str | None = None


class VersionsV1(msgspec.Struct, gc=False):
    """GET .../training-jobs/{id}/versions."""

    versions: list[VersionV1] | None = None


class LogFileNames(msgspec.Struct, gc=False):
    """GET .../versions/{version}/log/file-names: a list of names. Anything else in its place is malformed."""

    log_file_list: list[str | float | None] | str | float | None = None


# AOM's Prometheus API: https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html


class MetricNames(msgspec.Struct, gc=False):
    """ListLabelValuesAomPromGet. `data` is UNSET where the answer has no list."""

    data: list[str] | msgspec.UnsetType | None = msgspec.UNSET


class QueryData(msgspec.Struct, gc=False, rename="camel"):
    """The result of a query: of an instant (`vector`) its samples, of a range (`matrix`) its series.

    There may be 80,000, so they are decoded some hundred at a time. `result` is UNSET where the answer has no list.
    """

    result_type: str | None = None
    result: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class QueryAnswer(msgspec.Struct, gc=False):
    """ListInstantQueryAomPromPost and ListRangeQueryAomPromPost."""

    data: QueryData | None = None


class Labels(msgspec.Struct, gc=False):
    """The labels of the job, the pod and the card of a series (usage.metrics). Empty: the series has no such label."""

    service_id: str = ""
    pod_name: str = ""
    task_id: str = ""
    task_name: str = ""
    pod_id: str = ""
    pod: str = ""
    npu_id: str = ""
    gpu_id: str = ""
    npu_index: str = ""
    gpu_index: str = ""
    gpu_uuid: str = ""
    device_id: str = ""
    card_id: str = ""


class Value(msgspec.Struct, gc=False, array_like=True, forbid_unknown_fields=True):
    """A value and its time, as `[1767595140.123, "97.5"]`: Unix seconds, and the unit of the metric."""

    time: float | None = None
    value: str | float | None = None
    """A text that is kept as it is, NaN among others; some encoders write a number."""


class Sample(msgspec.Struct, gc=False):
    """One sample of a vector. Its time is that of the query."""

    metric: Labels | None = None
    value: Value | None = None


class Series(msgspec.Struct, gc=False):
    """One series of a matrix."""

    metric: Labels | None = None
    values: list[Value | None] | None = None


# Credentials: STS, IAM, and the metadata service of a server. Times are ISO 8601 texts.


class AgencyKeys(msgspec.Struct, gc=False):
    """Temporary keys of an agency."""

    access_key_id: str | None = None
    access_key_secret: str | None = msgspec.field(name="secret_access_key", default=None)
    security_token: str | None = None
    expiration: str | None = None


class AgencyAnswer(msgspec.Struct, gc=False):
    """AssumeAgencyWithOIDC."""

    credentials: AgencyKeys | None = None


class ServerKeys(msgspec.Struct, gc=False):
    """Temporary keys of the agency that a server has."""

    access_key_id: str | None = msgspec.field(name="access", default=None)
    access_key_secret: str | None = msgspec.field(name="secret", default=None)
    security_token: str | None = msgspec.field(name="securitytoken", default=None)
    expiration: str | None = msgspec.field(name="expires_at", default=None)


class ServerAnswer(msgspec.Struct, gc=False):
    """The security key of the metadata service."""

    credential: ServerKeys | None = None


class Project(msgspec.Struct, gc=False):
    """A project of the account."""

    id: str | None = None


class ProjectsAnswer(msgspec.Struct, gc=False):
    """KeystoneListProjects."""

    projects: list[Project | None] | None = None


class IssuedToken(msgspec.Struct, gc=False):
    """IAM's description of a token. The token itself is in a header."""

    expires_at: str | None = None
    project: Project | None = None


class TokenAnswer(msgspec.Struct, gc=False):
    """KeystoneCreateUserTokenByPassword."""

    token: IssuedToken | None = None
