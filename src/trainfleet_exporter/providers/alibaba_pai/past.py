"""PAI's past: jobs by ListJobs, statuses by GetJob, and their usage (past_usage).

A row describes a job as it is now. What it was while it ran is the same row with another word for its status, so that
the past is translated by what translates the present.

Cost: a call for each 100 jobs, one for each job's statuses; then for each day and job eight calls of GetJobMetrics, or
one call of DescribeMetricList for each 1,440 points of each metric.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial

import msgspec
from msgspec.structs import replace

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused
from trainfleet_exporter.families.usage import Family, exposed
from trainfleet_exporter.model import FINISHED, Job
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.alibaba_pai import jobs, usage
from trainfleet_exporter.providers.alibaba_pai.client import Api
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.history import StatusTransition
from trainfleet_exporter.providers.alibaba_pai.job_metrics import METRIC_TYPES
from trainfleet_exporter.providers.alibaba_pai.metrics import DLC, JOB_FAMILIES, POOL_FAMILIES, QUOTA, MetricMeta, feeds
from trainfleet_exporter.providers.alibaba_pai.past_usage import (
    CLOUDMONITOR,
    FIVES_KEPT,
    JOB_METRICS,
    MINUTES_KEPT,
    JobMetricsPast,
    by_monitor,
    jobs_past,
    pools_past,
)
from trainfleet_exporter.providers.alibaba_pai.pools import list_quotas, quota
from trainfleet_exporter.providers.history import DAY, Life, PastSource, Range, Sink, Spell, Unit
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.past import ProviderHistory, end_of_life, lasting
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.values import utc_time, whole
from trainfleet_exporter.transport.json_fields import iso_time

log = logging.getLogger(__name__)

_STATUSES = ("status", "platform_status", "holds_resources")


class _Learned(msgspec.Struct):
    """The data that plans are made from."""

    workspaces: list[str] = msgspec.field(default_factory=list)
    pool_models: dict[str, str] = msgspec.field(default_factory=dict)
    quotas: dict[str, str] = msgspec.field(default_factory=dict)
    """The names of quotas by id."""
    sizes: dict[str, jobs.Size] = msgspec.field(default_factory=dict)
    metrics: dict[str, dict[str, MetricMeta]] = msgspec.field(default_factory=dict)
    """The catalogues: by namespace and name."""


class PaiHistory(ProviderHistory[Mapping[str, str], jobs.JobRow]):
    """One account and region of PAI."""

    list_api = "dlc"

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext) -> None:
        super().__init__(config, context)
        self._config = config
        self._usage = config.collectors.usage
        self._api = Api(config, context, cloudmonitor=True)
        self._known = _Learned()
        self._shown_tags = frozenset(self.settings.metrics.job_labels)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        if not self._usage.enabled or self._usage.source == JOB_METRICS.source:
            return []
        found = []
        if wanted.start < now - FIVES_KEPT:
            found.append("CloudMonitor keeps points for 91 days: what is older has no usage, except by GetJobMetrics")
        if wanted.start < now - MINUTES_KEPT:
            found.append("CloudMonitor keeps points of one minute for 31 days: what is older comes every five minutes")
        return found

    async def learn(self, deadline: float) -> bytes:
        config, found = self._config, _Learned()
        if config.workspaces == "all":
            listing = await self._api.list_all(jobs.WORKSPACES, "/api/v1/workspaces", deadline=deadline)
            found.workspaces = sorted(key for key, row in listing.rows.items() if row.status not in jobs.WITHOUT_JOBS)
        else:
            found.workspaces = sorted(config.workspaces)
        try:
            for quota_id, row in (await list_quotas(self._api, deadline=deadline)).rows.items():
                known = quota(row)
                found.quotas[quota_id], found.pool_models[quota_id] = known.name, known.model
        except CloudError as error:
            _may_lack("quotas: jobs lack the models of their accelerators, and pools their usage", error)
        try:
            machines = (await self._api.list_all(jobs.ECS_SPECS, "/api/v1/ecsspecs", deadline=deadline)).rows
            found.sizes = {name: jobs.ecs_size(row) for name, row in machines.items()}
        except CloudError as error:
            _may_lack("machine types: some jobs lack what they asked for", error)
        if self._usage.enabled and self._usage.source != JOB_METRICS.source:
            for namespace in (DLC, *((QUOTA,) if self._with_pools else ())):
                found.metrics[namespace] = (await usage.list_metrics(self._api, namespace, deadline)).rows
        return msgspec.msgpack.encode(found)

    def recall(self, learned: bytes, job_id: str) -> None:
        self._known = msgspec.msgpack.decode(learned, type=_Learned)
        self.workspaces, self.job_id = self._known.workspaces, job_id
        self.sources = list(self._sources())

    @property
    def _families(self) -> Sequence[Family]:
        return exposed(JOB_FAMILIES, self.settings.metrics.deny, self._usage.profiling)

    @property
    def _with_pools(self) -> bool:
        return self._config.collectors.pools.enabled and self._usage.by_cloudmonitor

    def _sources(self) -> Iterator[PastSource]:
        choices = self._usage.metrics.choices()
        catalogues = self._known.metrics
        of_jobs, unfed = feeds(catalogues.get(DLC, {}), self._families, choices)
        families = exposed(POOL_FAMILIES, self.settings.metrics.deny, self._usage.profiling)
        of_pools, unfed_pools = feeds(catalogues.get(QUOTA, {}), families, choices)
        usage.log_unfed([*unfed, *unfed_pools] if catalogues else [], set())
        if not self._usage.enabled:
            return
        shown = {family.suffix for family in self._families}
        metrics = [each for each in METRIC_TYPES if any(family.suffix in shown for family in each.targets)]
        source_of = self._usage.source_of
        yield JobMetricsPast(self._api, metrics, source_of)
        yield jobs_past(CLOUDMONITOR, of_jobs, by_monitor(self._api), source_of)
        if of_jobs and not self.job_id:
            yield pools_past(self._api, of_pools, self._known.quotas)

    def query_of(self, job_id: str) -> Mapping[str, str]:
        return {"JobIds": job_id, "StartTime": jobs.EVER}

    def queries(self, wanted: Range, now: float) -> Sequence[Sequence[tuple[str, Mapping[str, str]]]]:
        """Live jobs first, status after status in the order of a job's life; then those that ended since, by day."""
        living = [
            [(status, {"Status": status, "StartTime": jobs.EVER, "EndTime": iso_time(wanted.end)})]
            for status in jobs.LIVE
        ]
        ended = []
        for since in range(int(wanted.start - self.settings.finished_job_retention), int(now) + 1, DAY):
            query = {"TimeRangeField": "GmtFinishTime", "StartTime": iso_time(since)}
            # Who ended while live ones were listed is among those of the last range: it ends when it is asked for.
            query |= {} if since + DAY > now else {"EndTime": iso_time(since + DAY)}
            ended.append((str(since), query))
        return [*living, ended]

    async def list_jobs(self, workspace_id: str, query: Mapping[str, str], deadline: float) -> Listing[jobs.JobRow]:
        if "EndTime" not in query and "TimeRangeField" in query:
            query = {**query, "EndTime": iso_time(time.time())}
        return await jobs.list_jobs(self._api, workspace_id, query, deadline=deadline)

    def life(self, workspace_id: str, row: jobs.JobRow) -> Life | None:
        known = self._known
        return job_life(
            row,
            workspace_id=workspace_id,
            models=known.pool_models,
            sizes=known.sizes,
            shown_tags=self._shown_tags,
        )

    def details(self, lives: Iterable[Life]) -> Iterator[Unit]:
        """Each job whose row does not say its statuses."""
        deny = self.settings.metrics.deny
        if all(any(fnmatchcase(f"trainfleet_job_{suffix}", pattern) for pattern in deny) for suffix in _STATUSES):
            return
        for life in lives:
            if not any(spell.end is not None for spell in life.spells):
                yield Unit(life.job.job_id, {"dlc": 1}, partial(self._detail, life))

    async def _detail(self, life: Life, sink: Sink, deadline: float) -> None:
        job_id = life.job.job_id
        try:
            answer = await jobs.get_job(self._api, job_id, deadline=deadline)
        except NotFound:
            sink.gone(job_id)
            return
        sink.life(with_spells(life, answer.status_history))


def _may_lack(what: str, error: CloudError) -> None:
    """Log that data is missing without which a backfill still makes sense. Raise all other errors again."""
    if not isinstance(error, AccessDenied | NotFound | RequestRefused):
        raise error
    log.warning("backfill continues without some data", extra=fields(data=what, error=error))


def job_life(
    row: jobs.JobRow,
    *,
    workspace_id: str = "",
    models: Mapping[str, str],
    sizes: Mapping[str, jobs.Size],
    shown_tags: Collection[str],
) -> Life | None:
    """The life of a job by its row; None without an id."""

    def translated(given: jobs.JobRow) -> Job | None:
        return jobs.job(given, workspace_id=workspace_id, models=models, sizes=sizes)

    now, then = translated(row), translated(replace(row, status="Running", sub_status=""))
    if now is None or then is None:
        return None
    job = lasting(then, shown_tags)
    gone = now.status in FINISHED and not now.holds_resources
    until = end_of_life(now, now.finished) if gone else None
    counted = [count for spec in row.job_specs or () if spec and (count := whole(spec.pod_count)) is not None]
    end_of_work = utc_time(getattr(row, jobs.END_TIMES[now.status])) if now.status in FINISHED else None
    known_of = Life(
        job=job,
        until=until,
        ended=now.finished,
        ceased=end_of_work if end_of_work is not None else until if gone else now.finished,
        spells=() if not gone or now.finished is None else (_spell(now.platform_status, now.finished, None),),
        pods=sum(counted) or int(job.nodes or 1),
        cards=int(sum(item.count for item in job.accelerators)),
    )
    return with_spells(known_of, row.status_history)


def with_spells(known: Life, history: Iterable[StatusTransition | None] | None) -> Life:
    """The life with its history of statuses (GetJob has one)."""
    found = list(spells(history or ()))
    if not found:
        return known
    if found[-1].end is None and found[-1].status in FINISHED and not found[-1].holds_resources:
        return replace(known, spells=tuple(found))
    if known.until is not None:
        # What the list proved of the end stays, should the history not know of it: nothing else lasted beyond.
        end = next((spell for spell in known.spells if spell.end is None), None)
        if end is not None:
            found = [*(_until(spell, end.start) for spell in found if spell.start < end.start), end]
        elif found[-1].end is None:
            found.pop()  # it did not last, and its length is unknown
    return replace(known, spells=tuple(found))


def _until(spell: Spell, moment: float) -> Spell:
    return replace(spell, end=moment if spell.end is None else min(spell.end, moment))


def spells(history: Iterable[StatusTransition | None]) -> Iterator[Spell]:
    """StatusHistory: each status with its time. One without an end lasts until the next begins, or still."""
    found = []
    for item in history:
        if item is None:
            continue
        start = utc_time(item.start_time)
        if item.status and start is not None:
            found.append((start, utc_time(item.end_time), item.status))
    found.sort(key=lambda each: each[0])
    for place, (start, end, word) in enumerate(found):
        following = found[place + 1][0] if place + 1 < len(found) else None
        until = following if end is None else end if following is None else min(end, following)
        if until is None or until > start:
            yield _spell(word, start, until)


def _spell(word: str, start: float, end: float | None) -> Spell:
    job = jobs.job(jobs.JobRow(job_id="-", status=word), workspace_id="", models={}, sizes={})
    assert job is not None  # it has an id
    return Spell(start, end, job.status, word, job.holds_resources)
