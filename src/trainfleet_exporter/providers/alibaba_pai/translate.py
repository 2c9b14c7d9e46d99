"""From PAI's payloads to the model: pure functions, tolerant of everything but a missing identity.

Payloads: DLC ListJobs, GetJob, ListEcsSpecs; AIWorkSpace ListWorkspaces. The same field comes in different types from
list and detail: RequestGPU "8" and 8.0, RequestMemory "512Gi" and 512.0, RestartTimes "1" and "1/10". A function
returns None for an object without an id: that object alone is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, UnsetType

from trainfleet_exporter.model import (
    Accelerators,
    Job,
    JobPods,
    Pod,
    RoleCount,
    RoleStatusCount,
    Status,
    Workspace,
)
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai.translate_pools import gpus
from trainfleet_exporter.providers.values import amount, gibibytes, number, quantity, utc_time, whole
from trainfleet_exporter.transport.json_fields import unusable

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
_HOLDS = {word: status in _HOLDING or word in _RESERVING for word, status in JOB_STATUS.items()}
"""Whether a job with this word holds resources. SubStatus changes nothing about that."""
_OVER = frozenset(TERMINAL_STATUSES)
"""Words of jobs that have ended and hold nothing."""
END_TIMES = {
    Status.SUCCEEDED: "gmt_successed_time",
    Status.FAILED: "gmt_failed_time",
    Status.STOPPED: "gmt_stopped_time",
}
"""The field with the end of a job that ended so. Those of earlier attempts may be there next to it."""
_END_TIMES = {word: END_TIMES[status] for word, status in JOB_STATUS.items() if status in END_TIMES}

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


def workspace(row: payloads.Workspace) -> Workspace | None:
    """A row of ListWorkspaces."""
    return Workspace(row.workspace_id, row.workspace_name or "") if row.workspace_id else None


def job_status(platform_status: str, sub_status: str | None = None) -> Status:
    """The common word for a DLC status. SubStatus refines Running only."""
    if platform_status == "Running" and sub_status == "Restarting":
        return Status.RESTARTING
    return JOB_STATUS.get(platform_status, Status.UNKNOWN)


class EcsSpec(Struct, frozen=True, gc=False):
    """The resources of one machine of a type."""

    cpu_cores: float | None = None
    memory_bytes: float | None = None
    gpus: float | None = None
    gpu_model: str = ""


_NO_MACHINE: Final = EcsSpec()
_NO_CONFIG: Final = payloads.ResourceConfig()
_NO_MODELS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_MACHINES: Final[Mapping[str, EcsSpec]] = MappingProxyType({})


def ecs_spec(row: payloads.EcsSpec) -> EcsSpec:
    """A row of ListEcsSpecs. Its Memory counts GiB by the documented sample (unproven)."""
    return EcsSpec(
        cpu_cores=amount(row.cpu),
        memory_bytes=gibibytes(row.memory),
        gpus=amount(row.gpu),
        gpu_model=row.gpu_type or "",
    )


def needs_ecs_specs(row: payloads.Job) -> bool:
    """Return whether only its machine types say what a job asked for."""
    for spec in row.job_specs or ():
        if spec is not None and spec.ecs_spec and (spec.resource_config is None or spec.resource_config == _NO_CONFIG):
            return True
    return False


def job(
    row: payloads.Job,
    *,
    workspace_id: str = "",
    pool_models: Mapping[str, str] = _NO_MODELS,
    ecs_specs: Mapping[str, EcsSpec] = _NO_MACHINES,
) -> Job | None:
    """A row of ListJobs, or the answer of GetJob.

    `workspace_id` is what the list was filtered by, for rows that do not repeat it. `pool_models`
    gives the accelerator model of a quota, for jobs whose specs do not name theirs. `ecs_specs` gives what a machine
    type has, for jobs on public resources, which may name nothing else.
    """
    job_id = row.job_id
    if not job_id:
        return None
    platform_status = row.status or ""
    status = job_status(platform_status, row.sub_status)
    pool_id = row.resource_id or ""
    roles = [_role(spec, ecs_specs) for spec in row.job_specs or ()]
    cpu_cores = memory_bytes = nodes = None
    accelerators: tuple[Accelerators, ...] = ()
    if platform_status not in _OVER:
        if (cpu_cores := quantity(row.request_cpu)) is None:
            cpu_cores = _sum([role.cpu_cores for role in roles])
        if (memory_bytes := _memory(row.request_memory)) is None:
            memory_bytes = _sum([role.memory_bytes for role in roles])
        if (cards := quantity(row.request_gpu)) is None:
            cards = _sum([role.gpus for role in roles])
        nodes = amount(row.node_count)
        accelerators = gpus(cards, _gpu_model(roles, pool_models.get(pool_id, "")) if cards else "")
    tags = None if row.settings is None else row.settings.tags
    return Job(
        job_id=job_id,
        name=row.display_name or "",
        job_type=row.job_type or "",
        workspace_id=row.workspace_id or workspace_id,
        pool_id=pool_id,
        user_id=row.user_id or "",
        user_name=row.username or "",
        resource_type=row.resource_type or "",
        payment_type=row.payment_type or _payment_type(row, pool_id),
        status=status,
        platform_status=platform_status,
        reason=row.reason_code or "",
        holds_resources=_HOLDS.get(platform_status),
        priority=whole(row.priority),
        created=utc_time(row.gmt_create_time),
        submitted=utc_time(row.gmt_submitted_time),
        started=utc_time(row.gmt_running_time),
        finished=_finish_time(row, platform_status),
        duration=amount(row.duration),
        restarts=restart_times(row.restart_times)[0],
        cpu_cores=cpu_cores,
        memory_bytes=memory_bytes,
        nodes=nodes,
        accelerators=accelerators,
        tags=tuple([(key, value) for key, value in tags.items() if isinstance(value, str)]) if tags else (),
    )


def restart_times(given: str | None) -> tuple[int | None, int | None]:
    """RestartTimes as (used, allowed): "1" in lists, "1/10" in GetJob."""
    if not given:
        return None, None
    if len(given) == 1 and given in "0123456789":
        return int(given), None
    used, _, allowed = given.partition("/")
    return whole(number(used)), whole(number(allowed)) if allowed else None


def pods(row: payloads.JobPods) -> tuple[JobPods, list[Pod], Counter[str]]:
    """The pods of a job, counted by role, and one by one; and what of it had to be dropped, by reason.

    HistoryPods are earlier incarnations: they are counted as replaced, never as pods; a pod counts as evicted if one of
    them was. Without a list of pods nothing is known of how many there are.
    """
    job_id = row.job_id or ""
    dropped: Counter[str] = Counter()
    found: dict[str, Pod] = {}
    requested: dict[str, int] = {}
    for spec in row.job_specs or ():
        if spec is None:  # it may be of any role
            dropped["malformed"] += 1
            requested.clear()
            break
        role, wanted = spec.type or "", whole(spec.pod_count)
        if wanted is not None:
            requested[role] = requested.get(role, 0) + wanted
    listed = not isinstance(row.pods, UnsetType)
    if not listed:
        dropped["no_data"] += 1
    items = () if isinstance(row.pods, UnsetType) or row.pods is None else row.pods
    replaced = dict.fromkeys(requested if listed else (), 0)
    present: dict[str, list[Status | None]] = {role: [] for role in replaced}
    for item in items:
        if item is None or not item.pod_id:
            dropped["malformed"] += 1
            continue
        pod = _pod(job_id, item.pod_id, item)
        if pod.pod_id in found:
            dropped["duplicate"] += 1
            continue
        found[pod.pod_id] = pod
        present.setdefault(pod.role, []).append(pod.status)
        replaced.setdefault(pod.role, 0)
        for earlier in item.history_pods or ():
            role = earlier.type or pod.role
            replaced[role] = replaced.get(role, 0) + 1
    detail = JobPods(
        job_id=job_id,
        restarts_allowed=restart_times(row.restart_times)[1],
        requested=tuple(RoleCount(role, count) for role, count in requested.items()),
        replaced=tuple(RoleCount(role, count) for role, count in replaced.items()),
        present=tuple(
            RoleStatusCount(role, status, statuses.count(status))
            for role, statuses in present.items()
            for status in _POD_STATUSES
        ),
    )
    return detail, list(found.values()), dropped


def _payment_type(row: payloads.Job, pool_id: str) -> str:
    """ListJobs filters by PaymentType but does not return it; it follows from the quota and the specs."""
    for spec in row.job_specs or ():
        if spec is not None and spec.use_spot_instance:
            return "Spot"
    return "PrePaid" if pool_id else "PostPaid"


def _finish_time(row: payloads.Job, platform_status: str) -> float | None:
    field = _END_TIMES.get(platform_status)
    if field is None:
        return None
    finished = utc_time(row.gmt_finish_time)
    return finished if finished is not None else utc_time(getattr(row, field))


def _role(spec: payloads.JobSpec | None, ecs_specs: Mapping[str, EcsSpec]) -> EcsSpec:
    """Return the requested resources of a role's pods: its ResourceConfig, or else its machine type. If the role is
    unreadable, the amounts are unknown, also those of its job."""
    if spec is None:
        unusable({}, "malformed")
        return _NO_MACHINE
    config = spec.resource_config
    machine = ecs_specs.get(spec.ecs_spec, _NO_MACHINE) if spec.ecs_spec else _NO_MACHINE
    if config is None or config == _NO_CONFIG:
        cpu, memory, cards, model = machine.cpu_cores, machine.memory_bytes, machine.gpus, machine.gpu_model
    else:
        cpu, memory, cards = quantity(config.cpu), quantity(config.memory), quantity(config.gpu)
        model = config.gpu_type or machine.gpu_model
    count = whole(spec.pod_count)
    if count is None:
        return EcsSpec(gpu_model=model)
    return EcsSpec(
        None if cpu is None else cpu * count,
        None if memory is None else memory * count,
        None if cards is None else cards * count,
        model,
    )


def _sum(by_role: list[float | None]) -> float | None:
    """Return the sum of a job's requested resources, if they are known for each role."""
    known = [each for each in by_role if each is not None]
    return sum(known) if known and len(known) == len(by_role) else None


def _memory(given: str | float | None) -> float | None:
    """List answers give a quantity with its suffix, GetJob a bare number that counts GiB (unproven)."""
    return quantity(given) if isinstance(given, str) else gibibytes(given)


def _gpu_model(roles: list[EcsSpec], pool_model: str) -> str:
    # A role without accelerators may run on a machine that has another role's model or none: it names nothing.
    models = {role.gpu_model for role in roles if role.gpu_model and role.gpus != 0}
    # The total of a job whose roles run on different models cannot be split by what a list row says.
    return models.pop() if len(models) == 1 else "" if models else pool_model


def _pod(job_id: str, pod_id: str, item: payloads.Pod) -> Pod:
    evicted, evictions = _evictions(item)
    return Pod(
        job_id=job_id,
        pod_id=pod_id,
        role=item.type or "",
        node_name=item.node_name or "",
        pod_ip=item.ip or item.pod_ip or "",
        status=POD_STATUS.get(item.status or "", Status.UNKNOWN),
        evicted=evicted,
        evictions=evictions,
        created=utc_time(item.gmt_create_time),
        started=utc_time(item.gmt_start_time),
        finished=utc_time(item.gmt_finish_time),
    )


def _evictions(item: payloads.Pod) -> tuple[bool | None, int | None]:
    """Return whether a pod or an earlier incarnation of it was evicted, and how many were."""
    found = [_EVICTED.get(item.sub_status or "")]
    found += [_EVICTED.get(earlier.sub_status) for earlier in item.history_pods or () if earlier.sub_status]
    if None in found and True not in found:
        return None, None
    return True in found, found.count(True)
