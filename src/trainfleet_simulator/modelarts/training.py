"""The simulated v2 training API: search, task metrics, quotas. Bodies of searches are parsed strictly.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListTrainingJobs.html and related pages.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from zlib import crc32

import msgspec
from msgspec import Meta

from trainfleet_simulator.exchange import Answer, Body, Call
from trainfleet_simulator.modelarts.catalog import workspace_of
from trainfleet_simulator.modelarts.job_rows import PHASES, READINGS, has, job_row, phase, tasks_of
from trainfleet_simulator.modelarts.pools import host_ip
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.usage import MOST_MINUTES, series

_NO_SAMPLE = -1
_QUOTA = 10_000
_LONGEST_SPAN = timedelta(days=31)
_METRICS = ("cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage", "npuUtil", "npuMemUsage")


class _Filter(Body):
    key: Literal["id", "phase", "create_time"]
    operator: Literal["in", "between"]
    value: Annotated[list[str], Meta(max_length=10)]

    def __post_init__(self) -> None:
        """Raises ValueError if the operator or a value is not for this key."""
        if (self.key == "create_time") != (self.operator == "between"):
            raise ValueError("the operator of a filter is not supported for its key")
        if self.key == "phase" and not {*self.value} <= {*PHASES}:
            raise ValueError("the value of a filter is not a phase")
        if self.key == "create_time":
            start, end = map(datetime.fromisoformat, self.value)
            if start.tzinfo is None or end.tzinfo is None or not timedelta() <= end - start <= _LONGEST_SPAN:
                raise ValueError("create_time must be two RFC 3339 times at most 31 days apart")


class _Search(Body):
    filters: Annotated[list[_Filter], Meta(max_length=20)] = msgspec.field(default_factory=list)
    host_ips: Annotated[list[str], Meta(max_length=10)] = msgspec.field(default_factory=list)
    workspace_id: str = ""
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    sort_by: Literal["create_time"] = "create_time"
    order: Literal["asc", "desc"] = "desc"


def list_jobs(call: Call) -> Answer:
    """POST /v2/{project_id}/training-job-searches: one page of one workspace; `total` counts all matches."""
    world, asked = call.world, call.read(_Search)
    filters, hosts = {one.key: one.value for one in asked.filters if one.value}, asked.host_ips
    start, end = (world.now - _LONGEST_SPAN.total_seconds(), world.now) if hosts else (-math.inf, math.inf)
    if "create_time" in filters:
        start, end = (datetime.fromisoformat(text).timestamp() for text in filters["create_time"])
    workspace_id = workspace_of(world, asked.workspace_id)
    found = [
        job
        for job in world.between(start, end)
        if job.draft.workspace_id == workspace_id
        and phase(job) in filters.get("phase", PHASES)
        and job.job_id in filters.get("id", (job.job_id,))
        and (not hosts or any(task["host_ip"] in hosts for task in _task_ips(world, job)))
    ]
    if asked.order == "desc":
        found.reverse()
    rows = [job_row(job, world.now) for job in found[asked.offset * asked.limit :][: asked.limit]]
    for row in rows if hosts else ():
        row["status"]["task_ips"] = _task_ips(world, world.jobs[row["metadata"]["id"]])
    return Answer({"total": len(found), "count": len(rows), "items": rows})


def show_quotas(call: Call) -> Answer:
    """GET /v2/{project_id}/training-quotas: the limit of live jobs and their number, in all workspaces."""
    call.choice("resource", ("job-num",))
    used = sum(map(call.world.shows, call.world.live()))
    return Answer({"quotas": [{"resource": "job-num", "quota": _QUOTA, "used": used}]})


def show_metrics(call: Call) -> Answer:
    """GET /v2/{project_id}/training-jobs/{training_job_id}/metrics/{task_id}: the whole history, in percent.

    204 without a body before the job runs; afterwards all six series, for any devices.
    """
    job = call.world.shown(call.ids[0])
    if job is None:
        raise call.refused("not_found")
    if job.pods and call.ids[1] not in tasks_of(job):
        raise call.refused("invalid", "The task does not exist.")
    if job.running is None:
        return Answer(None, status=204)
    place = tasks_of(job).index(call.ids[1])
    role, now = job.pods[place].role, call.world.present
    length = len(_values(job, place, "cpuUsage", now))
    metrics = [
        {"metric": one, "value": _values(job, place, one, now) if has(role, one) else [_NO_SAMPLE] * length}
        for one in _METRICS
    ]
    return Answer({"metrics": metrics})


def _values(job: Job, place: int, metric: str, now: int) -> list[float]:
    found = series(job, place, READINGS[metric], now)
    values = [_NO_SAMPLE if value is None else round(value, 3) for value in found]
    # Collection begins late, and the newest minutes may be missing.
    late = 0 if len(values) == MOST_MINUTES else 1 if metric in {"cpuUsage", "memUsage"} else 2
    lag = (0, 0, 0, 0, 0, 1, 1, 2)[crc32(f"{job.pods[place].uid}/{now // 60}".encode()) % 8]
    for at in (*range(late), *range(len(values) - lag, len(values))):
        if 0 <= at < len(values):
            values[at] = _NO_SAMPLE
    return values


def _task_ips(world: World, job: Job) -> list[dict[str, str]]:
    """Return where the tasks of a job run; nothing outside of dedicated pools."""
    pool = world.pools.get(job.draft.pool_id)
    if pool is None:
        return []
    return [
        {"task": task, "ip": pod.ip, "host_ip": host_ip(pool, pod.node)}
        for task, pod in zip(tasks_of(job), job.pods, strict=False)
    ]


def facts_of(body: Any) -> dict[str, str]:
    """Return a search's fields for `/truth` and `/faults`: plain ones, filters by key, and what it searches `by`."""
    if not isinstance(body, dict):
        return {}
    plain = body | ({"by": "nodes"} if body.get("host_ips") else {})
    facts = {name: str(value) for name, value in plain.items() if isinstance(value, str | int)}
    for one in body["filters"] if isinstance(body.get("filters"), list) else []:
        if isinstance(one, dict) and isinstance(one.get("value"), list):
            facts[str(one.get("key"))] = ",".join(map(str, one["value"]))
    return facts
