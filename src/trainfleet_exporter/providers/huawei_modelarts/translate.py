"""From ModelArts' v2 JSON to the model: pure functions, tolerant of everything but a missing identity.

Shapes: training-job-searches items and training-jobs/{id} (the same object), workspaces, pools, runtime metrics,
workload statistics. Times are Unix milliseconds and 0 is "never"; numbers come as text, too.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListTrainingJobs.html
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

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
from trainfleet_exporter.providers.states import POOL_STATUS
from trainfleet_exporter.quantities import GIB, mapping, mappings, number, quantity, text, unix_time, whole

Row = Mapping[str, Any]

PHASE_STATUS = {
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


def workspace(row: Row) -> Workspace | None:
    """A row of the workspaces' list."""
    workspace_id = text(row, "id")
    return Workspace(workspace_id, text(row, "name")) if workspace_id else None


def job(row: Row) -> Job | None:
    """A job as lists and details show it; None without an id."""
    metadata, state, spec = mapping(row, "metadata"), mapping(row, "status"), mapping(row, "spec")
    job_id = text(metadata, "id")
    if not job_id:
        return None
    resource = mapping(spec, "resource")
    phase = text(state, "phase")
    status = PHASE_STATUS.get(phase, Status.UNKNOWN)
    holds = None if status is Status.UNKNOWN else status in _HOLDING
    gone = status in FINISHED
    records = list(mappings(state, "running_records"))
    nodes = number(resource, "node_count")
    roles = _roles(row)
    return Job(
        job_id=job_id,
        name=text(metadata, "name"),
        job_type=text(row, "kind"),
        workspace_id=text(metadata, "workspace_id"),
        pool_id=text(resource, "pool_id"),
        user_name=text(metadata, "user_name"),
        resource_type=text(mapping(resource, "flavor_detail"), "flavor_type"),
        payment_type=text(resource, "policy"),
        status=status,
        platform_status=phase,
        reason=text(records[-1], "end_reason") if records else "",
        holds_resources=holds,
        priority=whole(mapping(spec, "schedule_policy"), "priority"),
        created=unix_time(metadata, "create_time", per_second=1000),
        started=unix_time(state, "start_time", per_second=1000),
        finished=_finished(records) if gone else None,
        duration=duration(row),
        # Runs after the first. start_type does not tell them: a run on another node has that of a first one.
        restarts=len(records) - 1 if records else None,
        cpu_cores=None if gone else _total([(role.nodes, role.cpu) for role in roles]),
        memory_bytes=None if gone else _gib(_total([(role.nodes, role.memory_gib) for role in roles])),
        nodes=None if gone else nodes,
        accelerators=() if gone else _accelerators(roles),
        tags=_tags(row),
    )


def duration(row: Row) -> float | None:
    """How long a job has been running, in seconds; 0 is "never"."""
    milliseconds = number(mapping(row, "status"), "duration")
    return milliseconds / 1000 if milliseconds else None


def restarts_allowed(row: Row) -> int | None:
    """How often a job may be restarted after a failure."""
    return whole(mapping(mapping(row, "metadata"), "annotations"), _RETRIES)


def details(job_id: str, tasks: Iterable[str], allowed: int | None) -> list[object]:
    """What a job's row says of its tasks, each shown as a pod: their names and roles, and not their states."""
    found: list[object] = [Pod(job_id=job_id, pod_id=task, role=intern(role_of(task))) for task in tasks]
    if allowed is not None:
        found.append(JobPods(job_id=job_id, restarts_allowed=allowed))
    return found


def tasks(row: Row) -> list[str]:
    """The task names of a job, each once. They are the same few in most jobs, and so are the objects."""
    names = mapping(row, "status").get("tasks")
    if not isinstance(names, list):
        return []
    return list(dict.fromkeys(intern(name) for name in names if isinstance(name, str) and name))


def role_of(task: str) -> str:
    """The role in a task's name: `worker` of `worker-0`."""
    return task.rpartition("-")[0] or task


def pool(row: Row) -> Pool | None:
    """A row of the pools' list. `available` nodes are healthy ones, not free ones."""
    metadata, state = mapping(row, "metadata"), mapping(row, "status")
    pool_id = text(metadata, "name")
    if not pool_id:
        return None
    counts: list[NodeCount] = []
    for condition in _NODE_CONDITIONS if isinstance(state.get("resources"), dict) else ():
        flavors = (
            mapping(state, "resources").get(condition) or []
        )  # a key that is absent in a given answer is an empty one
        if not isinstance(flavors, list):
            continue
        amounts = [whole(flavor, "count") if isinstance(flavor, dict) else None for flavor in flavors]
        known = [amount for amount in amounts if amount is not None]
        if len(known) == len(amounts):
            counts.append(NodeCount(condition, sum(known)))
    parent = text(state, "parent")
    root = text(state, "root")
    return Pool(
        pool_id=pool_id,
        name=text(mapping(metadata, "labels"), "os.modelarts/name"),
        resource_type=text(mapping(row, "spec"), "type"),
        parent_pool_id=parent or (root if root != pool_id else ""),
        status=POOL_STATUS.get(text(state, "phase"), PoolStatus.UNKNOWN),
        nodes=tuple(counts),
    )


def pool_amounts(row: Row) -> PoolAmounts | None:
    """A row of the runtime metrics: what a pool has, and what of it is allocated, in Kubernetes' quantities."""
    pool_id = text(mapping(row, "metadata"), "name")
    if not pool_id:
        return None
    table = mapping(row, "table")
    capacity = mapping(mapping(table, "capacity"), "value")
    allocated = mapping(mapping(table, "allocated"), "value")
    return PoolAmounts(
        pool_id=pool_id,
        capacity_cpu_cores=quantity(capacity, "cpu"),
        capacity_memory_bytes=quantity(capacity, "memory"),
        capacity_accelerators=devices(capacity),
        allocated_cpu_cores=quantity(allocated, "cpu"),
        allocated_memory_bytes=quantity(allocated, "memory"),
        allocated_accelerators=devices(allocated),
    )


def accelerator_kind(name: str) -> Accelerator | None:
    """What a resource key or a flavor's word names: `huawei.com/ascend-1980`, `nvidia.com/gpu`, `tnt004`, `GPU`."""
    word = name.lower()
    if "ascend" in word or "npu" in word or "snt" in word:
        return "npu"
    # tnt004 is the documented example of a GPU's key (Tesla T4); flavors name others in the same way.
    return "gpu" if "gpu" in word or "nvidia" in word or word.startswith(("tnt", "vnt", "pnt")) else None


def pool_workloads(pool_id: str, payload: Row) -> tuple[list[PoolWorkloads], Counter[str]] | None:
    """The workload statistics of a pool; None where the answer holds none at all.

    The documented table calls the key `statics`, the example `statistics`; counts are text or numbers; types and
    states that are left out of a given answer are 0. A count that cannot be read is not shown, and where it is not
    even known of what, neither are the zeros.
    """
    dropped: Counter[str] = Counter()
    given = payload.get("statistics") or payload.get("statics")
    items = given.get("items", "") if isinstance(given, dict) else ""
    if items is None:  # a list without entries, as Go writes it
        items = []
    if not isinstance(items, list):
        return None
    counts: dict[tuple[str, str], int] = {}
    unreadable: set[tuple[str, str]] = set()
    zeros_are_known = True
    seen: set[str] = set()
    for item in items:
        kind, states = (text(item, "type"), item.get("status")) if isinstance(item, dict) else ("", None)
        if not kind or not isinstance(states, dict):
            dropped["malformed"] += 1
            zeros_are_known = False
            continue
        if kind in seen:
            dropped["duplicate"] += 1
            continue
        seen.add(kind)
        for word in {**dict.fromkeys(WORKLOAD_STATUS), **dict.fromkeys(states)}:
            count = whole(states, word) if word in states else 0
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


def _finished(records: Sequence[Row]) -> float | None:
    """The end of the last run (Unix seconds there); jobs have no field for their own end."""
    ends = [end for record in records if (end := unix_time(record, "end_at")) is not None]
    return max(ends, default=None)


@dataclass(frozen=True, slots=True)
class _Role:
    """What each of a number of nodes asks for."""

    nodes: float | None
    cpu: float | None
    memory_gib: float | None
    devices: Accelerators | None


def _roles(row: Row) -> list[_Role]:
    """The roles of a job. Heterogeneous jobs list theirs; how many nodes each has is told by the names of its tasks."""
    listed = list(mappings(row, "tasks"))
    if not listed:
        resource = mapping(mapping(row, "spec"), "resource")
        return [_role(resource, mapping(resource, "flavor_detail"), number(resource, "node_count"))]
    counts = Counter(role_of(task) for task in tasks(row))
    found = []
    for item in listed:
        resource = mapping(item, "task_resource")
        found.append(_role(resource, resource, counts.get(text(item, "role"))))
    return found


def _role(resource: Row, flavor: Row, nodes: float | None) -> _Role:
    container = mapping(resource, "main_container_allocated_resources")
    info = mapping(flavor, "flavor_info")
    cpu, memory = number(container, "cpu_core_num"), number(container, "mem_size")
    each, model = number(container, "accelerator_num"), text(container, "accelerator_type")
    kind = accelerator_kind(model) or accelerator_kind(text(flavor, "flavor_type"))
    devices = (
        Accelerators(kind or "gpu", model if each else "", each) if each is not None and (kind or not each) else None
    )
    if each is None:
        devices = Accelerators("gpu", "", 0.0) if text(flavor, "flavor_type").upper() == "CPU" else None
        for key in ("gpu", "npu"):
            units = number(mapping(info, key), "unit_num")
            if units:
                devices = Accelerators(
                    "gpu" if key == "gpu" else "npu", text(mapping(info, key), "product_name"), units
                )
    return _Role(
        nodes=nodes,
        cpu=cpu if cpu is not None else number(mapping(info, "cpu"), "core_num"),
        memory_gib=memory if memory is not None else _flavor_memory(info),
        devices=devices,
    )


def _total(amounts: Sequence[tuple[float | None, float | None]]) -> float | None:
    """The sum over roles of nodes times what each has; None where it is not known of every role."""
    known = [nodes * each for nodes, each in amounts if nodes is not None and each is not None]
    return math.fsum(known) if known and len(known) == len(amounts) else None


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


def _flavor_memory(info: Row) -> float | None:
    memory = mapping(info, "memory")
    return number(memory, "size") if text(memory, "unit").upper() in ("GB", "GIB", "") else None


def _gib(amount: float | None) -> float | None:
    """ModelArts' memory sizes count GiB by habit (unproven)."""
    return None if amount is None else amount * GIB


def devices(value: Row) -> tuple[Accelerators, ...]:
    """Every accelerator key of the resources of a pool or node, by its raw name."""
    found = []
    for key in value:
        kind, count = accelerator_kind(key), quantity(value, key)
        if kind is not None and count is not None:
            found.append(Accelerators(kind, key, count))
    return tuple(found)


def _tags(row: Row) -> tuple[tuple[str, str], ...]:
    annotations = mapping(mapping(row, "metadata"), "annotations")
    found = {key: value for key, value in annotations.items() if isinstance(value, str)}
    for source in (row, mapping(row, "metadata"), mapping(row, "spec")):
        found.update(_tag_list(mappings(source, "tags")))
    return tuple(found.items())


def _tag_list(tags: Iterable[Row]) -> dict[str, str]:
    return {text(tag, "key"): text(tag, "value") for tag in tags if text(tag, "key")}
