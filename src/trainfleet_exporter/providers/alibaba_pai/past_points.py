"""CloudMonitor's points of a range to dated readings: those of the daemon, minute by minute."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, UsageSource
from trainfleet_exporter.providers.alibaba_pai.catalogue import Level
from trainfleet_exporter.providers.alibaba_pai.entities import KEY_LENGTHS, Key
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed, Target
from trainfleet_exporter.providers.alibaba_pai.payloads import Point
from trainfleet_exporter.providers.alibaba_pai.points import Points as PagePoints
from trainfleet_exporter.providers.alibaba_pai.points import point_reader
from trainfleet_exporter.providers.alibaba_pai.units import RATIOS, convert
from trainfleet_exporter.providers.dated import Dated, whole
from trainfleet_exporter.providers.history import Range, Track
from trainfleet_exporter.providers.values import whole as whole_number

_OF: Mapping[Level, type] = {"job": JobUsage, "pod": PodUsage, "device": DeviceUsage, "pool": PoolUsage}


class Points:
    """The points of one feed from within a range. `owner` finds the owner of a point (empty if it is not wanted), and
    `within` when the owner has readings that are shown."""

    def __init__(self, feed: Feed, owner: Callable[[Point], str], within: Callable[[str], Range]) -> None:
        self.feed = feed
        self._reader = point_reader(feed)
        self.owner = owner
        self.within = within
        self.dropped: Counter[str] = Counter()
        self._found: dict[tuple[int, Key], Dated] = {}
        """By the number of a target, and what the reading is of."""
        self._spoiled: set[str] = set()
        """Owners of points of which it is not known when they are from, or which of their parts they are of."""

    def take(self, points: PagePoints) -> None:
        """Take over the points of one page."""
        for point in points:
            reason = "malformed" if point is None else self._take(point)
            if reason:
                self.dropped[reason] += 1

    def _take(self, point: Point) -> str:
        milliseconds, owner = whole_number(point.timestamp), self.owner(point)
        if not owner:
            return "unlisted"
        key = self._reader.key(point, owner)
        if milliseconds is None or key is None:
            self._spoiled.add(owner)
            return "malformed"
        within, time = self.within(owner), milliseconds // 1000
        if not within.start <= time < within.end:
            return ""  # the daemon shows nothing of a job that does not run
        fit, lacks = False, False
        for number, target in enumerate(self.feed.targets):
            raw = self._reader.value(point, target.statistics)
            value = None if raw is None else convert(raw, target.factor, target.family.quantity)
            fit, lacks = fit or value is not None, lacks or raw is None
            dated = self._found.get((number, key))
            if dated is None:
                dated = self._found[number, key] = Dated()
            dated.add(time, value)
        return "malformed" if lacks else "" if fit else "out_of_range"

    def tracks(self, asked: Range, *, source: str, tells_source: bool) -> Iterator[Track]:
        """What there is to be shown; with `tells_source`, also which source served each job, and when."""
        for number, dated in [(number, dated) for (number, _), dated in self._found.items()]:
            twice = dated.sort()
            if number == 0:
                self.dropped["duplicate"] += twice
        for number, target in enumerate(self.feed.targets):
            own = {key: dated for (of, key), dated in self._found.items() if of == number}
            for key, dated in self._at_level(target, own, asked).items():
                times, values = dated.fit()
                if times:
                    keys = (*key, "gpu") if target.family.level == "device" else key
                    yield Track(_OF[target.family.level], _field(target), keys, times, values, source=source)
        if tells_source:
            yield from self._sources(source)

    def _at_level(self, target: Target, own: Mapping[Key, Dated], asked: Range) -> Mapping[Key, Dated]:
        level = target.family.level
        if level == self.feed.level:
            return own
        groups: dict[Key, list[Dated]] = {}
        for key, dated in own.items():
            groups.setdefault(key[: KEY_LENGTHS[level]], []).append(dated)
        return {
            key: whole(
                parts,
                is_ratio=target.family.quantity in RATIOS,
                goes_on=goes_on(self.within(key[0]), asked),
                spoiled=key[0] in self._spoiled,
            )
            for key, parts in groups.items()
        }

    def _sources(self, source: str) -> Iterator[Track]:
        by_owner: dict[str, set[int]] = {}
        for (number, key), dated in self._found.items():
            if number == 0:
                by_owner.setdefault(key[0], set()).update(dated.fit()[0])
        for owner, moments in by_owner.items():
            yield from source_tracks(owner, source, moments)


def goes_on(runs: Range, asked: Range) -> int | None:
    """The end of what was asked for, where a job ran on beyond it."""
    return asked.end if runs.end >= asked.end else None


def source_tracks(job_id: str, source: str, moments: set[int]) -> Iterator[Track]:
    """That a job had readings of a source, at each time at which it had some."""
    times = array("q", sorted(moments))
    if times:
        yield Track(UsageSource, "source", (job_id,), times, array("d", [1.0]) * len(times), source=source)
        yield Track(UsageSource, "timestamp", (job_id,), times, array("d", map(float, times)), source=source)


def _field(target: Target) -> str:
    return target.family.field if target.family.level == "device" else f"values.{target.family.field}"
