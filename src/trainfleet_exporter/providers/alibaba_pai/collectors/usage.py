"""Usage by CloudMonitor: each metric is requested once for all jobs, and is a separate part.

A poll makes one call for each metric and each 1,440 points of it, and none if it has no jobs to serve. A metric of pods
feeds the families of pods. If no metric of jobs exists, it also feeds the families of jobs.

It is not documented whether the service responds without Dimensions. If it rejects that, or returns nothing although
points must exist, the calls name resources, fifty at a time. The result is kept for a day (`Asking`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from trainfleet_exporter.errors import CloudError, NotReady, RequestRefused
from trainfleet_exporter.model import Job, UsageSource
from trainfleet_exporter.polling import BulkCollector, FairQueue, Part, Poll
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.alibaba_pai.payloads import Point
from trainfleet_exporter.providers.alibaba_pai.usage.cloudmonitor import CloudMonitor, Feeds, Owner
from trainfleet_exporter.providers.alibaba_pai.usage.metrics import DLC, QUOTA, Feed
from trainfleet_exporter.providers.usage.columns import Column, Shown, columns, kept_of, newest_by_owner
from trainfleet_exporter.providers.usage.entities import Entities
from trainfleet_exporter.providers.usage.newest import Newest, Scope
from trainfleet_exporter.providers.usage.staleness import count, max_age, publish_until_stale

log = logging.getLogger(__name__)

_AT_ONCE = 50
"""The most resources of one call's Dimensions."""
_DAY = 86400.0
SOURCE = "cloudmonitor"
_SOURCES = "sources"
"""The key of the part that has the source of each job's usage. Metrics are in capitals."""
_SURELY_REPORTING = 600.0
"""A job that has been running for so long has points, or CloudMonitor does not answer as it is asked."""
_NEARLY = 2.0
"""A poll that ends so many seconds before its deadline has not had the time it needed: the last calls were refused."""


class Asking:
    """The way in which one namespace is asked. `key` is the dimension that names a resource of it."""

    def __init__(self, monitor: CloudMonitor, namespace: str, key: str, owner: Owner | None = None) -> None:
        """`owner` finds whose a point is, where it is not simply of the job that it names."""
        self._monitor = monitor
        self._namespace = namespace
        self._key = key
        self._owner = owner
        self._named_until: dict[str, float] = {}
        """Metrics that are asked for by name, and until when (loop time)."""
        self._useless_until = float("-inf")
        """Until when names are known not to help where nothing comes without them."""
        self._logged: set[str] = set()

    async def read(self, feed: Feed, into: Newest, *, names: Collection[str], deadline: float) -> None:
        """Every point of a metric there is, or those of `names` if it must be so. Raises CloudError."""
        metric = feed.metric.name
        if self._is_named(metric):
            await self._by_name(feed, into, names, deadline)
            return
        try:
            await self._pages(feed, into, deadline)
        except RequestRefused as refusal:
            if into.rows or not names:
                raise
            try:
                await self._by_name(feed, into, names, deadline)
            except CloudError:
                raise refusal from None  # that Dimensions were missing was not the reason
            self._named_until[metric] = _now() + _DAY
            self._log("it rejects calls without them")

    def try_names(self, metrics: Collection[str]) -> bool:
        """No metric had any point although there must be some: whether to ask again, for now by name."""
        if _now() < self._useless_until or all(map(self._is_named, metrics)):
            return False
        self._named_until |= dict.fromkeys(metrics, _now() + _DAY)
        return True

    def names_helped(self, helped: bool) -> None:
        """Note what came of that. Where it was nothing either, no such calls are spent for a day."""
        if helped:
            self._log("it returns no points without them")
        else:
            self._named_until.clear()
            self._useless_until = _now() + _DAY

    def names_unproven(self) -> None:
        """Some of those calls failed: nothing was learnt, and the next poll tries again."""
        self._named_until.clear()

    def _is_named(self, metric: str) -> bool:
        return _now() < self._named_until.get(metric, float("-inf"))

    def _log(self, cause: str) -> None:
        if cause not in self._logged:
            self._logged.add(cause)
            facts = fields(namespace=self._namespace, names_per_call=_AT_ONCE, cause=cause)
            log.warning("CloudMonitor needs Dimensions, which costs more calls", extra=facts)

    async def _by_name(self, feed: Feed, into: Newest, names: Collection[str], deadline: float) -> None:
        ordered = sorted(names)
        for start in range(0, len(names), _AT_ONCE):
            asked = [{self._key: name} for name in ordered[start : start + _AT_ONCE]]
            await self._pages(feed, into, deadline, dimensions=json.dumps(asked, separators=(",", ":")))

    async def _pages(self, feed: Feed, into: Newest, deadline: float, *, dimensions: str = "") -> None:
        batches = self._monitor.describe_metric_last(
            self._namespace, feed, since=into.since, deadline=deadline, dimensions=dimensions, owner=self._owner
        )
        await into.take_all(batches)


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The subjects of the points of one poll, and whether there must be points."""

    scope: Scope
    due: bool


class _Space:
    """A namespace of CloudMonitor: its metrics and their families, its way of asking, and its shown values."""

    def __init__(self, feeds: Feeds, asking: Asking) -> None:
        self.feeds = feeds
        self.asking = asking
        self.of_jobs = feeds.namespace == DLC
        self.entities = Entities()
        self.shown: dict[str, Shown] = {}
        """By metric, what its last good answer showed."""
        self.wanted: _Wanted | None = None
        self.points = 0
        """Seen in this poll, shown or not."""

    async def learn(self, part: Part) -> set[str]:
        """Read the catalogue if it is time to; the metrics that feed other families than before."""
        before = self.feeds.known
        await self.feeds.learn(part)
        after = self.feeds.known
        self.shown = {name: shown for name, shown in self.shown.items() if name in after}
        return {name for name, feed in before.items() if after.get(name) != feed}


class CloudMonitorCollector(BulkCollector):
    """The jobs that `serves` says are this source's, and of pools if `pools` are known at all."""

    def __init__(
        self,
        shared: PaiShared,
        interval: float,
        monitor: CloudMonitor,
        jobs: Feeds,
        pools: Feeds | None,
        *,
        serves: Callable[[Job], bool],
    ) -> None:
        super().__init__("usage", interval)
        self._shared = shared
        self._serves = serves
        self._max_data_age = shared.max_data_age
        self._at_once = shared.at_once
        self._spaces = [_Space(jobs, Asking(monitor, DLC, "jobId"))]
        if pools is not None:
            self._spaces.append(_Space(pools, Asking(monitor, QUOTA, "quotaId", self._quota_of)))
        self._quotas_by_name: dict[str, str] = {}
        self._read_at: dict[str, Sequence[Column]] = {}
        """By metric of jobs, what is shown: each column has the times of its readings."""
        self._turns = FairQueue()
        self._cut_off = False
        """Whether the last poll's time ended before all metrics were read."""

    async def poll(self, poll: Poll) -> None:
        """Read all metrics."""
        # The usage of pools can be had without knowing any job.
        await self._shared.jobs.wait(poll.deadline, needed=len(self._spaces) == 1)
        await self._learn(poll)
        for space in self._spaces:
            space.points, space.wanted = 0, None
            known = self._shared.jobs.live() if space.of_jobs else self._shared.pools.value
            space.entities.keep_if(known.__contains__)
            try:
                space.wanted = self._of_jobs() if space.of_jobs else await self._of_pools()
            except NotReady as error:
                poll.failed(space.feeds.namespace, error)
        asked = {name: space for space in self._spaces if space.wanted is not None for name in space.feeds.known}
        # Metrics that are read together all come near their end when a poll is over, and then all fail.
        at_once = 1 if self._cut_off else self._at_once
        await self._turns.read_each(poll, asked, lambda part: self._read(part, asked[part.key]), at_once=at_once)
        self._cut_off = asyncio.get_running_loop().time() >= poll.deadline - _NEARLY
        for space in self._spaces:
            await self._ask_again(poll, space)
        async with poll.part(_SOURCES) as part:
            await self._publish_sources(part)

    def expired(self, key: str) -> None:
        """A metric's last good answer was kept long enough (polling.BulkCollector)."""
        self._read_at.pop(key, None)

    async def _learn(self, poll: Poll) -> None:
        """Have the catalogues, and let go of the parts that are gone, or that show something else from now on."""
        kept = {_SOURCES}
        changed: set[str] = set()
        for space in self._spaces:
            key = f"catalogue of {space.feeds.namespace}"
            async with poll.part(key) as part:
                changed |= await space.learn(part)
            if space.feeds.catalogue is None:
                kept.add(key)
            kept |= space.feeds.known.keys()
        poll.keep_only(kept - changed)
        self._read_at = {key: shown for key, shown in self._read_at.items() if key in kept - changed}

    def _of_jobs(self) -> _Wanted:
        jobs = [job for job in self._shared.jobs.live_jobs() if self._serves(job)]
        now = time.time()
        due = any(now - (job.started or job.created or now) > _SURELY_REPORTING for job in jobs)
        return _Wanted(Scope(frozenset(job.job_id for job in jobs), self._is_known), due)

    def _is_known(self, job_id: str) -> bool:
        """Return whether it is a job that others serve, that uses nothing now, or that the config leaves out."""
        jobs = self._shared.jobs
        return job_id in jobs.live() or jobs.owner(job_id) is not None

    async def _of_pools(self) -> _Wanted:
        quotas = await self._shared.pools.get()
        named = Counter(quota.name for quota in quotas.values())
        self._quotas_by_name = {quota.name: quota_id for quota_id, quota in quotas.items() if named[quota.name] == 1}
        return _Wanted(Scope(quotas.keys()), due=bool(quotas))

    def _quota_of(self, point: Point) -> str:
        return point.quota_id or self._quotas_by_name.get(point.quota_name or "", "")

    async def _read(self, part: Part, space: _Space) -> None:
        feed, wanted = space.feeds.known[part.key], space.wanted
        assert wanted is not None  # else no part of it is asked for
        now, age, entities = time.time(), max_age(part, self._max_data_age), space.entities
        newest = Newest(entities.of(feed.level), wanted.scope, now=now, max_age=age, statistics=len(feed.statistics))
        if wanted.scope.served:
            await space.asking.read(feed, newest, names=wanted.scope.served, deadline=part.deadline)
            space.points += newest.rows
            part.dropped("no_data", 0 if newest.rows else 1)
        before, period = space.shown.get(part.key), feed.metric.period or 0
        shown = space.shown[part.key] = columns(newest, entities, feed.targets, before, period=period)
        count(part, newest.dropped)

        async def build(since: float) -> tuple[Sequence[object], float]:
            owners = self._shared.jobs.live() if space.of_jobs else None
            fresh = kept_of(shown.columns, since=since, owners=owners)
            return [column.readings for column in fresh], min([column.first for column in fresh], default=math.inf)

        await publish_until_stale(part, build, self._max_data_age, now=now)
        if space.of_jobs:
            self._read_at[part.key] = shown.columns

    async def _ask_again(self, poll: Poll, space: _Space) -> None:
        """Ask by name where nothing came although there must be something, and look whether that helps."""
        names: Collection[str] = list(space.feeds.known)
        if space.wanted is None or not space.wanted.due or not names or not self._turns.has_read(names):
            return
        if space.points == 0 and space.asking.try_names(names):
            answered = await poll.read_each(names, lambda part: self._read(part, space), at_once=self._at_once)
            if space.points or answered.issuperset(names):
                space.asking.names_helped(space.points > 0)
            else:
                space.asking.names_unproven()

    async def _publish_sources(self, part: Part) -> None:
        newest = newest_by_owner([column for shown in self._read_at.values() for column in shown])

        async def build(since: float) -> tuple[Sequence[object], float]:
            listed, sources, oldest = self._shared.jobs.live(), list[UsageSource](), math.inf
            for job_id, read_at in newest.items():
                if read_at >= since and job_id in listed:
                    sources.append(UsageSource(job_id, SOURCE, read_at))
                    oldest = min(oldest, read_at)
            return sources, oldest

        await publish_until_stale(part, build, self._max_data_age)
