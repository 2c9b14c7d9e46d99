"""PAI's past: jobs by ListJobs, statuses by GetJob, readings by GetJobMetrics and by CloudMonitor's ranges.

Cost: a call for each 100 jobs, one for each job's statuses; then for each day and job eight calls of GetJobMetrics, or
one call of DescribeMetricList for each 1,440 points of each metric.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import msgspec

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.alibaba_pai import past_jobs, payloads, translate
from trainfleet_exporter.providers.alibaba_pai.auth import CREDENTIALS
from trainfleet_exporter.providers.alibaba_pai.catalogue import DLC, QUOTA, Metric, metric
from trainfleet_exporter.providers.alibaba_pai.client import PAGE_SIZE, PaiClient
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import POINTS, CloudMonitor
from trainfleet_exporter.providers.alibaba_pai.collectors.dlc_metrics import is_without_gpus
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import EVER
from trainfleet_exporter.providers.alibaba_pai.collectors.workspaces import WITHOUT_JOBS
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.job_metrics import METRIC_TYPES, MetricType, add_past, is_pay_as_you_go
from trainfleet_exporter.providers.alibaba_pai.job_metrics import SOURCE as JOB_METRICS
from trainfleet_exporter.providers.alibaba_pai.metric_map import (
    JOB_FAMILIES,
    POOL_FAMILIES,
    Feed,
    assumed,
    feeds,
    tell,
)
from trainfleet_exporter.providers.alibaba_pai.payloads import Point
from trainfleet_exporter.providers.alibaba_pai.signing import VERSIONS, PaiDialect
from trainfleet_exporter.providers.alibaba_pai.translate import EcsSpec
from trainfleet_exporter.providers.alibaba_pai.translate_pools import quota
from trainfleet_exporter.providers.credentials import CredentialClients, open_credential
from trainfleet_exporter.providers.history import DAY, History, Life, Lives, Range, Sink, Unit
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.transport_factory import open_transport
from trainfleet_exporter.providers.usage.entities import KEY_LENGTHS
from trainfleet_exporter.providers.usage.newest import Batch
from trainfleet_exporter.providers.usage.past import Past
from trainfleet_exporter.providers.usage.table import Family, exposed
from trainfleet_exporter.transport import HISTORY
from trainfleet_exporter.transport.json_fields import iso_time

log = logging.getLogger(__name__)

_MINUTES_KEPT, _FIVES_KEPT = 31 * DAY, 91 * DAY
"""For how long CloudMonitor keeps points of one minute, and those of five and more (seconds)."""
_AT_ONCE = 50
"""The most resources of one call's Dimensions."""
_POINTS_AT_ONCE = 100_000
"""Points that one unit asks for, about: they are in memory together, and asked for again if one call fails."""
_PODS_AT_ONCE = 64
"""Pods of a job up to which all metrics of a day are one unit."""
_DLC_METRICS = "dlc_metrics"
_STATUSES = ("status", "platform_status", "holds_resources")


class _Learned(msgspec.Struct):
    """What plans are made by."""

    workspaces: list[str] = msgspec.field(default_factory=list)
    pool_models: dict[str, str] = msgspec.field(default_factory=dict)
    quotas: dict[str, str] = msgspec.field(default_factory=dict)
    """The names of quotas by id."""
    ecs_specs: dict[str, EcsSpec] = msgspec.field(default_factory=dict)
    metrics: dict[str, list[Metric]] = msgspec.field(default_factory=dict)
    """The catalogues, by namespace."""


@dataclass(frozen=True, slots=True)
class _OfJob:
    """GetJobMetrics for one job."""

    life: Life
    day: Range
    within: Range
    """When it worked on that day."""
    metrics: Sequence[MetricType]
    tells: MetricType
    """By whose readings it is told that the job had some."""


@dataclass(frozen=True, slots=True)
class _OfMetric:
    """One metric of some jobs or pools over a time."""

    namespace: str
    feed: Feed
    asked: Range
    """What is asked for: the whole time in which any of them has points."""
    within: Mapping[str, Range]
    """By job or pool, when it has readings that are shown."""
    period: int


@dataclass(slots=True)
class _Batch:
    """Jobs that are asked for together."""

    within: dict[str, Range] = field(default_factory=dict)
    points: int = 0

    def takes(self, points: int) -> bool:
        """Whether it has room for another job with so many points."""
        return not self.within or (len(self.within) < _AT_ONCE and self.points + points <= _POINTS_AT_ONCE)

    @property
    def asked(self) -> Range:
        return Range(min(each.start for each in self.within.values()), max(each.end for each in self.within.values()))


class PaiHistory(History):
    """One account and region of PAI."""

    def __init__(self, config: AlibabaPaiConfig, context: BuildContext) -> None:
        self._config = config
        self._usage = config.collectors.usage
        self._settings = context.settings
        self._transport = open_transport(config, context)
        self._credential_clients = CredentialClients(config.name, self._transport, context, config.endpoint)
        credential = open_credential(config.credentials.source, CREDENTIALS, self._credential_clients)
        clients = {
            api: self._transport.client(config.endpoint(api), PaiDialect(api, version, credential))
            for api, version in VERSIONS.items()
        }
        self._api = PaiClient(dlc=clients["dlc"], paistudio=clients["paistudio"], aiworkspace=clients["aiworkspace"])
        self._monitor = CloudMonitor(clients["cloudmonitor"])
        self._wanted = job_filter(config.jobs)
        self._known = _Learned()
        self._only = ""
        """The job that alone is wanted, and no pool with it; empty for all."""
        self._feeds: Mapping[str, Feed] = {}
        self._pool_feeds: Mapping[str, Feed] = {}
        deny = context.settings.metrics.deny
        self._with_statuses = not all(
            any(fnmatchcase(f"trainfleet_job_{suffix}", pattern) for pattern in deny) for suffix in _STATUSES
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._credential_clients.aclose()
        await self._transport.aclose()

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        if not self._usage.enabled or self._usage.source == JOB_METRICS:
            return []
        found = []
        if wanted.start < now - _FIVES_KEPT:
            found.append("CloudMonitor keeps points for 91 days: what is older has no usage, except by GetJobMetrics")
        if wanted.start < now - _MINUTES_KEPT:
            found.append("CloudMonitor keeps points of one minute for 31 days: what is older comes every five minutes")
        return found

    async def learn(self, deadline: float) -> bytes:
        config, found = self._config, _Learned()
        if config.workspaces == "all":
            rows = (await self._api.list_workspaces(deadline=deadline)).rows
            found.workspaces = sorted(key for key, row in rows.items() if row.status not in WITHOUT_JOBS)
        else:
            found.workspaces = sorted(config.workspaces)
        try:
            for quota_id, row in (await self._api.list_quotas(deadline=deadline)).rows.items():
                known = quota(row)
                found.quotas[quota_id], found.pool_models[quota_id] = known.name, known.accelerator_model
        except CloudError as error:
            self._may_lack("quotas: jobs lack the models of their accelerators, and pools their usage", error)
        try:
            machines = (await self._api.list_ecs_specs(deadline=deadline)).rows
            found.ecs_specs = {name: translate.ecs_spec(row) for name, row in machines.items()}
        except CloudError as error:
            self._may_lack("machine types: some jobs lack what they asked for", error)
        if self._usage.enabled and self._usage.source != JOB_METRICS:
            for namespace in (DLC, *((QUOTA,) if self._with_pools else ())):
                found.metrics[namespace] = await self._catalogue(namespace, deadline)
        return msgspec.msgpack.encode(found)

    async def _catalogue(self, namespace: str, deadline: float) -> list[Metric]:
        try:
            listing = await self._monitor.describe_metric_meta_list(namespace, deadline=deadline)
        except CloudError as error:
            if self._usage.source != _DLC_METRICS:
                raise
            self._may_lack(f"catalogue of {namespace}: only what is certain without it is read", error)
            return list(assumed(self._families, self._usage.metrics.choices()).values())
        return [metric(row) for _, row in sorted(listing.rows.items())]

    def recall(self, learned: bytes, job_id: str) -> None:
        self._only = job_id
        self._known = known = msgspec.msgpack.decode(learned, type=_Learned)
        choices = self._usage.metrics.choices()
        catalogues = {name: {each.name: each for each in listed} for name, listed in known.metrics.items()}
        self._feeds, unfed = feeds(catalogues.get(DLC, {}), self._families, choices)
        families = exposed(POOL_FAMILIES, self._settings.metrics.deny)
        self._pool_feeds, unfed_pools = feeds(catalogues.get(QUOTA, {}), families, choices)
        tell("CloudMonitor", [*unfed, *unfed_pools] if known.metrics else [], set())

    @property
    def _families(self) -> Sequence[Family]:
        return exposed(JOB_FAMILIES, self._settings.metrics.deny)

    @property
    def _with_pools(self) -> bool:
        return self._config.collectors.pools.enabled and self._usage.by_cloudmonitor

    # Jobs.

    def searches(self, wanted: Range, now: float, job_id: str) -> Sequence[Sequence[Unit]]:
        """Live jobs first, status after status in the order of a job's life; then those that ended since, by day."""
        calls = {"dlc": 1}
        if job_id:
            query = {"JobIds": job_id, "StartTime": EVER}
            return [[Unit(f"{each} job {job_id}", calls, (each, query)) for each in self._known.workspaces]]
        rounds = []
        for status in translate.LIVE_STATUSES:
            query = {"Status": status, "StartTime": EVER, "EndTime": iso_time(wanted.end)}
            rounds.append([Unit(f"{each} {status}", calls, (each, query)) for each in self._known.workspaces])
        found = []
        start = int(wanted.start - self._settings.finished_job_retention)
        for since in range(start, int(now) + 1, DAY):
            last = since + DAY > now
            for workspace_id in self._known.workspaces:
                query = {"TimeRangeField": "GmtFinishTime", "StartTime": iso_time(since)}
                # Who ended while live ones were listed is among those of the last range.
                query |= {} if last else {"EndTime": iso_time(since + DAY)}
                found.append(Unit(f"{workspace_id} {since}", calls, (workspace_id, query)))
        return [*rounds, found]

    async def search(self, unit: Unit, wanted: Range, sink: Sink, deadline: float) -> None:
        workspace_id, query = unit.data
        if "EndTime" not in query and "TimeRangeField" in query:
            query = {**query, "EndTime": iso_time(time.time())}
        query = {"WorkspaceId": workspace_id, **query}
        known, shown = self._known, frozenset(self._settings.metrics.job_labels)

        listing = await self._api.list_jobs(query, deadline=deadline)
        sink.dropped("malformed", listing.malformed)
        asked = query.get("JobIds", "")
        for place, (job_id, row) in enumerate(listing.rows.items(), start=1):
            if place % PAGE_SIZE == 0:
                await asyncio.sleep(0)
            life = past_jobs.life(
                row,
                workspace_id=workspace_id,
                pool_models=known.pool_models,
                ecs_specs=known.ecs_specs,
                shown_tags=shown,
            )
            if life is not None and self._wanted(life.job) and asked in ("", job_id):
                sink.life(life)

    def details(self, lives: Iterable[Life]) -> Iterator[Unit]:
        """Each job whose row does not tell its statuses."""
        if not self._with_statuses:
            return
        for life in lives:
            if not any(spell.end is not None for spell in life.spells):
                yield Unit(life.job.job_id, {"dlc": 1}, life)

    async def detail(self, unit: Unit, sink: Sink, deadline: float) -> None:
        try:
            answer = await self._api.get_job(unit.key, payloads.Job, deadline=deadline)
        except NotFound:
            sink.gone(unit.key)
            return
        sink.life(past_jobs.with_spells(unit.data, answer.status_history))

    # Readings.

    def readings(self, day: Range, lives: Lives) -> Iterator[Unit]:
        if not self._usage.enabled:
            return
        yield from self._units_of_jobs(day, lives)
        if self._feeds and (period := self._period(day)):
            yield from self._units_of_feeds(day, lives, period)
            if self._pool_feeds and not self._only:
                yield from self._units_of_pools(day, period)

    def _source(self, job: Job) -> str:
        if self._usage.source != "auto":
            return self._usage.source
        return JOB_METRICS if is_pay_as_you_go(job) else "cloudmonitor"

    def _period(self, day: Range) -> int:
        """Seconds between two points that are still kept; 0 where there are none."""
        age = time.time() - day.start
        if age > _FIVES_KEPT:
            return 0
        return 60 if age < _MINUTES_KEPT else 300

    def _units_of_jobs(self, day: Range, lives: Lives) -> Iterator[Unit]:
        for life in lives(day):
            within = life.runs(day)
            if within.empty or self._source(life.job) != JOB_METRICS:
                continue
            metrics = [each for each in METRIC_TYPES if not (each.needs_gpu and is_without_gpus(life.job))]
            metrics = [each for each in metrics if self._shows(each)]
            if not metrics:
                continue
            if life.pods <= _PODS_AT_ONCE:
                yield Unit(life.job.job_id, {"dlc": len(metrics)}, _OfJob(life, day, within, metrics, metrics[0]))
                continue
            for each in metrics:
                yield Unit(f"{life.job.job_id} {each.name}", {"dlc": 1}, _OfJob(life, day, within, [each], metrics[0]))

    def _shows(self, each: MetricType) -> bool:
        return any(target.family.suffix == family.suffix for target in each.targets for family in self._families)

    def _units_of_feeds(self, day: Range, lives: Lives, period: int) -> Iterator[Unit]:
        for of_accelerators in (False, True):
            for level in ("job", "pod", "device"):
                found = [
                    feed
                    for _, feed in sorted(self._feeds.items())
                    if feed.level == level and feed.of_accelerators is of_accelerators
                ]
                if not found:
                    continue
                batches = self._batches(day, lives, period, level=level, of_accelerators=of_accelerators)
                for number, batch in enumerate(batches):
                    api, calls = self._api_of(batch)
                    for feed in found:
                        data = _OfMetric(DLC, feed, batch.asked, batch.within, _fitting(feed, period))
                        # Which jobs are in a batch goes by the period, which another day of asking may change.
                        yield Unit(f"{feed.metric.name} {period} {number}", {api: calls}, data)

    def _api_of(self, batch: _Batch) -> tuple[str, int]:
        return "dlc" if self._usage.source == _DLC_METRICS else "cloudmonitor", max(1, -(-batch.points // POINTS))

    def _batches(self, day: Range, lives: Lives, period: int, *, level: str, of_accelerators: bool) -> Iterator[_Batch]:
        """The jobs that CloudMonitor serves, some at a time; a large one alone, some of the day at a time."""
        batch = _Batch()
        alone = self._usage.source == _DLC_METRICS
        for life in lives(day):
            within = life.runs(day)
            if within.empty or self._source(life.job) == JOB_METRICS or (of_accelerators and is_without_gpus(life.job)):
                continue
            job_id = life.job.job_id
            parts = 1 if level == "job" else max(1, life.pods) if level == "pod" else max(1, life.cards, life.pods)
            points = parts * -(-(within.end - within.start) // period)
            if points > _POINTS_AT_ONCE:
                length = max(1, _POINTS_AT_ONCE // parts) * period
                for start in range(within.start, within.end, length):
                    piece = Range(start, min(start + length, within.end))
                    yield _Batch({job_id: piece}, parts * -(-(piece.end - piece.start) // period))
                continue
            if batch.within and (alone or not batch.takes(points)):
                yield batch
                batch = _Batch()
            batch.within[job_id] = within
            batch.points += points
        if batch.within:
            yield batch

    def _units_of_pools(self, day: Range, period: int) -> Iterator[Unit]:
        names = sorted(self._known.quotas)
        for start in range(0, len(names), _AT_ONCE):
            within = dict.fromkeys(names[start : start + _AT_ONCE], day)
            calls = max(1, -(-len(within) * (-(-(day.end - day.start) // period)) // POINTS))
            for name, feed in sorted(self._pool_feeds.items()):
                data = _OfMetric(QUOTA, feed, day, within, _fitting(feed, period))
                yield Unit(f"{name} {period} {start}", {"cloudmonitor": calls}, data)

    async def read(self, unit: Unit, sink: Sink, deadline: float) -> None:
        if isinstance(unit.data, _OfJob):
            await self._read_job(unit.data, sink, deadline)
        else:
            await self._read_metric(unit.data, sink, deadline)

    async def _read_job(self, asked: _OfJob, sink: Sink, deadline: float) -> None:
        job_id, within = asked.life.job.job_id, asked.within
        dropped: Counter[str] = Counter()
        for each in asked.metrics:
            try:
                payload = await self._api.get_job_metrics(
                    job_id, each.name, start=within.start, end=within.end, deadline=deadline, limits=HISTORY
                )
            except NotFound:
                sink.gone(job_id)
                return
            past = Past(each.targets, lambda _: within, JOB_METRICS)
            add_past(past, payload, job_id=job_id, within=within)
            del payload  # before the next call
            tracks = list(past.tracks(asked.day, tells_source=each is asked.tells))
            is_silent = each is METRIC_TYPES[0] and not past.found and not +past.dropped
            dropped.update(past.dropped)
            if is_silent:
                dropped["no_data"] += 1
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all
            for track in tracks:
                sink.track(track)
        for reason, count in (+dropped).items():
            sink.dropped(reason, count)

    async def _read_metric(self, asked: _OfMetric, sink: Sink, deadline: float) -> None:
        within, of_jobs = asked.within, asked.namespace == DLC
        only = next(iter(within)) if self._usage.source == _DLC_METRICS and of_jobs else ""
        past = Past(asked.feed.targets, within.get, self._usage.source if only else "cloudmonitor")
        try:
            async for batch in self._batches_of(asked, only, deadline):
                past.take(batch, KEY_LENGTHS[asked.feed.level])
                del batch  # before the next call
        except NotFound:
            if not only:
                raise  # no list of points for all jobs says that there are none
            sink.gone(only)
            return
        for track in past.tracks(asked.asked, tells_source=of_jobs and asked.feed is self._telling):
            sink.track(track)
        for reason, count in past.dropped.items():
            sink.dropped(reason, count)

    def _batches_of(self, asked: _OfMetric, only: str, deadline: float) -> AsyncIterator[Batch]:
        start, end = asked.asked.start, asked.asked.end
        if only:
            return self._api.get_metrics(
                only, asked.feed, start=start - 1, end=end - 1, deadline=deadline, period=asked.period
            )
        by_name = {name: quota_id for quota_id, name in self._known.quotas.items() if quota_id in asked.within}

        def quota_of(point: Point) -> str:
            return point.quota_id or by_name.get(point.quota_name or "", "")

        key, owner = ("jobId", None) if asked.namespace == DLC else ("quotaId", quota_of)
        names = [{key: name} for name in asked.within]
        return self._monitor.describe_metric_list(
            asked.namespace,
            asked.feed,
            start=start,
            end=end,
            period=asked.period,
            dimensions=json.dumps(names, separators=(",", ":")),
            deadline=deadline,
            owner=owner,
        )

    @property
    def _telling(self) -> Feed | None:
        """The feed by which it is told that a job had readings: of what every job has, where there is such a one."""
        found = [feed for _, feed in sorted(self._feeds.items()) if not feed.of_accelerators]
        found.sort(key=lambda feed: (feed.level != "job", "CPU" not in feed.metric.name))
        return found[0] if found else next(iter(self._feeds.values()), None)

    def _may_lack(self, what: str, error: CloudError) -> None:
        """What is not there, and is nothing without which a backfill makes no sense; or the error again."""
        if not isinstance(error, AccessDenied | NotFound | RequestRefused):
            raise error
        log.warning("cannot be read: %s: %s", what, error)


def _fitting(feed: Feed, wanted: int) -> int:
    """The shortest period of a metric that is not below the one that is wanted; in seconds."""
    return min((period for period in feed.metric.periods if period >= wanted), default=wanted)
