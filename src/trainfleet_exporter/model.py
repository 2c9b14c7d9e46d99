"""The vocabulary shared by all clouds: what a training fleet consists of, in base units.

Times are Unix seconds, durations seconds, sizes bytes, ratios 0 to 1, rates bytes per second. `None` means that the
platform did not say; it is never the same as 0. Texts that the platform did not give are empty, because an absent
Prometheus label is an empty one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

import msgspec


class Status(StrEnum):
    """State of a job or pod, one vocabulary over all clouds."""

    CREATING = "creating"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED, Status.STOPPED})


class PoolStatus(StrEnum):
    """State of a pool or node."""

    READY = "ready"
    CREATING = "creating"
    ABNORMAL = "abnormal"
    DELETING = "deleting"
    UNKNOWN = "unknown"


Accelerator = Literal["gpu", "npu"]
NodeCondition = Literal["available", "abnormal", "creating", "deleting"]
Phase = Literal["queued", "preparing", "running", "recovering", "checking", "finishing"]
"""While `queued`, and only then, a job holds nothing: rules and reports rely on it. `finishing`: it uploads results."""
Cause = Literal["accelerator", "node", "process", "hang", "degraded", "preempted", "other"]


class Accelerators(msgspec.Struct, frozen=True, gc=False):
    """A number of accelerators of one kind and model; `model` is the platform's own code for it."""

    kind: Accelerator
    model: str
    count: float


class ProviderFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a provider that need no call."""

    platform: str
    region: str
    project_id: str = ""


class ProviderQuota(msgspec.Struct, frozen=True, gc=False):
    """How many training jobs a provider's project may have, and how many count against that."""

    limit: int | None
    used: int | None


class Workspace(msgspec.Struct, frozen=True, gc=False):
    """A workspace: a team's share of a cloud account."""

    workspace_id: str
    name: str


class JobCount(msgspec.Struct, frozen=True, gc=False):
    """How many jobs of a workspace are in one state."""

    workspace_id: str
    status: Status
    platform_status: str
    count: int


class FinishedCount(msgspec.Struct, frozen=True, gc=False):
    """How many jobs of a workspace were seen to finish in one state since the start (a counter)."""

    workspace_id: str
    status: Status
    count: int


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A training job."""

    job_id: str
    name: str = ""
    job_type: str = ""
    workspace_id: str = ""
    pool_id: str = ""
    user_id: str = ""
    user_name: str = ""
    resource_type: str = ""
    payment_type: str = ""
    status: Status = Status.UNKNOWN
    platform_status: str = ""
    reason: str = ""
    holds_resources: bool | None = None
    priority: int | None = None
    created: float | None = None
    submitted: float | None = None
    started: float | None = None
    finished: float | None = None
    duration: float | None = None
    restarts: int | None = None
    cpu_cores: float | None = None
    memory_bytes: float | None = None
    nodes: float | None = None
    accelerators: tuple[Accelerators, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()


class QueuePlace(msgspec.Struct, frozen=True, gc=False):
    """The place of a job in the queue of its pool, 1 is next; and the platform's code for why it waits."""

    job_id: str
    position: int | None
    reason: str = ""


class PhaseTime(msgspec.Struct, frozen=True, gc=False):
    """Seconds that a job has spent on one phase."""

    phase: Phase
    seconds: float


class JobTime(msgspec.Struct, frozen=True, gc=False):
    """The time of a job by phase up to now. A phase that has not begun is left out.

    `unheld` are the seconds of phases but `queued` in which it held nothing: the launches of instances that are over.
    """

    job_id: str
    phases: tuple[PhaseTime, ...]
    unheld: float = 0.0


class FaultCount(msgspec.Struct, frozen=True, gc=False):
    """How many faults of one cause; `platform_cause` is the platform's own code for it."""

    cause: Cause
    platform_cause: str
    count: int


class RecoveryCount(msgspec.Struct, frozen=True, gc=False):
    """How many recoveries of one strategy ended in one result."""

    strategy: str
    result: str
    count: int


class JobFaults(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The faults and ended recoveries of a job that are dated after the exporter's start (counters)."""

    job_id: str
    faults: tuple[FaultCount, ...] = ()
    recoveries: tuple[RecoveryCount, ...] = ()
    recovery_seconds: float = 0.0


class JobEnd(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that has ended and holds nothing any more. Faults and recoveries are those of its whole life."""

    job: Job
    """With the accelerators that it held."""
    seen: float
    """When a poll found that it had ended (Unix seconds)."""
    phases: tuple[PhaseTime, ...] | None = None
    held: float | None = None
    lost: float | None = None
    """Seconds with its accelerators, and those of them in which it prepared, checked, recovered or finished."""
    faults: tuple[FaultCount, ...] | None = None
    recoveries: int | None = None
    recovery_seconds: float | None = None


class PodExit(msgspec.Struct, frozen=True, gc=False):
    """The exit code of a pod (or task) that has ended."""

    job_id: str
    pod_id: str
    exit_code: int


class NodeFaults(msgspec.Struct, frozen=True, gc=False):
    """The faults of a node, over all jobs, dated after the exporter's start (a counter)."""

    pool_id: str
    node_name: str
    faults: tuple[FaultCount, ...]


class ClassicHistogram(msgspec.Struct, frozen=True, gc=False):
    """A classic histogram: upper bounds, how many observations are at most as large as each, their number and sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    count: int
    sum: float


class PoolWaits(msgspec.Struct, frozen=True, gc=False):
    """How long the jobs of a pool waited and prepared before they first ran (seconds), since the exporter's start.

    None if no job was observed.
    """

    pool_id: str
    queued: ClassicHistogram | None
    prepared: ClassicHistogram | None


class RoleCount(msgspec.Struct, frozen=True, gc=False):
    """How many pods of a role."""

    role: str
    count: int


class RoleStatusCount(msgspec.Struct, frozen=True, gc=False):
    """How many pods of a role are in one state."""

    role: str
    status: Status
    count: int


class JobPods(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parts of a job that only its detail has: its pods by role, wanted, present and replaced."""

    job_id: str
    restarts_allowed: int | None = None
    requested: tuple[RoleCount, ...] = ()
    replaced: tuple[RoleCount, ...] = ()
    present: tuple[RoleStatusCount, ...] = ()


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod (or task) of a job, in its present incarnation."""

    job_id: str
    pod_id: str
    role: str = ""
    node_name: str = ""
    pod_ip: str = ""
    status: Status | None = None
    evicted: bool | None = None
    """Whether it or an earlier incarnation was evicted, if the platform still reports that."""
    evictions: int | None = None
    """How many of its incarnations were evicted, the present one included."""
    created: float | None = None
    started: float | None = None
    finished: float | None = None


class NodeCount(msgspec.Struct, frozen=True, gc=False):
    """How many nodes of a pool are in one condition."""

    status: NodeCondition
    count: int


class Pool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pool of nodes that jobs are placed on (a cloud may call it a quota)."""

    pool_id: str
    name: str = ""
    resource_type: str = ""
    parent_pool_id: str = ""
    status: PoolStatus = PoolStatus.UNKNOWN
    nodes: tuple[NodeCount, ...] = ()
    allocated_nodes: int | None = None
    empty_nodes: int | None = None


class PoolAmounts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The capacity of a pool, and the share that placed workloads hold. A parent's figures include its children's."""

    pool_id: str
    capacity_cpu_cores: float | None = None
    capacity_memory_bytes: float | None = None
    capacity_accelerators: tuple[Accelerators, ...] = ()
    allocated_cpu_cores: float | None = None
    allocated_memory_bytes: float | None = None
    allocated_accelerators: tuple[Accelerators, ...] = ()


class PoolQueue(msgspec.Struct, frozen=True, gc=False):
    """The accelerators that the workloads in a pool's queue ask for: submitted and not placed."""

    pool_id: str
    accelerators: tuple[Accelerators, ...]


class PoolUser(msgspec.Struct, frozen=True, gc=False):
    """The accelerators that workloads of one type of one user hold in a pool itself, without its nested pools."""

    pool_id: str
    user_id: str
    user_name: str
    workload_type: str
    """`training`, `notebook` or `service`, another word of the platform, or empty if that is not known."""
    accelerators: tuple[Accelerators, ...]


class PoolWorkloads(msgspec.Struct, frozen=True, gc=False):
    """How many workloads of one type are in one state in a pool."""

    pool_id: str
    workload_type: str
    status: Status
    platform_status: str
    count: int


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node of a pool: its capacity, and the resources that placed workloads requested."""

    pool_id: str
    node_name: str
    node_type: str = ""
    node_ip: str = ""
    status: PoolStatus = PoolStatus.UNKNOWN
    reason: str = ""
    """The platform's code for why it is not ready, or takes no workloads."""
    expires: float | None = None
    """When its lease ends."""
    capacity_cpu_cores: float | None = None
    capacity_memory_bytes: float | None = None
    capacity_accelerators: tuple[Accelerators, ...] = ()
    allocated_cpu_cores: float | None = None
    allocated_memory_bytes: float | None = None
    allocated_accelerators: tuple[Accelerators, ...] = ()


class MaintenanceState(StrEnum):
    """The progress of announced maintenance of a node. Ended or cancelled maintenance is not shown."""

    INQUIRING = "inquiring"
    """It waits until a user agrees to it."""
    SCHEDULED = "scheduled"
    EXECUTING = "executing"
    UNKNOWN = "unknown"


class NodeMaintenance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Work on a node that the platform has announced and that has not ended; `kind` is the platform's code for it."""

    pool_id: str
    node_name: str
    event_id: str
    kind: str = ""
    state: MaintenanceState = MaintenanceState.UNKNOWN
    begins: float | None = None


class UsageValues(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Readings at one level. Ratios are 0 to 1, rates bytes (or floating-point operations) per second; `accelerator` is
    the kind that its ratios are of."""

    cpu: float | None = None
    memory: float | None = None
    accelerator: Accelerator = "gpu"
    accelerator_utilization: float | None = None
    accelerator_memory: float | None = None
    network_receive: float | None = None
    network_transmit: float | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    cpu_cores: float | None = None
    memory_bytes: float | None = None
    accelerator_memory_bytes: float | None = None
    accelerator_memory_capacity_bytes: float | None = None
    accelerator_power_watts: float | None = None
    sm_utilization: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    tensor_flops: float | None = None
    nvlink_receive: float | None = None
    nvlink_transmit: float | None = None
    pcie_receive: float | None = None
    pcie_transmit: float | None = None


class PodUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of one pod."""

    job_id: str
    pod_id: str
    values: UsageValues


class JobUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of a whole job."""

    job_id: str
    values: UsageValues


class UsageSource(msgspec.Struct, frozen=True, gc=False):
    """The source that served the usage of a job, and the Unix time of its newest reading.

    It is separate from the readings: a bulk source publishes each metric of all jobs as a separate part, but the page
    may have these series only once.
    """

    job_id: str
    source: str
    timestamp: float | None


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The usage of all nodes of a pool. Disks are those of the nodes; their utilization is 0 to 1."""

    pool_id: str
    values: UsageValues
    disk_utilization: float | None = None
    disk_capacity_bytes: float | None = None
    disk_available_bytes: float | None = None


class DeviceUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of one accelerator of a pod. `device` is its number or name, as the platform identifies cards."""

    job_id: str
    pod_id: str
    device: str
    accelerator: Accelerator
    utilization: float | None = None
    memory_utilization: float | None = None
    power_watts: float | None = None
    sm_utilization: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    tensor_flops: float | None = None
    nvlink_receive: float | None = None
    nvlink_transmit: float | None = None
    pcie_receive: float | None = None
    pcie_transmit: float | None = None
    healthy: float | None = None
    """1, or 0 of a device that the platform calls unhealthy."""
    temperature_celsius: float | None = None


class Subject(msgspec.Struct, gc=False, eq=False):
    """The subject of readings (a job, a pod, one of its devices, a pool): one constant object while it exists.

    A bulk source reports the same subjects in every response, one response for each metric. Because each subject is one
    object, a reading is as small as a number, and its labels are written only once. It belongs to one provider and one
    class of the model. There may be hundreds of thousands, so the garbage collector does not visit them.
    """

    keys: tuple[str, ...]
    """The values of the labels that name it, of whose job (or pool) it is first."""
    labels: str = ""
    """All of its labels in the form of the page; empty until they are first written (exposition.Renderer)."""


class Readings(msgspec.Struct, frozen=True):
    """One reading of many things at once, as bulk sources report it: a column of a table.

    It shows the same as an object of the class `of` for each subject, with `field` alone given.
    """

    of: type
    """JobUsage, PodUsage, DeviceUsage or PoolUsage."""
    field: str
    """The path of the value from an object of that class: `values.cpu`, or `utilization` of a device."""
    subjects: Sequence[Subject]
    values: Sequence[float]
    """In the order of the subjects, each of which has one."""
    accelerator: Accelerator = "gpu"
    """The kind that ratios of accelerators are of."""
