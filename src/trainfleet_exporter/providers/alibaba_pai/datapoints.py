"""CloudMonitor's data points to readings: the newest usable one of each job, pod, card or pool, metric by metric.

A point has its time in Unix milliseconds, what it is of (jobId, pod, a key for the card; quotaId or quotaName), and the
statistics of the metric. A point may be up to two hours old.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trainfleet_exporter.model import Subject
from trainfleet_exporter.providers.alibaba_pai.entities import Entities, Rest
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed
from trainfleet_exporter.providers.alibaba_pai.payloads import Point
from trainfleet_exporter.providers.alibaba_pai.points import Points, point_reader

_FUTURE = 900.0
"""A reading dated further ahead than a request's clock may be off is not believed."""
_AT_ONCE = 2_000
"""Points that are taken over before the loop runs other tasks: about a millisecond."""

Statistics: TypeAlias = tuple[str, ...]
Owner = Callable[[Point], str | None]
"""The id of what owns a point; empty if that is not listed, None if another source serves its readings."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Finds the owner of a point."""

    owner: Owner
    served: Collection[str] = frozenset()
    """Jobs to which `owner` assigns every point that has their jobId."""


class Collected:
    """The readings of one feed, page by page. `dropped` counts by reason what is not shown."""

    def __init__(
        self, feed: Feed, whose: Whose, entities: Entities, *, now: float, max_age: float, series: bool = False
    ) -> None:
        """`series` says that points of one thing follow each other in time, so that all but the newest are passed."""
        self.feed = feed
        self.reader = point_reader(feed)
        self.entities = entities
        self.index = entities.of(feed.level)
        self.dropped: Counter[str] = Counter()
        self.points = 0
        self.raw: Mapping[Statistics, dict[Subject, float]] = {target.statistics: {} for target in feed.targets}
        """By statistics: the newest readings, always of the same subjects, in the metric's unit; NaN if absent."""
        self.time = math.nan
        """The Unix time of most readings."""
        self.times: dict[Subject, float] = {}
        """That of all others."""
        self.spoiled: set[str] = set()
        """Owners of points that could not be read; empty text stands for any owner, where a point names none."""
        self._first = next(iter(self.raw))
        self._whose = whose
        self._now = now
        self._max_age = max_age
        self._series = series

    @property
    def since(self) -> float:
        """Points from before this Unix time are too old to be shown, and need not be asked for."""
        return self._now - self._max_age

    @property
    def readings(self) -> Collection[Subject]:
        """What has a reading."""
        return self.raw[self._first]

    async def take_pages(self, pages: AsyncIterator[Points]) -> None:
        """Take over all points of an answer. Raises what `pages` raise."""
        async for points in pages:
            for start in range(0, len(points), _AT_ONCE):
                self.take(points[start : start + _AT_ONCE])
                await asyncio.sleep(0)
            del points  # before the next call

    def take(self, points: Points) -> None:
        """Take over some points."""
        self.points += len(points)
        for point in points if len(self.raw) > 1 else self._unusual(points):
            reason = "malformed" if point is None else self._take(point)
            if reason:
                self.dropped[reason] += 1
            if reason == "malformed":
                owner = "" if point is None else self._whose.owner(point)
                self.spoiled |= set() if owner is None else {owner}

    def _unusual(self, points: Points) -> Iterator[Point | None]:
        """Take over the first usable point of each known subject, as `_take` would in more time; yield the others."""
        ((statistics, raw),) = self.raw.items()
        value_of, rest_of = self.reader.usual_value(statistics), self.reader.rest_of
        owned, served, times = self.index.owned, self._whose.served, self.times
        since, until = self.since, self._now + _FUTURE
        owner: str | None = None
        known: Mapping[Rest, Subject] = {}
        last, time, is_other = math.nan, math.nan, False
        given = [point for point in points if point is not None]
        yield from [None] * (len(points) - len(given))
        for point, rest, value in zip(given, map(rest_of, given), map(value_of, given), strict=True):
            if point.job_id != owner:
                owner = point.job_id
                known = owned.get(owner, {}) if owner is not None and owner in served else {}
            subject, milliseconds = known.get(rest), point.timestamp
            if subject is None or value is None or milliseconds is None or subject in raw:
                yield point
                continue
            if milliseconds != last:
                time = milliseconds / 1000
                if not (since <= time <= until and milliseconds.is_integer()):
                    yield point
                    continue
                last = milliseconds
                self.time = time if not raw else self.time
                is_other = time != self.time
            raw[subject] = value
            if is_other:
                times[subject] = time

    def _take(self, point: Point) -> str:
        """Why a point is not shown; empty for one that is, or that another source shows."""
        milliseconds = point.timestamp
        time = milliseconds / 1000 if milliseconds is not None and milliseconds.is_integer() else math.inf
        if time > self._now + _FUTURE or time < 0:
            return "malformed"
        if self._now - time > self._max_age:
            return "stale"
        owner = self._whose.owner(point)
        if not owner:
            return "" if owner is None else "unlisted"
        key = self.reader.key(point, owner)
        if key is None:
            return "malformed"
        known = self.index.subjects.get(key)
        has_reading = known is not None and known in self.readings
        if known is not None and has_reading and self.times.get(known, self.time) >= time:
            return "" if self._series else "duplicate"
        raw = {statistics: self.reader.value(point, statistics) for statistics in self.raw}
        if all(value is None for value in raw.values()):
            return "malformed"
        self._put(self.index.subject(key), time, raw)
        return "duplicate" if has_reading and not self._series else ""

    def _put(self, subject: Subject, time: float, raw: Mapping[Statistics, float | None]) -> None:
        if not self.readings:
            self.time = time
        self.times.pop(subject, None)
        if time != self.time:
            self.times[subject] = time
        for statistics, value in raw.items():
            self.raw[statistics][subject] = math.nan if value is None else value
