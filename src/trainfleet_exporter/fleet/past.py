"""The past of a cloud: a day is cut into calls by a table, and their readings become series.

    PastSource (a row of the table) ──batches──► Asked ──a cloud's read──► readings ──PastReadings──► tracks

A reading is (key, time, value), as in fleet.usage: live keeps the newest, the past keeps all of a range.
"""

from __future__ import annotations

import math
import time as wall_clock
from array import array
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import SHOWN_AS, Family, Level
from trainfleet_exporter.fleet.histories import Interval, elapsed
from trainfleet_exporter.fleet.quantities import convert_each, total
from trainfleet_exporter.fleet.usage import KEY_LENGTHS, SILENCE, Key, Reading, SourceMetric
from trainfleet_exporter.model import FINISHED, Accelerator, Job, Readings, Subject, UsageSource
from trainfleet_exporter.providers.past import MINUTE, Life, Past, PastCall, Range, Spell, Track

Values: TypeAlias = Mapping[int, float | None]
"""By Unix time; None for a reading that cannot be shown."""


M = TypeVar("M", bound=SourceMetric)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is requested together: some jobs (or pools), each with the time whose readings are shown."""

    within: Mapping[str, Range]
    readings: int
    """About how many they have."""
    step: int
    """Seconds between two of them."""

    @property
    def span(self) -> Range:
        """The whole time in which any of them has readings."""
        return Range(min(each.start for each in self.within.values()), max(each.end for each in self.within.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSource:
    """A row of a cloud's table: what one of its sources returns of the past, and what that costs."""

    name: str
    """As in model.UsageSource."""
    api: str
    kept: Sequence[tuple[int, float]] = ((MINUTE, math.inf),)
    """Seconds between two readings, and for how many seconds they are kept; the finest first."""
    owners: int = 1
    """The most jobs (or pools) of one request."""
    readings: float = math.inf
    """About the most readings that are requested together. They are in memory at the same time."""
    answered: float = math.inf
    """The most readings of one response."""

    def step(self, age: float) -> int:
        """Return the seconds between two readings that are kept for so many seconds; 0 if none are."""
        return next((step for step, kept in self.kept if age < kept), 0)

    def batches(self, owners: Iterable[tuple[str, int, Range]], step: int) -> Iterator[Asked]:
        """Yield which jobs (or pools) are requested together. Each owner has its number of parts and its range.

        A large one is requested separately, and some of its time at once.
        """
        within: dict[str, Range] = {}
        readings = 0
        for owner, parts, runs in owners:
            own = parts * len(range(runs.start, runs.end, step))
            if own > self.readings:
                length = max(1, int(self.readings // parts)) * step
                for start in range(runs.start, runs.end, length):
                    piece = Range(start, min(start + length, runs.end))
                    yield Asked({owner: piece}, parts * len(range(piece.start, piece.end, step)), step)
                continue
            if within and (len(within) == self.owners or readings + own > self.readings):
                yield Asked(within, readings, step)
                within, readings = {}, 0
            within[owner] = runs
            readings += own
        if within:
            yield Asked(within, readings, step)


@dataclass(frozen=True, slots=True)
class PastUsage(Generic[M]):
    """The metrics of a source, for the jobs (or pools) that it serves.

    `owners` returns those that have readings of a metric on a day, as PastSource.batches takes them. `read` yields the
    readings of each page until a deadline (loop time).
    """

    past: Past
    source: PastSource
    metrics: Iterable[M]
    owners: Callable[[M], Iterable[tuple[str, int, Range]]]
    read: Callable[[M, Asked, float], AsyncIterator[Iterable[Reading]]]

    def calls(self, day: Range) -> Iterator[PastCall[Track]]:
        """Yield the calls that read a day: one for each metric and batch.

        The first metric of the coarsest level decides when a job is served by the source: every job must have it.
        """
        step = self.source.step(wall_clock.time() - day.start)
        ordered = sorted(self.metrics, key=lambda metric: (metric.of_accelerators, KEY_LENGTHS[metric.level]))
        for metric in ordered if step else ():
            for asked in self.source.batches(self.owners(metric), step):
                decides = metric is ordered[0] and metric.level != "pool"
                what = f"{metric.key} of {next(iter(asked.within))} and {len(asked.within) - 1} more"
                calls = max(1, math.ceil(asked.readings / self.source.answered))
                yield PastCall(what, {self.source.api: calls}, partial(self._tracks, metric, asked, decides))

    async def _tracks(self, metric: M, asked: Asked, decides: bool, deadline: float) -> AsyncIterator[Track]:
        found = PastReadings(metric.level, asked)
        try:
            async for readings in self.read(metric, asked, deadline):
                for reading in readings:
                    found.put(*reading)
                del readings  # to free memory before the next call
        except NotFound:
            if self.source.owners > 1:
                raise  # no list of readings for several jobs proves that there are none
            self.past.gone.update(asked.within)
            return
        for track in found.tracks(metric.targets):
            yield track
        for track in found.sources(self.source.name) if decides else ():
            yield track
        self.past.dropped.update(found.dropped)


class PastReadings:
    """The readings of one metric from a past range. `dropped` counts by reason what is not shown."""

    def __init__(self, level: Level, asked: Asked, *, accelerator: Accelerator = "gpu") -> None:
        self.dropped: Counter[str] = Counter()
        self._level, self._asked, self._accelerator = level, asked, accelerator
        self._found: defaultdict[Key, dict[int, float | None]] = defaultdict(dict)
        self.spoiled: set[str | tuple[Key, int]] = set()
        """Owners of readings of an unknown part or time, which have no sums, or single wholes at a time."""

    def put(self, key: Key, time: float, value: float | None) -> None:
        """Take over a reading. The first one of a time counts, and none from when its job did not run."""
        runs = self._asked.within.get(key[0])
        if runs is None:
            self.dropped["unlisted"] += 1
        elif not 0 <= time < math.inf or len(key) < KEY_LENGTHS[self._level]:
            self.dropped["malformed"] += 1
            self.spoiled.add(key[0])
        elif runs.start <= int(time) < runs.end:
            self.dropped["malformed"] += value is None
            self.dropped["duplicate"] += int(time) in self._found[key]
            self._found[key].setdefault(int(time), value)

    def tracks(self, targets: Mapping[Family, float]) -> Iterator[Track]:
        """Yield the series of each family. `targets` as in SourceMetric."""
        for number, (family, factor) in enumerate(targets.items()):
            shown: dict[Key, Values] = {}
            for key, raws in self._found.items():
                values = convert_each(raws.values(), factor, family.quantity)
                shown[key] = dict(zip(raws, values, strict=True))
                if number == 0:
                    self.dropped["out_of_range"] += values.count(None) - [*raws.values()].count(None)
            if family.level != self._level:
                shown = self._wholes(shown, family)
            for key, dated in shown.items():
                of, subjects = SHOWN_AS[family.level], [Subject(key)]
                yield from _track(Readings(of, family.path, subjects, array("d", [0.0]), self._accelerator), dated)

    def sources(self, source: str) -> Iterator[Track]:
        """Yield that the source served each job at the times of its readings."""
        moments: defaultdict[str, set[int]] = defaultdict(set)
        for key, raws in self._found.items():
            moments[key[0]].update(time for time, raw in raws.items() if raw is not None)
        for owner, times in moments.items():
            yield from _track(UsageSource(owner, source, None), dict.fromkeys(times, 1.0))

    def _wholes(self, parts: Mapping[Key, Values], family: Family) -> dict[Key, Values]:
        groups: defaultdict[Key, list[Values]] = defaultdict(list)
        for key, values in parts.items():
            groups[key[: KEY_LENGTHS[family.level]]].append(values)
        is_ratio, silence, found = family.is_ratio, max(SILENCE, 3 * self._asked.step), dict[Key, Values]()
        for key, group in groups.items():
            if is_ratio or key[0] not in self.spoiled:
                values = whole(group, is_ratio=is_ratio, silence=silence)
                found[key] = {at: value for at, value in values.items() if is_ratio or (key, at) not in self.spoiled}
        return found


def whole(parts: Iterable[Values], *, is_ratio: bool, silence: float) -> Values:
    """Return the values of a whole at each time of a part, made of the newest value of each part, as of now (usage).

    A part without readings for `silence` seconds does not count.
    """
    newest, found = dict[int, tuple[int, float | None]](), dict[int, float | None]()
    dated = sorted((time, number, value) for number, part in enumerate(parts) for time, value in part.items())
    for time, at_once in groupby(dated, itemgetter(0)):
        newest |= {number: (time, value) for _, number, value in at_once}
        found[time] = total([value for at, value in newest.values() if at >= time - silence], is_ratio=is_ratio)
    return found


def _track(shown: object, values: Values) -> Iterator[Track]:
    pairs = sorted((time, value) for time, value in values.items() if value is not None)
    if pairs:
        times, usable = zip(*pairs, strict=True)
        yield Track(shown, array("q", times), array("d", usable))


def parts_of(life: Life, level: Level) -> int:
    """Return about how many readings of a level a job has at a time."""
    return 1 if level == "job" else max(1, life.pods, life.cards if level == "device" else 0)


def life_of(
    job: Job, now: Job, spells: Iterable[Spell], intervals: Iterable[Interval], shown_tags: Collection[str]
) -> Life:
    """Return the life of a job. `job` is as it was while it held or wanted resources, and `now` as it is.

    The life has shown tags only: other tags may contain anything.
    """
    is_gone = now.status in FINISHED and not now.holds_resources
    known = [moment for moment in (now.created, now.submitted, now.started) if moment is not None]
    # If its end is unknown, it released everything at its last known time.
    until = now.finished if now.finished is not None else max(known, default=0.0)
    return Life(
        job=replace(job, tags=tuple(pair for pair in job.tags if pair[0] in shown_tags)),
        until=until if is_gone else None,
        ended=now.finished,
        ceased=until if is_gone else now.finished,
        spells=tuple(spells),
        phases=elapsed(intervals).until(now.finished) if now.status in FINISHED else (),
        pods=int(job.nodes or 1),
        cards=int(sum(item.count for item in job.accelerators)),
    )
