"""Usage: each metric of all jobs at once from CloudMonitor, or that of single jobs by GetJobMetrics.

CloudMonitor: a call for each metric and each 1,440 points of it, and none if it has no jobs to serve. Each metric is a
part. A metric of pods feeds the families of pods, and those of jobs if there is no metric of jobs. DescribeMetricLast
counts against one million free calls a month and account, DescribeMetricMetaList does not.

It is not documented whether the service responds without Dimensions. If it rejects that, or returns nothing although
points must exist, the calls name resources, fifty at a time. The result is kept for a day.

GetJobMetrics: up to eight calls for each running job. The platform keeps it up for pay-as-you-go jobs on general
computing only. Utilizations are percent; rates are taken as MB/s of 10^6 bytes, as the same names are in PaiStudio
(unproven for DLC). One series for each pod, none for a single GPU. Times are Unix milliseconds in both.

https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclast
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, takewhile
from operator import attrgetter
from typing import Any

import msgspec

from trainfleet_exporter.errors import BadAnswer, NotFound, NotReady, RequestRefused
from trainfleet_exporter.families.usage import MEASURES, Family, exposed
from trainfleet_exporter.fleet.collectors import EachJob, collector
from trainfleet_exporter.fleet.lists import Listing, pages_by_token
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import (
    Column,
    Key,
    NewestReadings,
    Points,
    Reading,
    SourceMetric,
    Subjects,
    count,
    page_readings,
    publish_fresh,
    usage_sources,
)
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import FairQueue, Part, Poll, Topic
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.alibaba_pai.api import AGAIN, MAY_TAKE, Api, ListOf, Row, Total, segment
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.config import Usage as UsageConfig
from trainfleet_exporter.providers.alibaba_pai.metrics import (
    DLC,
    JOB_FAMILIES,
    POD_KEYS,
    POOL_FAMILIES,
    QUOTA,
    UNITS,
    Choice,
    Feed,
    MetricMeta,
    feeds,
    is_device_key,
)
from trainfleet_exporter.providers.alibaba_pai.pools import Quota
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import BULK, BodyLimits
from trainfleet_exporter.transport.json_fields import as_number, iso_time, printable
from trainfleet_exporter.transport.payload import decode_value

log = logging.getLogger(__name__)
CLOUDMONITOR, JOB_METRICS = "cloudmonitor", "job_metrics"
"""The sources."""
POINTS = 1440
"""The most points of one page."""
_SOURCES = "sources"
"""The key of the part that has the source of each job's usage. Metrics are in capitals."""
_DAY = 86400.0
_EMPTY_PAGES, _NAMES = 3, 50
"""The most empty pages in a row that each name a next one, and resources in Dimensions."""
_SURELY_REPORTING = 600.0
"""A job that has been running for so many seconds has points, or CloudMonitor does not answer as it is asked."""
_NEARLY = 2.0
"""A poll that ends so many seconds before its deadline has not had the time it needed: the last calls were refused."""

# The answers, with the fields that are read.


class MetricMetas(Row):
    resource: list[MetricMeta | None] | None = None


class MetricMetasPage(Total):
    resources: MetricMetas | None = None

    @property
    def rows(self) -> list[MetricMeta | None] | None:
        return self.resources.resource if self.resources else None


CATALOGUE = ListOf("cloudmonitor", "DescribeMetricMetaList", MetricMeta, MetricMetasPage, "metric_name")


class PointsPage(Row):
    """The points are a text of JSON."""

    datapoints: object = None
    next_token: str | None = None


class MetricPoint(Row):
    """Percent, or MB/s."""

    time: float | None = None
    value: str | float | None = None


class PodMetric(Row):
    pod_id: str | None = None
    metrics: list[MetricPoint | None] | None = None


class JobMetrics(Row):
    job_id: str | None = None
    pod_metrics: list[PodMetric | None] | None = None


# CloudMonitor: points have `jobId`, a key of the pod, one of the card; `quotaId` or `quotaName`; the statistics.


def readings(feed: Feed, text: str, quota: Callable[[str, str, str], str]) -> Points | None:
    """Return the readings of points in a JSON list, None if it is none. A key that lacks a part ends before it."""
    known, whose = feed.metric.keys, ("quotaId", "quotaName", "regionId") if feed.level == "pool" else ("jobId",)
    if feed.level == "device" and not known:
        rows = decode_value(text, list[dict[str, object] | None]) or []
        known = tuple(dict.fromkeys(chain.from_iterable(filter(None, rows))))
    cards = [*filter(is_device_key, known)] or ["gpu"]
    statistics = [*chain(*[(name, name.lower()) for name in feed.statistics])]
    below = {"pod": POD_KEYS, "device": (*POD_KEYS, *cards)}.get(feed.level, ())
    names = tuple(dict.fromkeys(("timestamp", *whose, *below, *statistics)))
    point, fields = _point(names)
    if not (found := decode_value(text, list[point | None])):  # type: ignore[valid-type]
        return None if found is None else ([], [], [])
    rows = [row or point() for row in found]

    def first(read: Callable[[Any], Any], kind: type, *names: str) -> Sequence[Any]:
        """The first of some fields that each point has, as `read` reads it, which leaves a value of this kind as is."""
        given = list(map(fields[names[0]], rows))
        values = given if set(map(type, given)) == {kind} else list(map(read, given))
        for name in names[1:]:
            if all(values) or not (None in values or "" in values):
                break
            others = map(fields[name], rows)
            values = [read(two) if one in (None, "") else one for one, two in zip(values, others, strict=True)]
        return values

    parts = [first(text_of, str, name) for name in whose]
    parts = [list(map(quota, *parts))] if feed.level == "pool" else parts
    if feed.level in ("pod", "device"):
        parts.append(first(text_of, str, *POD_KEYS))
    if feed.level == "device":
        of_cards = zip(*[first(text_of, str, name) for name in cards], strict=True)
        parts += [["/".join(filter(None, each)) for each in of_cards], ["gpu"] * len(rows)]
    keys = [*zip(*parts, strict=True)]
    if not all(map(all, parts)):
        keys = [tuple(takewhile(bool, key)) or ("",) for key in keys]
    dates = first(as_number, int, "timestamp")
    is_time = {at: at is not None and abs(at) < 2**60 and float(at).is_integer() for at in set(dates)}
    seconds = {at: at / 1000 if is_good else math.inf for at, is_good in is_time.items()}
    return keys, list(map(seconds.__getitem__, dates)), first(as_number, float, *statistics)


@lru_cache(maxsize=64)
def _point(names: tuple[str, ...]) -> tuple[type[Any], Mapping[str, Callable[[Any], Any]]]:
    """Return a struct of these fields, and what reads each. It takes a fifth of the time of a dict."""
    fields = [(f"at_{at}", object, msgspec.field(name=name, default=None)) for at, name in enumerate(names)]
    return msgspec.defstruct("Point", fields, gc=False), {name: attrgetter(f"at_{at}") for at, name in enumerate(names)}


def quota_of(quotas: Mapping[str, Quota], region: str) -> Callable[[str, str, str], str]:
    """Return what finds the quota of a point by its `quotaId`, `quotaName` and `regionId`. `quotas` are by id; an
    ambiguous name names none. Points are of all regions, where other quotas may have the same names."""
    counted = Counter(quota.name for quota in quotas.values())
    by_name = {quota.name: key for key, quota in quotas.items() if counted[quota.name] == 1}

    def find(quota_id: str, name: str, where: str) -> str:
        return quota_id or (by_name.get(name, "") if where in ("", region) else f"{name} of {where}")

    return find


def dimensions(feed: Feed, ids: Iterable[str], quotas: Mapping[str, Quota]) -> list[dict[str, str]]:
    """Name jobs or quotas in a call. The vendor's text names quotas by `quotaName`, a catalogue may have `quotaId`."""
    if feed.level == "pool" and "quotaId" not in feed.metric.keys:
        return [{"quotaName": quotas[key].name} for key in ids if key in quotas and quotas[key].name]
    return [{"quotaId" if feed.level == "pool" else "jobId": each} for each in ids]


def text_of(value: object) -> str:
    """An id: a text, or digits; empty for anything else."""
    return value if type(value) is str else str(value) if type(value) is int else ""


def read_points(
    api: Api,
    feed: Feed,
    quotas: Mapping[str, Quota],
    start: float,
    end: float | None = None,
    *,
    names: Iterable[str] = (),
    step: int = 60,
    deadline: float,
) -> AsyncIterator[Points]:
    """Yield the readings of each page of a metric. Raises CloudError.

    They are the newest one of each resource from a Unix time on (DescribeMetricLast), or all those before `end`
    (DescribeMetricList), `step` seconds apart if the metric has that. `names` are the resources; none: all.
    """
    operation, empty = "DescribeMetricLast" if end is None else "DescribeMetricList", 0
    named, quota = dimensions(feed, names, quotas), quota_of(quotas, api.region)
    # The range is open at its start and closed at its end. As a text, the time zone of a time would not be certain.
    times = {"StartTime": start, "EndTime": end}
    asked = {
        "Namespace": QUOTA if feed.level == "pool" else DLC,
        "MetricName": feed.metric.metric_name or "",
        "Length": str(POINTS),
        **{key: str(math.floor(at * 1000) - 1) for key, at in times.items() if at is not None},
        **({} if (period := feed.metric.period(step)) is None else {"Period": str(period)}),
        **({"Dimensions": json.dumps(named, separators=(",", ":"))} if named else {}),
    }

    def no_data(page: PointsPage) -> bool:
        return not page.next_token and page.datapoints in (None, "", "[]", [])  # not decoded: it is a long text

    async def read_page(token: str) -> tuple[Points | None, str]:
        nonlocal empty
        query = {**asked, "NextToken": token} if token else asked
        page = await api.get(
            "cloudmonitor", operation, "/", PointsPage, query=query, deadline=deadline, no_data=no_data
        )
        given, token = page.datapoints or [], page.next_token or ""
        points = readings(feed, given if isinstance(given, str) else json.dumps(given), quota)
        empty = 0 if points and points[0] else empty + 1
        if token and empty == _EMPTY_PAGES:
            raise BadAnswer("the list goes on and on without points", operation=operation)
        return points, token

    return pages_by_token(read_page, operation)


async def list_metrics(api: Api, namespace: str, deadline: float) -> Listing[MetricMeta]:
    """DescribeMetricMetaList: every metric of a namespace, by its name."""
    return await api.list_all(CATALOGUE, "/", {"Namespace": namespace}, deadline=deadline)


class Space:
    """A namespace of CloudMonitor: its metrics, the families that they feed, and what is shown."""

    def __init__(self, namespace: str, families: Sequence[Family], choices: Mapping[str, Choice]) -> None:
        self.namespace = namespace
        self.catalogue = f"catalogue of {namespace}"
        """The name of its part."""
        self.feeds: Mapping[str, Feed] = {}
        self.columns: dict[str, Sequence[Column]] = {}
        """By feed, what its last good answer showed."""
        self.subjects = Subjects()
        self.served: Mapping[str, float] | None = None
        """The jobs or pools to show in this poll (NewestReadings); None if they are not known."""
        self.without_gpus: Collection[str] = ()
        self.due = False
        """Whether some of them must have points."""
        self.points = 0
        """Seen in this poll, shown or not."""
        self.named_until = self.useless_until = float("-inf")
        """Until when to ask by name; and until when that is known not to help (loop times)."""
        self._families, self._choices = families, choices
        self._unfed: Sequence[tuple[str, str, str]] = ()
        self._due = float("-inf")

    async def learn(self, part: Part, api: Api) -> set[str]:
        """Read the catalogue if it is due. Return the feeds that show something else from now on."""
        now, before = asyncio.get_running_loop().time(), self.feeds
        if now < self._due:
            return set()
        listing = await list_metrics(api, self.namespace, min(part.deadline, now + MAY_TAKE))
        part.dropped("malformed", listing.malformed)
        self._due = now + (_DAY if listing.rows and not listing.malformed else AGAIN)
        self.choose(listing.rows)
        changed = {key for key, feed in before.items() if self.feeds.get(key) != feed}
        self.columns = {key: shown for key, shown in self.columns.items() if key not in changed}
        return changed

    def choose(self, catalogue: Mapping[str, MetricMeta]) -> None:
        """Choose the feeds. An empty catalogue changes none."""
        if not catalogue:
            facts = fields(namespace=self.namespace)
            log.warning("CloudMonitor lists no metrics; check that its endpoint serves PAI", extra=facts)
            return
        known = self._unfed
        self.feeds, self._unfed = feeds(catalogue, self._families, self._choices)
        for family, metric, cause in [each for each in self._unfed if each not in known]:
            facts = fields(reading=family, source="CloudMonitor", source_metric=printable(metric, 80), cause=cause)
            log.warning("cannot use a metric of the source", extra=facts)


def spaces(config: AlibabaPaiConfig, deny: Sequence[str]) -> list[Space]:
    """Return the namespaces that are read: of jobs, and of pools if they are polled."""
    chosen = config.collectors.usage
    families = {DLC: JOB_FAMILIES, QUOTA: POOL_FAMILIES if config.collectors.pools.enabled else ()}
    return [
        Space(namespace, exposed(given, deny, chosen.profiling), chosen.metrics.given())
        for namespace, given in families.items()
        if given and chosen.by_cloudmonitor
    ]


class Usage:
    """The collector `usage`. `quotas` are by id, `sources` say whether a job is CloudMonitor's, `deny` are globs."""

    def __init__(
        self,
        api: Api,
        config: AlibabaPaiConfig,
        fleet: Workspaces,
        quotas: Topic[Mapping[str, Quota]],
        *,
        sources: JobSources,
        deny: Sequence[str],
    ) -> None:
        self._api, self._fleet, self._quotas, self._sources = api, fleet, quotas, sources
        self._jobs, *_ = self._spaces = spaces(config, deny)
        self._publish = partial(publish_fresh, fleet=fleet)
        self._turns, self._together = FairQueue(), fleet.at_once

    @collector("usage")
    async def usage(self, poll: Poll) -> None:
        # The usage of pools can be had without knowing any job.
        await self._fleet.listed.wait(poll.deadline, needed=len(self._spaces) == 1)
        await self._learn(poll)
        for space in self._spaces:
            space.points, space.served = 0, None
            space.subjects.keep_only(column for shown in space.columns.values() for column in shown)
            try:
                await (self._serve_jobs(space) if space is self._jobs else self._serve_pools(space))
            except NotReady as error:
                poll.failed(space.namespace, error)
                for key in space.feeds:
                    poll.store.fail(key)
        asked = {key: space for space in self._spaces if space.served is not None for key in space.feeds}
        # Metrics that are read together all come near their end when a poll is over, and then all fail.
        read, most = (lambda part: self._read(asked[part.key], part)), self._fleet.at_once
        done = await self._turns.read_each(poll, asked, read, at_once=self._together)
        is_cut_off = asyncio.get_running_loop().time() >= poll.deadline - _NEARLY
        # One that is slower than a poll must not always be read alone.
        self._together = max(1, min(len(done), most)) if is_cut_off and (done or self._together > 1) else most
        for space in self._spaces:
            await self._try_names(poll, space, done)
        async with poll.part(_SOURCES) as part:
            columns = [column for shown in self._jobs.columns.values() for column in shown]
            shown = partial(usage_sources, source=CLOUDMONITOR)
            await self._publish(part, columns, shown, begun=partial(self._begun, self._jobs))

    def usage_expired(self, key: str) -> None:
        self._jobs.columns.pop(key, None)

    async def _learn(self, poll: Poll) -> None:
        """Have the catalogues, and drop the parts that are gone, or that show something else from now on."""
        kept, changed = {_SOURCES}, set[str]()
        for space in self._spaces:
            async with poll.part(space.catalogue) as part:
                changed |= await space.learn(part, self._api)
            kept |= space.feeds.keys() or {space.catalogue}
        poll.keep_only(kept - changed)

    async def _serve_jobs(self, space: Space) -> None:
        now = self._fleet.clock.now()
        jobs = [job for job in self._fleet.live_jobs() if self._sources.may_be_in_bulk(job)]
        space.served = {job.job_id: job.created or 0.0 for job in jobs}
        space.without_gpus = {job.job_id for job in jobs if is_without_gpus(job)}
        space.due = any(now - (job.started or job.created or now) > _SURELY_REPORTING for job in jobs)

    async def _serve_pools(self, space: Space) -> None:
        space.due = bool(await self._quotas.get())
        space.served = self._begun(space)

    async def _read(self, space: Space, part: Part) -> None:
        feed, served = space.feeds[part.key], space.served or {}
        if feed.of_accelerators:
            served = {key: begun for key, begun in served.items() if key not in space.without_gpus}
        now, age = self._fleet.clock.now(), max(self._fleet.max_data_age, 2 * part.interval)
        is_known, subjects = self._fleet.is_known, space.subjects
        newest = NewestReadings(feed.level, served, subjects, now=now, max_age=age, is_known=is_known, once=True)
        if served:
            await self._ask(feed, space, sorted(served), newest, part.deadline)
            space.points += newest.points
            part.dropped("no_data", 0 if newest.points else 1)
        columns = space.columns[part.key] = newest.of_families(feed.targets, period=feed.metric.period() or 0)
        count(part, newest.dropped)
        await self._publish(part, columns, begun=partial(self._begun, space))

    def _begun(self, space: Space) -> Mapping[str, float]:
        """The jobs or pools of now (NewestReadings)."""
        things = self._fleet.live if space is self._jobs else self._quotas.value
        return {key: thing.created or 0.0 for key, thing in things.items()}

    async def _ask(
        self, feed: Feed, space: Space, served: Sequence[str], into: NewestReadings, deadline: float
    ) -> None:
        """Every point of a metric there is, or those of the named resources if it must be so. By default the service
        looks back two hours, and what ended in them would fill most pages."""
        clock, quotas = asyncio.get_running_loop().time, self._quotas.value

        async def take(*names: str) -> None:
            async for found in read_points(self._api, feed, quotas, into.since, names=names, deadline=deadline):
                into.take(*found)
                del found

        if is_unnamed := clock() >= space.named_until:
            try:
                await take()
                return
            except RequestRefused:
                if into.points:
                    raise
        for start in range(0, len(served), _NAMES):
            await take(*served[start : start + _NAMES])
            if is_unnamed and clock() >= space.named_until:  # that Dimensions were missing was the reason
                space.named_until = clock() + _DAY
                self._log_names(space, "it rejects calls without them")

    async def _try_names(self, poll: Poll, space: Space, done: Collection[str]) -> None:
        """Ask by name where nothing came although there must be something, and look whether that helps."""
        clock = asyncio.get_running_loop().time
        if space.served is None or not space.due or space.points > 0 or not space.feeds.keys() <= set(done):
            return
        if not space.feeds or clock() < max(space.useless_until, space.named_until):
            return
        space.named_until = clock() + _DAY
        answered = await poll.read_each(space.feeds, partial(self._read, space), at_once=self._fleet.at_once)
        if space.points:
            self._log_names(space, "it returns no points without them")
        else:  # nothing is learnt where some of those calls failed
            space.named_until = float("-inf")
            space.useless_until = clock() + _DAY if answered.issuperset(space.feeds) else float("-inf")

    def _log_names(self, space: Space, cause: str) -> None:
        facts = fields(namespace=space.namespace, names_per_call=_NAMES, cause=cause)
        log.warning("CloudMonitor needs Dimensions, which costs more calls", extra=facts)


# GetJobMetrics.


METRIC_TYPES = {
    "CpuCoreUsage": "cpu_utilization_ratio",
    "MemoryUsage": "memory_utilization_ratio",
    "GpuCoreUsage": "accelerator_utilization_ratio",
    "GpuMemoryUsage": "accelerator_memory_utilization_ratio",
    "NetworkInputRate": "network_receive_bytes_per_second",
    "NetworkOutputRate": "network_transmit_bytes_per_second",
    "DiskReadRate": "disk_read_bytes_per_second",
    "DiskWriteRate": "disk_write_bytes_per_second",
}
"""By MetricType of GetJobMetrics, what its values are of."""


def metric_types(chosen: UsageConfig, deny: Sequence[str] = ()) -> list[SourceMetric]:
    """Return the types that feed an exposed family, with the units of the config. The unit of a named metric of
    CloudMonitor is not theirs."""
    given, found = chosen.metrics.given(), list[SourceMetric]()
    units = {key: each.unit for key, each in given.items() if not each.name or chosen.source == JOB_METRICS}
    for name, suffix in METRIC_TYPES.items():
        measure = MEASURES[suffix]
        usual = "%" if measure.is_ratio else "MB/s"
        factor = UNITS[measure.quantity][units.get(f"pod_{suffix}") or units.get(f"job_{suffix}") or usual]
        targets = dict.fromkeys(exposed([measure.of("pod"), measure.of("job")], deny), factor)
        found += [SourceMetric(name, "pod", targets)] if targets else []
    return found


async def get_job_metrics(
    api: Api, job_id: str, metric: SourceMetric, start: float, end: float, *, deadline: float, limits: BodyLimits = BULK
) -> JobMetrics:
    """DLC GetJobMetrics: one metric of every pod of one job, in one-minute steps. Unix seconds in."""
    query = {"MetricType": metric.key, "StartTime": iso_time(start), "EndTime": iso_time(end), "TimeStep": "1m"}
    path = f"/api/v1/jobs/{segment(job_id)}/metrics"
    options = {"query": query, "limits": limits, "no_data": lambda found: not found.pod_metrics}
    return await api.get("dlc", "GetJobMetrics", path, JobMetrics, deadline=deadline, **options)


def readings_of(payload: JobMetrics, job_id: str) -> Iterator[tuple[Key, list[Reading]]]:
    """Yield the key of each pod of an answer, which ends before a missing name, and its readings."""
    owner = payload.job_id or job_id
    for item in payload.pod_metrics or ():
        key: Key = (owner, item.pod_id) if item and item.pod_id else (owner,)
        points = [point or MetricPoint() for point in (item.metrics if item else None) or ()]
        times = [math.inf if at is None else at / 1000 for at in [whole(point.time) for point in points]]
        yield key, [(key, at, as_number(point.value)) for at, point in zip(times, points, strict=True)]


def take(payload: JobMetrics, into: NewestReadings, job_id: str) -> None:
    """Take over the newest usable value of each pod in one answer."""
    into.dropped["no_data"] += not payload.pod_metrics
    for key, found in readings_of(payload, job_id):
        given = [each for each in found if each[2] is not None]
        if len(key) > 1:
            into.dropped["no_data"] += not given
            into.take_newest(given)
        else:
            into.spoil(key[0])


def job_columns(found: Sequence[tuple[SourceMetric, NewestReadings]]) -> list[Column]:
    """The readings of one job and its pods. A pod that lacks one of a metric leaves no sum of it."""
    pods = {subject for _, newest in found for subject in newest.current()}
    columns: list[Column] = []
    for metric, newest in found:
        newest.spoiled |= set() if pods <= newest.current() else {""}
        columns += [each for each in newest.of_families(metric.targets, period=0) if each.subjects]
    return sorted(columns, key=lambda column: column.family.level == "job")


def is_without_gpus(job: Job) -> bool:
    """Return whether a job certainly has no accelerator."""
    return bool(job.accelerators) and all(item.count == 0 for item in job.accelerators)


def collector_of_job_metrics(
    api: Api, fleet: Workspaces, interval: float, sources: JobSources, chosen: UsageConfig, *, deny: Sequence[str]
) -> EachJob:
    """The collector of the jobs that `sources` leave to this one, the newest jobs first."""
    types = metric_types(chosen, deny)

    async def read(part: Part) -> None:
        job, now, found = fleet.live[part.key], fleet.clock.now(), list[tuple[SourceMetric, NewestReadings]]()
        age, begun = max(fleet.max_data_age, 2 * part.interval), {part.key: job.created or 0.0}
        subjects = Subjects()
        for metric in types:
            if metric.of_accelerators and is_without_gpus(job):
                continue
            try:
                payload = await get_job_metrics(api, part.key, metric, now - age, now, deadline=part.deadline)
            except NotFound as error:
                await part.not_found(error)  # the next poll of jobs says what became of it
                return
            newest = NewestReadings("pod", begun, subjects, now=now, max_age=age)
            found.append((metric, newest))
            take(payload, newest, part.key)
            if metric.key == "CpuCoreUsage" and not newest.taken and (+newest.dropped).keys() <= {"no_data"}:
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all
        columns = job_columns(found)  # which counts what is out of range
        for _, newest in found:
            count(part, newest.dropped)
        publish = partial(publish_fresh, fleet=fleet, begun=lambda: begun)
        await publish(part, columns, lambda fresh: [*page_readings(fresh), *usage_sources(fresh, JOB_METRICS)])

    return EachJob(
        JOB_METRICS, fleet, interval, read, max_jobs=chosen.max_jobs, sources=sources, calls=lambda job_id: len(types)
    )
