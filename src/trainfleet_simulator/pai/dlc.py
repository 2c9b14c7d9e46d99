"""The simulated DLC service (pai-dlc, version 2020-12-03).

https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-listjobs and related pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any
from zlib import crc32

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.pai.catalog import ECS_SPECS, WORKSPACES
from trainfleet_simulator.pai.dlc_rows import detail, list_row
from trainfleet_simulator.pai.parameters import (
    Call,
    Query,
    choice_of,
    invalid,
    list_answer,
    list_of,
    page_of,
    refuse_hidden,
    time_of,
)
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY, GIB, JOB_STATUSES
from trainfleet_simulator.world.usage import METRIC_TYPES, task_reading

VISIBLE = tuple(workspace.workspace_id for workspace in WORKSPACES if workspace.member)
_STEP_UNITS = {"s": 1, "m": 60, "h": 3600}
_MOST_POINTS = 50_000


def list_jobs(call: Call) -> Answer:
    """GET /api/v1/jobs: one page of one filter, and the total number of matches."""
    query, world = call.query, call.world
    status = choice_of(query, "Status", JOB_STATUSES)
    field = choice_of(query, "TimeRangeField", ("GmtCreateTime", "GmtFinishTime"), "GmtCreateTime")
    choice_of(query, "SortBy", ("GmtCreateTime",))
    descending = choice_of(query, "Order", ("desc", "asc"), "desc") == "desc"
    offset, size = page_of(query, 10)
    start, end = time_of(query, "StartTime"), time_of(query, "EndTime")
    wanted = _filters(query)

    refuse_hidden(call, query.get("WorkspaceId", ""))
    workspaces = [w for w in VISIBLE if query.get("WorkspaceId") in {None, "", w} and w not in world.hidden]
    found = world.index.between(
        [(workspace, one) for workspace in workspaces for one in ([status] if status else JOB_STATUSES)],
        world.now - 7 * DAY if start is None else start,
        world.now if end is None else end,
        by_finish=field == "GmtFinishTime",
    )
    if wanted or field != "GmtCreateTime":
        matching = [job for job in map(world.jobs.__getitem__, found.ids()) if all(want(job) for want in wanted)]
        matching.sort(key=lambda job: (job.created, job.job_id), reverse=descending)
        count, jobs = len(matching), matching[offset : offset + size]
    else:
        count = len(found)
        jobs = [world.jobs[job_id] for job_id in found.page(offset, size, descending=descending)]
    return list_answer("Jobs", [list_row(job, world.now) for job in jobs], count, ("JobId", "Status", "SubStatus"))


def _filters(query: Query) -> list[Callable[[Job], bool]]:
    wanted: list[Callable[[Job], bool]] = []
    if (ids := list_of(query, "JobIds")) is not None:
        chosen = frozenset(ids)
        wanted.append(lambda job: job.job_id in chosen)
    if text := query.get("DisplayName"):
        pattern = text if "*" in text else f"*{text}*"
        wanted.append(lambda job: fnmatchcase(job.draft.name, pattern))
    return wanted


def _job(call: Call) -> Job:
    job = call.world.shown(call.ids[0])
    if job is None or job.draft.workspace_id not in VISIBLE:
        raise ApiError(404, "NotFound", f"The job {call.ids[0]} is not found.")
    return job


def get_job(call: Call) -> Answer:
    """GET /api/v1/jobs/{JobId}: one job with its pods."""
    job = _job(call)
    return Answer(detail(job, call.world.now), rows=[[job.job_id, job.status, job.sub_status]])


def get_job_metrics(call: Call) -> Answer:
    """GET /api/v1/jobs/{JobId}/metrics: readings by pod, only of pay-as-you-go jobs on general computing."""
    query, world = call.query, call.world
    if not query.get("MetricType"):
        raise ApiError(400, "MissingMetricType", "The parameter MetricType is mandatory.")
    metric = choice_of(query, "MetricType", METRIC_TYPES)
    start, end = time_of(query, "StartTime"), time_of(query, "EndTime")
    step = _step(query.get("TimeStep") or "5m")
    job = _job(call)
    if job.draft.payment != "PostPaid" or job.draft.resource_type != "ECS":
        # All other jobs have moved to CloudMonitor. This call is not maintained for them, and reports it in two ways.
        empty: list[object] | None = None if crc32(job.job_id.encode()) % 3 == 0 else []
        return Answer({"JobId": job.job_id, "PodMetrics": empty}, no_data=True)
    since = world.present - 3600 if start is None else int(start)
    span = (since, world.present if end is None else min(int(end), world.present), step)
    pods = [
        {"PodId": pod.pod_id, "Metrics": _points(job, place, metric, span)}
        for place, pod in enumerate(job.pods)
        if pod.started is not None or pod.history
    ]
    newest = [[pod["PodId"], metric, pod["Metrics"][-1] if pod["Metrics"] else None] for pod in pods]
    return Answer({"JobId": job.job_id, "PodMetrics": pods}, rows=newest, no_data=not pods)


def _step(text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,4})([smh])", text)
    if found is None:
        raise invalid("TimeStep", text, "a number with s, m or h, such as 5m")
    return int(found[1]) * _STEP_UNITS[found[2]]


def _points(job: Job, place: int, metric: str, span: tuple[int, int, int]) -> list[dict[str, Any]]:
    since, end, step = span
    begin = max(since, job.pods[place].incarnations[0].created)
    if (end - begin) / step > _MOST_POINTS:
        raise invalid("TimeStep", f"{step}s", f"at most {_MOST_POINTS} points")
    points = []
    for at in range(-(-begin // step) * step, end + 1, step):
        found = task_reading(metric, job, place, at)
        if found is not None:
            points.append({"Time": at * 1000, "Value": found[0]})
    return points


def list_ecs_specs(call: Call) -> Answer:
    """GET /api/v1/ecsspecs: the machine types of the public resources."""
    query = call.query
    if query.get("SortBy"):
        raise invalid("SortBy", query["SortBy"], "nothing, although values are documented")
    offset, size = page_of(query, 10)
    specs = [
        {
            "InstanceType": spec.name,
            "AcceleratorType": "GPU" if spec.cards else "CPU",
            "Cpu": spec.cpu,
            "Memory": spec.memory // GIB,
            "Gpu": spec.cards,
            "GpuMemory": spec.card_memory,
            "GpuType": spec.card_type,
            "IsAvailable": True,
            "ResourceType": spec.resource_type,
            "PaymentTypes": list(spec.payments),
            "SpotStockStatus": "WithStock",
        }
        for spec in ECS_SPECS.values()
    ]
    return list_answer("EcsSpecs", specs[offset : offset + size], len(specs), ("InstanceType",))
