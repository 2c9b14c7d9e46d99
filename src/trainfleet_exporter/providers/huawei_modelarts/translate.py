"""From the answers of ModelArts' v2 API to the model: pure functions. What has no id becomes None.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListTrainingJobs.html
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from sys import intern

import msgspec

from trainfleet_exporter.model import (
    FINISHED,
    Accelerator,
    Accelerators,
    Job,
    JobPods,
    NodeCondition,
    NodeCount,
    Pod,
    Pool,
    PoolAmounts,
    PoolStatus,
    PoolWorkloads,
    Status,
    Workspace,
)
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.values import POOL_STATUS, amount, gibibytes, number, quantity, unix_time, whole
from trainfleet_exporter.transport.json_fields import unusable

JOB_STATUS = {
    "Creating": Status.CREATING,
    "Pending": Status.QUEUED,
    "Running": Status.RUNNING,
    "Terminating": Status.STOPPING,
    "Completed": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Abnormal": Status.FAILED,
    "Terminated": Status.STOPPED,
}
LIVE_PHASES = ("Creating", "Pending", "Running", "Terminating")
TERMINAL_PHASES = ("Completed", "Failed", "Abnormal", "Terminated")
_HOLDING = frozenset({Status.STARTING, Status.RUNNING, Status.RESTARTING, Status.STOPPING})

WORKLOAD_STATUS = {
    "Queue": Status.QUEUED,
    "Pending": Status.STARTING,
    "Creating": Status.CREATING,
    "Running": Status.RUNNING,
    "Terminating": Status.STOPPING,
    "Completed": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Abnormal": Status.FAILED,
    "Terminated": Status.STOPPED,
}
_WORKLOAD_TYPES = ("train", "infer", "notebook")
_NODE_CONDITIONS: tuple[NodeCondition, ...] = ("available", "abnormal", "creating", "deleting")
_RETRIES = "fault-tolerance/job-retry-num"


class JobTasks(msgspec.Struct, frozen=True, gc=False):
    """The tasks in a job's row: their names, and how often the job may be restarted after a failure."""

    names: tuple[str, ...] = ()
    restarts_allowed: int | None = None


_NO_STATUS, _NO_SPEC, _NO_RESOURCE = payloads.JobStatus(), payloads.JobSpec(), payloads.Resource()
_NO_FLAVOR, _NOT_ALLOCATED = payloads.Flavor(), payloads.AllocatedResources()
_NO_POOL_STATUS = payloads.PoolStatus()


def workspace(row: payloads.Workspace) -> Workspace | None:
    """A row of the workspaces' list."""
    return Workspace(row.id, row.name or "") if row.id else None


def job_status(phase: str) -> Status:
    """The common word for a job's phase."""
    return JOB_STATUS.get(phase, Status.UNKNOWN)


def job(row: payloads.Job, workspace_id: str = "") -> Job | None:
    """A job as lists and details show it; in this workspace, unless it names one."""
    metadata = row.metadata
    if metadata is None or not metadata.id:
        return None
    state, spec = row.status or _NO_STATUS, row.spec or _NO_SPEC
    resource = spec.resource or _NO_RESOURCE
    phase = state.phase or ""
    status = job_status(phase)
    gone = status in FINISHED
    records = state.running_records
    roles = [] if gone else list(_roles(row))
    memory = _total((role.nodes, role.memory_gib) for role in roles)
    return Job(
        job_id=metadata.id,
        name=metadata.name or "",
        job_type=row.kind or "",
        workspace_id=metadata.workspace_id or workspace_id,
        pool_id=resource.pool_id or "",
        user_name=metadata.user_name or "",
        resource_type=(resource.flavor_detail and resource.flavor_detail.flavor_type) or "",
        payment_type=resource.policy or "",
        status=status,
        platform_status=phase,
        reason=(last.end_reason or "") if records and (last := records[-1]) is not None else "",
        holds_resources=None if status is Status.UNKNOWN else status in _HOLDING,
        priority=whole(spec.schedule_policy.priority) if spec.schedule_policy else None,
        created=unix_time(metadata.create_time, per_second=1000),
        started=unix_time(state.start_time, per_second=1000),
        finished=last_end(records) if gone else None,
        duration=duration(state),
        # Runs after the first. start_type does not mark them: a run on another node has that of a first one.
        restarts=len(records) - 1 if records else None,
        cpu_cores=_total((role.nodes, role.cpu) for role in roles),
        memory_bytes=gibibytes(memory),  # GiB by habit (unproven)
        nodes=None if gone else amount(resource.node_count),
        accelerators=_accelerators(roles),
        tags=_tags(row, metadata, spec),
    )


def duration(state: payloads.JobStatus) -> float | None:
    """Return the seconds that a job has been running; 0 is "never"."""
    milliseconds = amount(state.duration)
    return milliseconds / 1000 if milliseconds else None


def last_end(records: Iterable[payloads.RunningRecord | None] | None) -> float | None:
    """The end of the last run (Unix seconds); jobs have no field for their own end."""
    ends = [end for record in records or () if record is not None and (end := unix_time(record.end_at)) is not None]
    return max(ends, default=None)


def tasks(row: payloads.Job) -> JobTasks:
    """The tasks of a job."""
    annotations = (row.metadata and row.metadata.annotations) or {}
    return JobTasks(_task_names(row), whole(number(annotations.get(_RETRIES))))


def _task_names(row: payloads.Job) -> tuple[str, ...]:
    """Each once. They are the same few in most jobs, and so are the objects."""
    names = (row.status and row.status.tasks) or ()
    return tuple(dict.fromkeys(intern(name) for name in names if isinstance(name, str) and name))


def details(job_id: str, tasks: JobTasks) -> list[Pod | JobPods]:
    """A job's tasks, each as a pod: their names and roles, and not their states. And how it may be restarted."""
    found: list[Pod | JobPods] = [Pod(job_id=job_id, pod_id=task, role=intern(role_of(task))) for task in tasks.names]
    if tasks.restarts_allowed is not None:
        found.append(JobPods(job_id=job_id, restarts_allowed=tasks.restarts_allowed))
    return found


def role_of(task: str) -> str:
    """The role in a task's name: `worker` of `worker-0`."""
    return task.rpartition("-")[0] or task


def pool(row: payloads.Pool) -> Pool | None:
    """A row of the pools' list."""
    metadata, state = row.metadata, row.status or _NO_POOL_STATUS
    if metadata is None or not metadata.name:
        return None
    root = state.root or ""
    return Pool(
        pool_id=metadata.name,
        name=(metadata.labels and metadata.labels.name) or "",
        resource_type=(row.spec and row.spec.type) or "",
        parent_pool_id=state.parent or (root if root != metadata.name else ""),
        status=POOL_STATUS.get(state.phase or "", PoolStatus.UNKNOWN),
        nodes=tuple(_node_counts(state.resources)) if state.resources else (),
    )


def _node_counts(nodes: payloads.PoolNodes) -> Iterator[NodeCount]:
    """The conditions of which every flavor's count can be read. `available` nodes are healthy ones, not free ones."""
    for condition in _NODE_CONDITIONS:
        flavors = getattr(nodes, condition) or []  # a condition that is absent in a given answer has no nodes
        if isinstance(flavors, list):
            counts = [None if flavor is None else whole(flavor.count) for flavor in flavors]
            known = [count for count in counts if count is not None]
            if len(known) == len(counts):
                yield NodeCount(condition, sum(known))


def pool_amounts(row: payloads.PoolRuntimeMetrics) -> PoolAmounts | None:
    """A row of the runtime metrics: what a pool has, and what of it is allocated."""
    if row.metadata is None or not row.metadata.name:
        return None
    table = row.table or payloads.PoolTable()
    capacity = (table.capacity and table.capacity.value) or {}
    allocated = (table.allocated and table.allocated.value) or {}
    return PoolAmounts(
        pool_id=row.metadata.name,
        capacity_cpu_cores=quantity(capacity.get("cpu")),
        capacity_memory_bytes=quantity(capacity.get("memory")),
        capacity_accelerators=devices(capacity),
        allocated_cpu_cores=quantity(allocated.get("cpu")),
        allocated_memory_bytes=quantity(allocated.get("memory")),
        allocated_accelerators=devices(allocated),
    )


def accelerator_kind(name: str) -> Accelerator | None:
    """Return the kind that a resource key or a flavor's word means: `huawei.com/ascend-1980`, `nvidia.com/gpu`,
    `tnt004`, `GPU`."""
    word = name.lower()
    if "ascend" in word or "npu" in word or "snt" in word:
        return "npu"
    # tnt004 is the documented example of a GPU's key (Tesla T4); flavors name others in the same way.
    return "gpu" if "gpu" in word or "nvidia" in word or word.startswith(("tnt", "vnt", "pnt")) else None


def devices(amounts: payloads.Amounts) -> tuple[Accelerators, ...]:
    """Every accelerator key of the resources of a pool or node, by its raw name."""
    return tuple(
        Accelerators(kind, key, count)
        for key, given in amounts.items()
        if (kind := accelerator_kind(key)) is not None and (count := quantity(given)) is not None
    )


def pool_workloads(
    pool_id: str, answer: payloads.WorkloadStatisticsAnswer
) -> tuple[list[PoolWorkloads], Counter[str]] | None:
    """The workload statistics of a pool, and what was dropped, by reason; None if the answer holds none at all.

    Types and states that are left out of a given answer are 0. A count that cannot be read is not shown, and where it
    is not even known of what, neither are the zeros.
    """
    given = answer.statistics or answer.statics
    if given is None or isinstance(given.items, msgspec.UnsetType):
        return None
    dropped: Counter[str] = Counter()
    counts: dict[tuple[str, str], int] = {}
    unreadable: set[tuple[str, str]] = set()
    zeros_are_known = True
    seen: set[str] = set()
    for item in given.items or ():
        if item is None or not item.type or item.status is None:
            dropped["malformed"] += 1
            zeros_are_known = False
            continue
        kind = item.type
        if kind in seen:
            dropped["duplicate"] += 1
            continue
        seen.add(kind)
        for word, value in (dict.fromkeys(WORKLOAD_STATUS, 0.0) | item.status).items():
            count = whole(value)
            if count is None:
                dropped["malformed"] += 1
                unreadable.add((kind, word))
            else:
                counts[kind, word] = count
    if zeros_are_known:
        counts = {(kind, word): 0 for kind in _WORKLOAD_TYPES for word in WORKLOAD_STATUS} | counts
    rows = [
        PoolWorkloads(pool_id, kind, WORKLOAD_STATUS.get(word, Status.UNKNOWN), word, count)
        for (kind, word), count in counts.items()
        if (kind, word) not in unreadable
    ]
    return rows, dropped


class _Role(msgspec.Struct, gc=False):
    """The requested resources of each of several nodes."""

    nodes: float | None
    cpu: float | None
    memory_gib: float | None
    devices: Accelerators | None


_UNREADABLE_ROLE = _Role(None, None, None, None)


def _roles(row: payloads.Job) -> Iterator[_Role]:
    """The roles of a job. Heterogeneous jobs list theirs; the names of its tasks say how many nodes each has.

    An unreadable role has an unknown number of nodes, and if the name of a task is unreadable, so has every role.
    """
    if not row.tasks:
        resource = (row.spec and row.spec.resource) or _NO_RESOURCE
        container = resource.main_container_allocated_resources or _NOT_ALLOCATED
        yield _role(container, resource.flavor_detail or _NO_FLAVOR, amount(resource.node_count))
        return
    is_complete = None not in ((row.status and row.status.tasks) or ())
    counts = Counter(role_of(task) for task in _task_names(row)) if is_complete else Counter[str]()
    for role in row.tasks:
        if role is None:
            unusable({}, "malformed")
            yield _UNREADABLE_ROLE
            continue
        flavor = role.task_resource or _NO_FLAVOR
        container = flavor.main_container_allocated_resources or _NOT_ALLOCATED
        yield _role(container, flavor, counts.get(role.role or ""))


def _role(container: payloads.AllocatedResources, flavor: payloads.Flavor, nodes: float | None) -> _Role:
    info = flavor.flavor_info
    cpu, memory = amount(container.cpu_core_num), amount(container.mem_size)
    if cpu is None and info is not None and info.cpu is not None:
        cpu = amount(info.cpu.core_num)
    if memory is None and info is not None and info.memory is not None:
        known_unit = (info.memory.unit or "").upper() in {"GB", "GIB", ""}
        memory = amount(info.memory.size) if known_unit else None
    return _Role(nodes, cpu, memory, _devices_of(container, flavor))


def _devices_of(container: payloads.AllocatedResources, flavor: payloads.Flavor) -> Accelerators | None:
    """The accelerators of one node; None if the answer does not say."""
    each = amount(container.accelerator_num)
    flavor_type = flavor.flavor_type or ""
    if each is not None:
        model = container.accelerator_type or ""
        kind = accelerator_kind(model) or accelerator_kind(flavor_type)
        return Accelerators(kind or "gpu", model if each else "", each) if kind or not each else None
    if (info := flavor.flavor_info) is not None:
        if info.npu is not None and (units := amount(info.npu.unit_num)):
            return Accelerators("npu", info.npu.product_name or "", units)
        if info.gpu is not None and (units := amount(info.gpu.unit_num)):
            return Accelerators("gpu", info.gpu.product_name or "", units)
    return Accelerators("gpu", "", 0.0) if flavor_type.upper() == "CPU" else None


def _total(amounts: Iterable[tuple[float | None, float | None]]) -> float | None:
    """The sum over roles of nodes times what each has; None if it is not known of every role."""
    found = []
    for nodes, each in amounts:
        if nodes is None or each is None:
            return None
        found.append(nodes * each)
    return math.fsum(found) if found else None


def _accelerators(roles: Sequence[_Role]) -> tuple[Accelerators, ...]:
    """By kind and model, over all roles; none where it is not known of every role."""
    counts: dict[tuple[Accelerator, str], float] = {}
    for role in roles:
        if role.nodes is None or role.devices is None:
            return ()
        key = (role.devices.kind, role.devices.model)
        counts[key] = counts.get(key, 0.0) + role.nodes * role.devices.count
    real = {key: count for key, count in counts.items() if count} or counts
    return tuple(Accelerators(kind, model, count) for (kind, model), count in real.items())


def _tags(row: payloads.Job, metadata: payloads.JobMetadata, spec: payloads.JobSpec) -> tuple[tuple[str, str], ...]:
    found = {key: value for key, value in (metadata.annotations or {}).items() if isinstance(value, str)}
    for tags in (row.tags, metadata.tags, spec.tags):
        found.update((tag.key, tag.value or "") for tag in tags or () if tag.key)
    return tuple(found.items())
