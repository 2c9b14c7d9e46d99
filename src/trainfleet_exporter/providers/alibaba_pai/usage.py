"""Usage by CloudMonitor: each metric of all jobs at once, and of pools. Each metric is a part.

A poll makes one call for each metric and each 1,440 points of it, and none if it has no jobs to serve. A metric of pods
feeds the families of pods, and those of jobs if there is no metric of jobs. DescribeMetricLast counts against one
million free calls a month and account, DescribeMetricMetaList does not. An RPC API: every call is a POST of nothing to
`/`, and its parameters are in the query.

It is not documented whether the service responds without Dimensions. If it rejects that, or returns nothing although
points must exist, the calls name resources, fifty at a time. The result is kept for a day.

https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclast
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias, TypeVar

from trainfleet_exporter.errors import BadAnswer, CloudError, NotReady, RequestRefused
from trainfleet_exporter.families.usage import Family
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import (
    FamilyReadings,
    Key,
    NewestReadings,
    Subjects,
    count,
    publish_fresh,
    usage_sources,
)
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.polling import FairQueue, Part, Poll, Topic
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.alibaba_pai.client import Api, ListOf, Row
from trainfleet_exporter.providers.alibaba_pai.metrics import (
    POD_KEYS,
    Choice,
    Feed,
    MetricMeta,
    Unfed,
    feeds,
    is_device_key,
)
from trainfleet_exporter.providers.alibaba_pai.pools import Quota
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.transport.json_fields import printable
from trainfleet_exporter.transport.payload import decode_value

log = logging.getLogger(__name__)
T = TypeVar("T")
Point: TypeAlias = Mapping[str, Any]
SOURCE = "cloudmonitor"
POINTS = 1440
"""The most points of one page."""
_SOURCES = "sources"
"""The key of the part that has the source of each job's usage. Metrics are in capitals."""
_DAY = 86400.0
_CATALOGUE_PAGE, _CATALOGUE_WAIT, _AGAIN = 200, 10.0, 600.0
"""Rows of a page, and seconds for which a list may delay a poll, or until it is read again after a failure."""
_MOST_PAGES, _EMPTY_PAGES, _NAMES = 1000, 3, 50
"""The most pages, empty pages in a row that each name a next one, and resources in Dimensions."""
_SURELY_REPORTING = 600.0
"""A job that has been running for so many seconds has points, or CloudMonitor does not answer as it is asked."""
_NEARLY = 2.0
"""A poll that ends so many seconds before its deadline has not had the time it needed: the last calls were refused."""

# The answers, with the fields that are read.


class MetricMetas(Row):
    resource: list[MetricMeta | None] | None = None


class MetricMetasPage(Row):
    total_count: float | None = None
    resources: MetricMetas | None = None

    @property
    def rows(self) -> list[MetricMeta | None] | None:
        """The rows."""
        return self.resources.resource if self.resources else None


CATALOGUE: ListOf[MetricMeta] = ListOf("cloudmonitor", "DescribeMetricMetaList", MetricMetasPage, "metric_name")


class PointsPage(Row):
    """The points are a text of JSON."""

    datapoints: object = None
    next_token: str | None = None


# Points: `jobId`, a key of the pod, one of the card; `quotaId` or `quotaName`; Unix milliseconds; the statistics.


def readings(
    feed: Feed, points: Sequence[object], owner: Callable[[Point], str]
) -> Iterator[tuple[Key, float, float | None]]:
    """Yield the key, the Unix time and the value of each point. A key that lacks a part ends before it.

    The time is infinite if there is none. `owner` returns whose a point is.
    """
    devices = [key for key in feed.metric.keys if is_device_key(key)]
    statistics = [each for name in feed.statistics for each in (name, name.lower())]
    for given in points:
        point: Point = given if isinstance(given, dict) else {}
        key = [owner(point)]
        if feed.level in ("pod", "device"):
            key.append(_first(point, POD_KEYS, text_of) or "")
        if feed.level == "device":
            named = devices if feed.metric.keys else filter(is_device_key, point)
            key += ["/".join(filter(None, [text_of(point.get(name)) for name in named])), "gpu"]
        milliseconds = number_of(point.get("timestamp"))
        at = milliseconds / 1000 if milliseconds is not None and milliseconds.is_integer() else math.inf
        whole = tuple(key) if all(key) else tuple(takewhile(bool, key)) or ("",)
        yield whole, at, _first(point, statistics, number_of)


def job_of(point: Point) -> str:
    """The job of a point."""
    return text_of(point.get("jobId")) or ""


def quota_of(quotas: Mapping[str, str]) -> Callable[[Point], str]:
    """Return what finds the quota of a point. `quotas` are their names by id; an ambiguous name names none."""
    counted = Counter(quotas.values())
    by_name = {name: key for key, name in quotas.items() if counted[name] == 1}
    return lambda point: text_of(point.get("quotaId")) or by_name.get(text_of(point.get("quotaName")) or "", "")


def _first(point: Point, names: Sequence[str], read: Callable[[object], T | None]) -> T | None:
    """The first of some fields that a point has."""
    for name in names:
        if name in point and (found := read(point[name])) is not None:
            return found
    return None


def text_of(value: object) -> str | None:
    """An id: a text, or digits; None for anything else."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def number_of(value: object) -> float | None:
    """A number, or a text of one; infinite if it is beyond reason."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf


async def list_metrics(api: Api, namespace: str, deadline: float) -> Listing[MetricMeta]:
    """DescribeMetricMetaList: every metric of a namespace, by its name."""
    query = {"Namespace": namespace}
    return await api.list_all(CATALOGUE, "/", query, deadline=deadline, page_size=_CATALOGUE_PAGE)


async def point_pages(
    api: Api, operation: str, query: Mapping[str, str], deadline: float, **options: Any
) -> AsyncIterator[Sequence[object]]:
    """Yield the points of every page of DescribeMetricLast or DescribeMetricList. Raises CloudError.

    They are a text that holds a JSON array. `options` are those of Call.
    """
    tokens, empty, query = set[str](), 0, {**query, "Length": str(POINTS)}
    for _ in range(_MOST_PAGES):
        page = await api.get(
            "cloudmonitor", operation, "/", PointsPage, query, deadline=deadline, no_data=_is_empty, **options
        )
        given, token = page.datapoints, page.next_token
        points = decode_value(given if isinstance(given, str) else json.dumps(given), list[object]) if given else []
        if points is None:
            raise BadAnswer("the points are not a JSON array", operation=operation)
        empty = 0 if points else empty + 1
        yield points
        del page, given, points  # before the next call
        if not token:
            return
        if token in tokens or empty == _EMPTY_PAGES:
            raise BadAnswer("the next pages repeat the same rows", operation=operation)
        tokens.add(token)
        query = {**query, "NextToken": token}
    raise BadAnswer(f"the answer has more than {_MOST_PAGES} pages", operation=operation)


def _is_empty(page: PointsPage) -> bool:
    points = page.datapoints  # not decoded: each answer is asked, and has a long text where it is not empty
    return not page.next_token and (not points or (isinstance(points, str) and points.strip() in ("", "[]")))


def log_unfed(unfed: Iterable[Unfed], logged: set[Unfed]) -> None:
    """Log what cannot be shown, and note it in `logged`: each once."""
    for each in unfed:
        if each not in logged:
            logged.add(each)
            facts = fields(
                reading=each.family, source="CloudMonitor", source_metric=printable(each.metric, 80), cause=each.cause
            )
            log.warning("cannot use a metric of the source", extra=facts)


class Space:
    """A namespace of CloudMonitor: its metrics, the families that they feed, and what is shown.

    `key` is the dimension that names a resource of it.
    """

    def __init__(self, namespace: str, key: str, families: Sequence[Family], choices: Mapping[str, Choice]) -> None:
        self.namespace, self.key = namespace, key
        self.feeds: Mapping[str, Feed] = {}
        self.catalogue: Mapping[str, MetricMeta] | None = None
        """By name; None as long as it could not be read."""
        self.columns: dict[str, Sequence[FamilyReadings]] = {}
        """By feed, what its last good answer showed."""
        self.served: Mapping[str, float] | None = None
        """The jobs or pools to show in this poll (NewestReadings); None if they are not known."""
        self.owner: Callable[[Point], str] = job_of
        self.due = False
        """Whether some of them must have points."""
        self.points = 0
        """Seen in this poll, shown or not."""
        self.named_until = self.useless_until = float("-inf")
        """Until when to ask by name; and until when that is known not to help (loop times)."""
        self.logged = set[str]()
        """Why names are needed, as the log has it."""
        self._families, self._choices = families, choices
        self._next = float("-inf")
        self._malformed = 0
        """How many rows of the latest list could not be read."""
        self._unfed: Sequence[Unfed] = ()
        self._logged = set[Unfed]()

    async def learn(self, part: Part, api: Api) -> set[str]:
        """Read the catalogue if it is due. Returns the feeds that show something else from now on.

        A failure is raised where there is no older catalogue.
        """
        before = self.feeds
        if await self._read(part, api):
            self.feeds, self._unfed = feeds(self.catalogue or {}, self._families, self._choices)
            log_unfed(self._unfed, self._logged)
            part.dropped("malformed", len(self._unfed))
        else:
            part.still_lost({"malformed": self._malformed + len(self._unfed)})
        self.columns = {key: columns for key, columns in self.columns.items() if key in self.feeds}
        return {key for key, feed in before.items() if self.feeds.get(key) != feed}

    async def _read(self, part: Part, api: Api) -> bool:
        """Return whether the catalogue was read now."""
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return False
        try:
            listing = await list_metrics(api, self.namespace, min(part.deadline, now + _CATALOGUE_WAIT))
        except CloudError as error:
            if self.catalogue is None:
                raise
            self._next = now + _AGAIN
            part.lacks(f"catalogue of {self.namespace}", error)
            return False
        part.dropped("malformed", listing.malformed)
        self._malformed = listing.malformed
        if not listing.rows and self.catalogue != {}:
            facts = fields(namespace=self.namespace)
            log.warning("CloudMonitor lists no metrics; check that its endpoint serves PAI", extra=facts)
        # A row that could not be read may be that of a metric: it is not waited for until tomorrow.
        self._next = now + (_DAY if listing.rows and not listing.malformed else _AGAIN)
        if not listing.rows and self.catalogue:  # a metric of yesterday still exists today
            return False
        self.catalogue = listing.rows
        return True


class Usage:
    """The collector `usage`. `sources` say whether a job is CloudMonitor's; `pools` is None without pools."""

    def __init__(
        self,
        api: Api,
        fleet: Workspaces,
        jobs: Space,
        pools: Space | None,
        *,
        quotas: Topic[Mapping[str, Quota]],
        sources: JobSources,
    ) -> None:
        self._api, self._fleet, self._quotas, self._sources = api, fleet, quotas, sources
        self._jobs, self._spaces = jobs, [jobs, *([pools] if pools else [])]
        self._subjects = {space.namespace: Subjects() for space in self._spaces}
        self._turns, self._cut_off = FairQueue(), False

    @collector("usage")
    async def usage(self, poll: Poll) -> None:
        """A part for each metric, and one for the source of each job's usage."""
        # The usage of pools can be had without knowing any job.
        await self._fleet.listed.wait(poll.deadline, needed=len(self._spaces) == 1)
        await self._learn(poll)
        for space in self._spaces:
            space.points, space.served = 0, None
            self._subjects[space.namespace].keep_only(column for shown in space.columns.values() for column in shown)
            try:
                await (self._serve_jobs(space) if space is self._jobs else self._serve_pools(space))
            except NotReady as error:
                poll.failed(space.namespace, error)
        asked = {key: space for space in self._spaces if space.served is not None for key in space.feeds}
        # Metrics that are read together all come near their end when a poll is over, and then all fail.
        at_once = 1 if self._cut_off else self._fleet.at_once
        await self._turns.read_each(poll, asked, lambda part: self._read(asked[part.key], part), at_once=at_once)
        self._cut_off = asyncio.get_running_loop().time() >= poll.deadline - _NEARLY
        for space in self._spaces:
            await self._try_names(poll, space)
        async with poll.part(_SOURCES) as part:
            columns = [column for shown in self._jobs.columns.values() for column in shown]
            await self._publish(part, self._jobs, columns, partial(usage_sources, source=SOURCE))

    def usage_expired(self, key: str) -> None:
        """A metric's last good answer was kept long enough."""
        self._jobs.columns.pop(key, None)

    async def _learn(self, poll: Poll) -> None:
        """Have the catalogues, and drop the parts that are gone, or that show something else from now on."""
        kept, changed = {_SOURCES}, set[str]()
        for space in self._spaces:
            key = f"catalogue of {space.namespace}"
            async with poll.part(key) as part:
                changed |= await space.learn(part, self._api)
            kept |= space.feeds.keys() | ({key} if space.catalogue is None else set())
        poll.keep_only(kept - changed)
        for key in changed:
            self.usage_expired(key)

    async def _serve_jobs(self, space: Space) -> None:
        now = self._fleet.clock.now()
        jobs = [job for job in self._fleet.live_jobs() if self._sources.may_be_in_bulk(job)]
        space.served = dict.fromkeys((job.job_id for job in jobs), 0.0)  # PAI gives no id twice
        space.due = any(now - (job.started or job.created or now) > _SURELY_REPORTING for job in jobs)

    async def _serve_pools(self, space: Space) -> None:
        quotas = await self._quotas.get()
        space.served, space.due = dict.fromkeys(quotas, 0.0), bool(quotas)
        space.owner = quota_of({key: quota.name for key, quota in quotas.items()})

    async def _read(self, space: Space, part: Part) -> None:
        """Read one metric of all that are served."""
        feed, served = space.feeds[part.key], space.served or {}
        is_known = self._fleet.is_known if space is self._jobs else lambda owner: False
        age = max(self._fleet.max_data_age, 2 * part.interval)
        newest = NewestReadings(
            feed.level, served, now=self._fleet.clock.now(), max_age=age, is_known=is_known, once=True
        )
        if served:
            await self._ask(feed, space, newest, part.deadline)
            space.points += newest.points
            part.dropped("no_data", 0 if newest.points else 1)
        space.columns[part.key] = newest.of_families(feed.targets, period=feed.metric.period or 0)
        count(part, newest.dropped)
        await self._publish(part, space, space.columns[part.key], self._subjects[space.namespace].readings)

    async def _publish(
        self,
        part: Part,
        space: Space,
        columns: Sequence[FamilyReadings],
        shown: Callable[[Sequence[FamilyReadings]], Sequence[object]],
    ) -> None:
        def begun() -> Mapping[str, float]:
            return dict.fromkeys(self._fleet.live, 0.0) if space is self._jobs else space.served or {}

        age, clock = self._fleet.max_data_age, self._fleet.clock
        await publish_fresh(part, columns, shown, begun=begun, max_data_age=age, clock=clock)

    async def _ask(self, feed: Feed, space: Space, into: NewestReadings, deadline: float) -> None:
        """Every point of a metric there is, or those of the named resources if it must be so."""
        now, ordered = asyncio.get_running_loop().time(), sorted(space.served or ())
        by_name = [ordered[start : start + _NAMES] for start in range(0, len(ordered), _NAMES)]
        if now >= space.named_until:
            try:
                await self._pages(feed, space, into, deadline)
                return
            except RequestRefused as error:
                if into.points:
                    raise
                refusal = error
            try:
                await self._pages(feed, space, into, deadline, by_name[0])
            except CloudError:
                raise refusal from None  # that Dimensions were missing was not the reason
            by_name, space.named_until = by_name[1:], now + _DAY
            self._log_names(space, "it rejects calls without them")
        for names in by_name:
            await self._pages(feed, space, into, deadline, names)

    async def _pages(
        self, feed: Feed, space: Space, into: NewestReadings, deadline: float, names: Sequence[str] = ()
    ) -> None:
        """DescribeMetricLast: the newest point of each resource. By default the service looks back two hours, and what
        ended in them would fill most pages. As a text, the time zone of a time would not be certain."""
        query = {"Namespace": space.namespace, "MetricName": feed.metric.metric_name or ""}
        query["StartTime"] = str(math.floor(into.since * 1000))
        query |= {"Period": str(feed.metric.period)} if feed.metric.period is not None else {}
        if names:
            query["Dimensions"] = dimensions(space.key, names)
        async for points in point_pages(self._api, "DescribeMetricLast", query, deadline):
            for reading in readings(feed, points, space.owner):
                into.put(*reading)
            del points

    async def _try_names(self, poll: Poll, space: Space) -> None:
        """Ask by name where nothing came although there must be something, and look whether that helps."""
        clock = asyncio.get_running_loop().time
        if space.served is None or not space.due or space.points > 0 or not self._turns.has_read(space.feeds):
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
        if cause not in space.logged:
            space.logged.add(cause)
            facts = fields(namespace=space.namespace, names_per_call=_NAMES, cause=cause)
            log.warning("CloudMonitor needs Dimensions, which costs more calls", extra=facts)


def dimensions(key: str, names: Iterable[str]) -> str:
    """Dimensions that name some resources."""
    return json.dumps([{key: name} for name in names], separators=(",", ":"))
