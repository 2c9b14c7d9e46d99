"""Jobs as DLC returns them. As in the real API, the same field has other types in a list than in a detail."""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.pai.catalog import WORKSPACES
from trainfleet_simulator.pai.parameters import iso, memory_text
from trainfleet_simulator.world.jobs import PREEMPTED, Job, Loss, Pod, Role, total
from trainfleet_simulator.world.nouns import GIB, PLANTED_SECRETS

NEVER = "0001-01-01T00:00:00Z"
"""The value of a time not reached, in jobs on public resources."""
_WORKSPACE_NAMES = {workspace.workspace_id: workspace.name for workspace in WORKSPACES}


def list_row(job: Job, now: int) -> dict[str, Any]:
    """Return a JobItem of ListJobs: amounts as text, restarts as a number, no pods."""
    draft = job.draft
    cpu, memory, gpu = total(draft.roles)
    shows = _shows_amounts(job)
    return _common(job, now) | {
        "Username": draft.user.name,
        "RequestCPU": cpu if shows else None,
        "RequestGPU": str(gpu) if shows else None,
        "RequestMemory": memory_text(memory) if shows else None,
        "NodeCount": str(sum(role.count for role in draft.roles)),
        "RestartTimes": str(job.restarts),
        "Pods": None,
        "StatusHistory": None,
    }


def detail(job: Job, now: int) -> dict[str, Any]:
    """Return the response of GetJob: amounts as numbers (memory in GiB), restarts as used/allowed, pods."""
    cpu, memory, gpu = total(job.draft.roles)
    shows = _shows_amounts(job)
    return _common(job, now) | {
        "RequestCPU": cpu if shows else None,
        "RequestGPU": float(gpu) if shows else None,
        "RequestMemory": round(memory / GIB, 3) if shows else None,
        "RestartTimes": f"{job.restarts}/{job.draft.restarts_allowed}",
        "Pods": [_pod(pod, now) | {"HistoryPods": [_pod(old, now) for old in pod.history]} for pod in job.pods],
        "StatusHistory": _status_history(job),
        "RestartRecord": [_restart(job, number, loss) for number, loss in enumerate(_recorded(job), start=1)] or None,
    }


def _shows_amounts(job: Job) -> bool:
    """Return whether a job shows amounts. Jobs on public resources name a machine type, and every second one shows only
    that."""
    return bool(job.draft.pool_id) or job.created % 2 == 0


def _common(job: Job, now: int) -> dict[str, Any]:
    draft = job.draft
    never = None if draft.pool_id else NEVER
    return {
        "JobId": job.job_id,
        "DisplayName": draft.name,
        "JobType": draft.job_type,
        "Status": job.status,
        "SubStatus": job.sub_status,
        "ReasonCode": job.reason[0],
        "WorkspaceId": draft.workspace_id,
        "WorkspaceName": _WORKSPACE_NAMES[draft.workspace_id],
        "UserId": draft.user.user_id,
        "ResourceId": draft.pool_id,
        "ResourceType": draft.resource_type,
        "Priority": draft.priority,
        "Duration": job.duration(now),
        "GmtCreateTime": iso(job.created),
        "GmtSubmittedTime": iso(job.submitted) or never,
        "GmtRunningTime": iso(job.running) or never,
        "GmtSuccessedTime": iso(job.succeeded) or never,
        "GmtFailedTime": iso(job.failed) or never,
        "GmtStoppedTime": iso(job.stopped) or never,
        "GmtFinishTime": iso(job.finished) or never,
        "JobSpecs": [_spec(role, draft.pool_id, draft.payment) for role in draft.roles],
        "UserCommand": f"python train.py --name {draft.name} --hub-token {PLANTED_SECRETS[1]}",
        "Envs": {"WANDB_API_KEY": PLANTED_SECRETS[0]},
        "Settings": {"Tags": dict(draft.tags)},
    }


def _spec(role: Role, pool_id: str, payment: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "Type": role.type,
        "PodCount": role.count,
        "Image": "registry-vpc.cn-hangzhou.aliyuncs.com/sim/train:1.0",
        "ImageConfig": {"Username": "robot", "Password": PLANTED_SECRETS[2]},
        "EcsSpec": role.machine,
        "UseSpotInstance": payment == "Spot",
    }
    if pool_id:
        spec["ResourceConfig"] = {
            "CPU": str(role.cpu),
            "GPU": str(role.cards),
            "Memory": memory_text(role.memory),
            "GPUType": role.card_type,
        }
    return spec


def _pod(pod: Pod, now: int) -> dict[str, Any]:
    end = now if pod.finished is None else pod.finished
    return {
        "Type": pod.role.type,
        "PodId": pod.pod_id,
        "Status": pod.status,
        "SubStatus": pod.sub_status,
        "Ip": pod.ip,
        "NodeName": pod.node,
        "ResourceType": "Normal",
        "Duration": 0.0 if pod.started is None else float(end - pod.started),
        "GmtCreateTime": iso(pod.created),
        "GmtStartTime": iso(pod.started) or "",  # unlike jobs, pods have an empty text for a time not reached
        "GmtFinishTime": iso(pod.finished) or "",
    }


_ERRORS = {
    "node": ("NodeNotReady", "Node"),
    "accelerator": ("GPUXidError", "Node"),
    "process": ("ContainerExitedWithError", "Pod"),
    "hang": ("JobHang", "Job"),
    "degraded": ("SlowNode", "Node"),
    PREEMPTED: ("PodPreempted", "Pod"),
}
"""Code and source of an error. The vendor documents no words; these are like those in its console."""


def _recorded(job: Job) -> list[Loss]:
    """Return the losses that have a restart record. If the job's status shows a loss with its reason code, and the pod
    was preempted, the loss has none."""
    shown = {since for status, since in job.statuses if status == "Restarting"}
    return [loss for loss in job.losses if loss.fault != PREEMPTED or loss.at not in shown]


def _restart(job: Job, number: int, loss: Loss) -> dict[str, Any]:
    code, source = _ERRORS[loss.fault]
    by_node = loss.fault in {"node", "accelerator", "degraded"}
    return {
        "JobRestartCount": number,
        "TriggerID": f"{job.job_id}-{number}",
        "OccurTime": iso(loss.at),
        "Reason": code,
        "RestartLevelType": "PodLevel",
        "RestartStatus": "Restarting" if loss.over is None else "Succeeded",
        "RestartDurationInSec": None if loss.over is None else loss.over - loss.at,
        "RestartFailReason": "",
        "DetailErrorInfoList": [
            {
                "ErrorCode": code,
                "ErrorSource": source,
                "ErrorMsg": f"{loss.pod.pod_id} failed.",
                "DetailErrorMsg": f"python train.py --hub-token {PLANTED_SECRETS[1]} failed.",
                "Node": loss.pod.node if by_node else "",
                "Pod": loss.pod.pod_id,
                "TriggerRestart": True,
            }
        ],
    }


def _status_history(job: Job) -> list[dict[str, Any]]:
    ends: list[int | None] = [since for _, since in job.statuses[1:]]
    codes = {loss.at: _ERRORS[loss.fault][0] for loss in job.losses}
    return [
        {
            "Status": status,
            "StartTime": iso(since),
            "EndTime": iso(end),
            "ReasonCode": codes.get(since, "") if status == "Restarting" else "",
        }
        for (status, since), end in zip(job.statuses, [*ends, None], strict=True)
    ]
