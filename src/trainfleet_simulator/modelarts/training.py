"""The simulated v2 training API: search, task metrics, quotas. Bodies of searches are parsed strictly.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListTrainingJobs.html and related pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zlib import crc32

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.modelarts.catalog import refused, workspace_of
from trainfleet_simulator.modelarts.job_rows import PHASES, has, job_row, phase, tasks_of
from trainfleet_simulator.modelarts.pools import host_ip
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY
from trainfleet_simulator.world.usage import MOST_MINUTES, TaskSeries

_NO_SAMPLE = -1
_QUOTA = 10_000
_METRICS = {
    "cpuUsage": "CpuCoreUsage",
    "memUsage": "MemoryUsage",
    "gpuUtil": "GpuCoreUsage",
    "gpuMemUsage": "GpuMemoryUsage",
    "npuUtil": "GpuCoreUsage",
    "npuMemUsage": "GpuMemoryUsage",
}
"""Every series of a response, and the world's name of it."""


class Training:
    """The operations. They remember the series of tasks."""

    def __init__(self) -> None:
        self._series = TaskSeries()

    def list_jobs(self, call: Call) -> Answer:
        """POST /v2/{project_id}/training-job-searches: one page of one workspace; `total` counts all matches."""
        world, body = call.world, call.body
        filters, hosts = _filters(body), body.get("host_ips") or []
        if not isinstance(hosts, list) or len(hosts) > _MOST_VALUES:
            raise refused("2764", f"The parameter host_ips must be an array of at most {_MOST_VALUES}.")
        phases = filters.get("phase", PHASES)
        start, end = (world.now - _LONGEST_SPAN, world.now) if hosts else (-math.inf, math.inf)
        if "create_time" in filters:
            start, end = _span(filters["create_time"])
        workspace_id = workspace_of(world, body.get("workspace_id"))
        offset, limit = _whole(body, "offset", 0, 0, 1_000_000), _whole(body, "limit", 10, 1, 50)
        found = [
            job
            for job in world.between(start, end)
            if job.draft.workspace_id == workspace_id
            and phase(job) in phases
            and job.job_id in filters.get("id", (job.job_id,))
            and (not hosts or any(task["host_ip"] in hosts for task in _task_ips(world, job)))
        ]
        if body.get("order") != "asc":
            found.reverse()
        rows = [job_row(job, world.now) for job in found[offset * limit :][:limit]]
        for row in rows if hosts else ():
            row["status"]["task_ips"] = _task_ips(world, world.jobs[row["metadata"]["id"]])
        return Answer({"total": len(found), "count": len(rows), "items": rows})

    def show_quotas(self, call: Call) -> Answer:
        """GET /v2/{project_id}/training-quotas: the limit of live jobs and their number, in all workspaces."""
        if call.text("resource", "job-num") != "job-num":
            raise refused("2764", "The parameter resource must be job-num.")
        used = sum(map(call.world.shows, call.world.live()))
        return Answer({"quotas": [{"resource": "job-num", "quota": _QUOTA, "used": used}]})

    def show_metrics(self, call: Call) -> Answer:
        """GET /v2/{project_id}/training-jobs/{training_job_id}/metrics/{task_id}: the whole history, in percent.

        204 without a body before the job runs; afterwards all six series, for any devices.
        """
        job = call.world.shown(call.ids[0])
        if job is None:
            raise refused("2775", "The training job does not exist.")
        if job.pods and call.ids[1] not in tasks_of(job):
            raise refused("2764", "The task does not exist.")
        if job.running is None:
            return Answer(None, status=204)
        place = tasks_of(job).index(call.ids[1])
        role = job.pods[place].role
        length = len(self._values(call, job, place, "cpuUsage"))
        metrics = [
            {
                "metric": metric,
                "value": self._values(call, job, place, metric) if has(role, metric) else [_NO_SAMPLE] * length,
            }
            for metric in _METRICS
        ]
        return Answer({"metrics": metrics})

    def _values(self, call: Call, job: Job, place: int, metric: str) -> list[float]:
        found = self._series.values(job, place, _METRICS[metric], call.world.present)
        values = [_NO_SAMPLE if value is None else round(value, 3) for value in found]
        # Collection begins late, and the newest minutes may be missing.
        late = 0 if len(values) == MOST_MINUTES else 1 if metric in {"cpuUsage", "memUsage"} else 2
        lag = (0, 0, 0, 0, 0, 1, 1, 2)[crc32(f"{job.pods[place].uid}/{call.world.present // 60}".encode()) % 8]
        for at in (*range(late), *range(len(values) - lag, len(values))):
            if 0 <= at < len(values):
                values[at] = _NO_SAMPLE
        return values


_MOST_FILTERS, _MOST_VALUES, _LONGEST_SPAN = 20, 10, 31 * DAY


def _filters(body: Any) -> dict[str, list[str]]:
    """Check the body of a search; return the values of its filters by key. Raises ApiError with the code of the error.

    A filter without values, or with an empty one, selects everything.
    """
    if not isinstance(body, dict):
        raise refused("2764", "The request body must be a JSON object.")
    for name, allowed in (("sort_by", ("create_time",)), ("order", ("asc", "desc"))):
        if body.get(name) not in (None, "", *allowed):
            raise refused("2790", f"The parameter {name} must be {' or '.join(allowed)}.")
    filters = body.get("filters") or []
    if not isinstance(filters, list) or len(filters) > _MOST_FILTERS:
        raise refused("2789", f"The parameter filters must be an array of at most {_MOST_FILTERS}.")
    return {key: values for key, values in map(_filter, filters) if values}


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


def _whole(body: dict[str, Any], name: str, default: int, lowest: int, highest: int) -> int:
    value = body.get(name, default)
    if type(value) is not int or not lowest <= value <= highest:
        raise refused("2764", f"The parameter {name} must be a whole number of {lowest} to {highest}.")
    return value


def _filter(given: Any) -> tuple[str, list[str]]:
    if not isinstance(given, dict):
        raise refused("2789", "A filter must be an object of key, operator and value.")
    key, operator, value = given.get("key"), given.get("operator"), given.get("value")
    if not isinstance(key, str) or key not in {"id", "phase", "create_time"}:
        raise refused("2807", "The key of a filter is not supported.")
    if operator != ("between" if key == "create_time" else "in"):
        raise refused("2808", "The operator of a filter is not supported for its key.")
    if not isinstance(value, list) or len(value) > _MOST_VALUES or not all(isinstance(one, str) for one in value):
        raise refused("2809", f"The value of a filter must be an array of at most {_MOST_VALUES} texts.")
    values = [one for one in value if one]
    if key == "phase" and not set(values) <= set(PHASES):
        raise refused("2809", "The value of a filter is not a phase.")
    return key, values


def _span(values: Sequence[str]) -> tuple[float, float]:
    try:
        start, end = (datetime.fromisoformat(value) for value in values)
        since, until = start.timestamp(), end.timestamp()
    except ValueError:
        raise refused("2809", "The value of create_time must be two RFC 3339 times.") from None
    if start.tzinfo is None or end.tzinfo is None or not since <= until <= since + _LONGEST_SPAN:
        raise refused("2809", "The value of create_time must be two RFC 3339 times at most 31 days apart.")
    return since, until
