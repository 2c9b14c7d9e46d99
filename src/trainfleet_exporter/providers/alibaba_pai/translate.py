"""From PAI's JSON to the model: pure functions, tolerant of everything but a missing identity.

Shapes: DLC ListJobs (JobItem), GetJob; AIWorkSpace ListWorkspaces. The same
field comes in different types from list and detail: RequestGPU "8" and 8.0, RequestMemory "512Gi" and 512.0,
RestartTimes "1" and "1/10". A function answers None for an object that has no id: it loses itself only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainfleet_exporter.model import (
    FINISHED,
    Accelerators,
    Job,
    JobPods,
    Pod,
    RoleCount,
    RoleStatusCount,
    Status,
    Workspace,
)
from trainfleet_exporter.providers.alibaba_pai.translate_pools import gpus
from trainfleet_exporter.quantities import (
    GIB,
    mapping,
    mappings,
    number,
    parse_quantity,
    quantity,
    text,
    utc_time,
    whole,
)

Row = Mapping[str, Any]

JOB_STATUS = {
    "Created": Status.CREATING,
    "Creating": Status.CREATING,
    "Queuing": Status.QUEUED,
    "Bidding": Status.QUEUED,
    "Dequeued": Status.STARTING,
    "EnvPreparing": Status.STARTING,
    "SanityChecking": Status.STARTING,
    "Running": Status.RUNNING,
    "Restarting": Status.RESTARTING,
    "Stopping": Status.STOPPING,
    "SucceededReserving": Status.SUCCEEDED,
    "FailedReserving": Status.FAILED,
    "Succeeded": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Stopped": Status.STOPPED,
}
# In the order of a job's life, so that a job which moves on during a sweep is met again rather than missed. The
# older words Created and Dequeued are understood in answers and not asked for: ListJobs no longer documents them.
LIVE_STATUSES = (
    "Creating",
    "Queuing",
    "Bidding",
    "EnvPreparing",
    "SanityChecking",
    "Running",
    "Restarting",
    "Stopping",
    "SucceededReserving",
    "FailedReserving",
)
TERMINAL_STATUSES = ("Succeeded", "Failed", "Stopped")
_RESERVING = frozenset({"SucceededReserving", "FailedReserving"})
_HOLDING = frozenset({Status.STARTING, Status.RUNNING, Status.RESTARTING, Status.STOPPING})
END_TIMES = {
    Status.SUCCEEDED: "GmtSuccessedTime",
    Status.FAILED: "GmtFailedTime",
    Status.STOPPED: "GmtStoppedTime",
}
"""Where a row has the end of a job that ended so. Those of earlier attempts may be there beside it."""

POD_STATUS = {
    "Pending": Status.QUEUED,
    "Running": Status.RUNNING,
    "Succeeded": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Stopped": Status.STOPPED,
}
_POD_STATUSES = (*POD_STATUS.values(), Status.UNKNOWN)
_EVICTED = {"Normal": False, "Evicted": True, "Preempted": True}
"""Whether a pod with this SubStatus was evicted; any other word does not say."""


def workspace(row: Row) -> Workspace | None:
    """A row of ListWorkspaces."""
    workspace_id = text(row, "WorkspaceId")
    return Workspace(workspace_id, text(row, "WorkspaceName")) if workspace_id else None


def job_status(platform_status: str, sub_status: str = "") -> Status:
    """The common word for a DLC status. SubStatus refines Running only."""
    if platform_status == "Running" and sub_status == "Restarting":
        return Status.RESTARTING
    return JOB_STATUS.get(platform_status, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class EcsSpec:
    """What one machine of a type has."""

    cpu_cores: float | None
    memory_bytes: float | None
    gpus: float | None
    gpu_model: str


def ecs_spec(row: Row) -> EcsSpec:
    """A row of ListEcsSpecs. Its Memory counts GiB by the documented sample (unproven)."""
    memory = number(row, "Memory")
    return EcsSpec(
        cpu_cores=number(row, "Cpu"),
        memory_bytes=None if memory is None else memory * GIB,
        gpus=number(row, "Gpu"),
        gpu_model=text(row, "GpuType"),
    )


def needs_ecs_specs(row: Row) -> bool:
    """Whether what a job asked for can only be told from its machine types."""
    specs = row.get("JobSpecs")
    for spec in specs if isinstance(specs, list) else ():
        if isinstance(spec, dict) and spec.get("EcsSpec") and not mapping(spec, "ResourceConfig"):
            return True
    return False


def looked_up(row: Row, pool_models: Mapping[str, str], ecs_specs: Mapping[str, EcsSpec]) -> tuple[object, ...]:
    """What of these tables `job` makes use of for a row."""
    specs = row.get("JobSpecs")
    machines = [
        ecs_specs.get(text(spec, "EcsSpec"))
        for spec in (specs if isinstance(specs, list) else ())
        if isinstance(spec, dict) and spec.get("EcsSpec")
    ]
    return pool_models.get(text(row, "ResourceId")), *machines


def job(
    row: Row,
    *,
    asked_status: str = "",
    workspace_id: str = "",
    pool_models: Mapping[str, str] | None = None,
    ecs_specs: Mapping[str, EcsSpec] | None = None,
) -> Job | None:
    """A row of ListJobs, or the answer of GetJob.

    `asked_status` and `workspace_id` are what the list was filtered by, for rows that do not repeat it. `pool_models`
    gives the accelerator model of a quota, for jobs whose specs do not name theirs. `ecs_specs` gives what a machine
    type has, for jobs on public resources, which may name nothing else.
    """
    job_id = text(row, "JobId")
    if not job_id:
        return None
    platform_status = text(row, "Status") or asked_status
    status = job_status(platform_status, text(row, "SubStatus"))
    holds = _holds_resources(status, platform_status)
    gone = status in FINISHED and not holds
    specs = [_role_spec(spec, ecs_specs or {}) for spec in mappings(row, "JobSpecs")]
    pool_id = text(row, "ResourceId")
    return Job(
        job_id=job_id,
        name=text(row, "DisplayName"),
        job_type=text(row, "JobType"),
        workspace_id=text(row, "WorkspaceId") or workspace_id,
        pool_id=pool_id,
        user_id=text(row, "UserId"),
        user_name=text(row, "Username"),
        resource_type=text(row, "ResourceType"),
        payment_type=_payment_type(row, pool_id),
        status=status,
        platform_status=platform_status,
        reason=text(row, "ReasonCode"),
        holds_resources=holds,
        priority=whole(row, "Priority"),
        created=utc_time(row, "GmtCreateTime"),
        submitted=utc_time(row, "GmtSubmittedTime"),
        started=utc_time(row, "GmtRunningTime"),
        finished=_finish_time(row, status),
        duration=number(row, "Duration"),
        restarts=restart_times(row)[0],
        cpu_cores=None if gone else _requested(quantity(row, "RequestCPU"), [role.cpu_cores for role in specs]),
        memory_bytes=None if gone else _requested(_told_memory(row), [role.memory_bytes for role in specs]),
        nodes=None if gone else number(row, "NodeCount"),
        accelerators=() if gone else _requested_accelerators(row, specs, (pool_models or {}).get(pool_id, "")),
        tags=_tags(row),
    )


def restart_times(row: Row) -> tuple[int | None, int | None]:
    """RestartTimes as (used, allowed): "1" in lists, "1/10" in GetJob."""
    used, _, allowed = text(row, "RestartTimes").partition("/")
    return whole({"n": used}, "n"), whole({"n": allowed}, "n")


def pods(row: Row) -> tuple[JobPods, list[Pod], Counter[str]]:
    """The pods of a GetJob answer, counted by role, and one by one; and what of it had to be dropped, by reason.

    HistoryPods are earlier incarnations: they are counted as replaced, never as pods; a pod counts as evicted if one of
    them was. Without a list of pods nothing is known of how many there are.
    """
    job_id = text(row, "JobId")
    dropped: Counter[str] = Counter()
    found: dict[str, Pod] = {}
    requested: dict[str, int] = {}
    for spec in mappings(row, "JobSpecs"):
        role, wanted = text(spec, "Type"), whole(spec, "PodCount")
        if wanted is not None:
            requested[role] = requested.get(role, 0) + wanted
    items = row.get("Pods", "")
    listed = isinstance(items, list) or items is None
    if not listed:
        dropped["no_data"] += 1
    replaced = Counter(dict.fromkeys(requested if listed else (), 0))
    present = Counter({(role, status): 0 for role in replaced for status in _POD_STATUSES})
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict) or not text(item, "PodId"):
            dropped["malformed"] += 1
            continue
        pod = _pod(job_id, item)
        if pod.pod_id in found:
            dropped["duplicate"] += 1
            continue
        found[pod.pod_id] = pod
        for status in _POD_STATUSES:
            present[(pod.role, status)] += status is pod.status
        replaced[pod.role] += 0
        for earlier in mappings(item, "HistoryPods"):
            replaced[text(earlier, "Type") or pod.role] += 1
    detail = JobPods(
        job_id=job_id,
        restarts_allowed=restart_times(row)[1],
        requested=tuple(RoleCount(role, count) for role, count in requested.items()),
        replaced=tuple(RoleCount(role, count) for role, count in replaced.items()),
        present=tuple(RoleStatusCount(role, status, count) for (role, status), count in present.items()),
    )
    return detail, list(found.values()), dropped


def _holds_resources(status: Status, platform_status: str) -> bool | None:
    if status is Status.UNKNOWN:
        return None
    return status in _HOLDING or platform_status in _RESERVING


def _payment_type(row: Row, pool_id: str) -> str:
    """ListJobs filters by PaymentType and does not answer it; what tells it is the quota and the specs."""
    given = text(row, "PaymentType")
    if given:
        return given
    if any(spec.get("UseSpotInstance") is True for spec in mappings(row, "JobSpecs")):
        return "Spot"
    return "PrePaid" if pool_id else "PostPaid"


def _finish_time(row: Row, status: Status) -> float | None:
    if status not in FINISHED:
        return None
    finished = utc_time(row, "GmtFinishTime")
    return finished if finished is not None else utc_time(row, END_TIMES[status])


def _role_spec(spec: Row, ecs_specs: Mapping[str, EcsSpec]) -> EcsSpec:
    """What all pods of a role ask for: its ResourceConfig, or else what its machine type has."""
    config = mapping(spec, "ResourceConfig")
    machine = ecs_specs.get(text(spec, "EcsSpec"), EcsSpec(None, None, None, ""))
    cpu, memory, gpus = quantity(config, "CPU"), quantity(config, "Memory"), quantity(config, "GPU")
    if not config:
        cpu, memory, gpus = machine.cpu_cores, machine.memory_bytes, machine.gpus
    pods = whole(spec, "PodCount")

    def of_all(amount: float | None) -> float | None:
        return None if amount is None or pods is None else amount * pods

    return EcsSpec(of_all(cpu), of_all(memory), of_all(gpus), text(config, "GPUType") or machine.gpu_model)


def _requested(told: float | None, by_role: list[float | None]) -> float | None:
    """What a job asks for in all; where the row does not say, the sum over its roles, if it is known of each."""
    if told is not None:
        return told
    known = [amount for amount in by_role if amount is not None]
    return sum(known) if known and len(known) == len(by_role) else None


def _told_memory(row: Row) -> float | None:
    """List answers give a quantity with its suffix, GetJob a bare number that counts GiB (unproven)."""
    value = row.get("RequestMemory")
    if isinstance(value, str):
        return parse_quantity(value)
    bare = number(row, "RequestMemory")
    return None if bare is None else bare * GIB


def _requested_accelerators(row: Row, roles: list[EcsSpec], pool_model: str) -> tuple[Accelerators, ...]:
    # A role without accelerators may run on a machine that has another role's model or none: it names nothing.
    models = {role.gpu_model for role in roles if role.gpus != 0} - {""}
    # The total of a job whose roles run on different models cannot be split by what a list row says.
    model = models.pop() if len(models) == 1 else "" if models else pool_model
    count = _requested(quantity(row, "RequestGPU"), [role.gpus for role in roles])
    return gpus(count, model if count else "")


def _tags(row: Row) -> tuple[tuple[str, str], ...]:
    tags = mapping(mapping(row, "Settings"), "Tags")
    return tuple((key, value) for key, value in tags.items() if isinstance(value, str))


def _pod(job_id: str, item: Row) -> Pod:
    return Pod(
        job_id=job_id,
        pod_id=text(item, "PodId"),
        role=text(item, "Type"),
        node_name=text(item, "NodeName"),
        pod_ip=text(item, "Ip") or text(item, "PodIp"),
        status=POD_STATUS.get(text(item, "Status"), Status.UNKNOWN),
        evicted=_evicted(item),
        created=utc_time(item, "GmtCreateTime"),
        started=utc_time(item, "GmtStartTime"),
        finished=utc_time(item, "GmtFinishTime"),
    )


def _evicted(item: Row) -> bool | None:
    """Whether a pod or an earlier incarnation of it was evicted: the platform replaces what it evicts."""
    words = (text(each, "SubStatus") for each in mappings(item, "HistoryPods"))
    found = [_EVICTED.get(text(item, "SubStatus")), *(_EVICTED.get(word) for word in words if word)]
    return True if True in found else None if None in found else False
