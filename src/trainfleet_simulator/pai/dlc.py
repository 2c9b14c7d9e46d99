"""The simulated DLC service (pai-dlc, version 2020-12-03), and AIWorkSpace (version 2021-02-04).

https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-listjobs and related pages.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from trainfleet_simulator.exchange import Answer, ApiError, Call
from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.dlc_rows import detail, list_row
from trainfleet_simulator.pai.parameters import MEMBER, list_answer, list_of, page_of, time_of
from trainfleet_simulator.pai.sts import required
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY, GIB, JOB_STATUSES
from trainfleet_simulator.world.usage import METRIC_TYPES, task_reading


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
    found = world.index.between(
        [
            (one, word)
            for one in MEMBER
            if workspace in {"", one} and one not in world.hidden
            for word in ([status] if status else JOB_STATUSES)
        ],
        world.now - 7 * DAY if start is None else start,
        world.now if end is None else end,
        by_finish=by_finish,
    )
    wanted = list_of(call, "JobIds")
    if wanted or by_finish:
        jobs = (world.jobs[job_id] for job_id in found if not wanted or job_id in wanted)
        found = [job_id for _, job_id in sorted((job.created, job.job_id) for job in jobs)]
    if descending:
        found.reverse()
    page = [world.jobs[job_id] for job_id in found[offset : offset + size]]
    body = {"TotalCount": len(found), "Jobs": [list_row(job, world.now) for job in page]}
    return Answer(body, total=len(found), rows=[[job.job_id, job.status, job.sub_status] for job in page])


def _job(call: Call) -> Job:
    job = call.world.shown(call.ids[0])
    if job is None or job.draft.workspace_id not in MEMBER:
        raise ApiError(404, "NotFound", f"The job {call.ids[0]} is not found.")
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
