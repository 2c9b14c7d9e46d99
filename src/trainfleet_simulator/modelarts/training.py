"""The simulated v2 training API: search, task metrics, quotas.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ListTrainingJobs.html and related pages.
"""

from __future__ import annotations

import math
from typing import Any
from zlib import crc32

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.modelarts import searches
from trainfleet_simulator.modelarts.common import refused
from trainfleet_simulator.modelarts.job_rows import has, job_row, tasks_of
from trainfleet_simulator.modelarts.phases import STATUSES, phase
from trainfleet_simulator.modelarts.task_series import MOST_MINUTES, TaskSeries
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.listing import JobSlice

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


def _fits(search: searches.Search, job: Job) -> bool:
    return phase(job) in search.phases and all(want(job) for want in search.wanted)


class Training:
    """The operations. They remember the series of tasks."""

    def __init__(self) -> None:
        self._series = TaskSeries()

    def list_jobs(self, call: Call) -> Answer:
        """POST /v2/{project_id}/training-job-searches: one page of one workspace; `total` counts all matches."""
        search, world = searches.read(call.body, call.world), call.world
        statuses = sorted({status for word in search.phases for status in STATUSES[word]})
        start, end = search.created or (-math.inf, math.inf)
        found = world.index.between([(search.workspace_id, status) for status in statuses], start, end)
        whole = ("Failed" in search.phases) == ("Abnormal" in search.phases)  # the world has one state for both phases
        if search.wanted or not whole:
            jobs = (world.jobs[job_id] for job_id in found.ids())
            found = JobSlice.of(job for job in jobs if _fits(search, job))
        page = found.page(search.offset * search.limit, search.limit, descending=search.descending)
        rows = [job_row(world.jobs[job_id], world.now) for job_id in page]
        body: dict[str, Any] = {
            "total": len(found),
            "count": len(rows),
            "limit": search.limit,
            "offset": search.offset,
            "sort_by": "create_time",
            "order": "desc" if search.descending else "asc",
            "group_by": "",
            "workspace_id": search.workspace_id,
            "ai_project": "default-ai-project",
            "items": rows,
        }
        return Answer(body)

    def show_quotas(self, call: Call) -> Answer:
        """GET /v2/{project_id}/training-quotas: the limit of live jobs and their number, in all workspaces."""
        if call.text("resource", "job-num") != "job-num":
            raise refused("2764", "The parameter resource must be job-num.")
        user = call.text("user_id")
        used = sum(1 for job in call.world.live() if call.world.shows(job) and user in {"", job.draft.user.user_id})
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
            return Answer(None, status=204, no_data=True)
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
