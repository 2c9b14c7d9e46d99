"""Usage by CloudMonitor: each metric is asked for once, for all jobs together, and is a part of its own.

Cost a poll: one call for each metric and each 1,440 points of it, and nothing while there is no job that it serves. A
metric of pods feeds the families of pods and, where there is none of jobs, those of jobs as well.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.errors import NotReady
from trainfleet_exporter.model import Job, UsageSource
from trainfleet_exporter.polling import BulkCollector, FairQueue, Part, Poll
from trainfleet_exporter.providers.alibaba_pai.asking import Asking
from trainfleet_exporter.providers.alibaba_pai.catalogue import DLC, QUOTA
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import CloudMonitor
from trainfleet_exporter.providers.alibaba_pai.collectors.catalogues import Catalogue
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.alibaba_pai.columns import Column, Shown, columns, kept_of, newest_by_owner
from trainfleet_exporter.providers.alibaba_pai.datapoints import Collected, Whose
from trainfleet_exporter.providers.alibaba_pai.entities import Entities, Lineup
from trainfleet_exporter.providers.alibaba_pai.metric_map import (
    JOB_FAMILIES,
    POOL_FAMILIES,
    Choice,
    Family,
    Feed,
    Unfed,
    exposed,
    feeds,
    tell,
)
from trainfleet_exporter.providers.alibaba_pai.payloads import Point

_SOURCES = "sources"
"""The part that tells for each job where its usage came from; metrics are in capitals."""
_SURELY_REPORTING = 600.0
"""A job that has been running for so long has points, or CloudMonitor does not answer as it is asked."""
_TESTED = 1_000
"""Jobs that are gone through before the loop runs other tasks: about half a millisecond."""
_NEARLY = 2.0
"""A poll that ends so many seconds before its deadline has not had the time it needed: the last calls were refused."""
_TOUCH = 0.001
"""A reading goes so much later than its limit, so that it is surely beyond it then."""


def cloudmonitor_usage(
    shared: PaiShared,
    monitor: CloudMonitor,
    *,
    interval: float,
    serves: Callable[[Job | None], bool],
    choices: Mapping[str, Choice],
    deny: Sequence[str],
    with_pools: bool,
) -> BulkCollector:
    """The collector of the jobs that `serves` says are this source's, and of pools if they are known at all.

    `choices` are the config's, by the name of the family after `trainfleet_`; nothing is asked for that only families
    would show which `deny` keeps from being exposed.
    """
    spaces = [_Space(monitor, DLC, "jobId", exposed(JOB_FAMILIES, deny), choices)]
    if with_pools:
        spaces.append(_Space(monitor, QUOTA, "quotaId", exposed(POOL_FAMILIES, deny), choices))
    return _Usage(shared, interval, spaces, serves)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Whose points are wanted in one poll: by name, by a test of points; and whether there must be some."""

    names: Collection[str]
    whose: Whose
    due: bool


class _Space:
    """A namespace of CloudMonitor: what of it feeds which families, and how it is asked."""

    def __init__(
        self,
        monitor: CloudMonitor,
        namespace: str,
        key: str,
        families: Sequence[Family],
        choices: Mapping[str, Choice],
    ) -> None:
        self.namespace = namespace
        self.catalogue = Catalogue(monitor, namespace)
        self.asking = Asking(monitor, namespace, key)
        self.feeds: Mapping[str, Feed] = {}
        self.entities = Entities()
        self.shown: dict[str, Shown] = {}
        """By metric, what its last good answer showed."""
        self.scope: _Scope | None = None
        self.points = 0
        """Seen in this poll, shown or not."""
        self._families = families
        self._choices = choices
        self._unfed: Collection[Unfed] = ()
        self._told: set[Unfed] = set()

    def has_points(self) -> bool:
        """Whether any came in this poll."""
        return self.points > 0

    async def learn(self, part: Part) -> set[str]:
        """Read the catalogue if it is time to; the metrics that feed other families than before."""
        if not await self.catalogue.have(part):
            part.still_lost({"malformed": len(self._unfed)})
            return set()
        before = self.feeds
        self.feeds, self._unfed = feeds(self.catalogue.known or {}, self._families, self._choices)
        tell("CloudMonitor", self._unfed, self._told)
        part.dropped("malformed", len(self._unfed))
        self.shown = {name: shown for name, shown in self.shown.items() if name in self.feeds}
        return {name for name, feed in before.items() if self.feeds.get(name) != feed}


class _Usage(BulkCollector):
    def __init__(
        self,
        shared: PaiShared,
        interval: float,
        spaces: Sequence[_Space],
        serves: Callable[[Job | None], bool],
    ) -> None:
        super().__init__("usage", interval)
        self._shared = shared
        self._spaces = spaces
        self._serves = serves
        self._max_data_age = shared.max_data_age
        self._at_once = shared.at_once
        self._read_at: dict[str, list[tuple[Lineup, array[float]]]] = {}
        """By metric of jobs, the times of the newest readings that are shown."""
        self._turns = FairQueue()
        self._cut_off = False
        """Whether the last poll's time ended before all metrics were read."""

    async def poll(self, poll: Poll) -> None:
        """Read all metrics."""
        # The usage of pools is to be had without knowing any job.
        await self._shared.jobs.wait(poll.deadline, needed=len(self._spaces) == 1, everywhere=True)
        await self._learn(poll)
        for space in self._spaces:
            space.points, space.scope = 0, None
            known = self._shared.jobs.listed() if space.namespace == DLC else self._shared.pools.value
            space.entities.keep_if(known.__contains__)
            try:
                space.scope = await self._of_jobs() if space.namespace == DLC else await self._of_pools()
            except NotReady as error:
                poll.failed(space.namespace, error)
        asked = {name: space for space in self._spaces if space.scope is not None for name in space.feeds}
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
        """Have the catalogues, and let go of the parts that are no more, or that show something else from now on."""
        kept = {_SOURCES}
        changed: set[str] = set()
        for space in self._spaces:
            key = f"catalogue of {space.namespace}"
            async with poll.part(key) as part:
                changed |= await space.learn(part)
            if space.catalogue.known is None:
                kept.add(key)
            kept |= space.feeds.keys()
        poll.keep_only(kept - changed)
        self._read_at = {key: times for key, times in self._read_at.items() if key in kept - changed}

    async def _of_jobs(self) -> _Scope:
        jobs: list[Job] = []
        for place, job in enumerate(list(self._shared.jobs.listed_jobs()), start=1):
            if not place % _TESTED:
                await asyncio.sleep(0)
            if self._serves(job):
                jobs.append(job)
        served = frozenset(job.job_id for job in jobs)
        book = self._shared.jobs

        def owner(point: Point) -> str | None:
            job_id = point.job_id or ""
            if job_id in served:
                return job_id
            # Jobs that others serve, that use nothing now or that the config leaves out are listed all the same.
            return None if job_id in book.listed() or book.owner(job_id) is not None else ""

        now = time.time()
        due = any(now - (job.started or job.created or now) > _SURELY_REPORTING for job in jobs)
        return _Scope(served, Whose(owner, served), due)

    async def _of_pools(self) -> _Scope:
        quotas = await self._shared.pools.get()
        named = Counter(quota.name for quota in quotas.values())
        by_name = {quota.name: quota_id for quota_id, quota in quotas.items() if named[quota.name] == 1}

        def owner(point: Point) -> str:
            if point.quota_id:
                return point.quota_id if point.quota_id in quotas else ""
            return by_name.get(point.quota_name or "", "")

        return _Scope(quotas.keys(), Whose(owner), due=bool(quotas))

    async def _read(self, part: Part, space: _Space) -> None:
        feed, scope = space.feeds[part.key], space.scope
        assert scope is not None  # else no part of it is asked for
        now = time.time()
        collected = Collected(feed, scope.whose, space.entities, now=now, max_age=self._max_age(part))
        if scope.names:
            await space.asking.read(feed, collected, names=scope.names, deadline=part.deadline)
            space.points += collected.points
            part.dropped("no_data", 0 if collected.points else 1)
        shown = space.shown[part.key] = await columns(collected, space.shown.get(part.key))
        for reason, count in collected.dropped.items():
            part.dropped(reason, count)
        await self._publish(part, shown.columns, now=now, of_jobs=space.namespace == DLC)

    def _max_age(self, part: Part) -> float:
        """How old a reading may be now: the interval may be stretched after it was published."""
        return max(self._max_data_age, 2 * part.interval)

    async def _publish(self, part: Part, shown: Sequence[Column], *, now: float, of_jobs: bool) -> None:
        async def kept(moment: float) -> tuple[Sequence[object], float | None]:
            max_age = self._max_age(part)
            listed = self._shared.jobs.listed() if of_jobs else None
            fresh = await kept_of(shown, moment - max_age, listed)
            oldest = min([column.first for column in fresh], default=None)
            return [column.readings for column in fresh], None if oldest is None else oldest + max_age + _TOUCH

        objects, stale_at = await kept(now)
        await part.publish(objects, stale_at=stale_at, rebuild=kept)
        if of_jobs:
            self._read_at[part.key] = [(column.lineup, column.newest) for column in shown]

    async def _ask_again(self, poll: Poll, space: _Space) -> None:
        """Ask by name where nothing came although there must be something, and look whether that helps."""
        names = list(space.feeds)
        if space.scope is None or not space.scope.due or not names or not self._turns.has_read(names):
            return
        if space.has_points():
            return
        if space.asking.try_names(names):
            answered = await poll.read_each(names, lambda part: self._read(part, space), at_once=self._at_once)
            if space.has_points() or answered.issuperset(names):
                space.asking.names_helped(space.has_points())
            else:
                space.asking.names_unproven()

    async def _publish_sources(self, part: Part) -> None:
        read_at = [pair for pairs in self._read_at.values() for pair in pairs]
        newest = await newest_by_owner(read_at)

        async def kept(moment: float) -> tuple[Sequence[object], float | None]:
            listed, max_age = self._shared.jobs.listed(), self._max_age(part)
            sources: list[UsageSource] = []
            for place, (job_id, read_at) in enumerate(newest.items(), start=1):
                if not place % _TESTED:
                    await asyncio.sleep(0)
                if moment - read_at <= max_age and job_id in listed:
                    sources.append(UsageSource(job_id, "cloudmonitor", read_at))
            oldest = min([source.timestamp for source in sources if source.timestamp is not None], default=None)
            return sources, None if oldest is None else oldest + max_age + _TOUCH

        objects, stale_at = await kept(time.time())
        await part.publish(objects, stale_at=stale_at, rebuild=kept)
