"""PAI's past: jobs by ListJobs, statuses by GetJob, usage by DescribeMetricList and GetJobMetrics.

A row describes a job as it is now. What the job was while it ran is the same row with another word for its status, so
that the past is translated by what translates the present. Usage is read by what reads it live, with a range.

Cost: a call for each 100 jobs, one for each job's statuses; then for each day and job eight calls of GetJobMetrics, or
one call of DescribeMetricList for each 1,440 points of each metric.

https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclist
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.fleet.histories import elapsed
from trainfleet_exporter.fleet.past import Asked, PastSource, PastUsage, life_of, parts_of
from trainfleet_exporter.fleet.usage import Reading, SourceMetric
from trainfleet_exporter.model import FINISHED
from trainfleet_exporter.providers.alibaba_pai import jobs, usage
from trainfleet_exporter.providers.alibaba_pai.api import Api
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.history import StatusTransition, Transitions, dated, details_of
from trainfleet_exporter.providers.alibaba_pai.metrics import Feed
from trainfleet_exporter.providers.alibaba_pai.pools import Quota, list_quotas, quota
from trainfleet_exporter.providers.past import DAY, Life, Past, PastCall, Range, Spell, Track
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.values import utc_time, whole
from trainfleet_exporter.transport import HISTORY
from trainfleet_exporter.transport.json_fields import iso_time

MINUTES_KEPT, FIVES_KEPT = 31 * DAY, 91 * DAY
"""For how long CloudMonitor keeps points of one minute, and those of five and more (seconds)."""
CLOUDMONITOR = PastSource(
    name=usage.CLOUDMONITOR,
    api="cloudmonitor",
    kept=((60, MINUTES_KEPT), (300, FIVES_KEPT)),
    owners=50,
    readings=100_000,
    answered=usage.POINTS,
)
JOB_METRICS = PastSource(name=usage.JOB_METRICS, api="dlc")


class PaiPast(Past):
    """One account and region of PAI."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext) -> None:
        super().__init__()
        self._config, self._metrics, self._usage = config, context.settings.metrics, config.collectors.usage
        self._retention = context.settings.finished_job_retention
        self._api = Api(config, context, config.open_identity, usage=True)
        self._spaces = usage.spaces(config, self._metrics.deny)
        self._workspaces: Sequence[str] = ()
        self._quotas: Mapping[str, Quota] = {}
        self._sizes: Mapping[str, jobs.Size] = {}

    async def aclose(self) -> None:
        await self._api.aclose()

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        if not self._spaces or wanted.start >= now - MINUTES_KEPT:
            return ()
        older = "what is older comes every five minutes, and has no usage after 91 days, except by GetJobMetrics"
        return [f"CloudMonitor keeps points of one minute for 31 days: {older}"]

    async def learn(self, deadline: float) -> None:
        configured = self._config.workspaces
        if configured == "all":
            workspaces = (await jobs.list_workspaces(self._api, deadline=deadline)).rows
            configured = tuple(key for key, row in workspaces.items() if jobs.workspace(row) is not None)
        self._workspaces = sorted(configured)
        if self._config.collectors.pools.enabled:
            rows = (await list_quotas(self._api, deadline=deadline)).rows
            self._quotas = {quota_id: quota(row) for quota_id, row in rows.items()}
        self._sizes = (await jobs.list_machines(self._api, deadline)).rows
        for space in self._spaces:
            space.choose((await usage.list_metrics(self._api, space.namespace, deadline)).rows)

    # Jobs.

    def searches(self, wanted: Range, now: float) -> Iterator[Sequence[PastCall[Life]]]:
        """Live jobs first, status after status in the order of a job's life; then those that ended since, by day."""
        if self.job_id:
            yield self._lists({"JobIds": self.job_id, "StartTime": jobs.EVER})
            return
        for status in jobs.LIVE:
            yield self._lists({"Status": status, "StartTime": jobs.EVER, "EndTime": iso_time(wanted.end)})
        ended = []
        for since in range(int(wanted.start - self._retention), int(now) + 1, DAY):
            query = {"TimeRangeField": "GmtFinishTime", "StartTime": iso_time(since)}
            # Jobs that ended while live ones were listed are in the last range, which ends when it is read.
            query |= {} if since + DAY > now else {"EndTime": iso_time(since + DAY)}
            ended += self._lists(query)
        yield ended

    def _lists(self, query: Mapping[str, str]) -> list[PastCall[Life]]:
        return [
            PastCall(f"jobs of workspace {workspace_id}", {"dlc": 1}, partial(self._search, workspace_id, query))
            for workspace_id in self._workspaces
        ]

    async def _search(self, workspace_id: str, query: Mapping[str, str], deadline: float) -> AsyncIterator[Life]:
        listing = await jobs.list_jobs(self._api, workspace_id, query, deadline=deadline)
        self.dropped["malformed"] += listing.malformed
        models = {key: each.model for key, each in self._quotas.items()}
        for row in listing.rows.values():
            if (life := job_life(row, workspace_id, models, self._sizes, self._metrics.job_labels)) is not None:
                yield life

    def details(self, lives: Iterable[Life]) -> Iterator[PastCall[Life]]:
        """Each job. Only details have restarts, without which phases are wrong."""
        for life in lives:
            yield PastCall(f"statuses of job {life.job.job_id}", {"dlc": 1}, partial(self._detail, life))

    async def _detail(self, life: Life, deadline: float) -> AsyncIterator[Life]:
        try:
            answer = await jobs.get_job(self._api, life.job.job_id, deadline=deadline)
        except NotFound:
            self.gone.add(life.job.job_id)
        else:
            records = details_of(answer.status_history, answer.restart_record)
            phases = elapsed([*(records.intervals or ()), *records.recovery_intervals]).until(life.ended)
            yield replace(with_spells(life, answer.status_history), phases=phases)

    # Usage.

    def readings(self, day: Range, lives: Sequence[Life]) -> Iterator[PastCall[Track]]:
        types = usage.metric_types(self._usage, self._metrics.deny) if self._usage.enabled else ()
        by_job, by_monitor = (partial(self._owners, source, day, lives) for source in (JOB_METRICS, CLOUDMONITOR))
        yield from PastUsage(self, JOB_METRICS, types, by_job, self._job_metrics).calls(day)
        for space in self._spaces:
            yield from PastUsage(self, CLOUDMONITOR, space.feeds.values(), by_monitor, self._points).calls(day)

    def _owners(
        self, source: PastSource, day: Range, lives: Sequence[Life], metric: SourceMetric
    ) -> Iterator[tuple[str, int, Range]]:
        """What a source serves of a metric: pools, or some of the jobs."""
        if metric.level == "pool":
            spans = {} if self.job_id else {key: day.clip(each.created, day.end) for key, each in self._quotas.items()}
            yield from ((quota_id, 1, span) for quota_id, span in spans.items() if not span.empty)
            return
        for life in lives:
            runs = life.runs(day)
            is_served = self._usage.in_bulk(life.job) == (source is CLOUDMONITOR) and not runs.empty
            if is_served and not (metric.of_accelerators and usage.is_without_gpus(life.job)):
                yield life.job.job_id, parts_of(life, metric.level), runs

    async def _points(self, feed: Feed, asked: Asked, deadline: float) -> AsyncIterator[Iterable[Reading]]:
        start, end, names = asked.span.start, asked.span.end, asked.within
        async for found in usage.read_points(
            self._api, feed, self._quotas, start, end, names=names, step=asked.step, deadline=deadline
        ):
            yield zip(*found, strict=True)
            del found

    async def _job_metrics(
        self, metric: SourceMetric, asked: Asked, deadline: float
    ) -> AsyncIterator[Iterable[Reading]]:
        """GetJobMetrics of one job."""
        (job_id, within), *_ = asked.within.items()
        payload = await usage.get_job_metrics(
            self._api, job_id, metric, within.start, within.end, deadline=deadline, limits=HISTORY
        )
        for _, found in usage.readings_of(payload, job_id):
            yield found


def job_life(
    row: jobs.JobRow,
    workspace_id: str,
    models: Mapping[str, str],
    sizes: Mapping[str, jobs.Size],
    shown_tags: Collection[str],
) -> Life | None:
    """Return the life of a job by its row; None without an id."""
    translated = partial(jobs.job, workspace_id=workspace_id, models=models, sizes=sizes)
    now, then = translated(row), translated(replace(row, status="Running", sub_status=""))
    if now is None or then is None:
        return None
    known = life_of(then, now, (), (), shown_tags)
    ended = () if known.until is None or now.finished is None else (_spell(now.platform_status, now.finished, None),)
    counted = [count for spec in row.job_specs or () if spec and (count := whole(spec.pod_count)) is not None]
    end_of_work = utc_time(getattr(row, jobs.END_TIMES[now.status])) if now.status in FINISHED else None
    ceased = known.ceased if end_of_work is None else end_of_work
    known = replace(known, ceased=ceased, spells=ended, pods=sum(counted) or known.pods)
    return with_spells(known, row.status_history)


def with_spells(known: Life, history: Transitions) -> Life:
    """Return the life with its history of statuses, which GetJob has."""
    found, released = list(spells(history or ())), known.until
    last = found[-1] if found else None
    if last and released is not None and (last.end or last.status not in FINISHED or last.holds_resources):
        # The end that the list proved stays, even if the history does not have it: no other status lasts beyond it.
        # Without its time, the last status did not last either, and its length is unknown.
        until = math.inf if known.ended is None else known.ended
        cut = [replace(each, end=min(each.end or until, until)) for each in found if each.start < until]
        found = [each for each in cut if each.end != math.inf] + [each for each in known.spells if each.end is None]
    elif last and released is not None:
        released = max(released, last.start)
    return replace(known, spells=tuple(found) or known.spells, until=released)


def spells(history: Sequence[StatusTransition | None]) -> Iterator[Spell]:
    """Yield each status of StatusHistory. One without an end lasts until the next begins, or still."""
    found = [(item, start) for item, start in dated(history, "start_time") if item.status]
    following = [*(start for _, start in found[1:]), None]
    for (item, start), after in zip(found, following, strict=False):  # of no status, there is no following one
        end = min((at for at in (after, utc_time(item.end_time)) if at is not None), default=None)
        if end is None or end > start:
            yield _spell(item.status or "", start, end)


def _spell(word: str, start: float, end: float | None) -> Spell:
    job = jobs.job(jobs.JobRow(job_id="-", status=word))
    assert job is not None  # it has an id
    return Spell(start, end, job.status, word, job.holds_resources)
