"""ModelArts' past: jobs by searches, and their usage by AOM's ranges. Task metrics have no dates, and so no past.

A job's record proves when it ran (running_records, or start_time and duration) and how it ended, and nothing of the
time before: a job may have been created or pending then. Values of AOM become readings as those of now do (usage).

Cost: a call for each 50 jobs and each search; for each day one call a metric of AOM and each 50,000 samples of it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from trainfleet_exporter.config import JobsScope
from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.fleet.histories import Interval
from trainfleet_exporter.fleet.past import Asked, PastReadings, PastSource, life_of, parts_of
from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.huawei_modelarts import usage
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.history import JobStatus, records
from trainfleet_exporter.providers.huawei_modelarts.jobs import (
    LIVE,
    TERMINAL,
    Filter,
    JobRow,
    list_workspaces,
    search_jobs,
    tasks,
)
from trainfleet_exporter.providers.huawei_modelarts.jobs import job as job_of
from trainfleet_exporter.providers.huawei_modelarts.metrics import Plan, plans
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import JobParts
from trainfleet_exporter.providers.past import DAY, MINUTE, Life, Past, PastCall, Range, Spell, Track, seconds_after
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport.json_fields import iso_time

log = logging.getLogger(__name__)

AOM = PastSource(name="aom", api="aom", readings=50_000)
LOOK_BACK = 93 * DAY
"""Seconds before the start in which an ended job may have been created and is still found."""
_SEARCHED = 7 * DAY
"""One search; at most 31 days are allowed, and fewer are fewer rows in memory."""
_WINDOW = 2.0 * MINUTE
"""Allowed age of a sample at a step. Samples are about a minute apart."""
_MOST_NAMED = 50
"""Jobs up to which a query names them, where others are not wanted: it goes in the URL."""


class ModelArtsPast(Past):
    """One project of ModelArts."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        super().__init__()
        self._config, self._usage, self._metrics = config, config.collectors.usage, context.settings.metrics
        self._api = config.open_api(context)
        self._workspaces: Sequence[str] = ()
        self._plans: Sequence[Plan] = ()
        """The queries of AOM; none if it has nothing."""

    async def aclose(self) -> None:
        await self._api.aclose()

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        found = [f"jobs that had ended and were created before {iso_time(wanted.start - LOOK_BACK)} are not found"]
        if self._usage.enabled and self._usage.source != AOM.name:
            found.append("usage from task metrics is left out: it has no dates")
        return found

    async def learn(self, deadline: float) -> None:
        configured = self._config.workspaces
        listed = (await list_workspaces(self._api, deadline)).rows if configured == "all" else configured
        self._workspaces = sorted(listed)
        if self._usage.asks_aom:
            chosen = self._usage.metrics.given(), self._metrics.deny, self._usage.profiling
            try:
                names = await usage.metric_names(self._api, deadline=deadline)
                if names is None:  # whether a query is answered counts: any will do
                    text = plans(None, {})[0].queries[0].text(_WINDOW)
                    await usage.query_rows(self._api, text, None, deadline=deadline)
                self._plans = plans(names, *chosen)
            except CloudError as error:
                if not usage.is_refusal(error) or isinstance(error, AccessDenied) or self._usage.source == AOM.name:
                    raise
                log.warning("AOM is not available; usage is left out", extra=fields(error=error))

    # Jobs.

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
            if (life := job_life(row, shown_tags=self._metrics.job_labels)) is not None:
                yield life
        self.dropped["malformed"] += listing.malformed

    # Usage.

    def readings(self, day: Range, lives: Sequence[Life]) -> Iterator[PastCall[Track]]:
        """Each call is of all jobs of the project."""
        running = {life.job.job_id: life for life in lives if not life.runs(day).empty}
        project = [("", sum(parts_of(life, "device") for life in running.values()), day)] if running else []
        for plan in self._plans:
            for asked in AOM.batches(project, MINUTE):
                read = partial(self._read, plan, asked.span, running)
                yield PastCall(plan.key, {AOM.api: len(plan.queries)}, read)

    async def _read(
        self, plan: Plan, within: Range, lives: Mapping[str, Life], deadline: float
    ) -> AsyncIterator[Track]:
        runs = {job_id: span for job_id, life in lives.items() if not (span := life.runs(within)).empty}
        is_some = bool(self.job_id) or self._config.workspaces != "all" or self._config.jobs != JobsScope()
        names_jobs = is_some and len(lives) <= _MOST_NAMED
        if seconds_after(within.start, MINUTE) >= within.end or (names_jobs and not runs):
            return
        jobs = {job_id: JobParts(lives[job_id].job, lives[job_id].tasks) for job_id in runs}
        named, lost = runs if names_jobs else (), Counter[str]()
        answers = await usage.read(
            self._api, plan, jobs, _WINDOW, lost, deadline=deadline, within=within, job_ids=named
        )
        decides = plan is next((each for each in self._plans if each.level == "pod"), self._plans[0])
        for each in answers:
            found = PastReadings(each.level, Asked(runs, len(each.readings), MINUTE), accelerator=each.accelerator)
            found.spoiled |= each.incomplete(jobs, dated=True)
            for reading in each.readings:
                found.put(*reading)
            for track in (*found.tracks(each.targets), *(found.sources(AOM.name) if decides else ())):
                yield track
            lost.update(found.dropped if each.is_first else ())
        self.dropped.update(lost)


def job_life(row: JobRow, *, shown_tags: Collection[str]) -> Life | None:
    """The life of a job by its row; None without an id."""
    # An ended job does not show what it asked for; a running one does.
    state = row.status or JobStatus()
    now, then = job_of(row), job_of(replace(row, status=replace(state, phase="Running")))
    if now is None or then is None:
        return None
    if now.status in FINISHED and now.finished is None and now.started is not None and now.duration is not None:
        now = replace(now, finished=now.started + now.duration)
    history, names = records(state, now.status, now.created), tasks(row).names
    intervals = history.intervals or ()
    life = life_of(then, now, _spells(now, intervals), [*intervals, *history.recovery_intervals], shown_tags)
    return replace(life, tasks=names, pods=len(names) or life.pods)


def _spells(now: Job, intervals: Sequence[Interval]) -> Iterator[Spell]:
    """Yield the times in which a job ran, then its end."""
    ran = [(each.start, each.end) for each in intervals if each.phase in ("preparing", "running")]
    if not ran and now.started is not None:
        ran = [(now.started, None)]
    for start, end in ran:
        until = now.finished if end is None else end
        # If the end of a run is unknown, so is whether it lasted for any time.
        if now.status not in FINISHED if until is None else until > start:
            yield Spell(start, until, Status.RUNNING, "Running", True)
    if now.finished is not None:
        yield Spell(now.finished, None, now.status, now.platform_status, now.holds_resources)
