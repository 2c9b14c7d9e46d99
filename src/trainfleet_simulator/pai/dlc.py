"""The simulated DLC service (pai-dlc, version 2020-12-03), and AIWorkSpace (version 2021-02-04).

As in the real API, the same field of a job has other types in a list than in a detail.
https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-listjobs and related pages.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.parameters import MEMBER, iso, list_answer, list_of, memory_text, page_of, time_of
from trainfleet_simulator.pai.sts import required
from trainfleet_simulator.world.jobs import PREEMPTED, Job, Loss, Pod, Role
from trainfleet_simulator.world.nouns import DAY, GIB, JOB_STATUSES, PLANTED_SECRETS
from trainfleet_simulator.world.usage import METRIC_TYPES, task_reading

_NEVER = "0001-01-01T00:00:00Z"
"""The value of a time not reached, in jobs on public resources."""


def list_jobs(call: Call) -> Answer:
    """GET /api/v1/jobs: one page of one filter, and the total number of matches."""
    world, workspace = call.world, call.text("WorkspaceId")
    status = call.choice("Status", JOB_STATUSES)
    by_finish = call.choice("TimeRangeField", ("GmtCreateTime", "GmtFinishTime"), "GmtCreateTime") == "GmtFinishTime"
    call.choice("SortBy", ("GmtCreateTime",))
    descending = call.choice("Order", ("desc", "asc"), "desc") == "desc"
    offset, size = page_of(call, 10)
    start, end = time_of(call, "StartTime"), time_of(call, "EndTime")
    if workspace in world.hidden:
        raise ApiError(403, "NoPermission", f"The workspace {workspace} does not exist or you are no member.")
    start, end = world.now - 7 * DAY if start is None else start, world.now if end is None else end
    wanted = list_of(call, "JobIds")
    found = [
        job
        for job in world.between(start, end, by_finish=by_finish)
        if job.draft.workspace_id in MEMBER
        and workspace in {"", job.draft.workspace_id}
        and status in {"", job.status}
        and (not wanted or job.job_id in wanted)
    ]
    if descending:
        found.reverse()
    page = found[offset : offset + size]
    body = {"TotalCount": len(found), "Jobs": [_list_row(job, world.now) for job in page]}
    return Answer(body, total=len(found), rows=[[job.job_id, job.status, job.sub_status] for job in page])


def _job(call: Call) -> Job:
    job = call.world.shown(call.ids[0])
    if job is None or job.draft.workspace_id not in MEMBER:
        raise call.refused("not_found")
    return job


def get_job(call: Call) -> Answer:
    """GET /api/v1/jobs/{JobId}: one job with its pods."""
    return Answer(detail(_job(call), call.world.now))


def get_job_metrics(call: Call) -> Answer:
    """GET /api/v1/jobs/{JobId}/metrics: readings by pod and minute, only of pay-as-you-go jobs on general computing."""
    required(call, "MetricType")
    metric, world = call.choice("MetricType", METRIC_TYPES), call.world
    start, end = time_of(call, "StartTime"), time_of(call, "EndTime")
    call.choice("TimeStep", ("1m",), "1m")
    job = _job(call)
    if job.draft.payment != "PostPaid" or job.draft.resource_type != "ECS":
        # All other jobs have moved to CloudMonitor. This call is not maintained for them, and reports it in two ways.
        empty: list[object] | None = None if crc32(job.job_id.encode()) % 3 == 0 else []
        return Answer({"JobId": job.job_id, "PodMetrics": empty})
    until = world.present if end is None else min(int(end), world.present)
    pods = []
    for place, pod in enumerate(job.pods):
        if pod.started is not None or pod.history:
            since = max(world.present - 3600 if start is None else int(start), pod.incarnations[0].created)
            times = range(-(-since // 60) * 60, until + 1, 60)
            pods.append({"PodId": pod.pod_id, "Metrics": _points(job, place, metric, times)})
    return Answer({"JobId": job.job_id, "PodMetrics": pods})


def _points(job: Job, place: int, metric: str, times: range) -> list[dict[str, Any]]:
    found = ((at, task_reading(metric, job, place, at)) for at in times)
    return [{"Time": at * 1000, "Value": reading[0]} for at, reading in found if reading is not None]


def list_ecs_specs(call: Call) -> Answer:
    """GET /api/v1/ecsspecs: the machine types of the public resources."""
    specs = [
        {
            "InstanceType": spec.name,
            "Cpu": spec.cpu,
            "Memory": spec.memory // GIB,
            "Gpu": spec.cards,
            "GpuType": spec.card_type,
        }
        for spec in catalog.ECS_SPECS.values()
    ]
    return list_answer(call, "EcsSpecs", specs)


def list_workspaces(call: Call) -> Answer:
    """GET /api/v1/workspaces: the workspaces that the identity is a member of."""
    found = [
        {"WorkspaceId": workspace.workspace_id, "WorkspaceName": workspace.name, "Status": "ENABLED"}
        for workspace in catalog.WORKSPACES
        if workspace.workspace_id in MEMBER.keys() - call.world.hidden
    ]
    return list_answer(call, "Workspaces", found, default_size=20)


# Jobs.


def _list_row(job: Job, now: int) -> dict[str, Any]:
    """Return a JobItem of ListJobs: amounts as text, restarts as a number, no pods."""
    draft = job.draft
    amount, shows = draft.amount, _shows_amounts(job)
    return _common(job, now) | {
        "Username": draft.user.name,
        "RequestCPU": amount.cpu if shows else None,
        "RequestGPU": str(amount.cards) if shows else None,
        "RequestMemory": memory_text(amount.memory) if shows else None,
        "NodeCount": str(sum(role.count for role in draft.roles)),
        "RestartTimes": str(job.restarts),
        "Pods": None,
        "StatusHistory": None,
    }


def detail(job: Job, now: int) -> dict[str, Any]:
    """Return the response of GetJob: amounts as numbers (memory in GiB), restarts as used/allowed, pods."""
    amount, shows = job.draft.amount, _shows_amounts(job)
    return _common(job, now) | {
        "RequestCPU": amount.cpu if shows else None,
        "RequestGPU": float(amount.cards) if shows else None,
        "RequestMemory": round(amount.memory / GIB, 3) if shows else None,
        "RestartTimes": f"{job.restarts}/{job.draft.restarts_allowed}",
        "Pods": [_pod(pod) | {"HistoryPods": list(map(_pod, pod.history))} for pod in job.pods],
        "StatusHistory": _status_history(job),
        "RestartRecord": [_restart(job, number, loss) for number, loss in enumerate(_recorded(job), start=1)] or None,
    }


def _shows_amounts(job: Job) -> bool:
    """Return whether a job shows amounts. Jobs on public resources name a machine type, and every second one shows only
    that."""
    return bool(job.draft.pool_id) or job.created % 2 == 0


def _common(job: Job, now: int) -> dict[str, Any]:
    draft = job.draft
    never, ended = None if draft.pool_id else _NEVER, iso(job.work_ended)
    return {
        "JobId": job.job_id,
        "DisplayName": draft.name,
        "JobType": draft.job_type,
        "Status": job.status,
        "SubStatus": job.sub_status,
        "ReasonCode": job.reason[0],
        "WorkspaceId": draft.workspace_id,
        "UserId": draft.user.user_id,
        "ResourceId": draft.pool_id,
        "ResourceType": draft.resource_type,
        "Priority": draft.priority,
        "Duration": job.duration(now),
        "GmtCreateTime": iso(job.created),
        "GmtSubmittedTime": iso(job.submitted) or never,
        "GmtRunningTime": iso(job.running) or never,
        "GmtSuccessedTime": (ended if job.status.startswith("Succeeded") else None) or never,
        "GmtFailedTime": (ended if job.status.startswith("Failed") else None) or never,
        "GmtStoppedTime": (ended if job.status == "Stopped" else None) or never,
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


def _pod(pod: Pod) -> dict[str, Any]:
    return {
        "Type": pod.role.type,
        "PodId": pod.pod_id,
        "Status": pod.status,
        "SubStatus": pod.sub_status,
        "Ip": pod.ip,
        "NodeName": pod.node,
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
