"""CloudMonitor's data points to readings: columns of numbers, in which each job, pod, card or pool has its place.

Shapes: DescribeMetricLast answers `Datapoints`, DLC GetMetrics `DataPoints`, both a text that holds a JSON array. A
point has its time in Unix milliseconds, what it is of (jobId, pod, a key for the card; quotaId or quotaName), and the
statistics of the metric, each under its name. A point may be up to two hours old.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.alibaba_pai.catalogue import POD_KEYS, is_device_key
from trainfleet_exporter.providers.alibaba_pai.known_pages import KnownPages
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed, Target
from trainfleet_exporter.providers.alibaba_pai.plain_points import PlainPoints, as_object, plain_points
from trainfleet_exporter.providers.alibaba_pai.roster import Key, Rosters
from trainfleet_exporter.providers.alibaba_pai.units import RATIOS, Quantity, convert
from trainfleet_exporter.quantities import UNUSABLE, number, text, whole
from trainfleet_exporter.slices import give_way
from trainfleet_exporter.transport import NOT_JSON
from trainfleet_exporter.transport.body import decode_json

Point = Mapping[str, Any]
_FUTURE = 900.0
"""A reading dated further ahead than a request's clock may be off is not believed."""
UNREAD: Final = -math.inf
"""The time of what has no reading."""
UNFIT: Final = -1.0
"""The value of a reading that has none, or none that can be true."""
_EXACT = 2**53


Owner = Callable[[Point], str | None]
"""Whose a point is: an id; empty for somebody who is not listed, None for somebody whose readings others serve."""


@dataclass(frozen=True, slots=True)
class Whose:
    """How it is told whose a point is."""

    owner: Owner
    served: Collection[str] = frozenset()
    """Jobs that `owner` says points to be of whose jobId they are."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How a value is read from a point: which of its statistics, and how many base units of a quantity one is."""

    statistics: tuple[str, ...]
    factor: float
    quantity: Quantity

    @classmethod
    def of(cls, target: Target) -> _Way:
        """The way that a target needs; that of most targets of a metric is the same."""
        return cls(target.statistics, target.factor, target.family.quantity)


async def batches(
    payload: Mapping[str, Any],
    key: str,
    plain: PlainPoints | None = None,
    again: Callable[[str], bool] = lambda text: False,
) -> AsyncIterator[Sequence[object]]:
    """The points of an answer, some hundred at a time, so that they are taken over while the processor has them at
    hand; where all of a batch are `plain`, as structs. Else see points_of.

    There is no batch where `again` says of their text that they were taken over already.
    """
    given = payload.get(key)
    if isinstance(given, str) and again(given):
        return
    if plain is not None and isinstance(given, str):
        start = 0
        with suppress(ValueError, RecursionError):
            for points, end in plain.page(given):
                start = end
                yield points
                if end < len(given):
                    await give_way()
            return
        given = f"[{given[start:]}" if start else given
        await give_way()
    yield points_of({key: given}, key)


def points_of(payload: Mapping[str, Any], key: str) -> Sequence[object]:
    """The points of an answer: a JSON array in a text, or none at all. BadAnswer for anything else."""
    given = payload.get(key)
    if given is None or given == "":
        return []
    if isinstance(given, str):
        given = decode_json(given.encode("utf-8", "replace"))
        if given is NOT_JSON:
            raise BadAnswer(f"{key} is not JSON")
    if not isinstance(given, list):
        raise BadAnswer(f"{key} is not a list")
    return given


class Collected:
    """The readings of one feed, page by page: columns with a place for each thing of the feed's level.

    `dropped` counts by reason what is not shown.
    """

    def __init__(
        self,
        feed: Feed,
        whose: Whose,
        rosters: Rosters,
        *,
        now: float,
        max_age: float,
        series: bool = False,
        known: KnownPages | None = None,
    ) -> None:
        """`series` says that points of one thing follow each other in time, so that all but the newest are passed;
        `known` has the pages of this feed that came at its last poll."""
        self.feed = feed
        self.rosters = rosters
        self.roster = rosters.of(feed.level)
        self.dropped: Counter[str] = Counter()
        self.points = 0
        self.read = 0
        """Things that have a reading, fit or not."""
        self.times = array("d", [UNREAD]) * len(self.roster)
        """By place, the Unix time of the newest reading."""
        self.earliest, self.latest = math.inf, -math.inf
        """Of the times that were ever in there."""
        self._ways = {_Way.of(target): array("d", [UNFIT]) * len(self.roster) for target in feed.targets}
        """By place, the value of the newest reading in base units, for each way in which targets read it."""
        self._unfit: set[_Way] = set()
        """Ways in which some reading has no value."""
        self._spoiled: set[str] = set()
        """Owners of points that could not be read; empty text stands for anybody, where a point does not say whose."""
        self._whose = whose
        self._now = now
        self._max_age = max_age
        self._series = series
        statistic = next(iter(self._ways)).statistics[0]
        self.plain = None if series or len(self._ways) > 1 else plain_points(feed, statistic)
        """How the usual points are read; None where no point is taken for a usual one."""
        self._known = known if self.plain is not None else None
        if self._known is not None:
            (values,) = self._ways.values()
            self._known.begin(values, places=self.roster.places, served=whose.served)
        self._of_page = array("I")
        """The places that have a reading of the page that is taken over now, and had none before."""
        self._times_of_page: set[float] = set()
        self._points_before = 0
        """Those of the pages before."""

    @property
    def since(self) -> float:
        """Points from before this Unix time are too old to be shown, and need not be asked for."""
        return self._now - self._max_age

    def values(self, target: Target) -> array[float]:
        """The values for one of the feed's targets, by place; UNFIT where there is none."""
        return self._ways[_Way.of(target)]

    def is_fit(self, target: Target) -> bool:
        """Whether every reading has a value for it."""
        return _Way.of(target) not in self._unfit

    def may_lack(self, owner: str) -> bool:
        """Whether a point that could not be read may have been of this owner."""
        return owner in self._spoiled or "" in self._spoiled

    def again(self, text: str) -> bool:
        """A page begins, given as its text: take over its points if they came before; whether that was so."""
        if self._known is None:
            return False
        self.page_ends()
        page, times = self._known.meet(text), self.times
        if page is None or not self.since <= page.time <= self._now + _FUTURE:
            return False
        if any(times[place] != UNREAD for place in page.places):
            return False  # an earlier page has told of it, too
        for place in page.places:
            times[place] = page.time
        self._known.take_over(page)
        self.points += len(page.places)
        self._points_before = self.points
        self.read += len(page.places)
        self.earliest, self.latest = min(page.time, self.earliest), max(page.time, self.latest)
        return True

    def page_ends(self) -> None:
        """All points of a page have come (`take`). To be told of the last one; the others end when the next begins."""
        points = self.points - self._points_before
        if self._known is not None and points:
            is_usual = len(self._of_page) == points and len(self._times_of_page) == 1 and not self._unfit
            self._known.pass_by(self._of_page if is_usual else None, max(self._times_of_page, default=UNREAD))
        self._points_before = self.points
        self._of_page = array("I")
        self._times_of_page.clear()

    def take(self, points: Sequence[object]) -> None:
        """Take over the points of one page."""
        self.points += len(points)
        token = UNUSABLE.set(None)  # what cannot be used of them is counted here, point by point
        try:
            for given in points if self.plain is None else self._unusual(points, self.plain):
                point = as_object(given)
                reason = self._take(point) if isinstance(point, dict) else "malformed"
                if reason:
                    self.dropped[reason] += 1
                if reason == "malformed":
                    owner = self._whose.owner(point) if isinstance(point, dict) else ""
                    self._spoiled |= set() if owner is None else {owner}
        finally:
            UNUSABLE.reset(token)

    def _unusual(self, points: Sequence[Any], plain: PlainPoints) -> Iterator[object]:
        """Take over the first points of what is known, each as `_take` would; the others are handed on."""
        is_decoded = bool(points) and isinstance(points[0], plain.struct)
        key_of, reading_of = plain.of_structs if is_decoded else plain.of_objects
        ((way, values),) = self._ways.items()
        factor, quantity = way.factor, way.quantity
        is_ratio, is_noisy = quantity in RATIOS, factor < 1
        places, keys, times, served = self.roster.places, self.roster.keys, self.times, self._whose.served
        since, until = self.since, self._now + _FUTURE
        note = self._of_page.append
        last, place, owner, is_served = UNREAD, -1, "", False
        for point in points:
            try:
                key = key_of(point)
                place += 1
                # Most often a page has things in the order in which they were met; to look that up takes longer.
                if place >= len(keys) or keys[place] != key:
                    place = places[key]
                if keys[place][0] is not owner:
                    owner = keys[place][0]
                    is_served = owner in served
                raw, milliseconds = reading_of(point)
                time = milliseconds / 1000
                if not (
                    type(milliseconds) is int
                    and since <= time <= until
                    and is_served
                    and times[place] == UNREAD
                    and (type(raw) is float or (type(raw) is int and -_EXACT < raw < _EXACT))
                ):
                    yield point
                    continue
                value: float = raw * factor
                if is_ratio and 0 <= value <= 1:  # convert in short
                    units = round(value * 1e12)
                    # The same as to round to 12 places, which takes twice as long; near halves only that is exact.
                    value = units / 1e12 if -0.49 < value * 1e12 - units < 0.49 else round(value, 12)
                elif is_ratio or is_noisy or not 0 <= value < math.inf:
                    converted = convert(raw, factor, quantity)
                    if converted is None:
                        yield point
                        continue
                    value = converted
            except (KeyError, IndexError, TypeError, OverflowError):  # a field lacks, or is not what it usually is
                yield point
                continue
            times[place] = time
            values[place] = value
            note(place)
            self.read += 1
            if time != last:
                last = time
                self._times_of_page.add(time)
                self.earliest, self.latest = min(time, self.earliest), max(time, self.latest)

    def _take(self, point: Point) -> str:
        """Why a point is not shown; empty for one that is, or that somebody else shows."""
        milliseconds = whole(point, "timestamp")
        time = math.inf if milliseconds is None else milliseconds / 1000
        if time > self._now + _FUTURE:
            return "malformed"
        if self._now - time > self._max_age:
            return "stale"
        owner = self._whose.owner(point)
        if not owner:
            return "" if owner is None else "unlisted"
        key = self._key(point, owner)
        if key is None:
            return "malformed"
        place = self.roster.places.get(key)
        before = UNREAD if place is None or place >= len(self.times) else self.times[place]
        if before >= time:
            return "" if self._series else "duplicate"
        raw = {way: statistic(point, way.statistics) for way in self._ways}
        if all(value is None for value in raw.values()):
            return "malformed"
        if before != UNREAD and self._known is not None:
            self._known.doubt()
        if not self._put(self.roster.place(key), time, raw):
            return "out_of_range"
        return "" if before == UNREAD or self._series else "duplicate"

    def _put(self, place: int, time: float, raw: Mapping[_Way, float | None]) -> bool:
        """Note a reading; whether any value of it can be shown."""
        lacking = len(self.roster) - len(self.times)
        if lacking:  # others came since, in this metric or in one that is read meanwhile
            self.times.extend([UNREAD] * lacking)
            for values in self._ways.values():
                values.extend([UNFIT] * lacking)
        if self.times[place] == UNREAD:
            self.read += 1
            self._of_page.append(place)
        self._times_of_page.add(time)
        self.times[place] = time
        self.earliest, self.latest = min(time, self.earliest), max(time, self.latest)
        is_fit = False
        for way, given in raw.items():
            value = None if given is None else convert(given, way.factor, way.quantity)
            self._ways[way][place] = UNFIT if value is None else value
            if value is None:
                self._unfit.add(way)
            else:
                is_fit = True
        return is_fit

    def _key(self, point: Point, owner: str) -> Key | None:
        return key_of(self.feed, point, owner)


def key_of(feed: Feed, point: Point, owner: str) -> Key | None:
    """What a point of a feed is of, as finely as the feed is; None where the point does not tell."""
    level = feed.level
    if level in ("job", "pool"):
        return (owner,)
    pod_id = next((value for name in POD_KEYS if (value := text(point, name))), "")
    if not pod_id:
        return None
    if level == "pod":
        return owner, pod_id
    names = [name for name in feed.metric.dimensions or point if is_device_key(name)]
    device = "/".join(value for name in names if (value := text(point, name)))
    return (owner, pod_id, device) if device else None


def statistic(point: Point, statistics: Sequence[str]) -> float | None:
    """The value of the first statistic that the point has, in either spelling of its first letter."""
    for name in statistics:
        for spelt in (name, name.lower()):
            value = point.get(spelt)
            if isinstance(value, float):  # the usual case, and the one that may be infinite or none at all
                return value
            if value is not None:
                return _signed(point, spelt)
    return None


def _signed(point: Point, name: str) -> float | None:
    value = point[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 10**300 else math.inf
    found = number(point, name)
    if found is None and isinstance(value, str) and value[:1] == "-":
        magnitude = number({name: value[1:]}, name)
        return None if magnitude is None else -magnitude
    return found
