"""ModelArts' words for the states of jobs, and v2 training jobs as it returns them, in lists and in details."""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.modelarts.catalog import NODE_FAULT
from trainfleet_simulator.world.jobs import Job, Loss, Role
from trainfleet_simulator.world.nouns import GIB, PLANTED_SECRETS

_WORDS = {
    "Creating": ("Creating", 1),
    "Queuing": ("Pending", 7),
    "EnvPreparing": ("Pending", 4),
    "Running": ("Running", 8),
    "Stopping": ("Terminating", 9),
    "Succeeded": ("Completed", 10),
    "Failed": ("Failed", 11),
    "Stopped": ("Terminated", 12),
}
"""By the world's state, the phase of v2 jobs and the number of v1 jobs."""
PHASES = (*dict.fromkeys(phase for phase, _ in _WORDS.values()), "Abnormal")
WORKLOAD_STATUSES = ("Queue", *PHASES)
READINGS = {
    "cpuUsage": "CpuCoreUsage",
    "memUsage": "MemoryUsage",
    "memUsedRate": "MemoryUsage",
    "gpuUtil": "GpuCoreUsage",
    "gpuMemUsage": "GpuMemoryUsage",
    "npuUtil": "GpuCoreUsage",
    "npuMemUsage": "GpuMemoryUsage",
    "diskReadRate": "DiskReadRate",
    "diskWriteRate": "DiskWriteRate",
    "recvBytesRate": "NetworkInputRate",
    "sendBytesRate": "NetworkOutputRate",
}
"""The series of tasks, pods and nodes, and the world's names of their readings."""


def phase(job: Job) -> str:
    """Return the phase of a v2 job."""
    return "Abnormal" if _lost(job) else _WORDS[job.status][0]


def workload_status(job: Job) -> str:
    """Return the status of a job as a workload of its pool. A queued job has a different word there."""
    return "Queue" if job.status == "Queuing" else phase(job)


def v1_status(job: Job) -> int:
    """Return the v1 API's number of a state."""
    return 14 if _lost(job) else _WORDS[job.status][1]


def _lost(job: Job) -> bool:
    return job.status == "Failed" and job.reason[0] == NODE_FAULT


def tasks_of(job: Job) -> list[str]:
    """Return the tasks of a job that has been placed: `worker-0`, `worker-1`, `server-0`."""
    return [pod.pod_id.removeprefix(f"{job.job_id}-") for pod in job.pods]


def has(role: Role, metric: str) -> bool:
    """Return whether a task has the kind of device of a series."""
    kind = metric[:3]
    if kind not in {"gpu", "npu"}:
        return True
    return bool(role.cards) and _is_npu(role) == (kind == "npu")


def job_row(job: Job, now: int) -> dict[str, Any]:
    """Return a job object. Unknown values are absent or 0."""
    draft = job.draft
    row: dict[str, Any] = {
        "kind": draft.job_type,
        "metadata": {
            "id": job.job_id,
            "name": draft.name,
            "create_time": job.created * 1000,
            "workspace_id": draft.workspace_id,
            "user_name": draft.user.name,
            "annotations": dict(draft.tags),
        },
        "status": _status(job, now),
        "algorithm": {
            "command": f"python train.py --hub-token {PLANTED_SECRETS[1]}",
            "environments": {"WANDB_API_KEY": PLANTED_SECRETS[0]},
        },
        "endpoints": {"jupyter_lab": {"url": f"https://sim/lab?token={PLANTED_SECRETS[2]}", "token": ""}},
        "spec": {"resource": _resource(job), "schedule_policy": {"priority": draft.priority}},
    }
    if len(draft.roles) > 1:
        row["tasks"] = [{"role": one.type, "task_resource": _flavor(one)} for one in draft.roles]
    return row


def _status(job: Job, now: int) -> dict[str, Any]:
    status: dict[str, Any] = {
        "phase": phase(job),
        "duration": job.duration(now) * 1000,
        "start_time": (job.running or 0) * 1000,
    }
    if job.pods:
        status["tasks"] = tasks_of(job)
    if job.running is not None:
        status["running_records"] = _running_records(job, now)
    if job.status == "Failed":
        status["task_statuses"] = [{"task": tasks_of(job)[0], "exit_code": 1}]
    return status


def _running_records(job: Job, now: int) -> list[dict[str, Any]]:
    """Return each run, from its start to the loss of a task or to its end, in seconds."""
    assert job.running is not None
    record = _run(job, job.running, now)
    records = [record]
    for loss in job.losses:
        record |= _recovery(loss, loss.pod.pod_id.removeprefix(f"{job.job_id}-"))
        if loss.over is not None:
            record = _run(job, loss.over, now, in_place=not loss.moved)
            records.append(record)
    if job.work_ended is not None and "end_at" not in record:
        record |= {"end_at": job.work_ended, "end_reason": job.reason[0]}
        if job.reason[0] == NODE_FAULT:
            record |= _no_recovery(job.work_ended, tasks_of(job)[0])
    return records


def _run(job: Job, start: int, now: int, *, in_place: bool = False) -> dict[str, Any]:
    """Return the start of a run. The time of its accelerators is a few seconds later; before it, and without
    accelerators, it is 0."""
    has_cards = any(role.cards for role in job.draft.roles)
    loading = job.draft.plan.loading
    ready = start + (3 + job.created % 5 if loading is None else loading)
    return {
        "start_at": start,
        "start_type": "restarted" if in_place else "init_or_rescheduled",
        "xpu_start_at": ready if has_cards and ready <= now else 0,
    }


_SCENARIOS = {
    "node": "node_fault",
    "accelerator": "chip_fault",
    "process": "job_failed",
    "hang": "job_hanged",
    "degraded": "job_subhealth",
    "preempted": "job_failed",
}
_REASONS = {"node": NODE_FAULT, "accelerator": "ChipFault"}


def _recovery(loss: Loss, task: str) -> dict[str, Any]:
    """Return the end of a run that lost a task. The task then ran on another node, or started again on the same one.

    If a chip broke, the cloud first tries to restart the process on it.
    """
    recover, scenario = "pod_reschedule" if loss.moved else "proc_restart", _SCENARIOS[loss.fault]
    attempts, start = [], loss.at
    if loss.fault == "accelerator" and loss.moved:
        start += 4
        attempts.append(_attempt(loss.at, "npu_proc_restart", scenario, task, result="downgrade", end=start))
    result = "recovering" if loss.over is None else "success"
    attempts.append(_attempt(start, recover, scenario, task, result=result, end=loss.over))
    ending = {"end_at": loss.at, "end_reason": _REASONS.get(loss.fault, "ProcessFault"), "end_related_task": task}
    return ending | {"end_recover": recover, "recover_records": attempts}


def _attempt(start: int, recover: str, scenario: str, task: str, *, result: str, end: int | None) -> dict[str, Any]:
    row = {
        "recover_start_at": start,
        "recover": recover,
        "fault_scenario": scenario,
        "related_task": task,
        "recover_result": result,
    }
    return row if end is None else row | {"recover_end_at": end}


def _no_recovery(at: int, task: str) -> dict[str, Any]:
    """Return the loss of a job that has used up its reschedulings."""
    attempt = _attempt(at, "job_reschedule", "node_fault", task, result="quotaExceeded", end=at)
    return {"end_related_task": task, "recover_records": [attempt]}


def _resource(job: Job) -> dict[str, Any]:
    roles, pool = job.draft.roles, job.draft.pool_id
    first = roles[0]
    resource: dict[str, Any] = {"policy": "regular", "node_count": sum(role.count for role in roles)}
    if not pool:
        return resource | {"flavor_detail": _flavor(first)}
    return resource | {"pool_id": pool, "main_container_allocated_resources": _allocated(first)}


def _allocated(role: Role) -> dict[str, Any]:
    """Return the resources of one task; memory in GiB. Every number is a float in the vendor's model."""
    return {
        "cpu_core_num": float(role.cpu),
        "mem_size": role.memory / GIB,
        "accelerator_num": float(role.cards),
        "accelerator_type": role.card_type,
    }


def _is_npu(role: Role) -> bool:
    return role.card_type.startswith("ascend")


def _kind(role: Role) -> str:
    return "Ascend" if _is_npu(role) else "GPU" if role.cards else "CPU"


def _flavor(role: Role) -> dict[str, Any]:
    """Return the flavor of a job in the public pool, or of one role of a heterogeneous job."""
    info: dict[str, Any] = {"cpu": {"core_num": role.cpu}, "memory": {"size": role.memory // GIB, "unit": "GB"}}
    if role.cards:
        kind, cards = ("npu", str(role.cards)) if _is_npu(role) else ("gpu", role.cards)
        info[kind] = {"unit_num": cards, "product_name": role.card_type}
    return {"flavor_type": _kind(role), "flavor_info": info}
