"""ModelArts' past: jobs by searches, and their usage (past_usage.py).

A job's record proves when it ran (running_records, or start_time and duration) and how it ended, and nothing of the
time before: a job may have been created or pending then.

Cost: a call for each 50 jobs and each search; for each day one call a metric of AOM and each 50,000 samples of it;
and one call a task, for all days together, of each job that AOM lacks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from trainfleet_exporter.config import JobsScope
from trainfleet_exporter.errors import CloudError, NotFound, RequestRefused
from trainfleet_exporter.fleet.past import end_of_life, lasting
from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.history import DAY, MINUTE, Life, Past, PastCall, Range, Spell, Track
from trainfleet_exporter.providers.huawei_modelarts.client import Api
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.history import JobStatus
from trainfleet_exporter.providers.huawei_modelarts.jobs import (
    DEFAULT_WORKSPACE,
    LIVE,
    TERMINAL,
    Filter,
    JobRow,
    last_end,
    list_workspaces,
    search_jobs,
    tasks,
)
from trainfleet_exporter.providers.huawei_modelarts.jobs import job as job_of
from trainfleet_exporter.providers.huawei_modelarts.metrics import READINGS, Plan, Query, plans
from trainfleet_exporter.providers.huawei_modelarts.past_usage import AOM, MOST_MINUTES, WINDOW, AomPast, TasksPast
from trainfleet_exporter.providers.huawei_modelarts.usage import is_refusal, metric_names, query_range
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.values import unix_time
from trainfleet_exporter.transport.json_fields import iso_time

log = logging.getLogger(__name__)

LOOK_BACK = 93 * DAY
"""Seconds before the start in which an ended job may have been created and is still found."""
_SEARCHED = 7 * DAY
"""One search; at most 31 days are allowed, and fewer are fewer rows in memory."""


class ModelArtsPast(Past):
    """One project of ModelArts."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        super().__init__()
        self.settings = context.settings
        self._config, self._usage = config, config.collectors.usage
        self._api = Api(config, context)
        self._workspaces: Sequence[str] = ()
        self._aom_past: AomPast | None = None
        self._tasks: TasksPast | None = None
        self._shown_tags = frozenset(self.settings.metrics.job_labels)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        found = [f"jobs that had ended and were created before {iso_time(wanted.start - LOOK_BACK)} are not found"]
        asks_tasks = self._usage.enabled and self._usage.source != AOM.name
        if asks_tasks and wanted.start < now - MOST_MINUTES * MINUTE:
            found.append("task metrics hold the last three days of a job at most (experimental: they have no dates)")
        return found

    async def learn(self, deadline: float) -> None:
        usage, all_workspaces = self._usage, self._config.workspaces == "all"
        if all_workspaces:
            try:
                self._workspaces = sorted((await list_workspaces(self._api, deadline)).rows)
            except (RequestRefused, NotFound) as error:
                if error.status != 404:
                    raise
                self._workspaces = [DEFAULT_WORKSPACE]  # a region that does not serve workspaces has this one
        else:
            self._workspaces = sorted(self._config.workspaces)
        found: list[Plan] = []
        if usage.asks_aom:
            try:
                metrics = await self._names(deadline)
                found = plans(metrics, usage.metrics.choices(), self.settings.metrics.deny, usage.profiling)
            except CloudError as error:
                if not is_refusal(error) or usage.source == AOM.name:
                    raise
                log.warning("AOM is not available; usage comes from task metrics", extra=fields(error=error))
        some = bool(self.job_id) or not all_workspaces or self._config.jobs != JobsScope()
        self._aom_past = AomPast(self, self._api, found, some=some) if found else None
        if usage.enabled and usage.source != AOM.name:
            self._tasks = TasksPast(self, self._api, self._aom_past)

    async def _names(self, deadline: float) -> list[str] | None:
        """The metrics that AOM has; None if it has no lists of names, and answers queries all the same."""
        try:
            return sorted(await metric_names(self._api, deadline=deadline))
        except (RequestRefused, NotFound):
            now = int(time.time())
            metric, _ = READINGS[0].sources[0].names[0]  # any will do: only whether the query is answered counts
            text = Query(metric, 1.0, frozenset({"job"})).text("job", WINDOW)
            await query_range(self._api, text, start=now - MINUTE, end=now, step=MINUTE, deadline=deadline)
            return None

    def searches(self, wanted: Range, now: float) -> Iterator[Sequence[PastCall[Life]]]:
        """Live jobs first; then those that have ended, by when they were created."""
        if self.job_id:
            yield self._lists([("id", "in", [self.job_id])])
            return
        yield self._lists([("phase", "in", LIVE)])
        ended: list[PastCall[Life]] = []
        for start in range(wanted.start - LOOK_BACK, wanted.end, _SEARCHED):
            created = [iso_time(start), iso_time(min(start + _SEARCHED, wanted.end))]
            ended += self._lists([("phase", "in", TERMINAL), ("create_time", "between", created)])
        yield ended

    def _lists(self, query: Sequence[Filter]) -> list[PastCall[Life]]:
        return [
            PastCall(f"jobs of workspace {workspace_id}", {"modelarts": 1}, partial(self._search, workspace_id, query))
            for workspace_id in self._workspaces
        ]

    async def _search(self, workspace_id: str, query: Sequence[Filter], deadline: float) -> AsyncIterator[Life]:
        listing = await search_jobs(self._api, workspace_id, query, deadline=deadline)
        for row in listing.rows.values():
            if (life := job_life(row, shown_tags=self._shown_tags)) is not None:
                yield life
        self.dropped["malformed"] += listing.malformed

    def rounds(self, day: Range, lives: Sequence[Life]) -> Iterator[Iterable[PastCall[Track]]]:
        """AOM; then task metrics of the jobs that AOM lacks, or whose accelerators it lacks."""
        marks: dict[str, set[str]] = {}
        if self._aom_past is not None:
            yield self._aom_past.calls(day, lives, marks)
        if self._tasks is not None:
            yield self._tasks.calls(day, lives, marks)


def job_life(row: JobRow, *, shown_tags: Collection[str]) -> Life | None:
    """The life of a job by its row; None without an id."""
    # An ended job does not show what it asked for; a running one does.
    state = row.status or JobStatus()
    now, then = job_of(row), job_of(replace(row, status=replace(state, phase="Running")))
    if now is None or then is None:
        return None
    job = lasting(then, shown_tags)
    end = _end(state, now)
    gone = now.status in FINISHED
    until = end_of_life(now, end) if gone else None
    runs = list(_runs(state, now.started, end if gone else None))
    # If the end of a run is unknown, so is whether it lasted for any time.
    found = [
        Spell(start, stop, Status.RUNNING, "Running", True) for start, stop in runs if stop is not None or not gone
    ]
    if gone and end is not None:
        found.append(Spell(end, None, now.status, now.platform_status, now.holds_resources))
    names = tasks(row).names
    return Life(
        job=job,
        until=until,
        ended=end if gone else None,
        ceased=until,
        spells=tuple(spell for spell in found if spell.end is None or spell.end > spell.start),
        tasks=names,
        pods=len(names) or int(job.nodes or 1),
        cards=int(sum(item.count for item in job.accelerators)),
    )


def _end(state: JobStatus, job: Job) -> float | None:
    """When the last run ended; None if that is unknown."""
    end = last_end(state.running_records)
    if end is not None:
        return end
    return None if job.started is None or job.duration is None else job.started + job.duration


def _runs(state: JobStatus, started: float | None, end: float | None) -> Iterator[tuple[float, float | None]]:
    """When it ran, run after run."""
    found = [
        (start, unix_time(record.end_at))
        for record in state.running_records or ()
        if record is not None and (start := unix_time(record.start_at)) is not None
    ]
    if not found:
        if started is not None:
            yield started, end
        return
    found.sort(key=lambda each: each[0])
    for place, (start, stop) in enumerate(found):
        following = found[place + 1][0] if place + 1 < len(found) else end
        yield start, stop if stop is not None else following
