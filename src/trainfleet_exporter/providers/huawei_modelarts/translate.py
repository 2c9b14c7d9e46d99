"""From ModelArts' v2 JSON to the model: pure functions, tolerant of everything but a missing identity.

Shapes: training-job-searches items and training-jobs/{id} (the same object), workspaces, pools, runtime metrics,
workload statistics. Times are Unix milliseconds and 0 is "never"; numbers come as text, too.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListTrainingJobs.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from trainfleet_exporter.quantities import GIB, mapping, mappings, number, quantity, text, whole

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
        created=_seconds(metadata, "create_time"),
        started=_seconds(state, "start_time"),
        finished=_finished(records) if gone else None,
        duration=_duration(state),
        restarts=sum(text(record, "start_type") == "restarted" for record in records) if records else None,
        cpu_cores=None if gone else _requested(resource, nodes, "cpu_core_num"),
        memory_bytes=None if gone else _gib(_requested(resource, nodes, "mem_size")),
        nodes=None if gone else nodes,
        accelerators=() if gone else _accelerators(resource, nodes),
        tags=_tags(row),
    )


def detail(row: Row) -> list[object]:
    """What a job's row says of its tasks, each shown as a pod: their names and roles. Their states it does not tell."""
    metadata = mapping(row, "metadata")
    job_id = text(metadata, "id")
    found: list[object] = [Pod(job_id=job_id, pod_id=task, role=task.rpartition("-")[0] or task) for task in tasks(row)]
    allowed = whole(mapping(metadata, "annotations"), _RETRIES)
    if allowed is not None:
        found.append(JobPods(job_id=job_id, restarts_allowed=allowed))
    return found


def tasks(row: Row) -> list[str]:
    """The task names of a job, each once."""
    names = mapping(row, "status").get("tasks")
    return (
        list(dict.fromkeys(name for name in names if isinstance(name, str) and name)) if isinstance(names, list) else []
    )


def pool(row: Row) -> Pool | None:
    """A row of the pools' list. `available` nodes are healthy ones, not free ones."""
    metadata, state = mapping(row, "metadata"), mapping(row, "status")
    pool_id = text(metadata, "name")
    if not pool_id:
        return None
    resources = mapping(state, "resources")
    counts: list[NodeCount] = []
    for condition in _NODE_CONDITIONS:
        amounts = [whole(flavor, "count") for flavor in mappings(resources, condition)]
        if resources or "resources" in state:  # a key that is absent in a given answer is an empty one
            counts.append(NodeCount(condition, sum(amount for amount in amounts if amount is not None)))
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
        capacity_accelerators=_devices(capacity),
        allocated_cpu_cores=quantity(allocated, "cpu"),
        allocated_memory_bytes=quantity(allocated, "memory"),
        allocated_accelerators=_devices(allocated),
    )


def accelerator_kind(name: str) -> Accelerator | None:
    """What a resource key or a flavor's word names: `huawei.com/ascend-1980`, `nvidia.com/gpu`, `tnt004`, `GPU`."""
    word = name.lower()
    if "ascend" in word or "npu" in word or "snt" in word:
        return "npu"
    # tnt004 is the documented example of a GPU's key (Tesla T4).
    return "gpu" if "gpu" in word or "nvidia" in word or word.startswith("tnt") else None


def pool_workloads(pool_id: str, payload: Row) -> tuple[list[PoolWorkloads], Counter[str]] | None:
    """The workload statistics of a pool; None where the answer holds none at all.

    The documented table calls the key `statics`, the example `statistics`; counts are text or numbers; types and
    states that are left out of a given answer are 0.
    """
    dropped: Counter[str] = Counter()
    given = payload.get("statistics", payload.get("statics"))
    if not isinstance(given, dict) or not isinstance(given.get("items", []), list):
        return None
    counts: dict[tuple[str, str], int] = {(kind, word): 0 for kind in _WORKLOAD_TYPES for word in WORKLOAD_STATUS}
    for item in mappings(given, "items"):
        kind = text(item, "type")
        states = mapping(item, "status")
        for word in {**dict.fromkeys(WORKLOAD_STATUS), **dict.fromkeys(states)}:
            count = whole(states, word) if word in states else 0
            if count is None or not kind:
                dropped["malformed"] += 1
                continue
            counts[(kind, word)] = counts.get((kind, word), 0) + count
    rows = [
        PoolWorkloads(pool_id, kind, WORKLOAD_STATUS.get(word, Status.UNKNOWN), word, count)
        for (kind, word), count in counts.items()
    ]
    return rows, dropped


def _seconds(fields: Row, key: str) -> float | None:
    milliseconds = number(fields, key)
    return milliseconds / 1000 if milliseconds else None


def _duration(state: Row) -> float | None:
    milliseconds = number(state, "duration")
    return None if milliseconds is None else milliseconds / 1000


def _finished(records: Sequence[Row]) -> float | None:
    """The end of the last run (Unix seconds there); jobs have no field for their own end."""
    ends = [end for record in records if (end := number(record, "end_at"))]
    return max(ends, default=None)


def _requested(resource: Row, nodes: float | None, key: str) -> float | None:
    """What all nodes together ask for; the container's share of a node, or the flavor's."""
    each = number(mapping(resource, "main_container_allocated_resources"), key)
    if each is None:
        info = mapping(mapping(resource, "flavor_detail"), "flavor_info")
        each = number(mapping(info, "cpu"), "core_num") if key == "cpu_core_num" else _flavor_memory(info)
    return None if each is None or nodes is None else each * nodes


def _flavor_memory(info: Row) -> float | None:
    memory = mapping(info, "memory")
    return number(memory, "size") if text(memory, "unit").upper() in ("GB", "GIB", "") else None


def _gib(amount: float | None) -> float | None:
    """ModelArts' memory sizes count GiB by habit (unproven)."""
    return None if amount is None else amount * GIB


def _accelerators(resource: Row, nodes: float | None) -> tuple[Accelerators, ...]:
    container = mapping(resource, "main_container_allocated_resources")
    each, model = number(container, "accelerator_num"), text(container, "accelerator_type")
    info = mapping(mapping(resource, "flavor_detail"), "flavor_info")
    kind = accelerator_kind(model)
    if each is None:
        for key, found in (("gpu", "gpu"), ("npu", "npu")):
            units = number(mapping(info, key), "unit_num")
            if units:
                each, model, kind = units, text(mapping(info, key), "product_name"), "gpu" if found == "gpu" else "npu"
    if each is None or nodes is None or (each and kind is None):
        return ()
    return (Accelerators(kind or "gpu", model if each else "", each * nodes),)


def _devices(value: Row) -> tuple[Accelerators, ...]:
    """Every accelerator key of a pool's resources, by its raw name."""
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
