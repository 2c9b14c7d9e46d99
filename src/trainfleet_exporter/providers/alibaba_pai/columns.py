"""From the readings of a feed to what is shown of them: a column for each family, at the family's own level."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, Readings, Subject
from trainfleet_exporter.providers.alibaba_pai.catalogue import Level
from trainfleet_exporter.providers.alibaba_pai.datapoints import Collected
from trainfleet_exporter.providers.alibaba_pai.entities import Lineup
from trainfleet_exporter.providers.alibaba_pai.metric_map import Target
from trainfleet_exporter.providers.alibaba_pai.units import RATIOS, convert_each
from trainfleet_exporter.providers.readings import mean

_SHOWN: Mapping[Level, type] = {"job": JobUsage, "pod": PodUsage, "device": DeviceUsage, "pool": PoolUsage}
_SILENCE = 180.0
"""A pod that lacks three minutes of readings while others go on no longer reports, and counts no more for its job."""
_WHOLES = 1_000
"""Wholes that are made before the loop runs other tasks: about a millisecond."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The readings of one family, with the Unix times of the oldest and the newest reading in each."""

    readings: Readings
    lineup: Lineup
    oldest: array[float]
    newest: array[float]
    first: float
    """The oldest of all; infinite where there is none."""
    level: Level

    def kept(self, since: float, listed: Mapping[str, object] | None) -> Column:
        """What of it is from `since` on (Unix time), and of jobs that are listed: itself, if that is all of it."""
        if self.first >= since and (listed is None or self.lineup.owners <= listed.keys()):
            return self
        subjects = self.lineup.subjects
        chosen = [
            time >= since and (listed is None or subject.keys[0] in listed)
            for subject, time in zip(subjects, self.oldest, strict=True)
        ]
        values, oldest, newest = (
            array("d", compress(column, chosen)) for column in (self.readings.values, self.oldest, self.newest)
        )
        kept = Lineup(tuple(compress(subjects, chosen)))
        readings = Readings(self.readings.of, self.readings.field, kept.subjects, values)
        return Column(readings, kept, oldest, newest, min(oldest, default=math.inf), self.level)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What the readings of one feed show: `columns`, made of `read`."""

    read: Read
    columns: Sequence[Column]
    out_of_range: int


async def columns(collected: Collected, before: Shown | None = None) -> Shown:
    """What the readings of one feed show, each family at its own level; `collected` counts what cannot be true.

    A whole made of pods or cards has the mean of their ratios and the sum of everything else, the latter only where
    none of them lacks its value, and no point of it was unreadable: a sum that lacks a pod would look like a drop.

    CloudMonitor has a new point of a metric once a minute or less often. Where the readings are those of `before`, the
    same columns are shown: that saves a quarter of the CPU of such a poll.
    """
    read = Read(collected)
    if before is None or not read.same_as(before.read):
        found: list[Column] = []
        for target in collected.feed.targets:
            own = target.family.level == collected.feed.level
            found.append(read.column(target) if own else await _of_wholes(collected, read, target))
            await asyncio.sleep(0)
        before = Shown(read, [column for column in found if column.lineup.subjects], read.out_of_range())
        read.finish()
    for column in before.columns:
        collected.entities.of(column.level).reported(len(column.lineup.subjects))
    collected.index.reported(len(read.lineup.subjects))
    if before.out_of_range:
        collected.dropped["out_of_range"] += before.out_of_range
    return before


async def kept_of(columns: Sequence[Column], since: float, listed: Mapping[str, object] | None = None) -> list[Column]:
    """What of columns is kept (Column.kept), without those that have nothing any more."""
    found: list[Column] = []
    for column in columns:
        kept = column.kept(since, listed)
        if kept.lineup.subjects:
            found.append(kept)
        await asyncio.sleep(0)
    return found


async def newest_by_owner(columns: Collection[tuple[Lineup, array[float]]]) -> dict[str, float]:
    """The Unix time of the newest reading of each job. Columns of different metrics mostly share theirs."""
    found: dict[str, float] = {}
    for lineup_, newest in {(id(lineup_), id(newest)): (lineup_, newest) for lineup_, newest in columns}.values():
        for subject, time in zip(lineup_.subjects, newest, strict=True):
            owner = subject.keys[0]
            if time > found.get(owner, 0.0):
                found[owner] = time
        await asyncio.sleep(0)
    return found


class Read:
    """What was read of a feed, as columns in the order of the index."""

    def __init__(self, collected: Collected) -> None:
        self._feed, self._spoiled = collected.feed, collected.spoiled
        self._entities, self._level = collected.entities, collected.feed.level
        readings, everything = collected.readings, collected.index.lineup()
        self.lineup = everything
        if len(readings) < len(everything.subjects):
            self.lineup = self._entities.lineup(
                self._level, tuple([subject for subject in everything.subjects if subject in readings])
            )
        subjects, times = self.lineup.subjects, collected.times
        if times:
            self.times = array("d", [times.get(subject, collected.time) for subject in subjects])
        else:
            self.times = array("d", [collected.time]) * len(subjects)
        self.times = self._entities.times(self._level, self.times)
        self.apart = max(self.times) - min(self.times) if times else 0.0
        """Seconds from the oldest reading to the newest."""
        self._raw = {
            statistics: array("d", map(raw.__getitem__, subjects)) for statistics, raw in collected.raw.items()
        }
        """In the metric's unit; NaN of a reading that has none."""
        self._values: dict[object, list[float | None]] = {}

    def same_as(self, other: Read) -> bool:
        """Whether all was read as in another poll."""
        return (
            self._feed == other._feed
            and self._spoiled == other._spoiled
            and self._raw.keys() == other._raw.keys()
            and all(self._raw[each].tobytes() == other._raw[each].tobytes() for each in self._raw)
            and self.times.tobytes() == other.times.tobytes()
            and self.lineup.subjects == other.lineup.subjects
        )

    def values(self, target: Target) -> list[float | None]:
        """The values for a target in base units; None of a reading that has none, or none that can be true."""
        quantity = target.family.quantity
        key = target.statistics, target.factor, quantity
        if key not in self._values:  # most targets of a metric read the same
            self._values[key] = convert_each(self._raw[target.statistics], target.factor, quantity)
        return self._values[key]

    def out_of_range(self) -> int:
        """How many readings have no value for any target."""
        first, *others = self._values.values()
        if not others:
            return first.count(None)
        return sum(all(value is None for value in values) for values in zip(first, *others, strict=True))

    def column(self, target: Target) -> Column:
        """A family at the level of the feed."""
        values, shown, times = self.values(target), self.lineup, self.times
        if None not in values:
            return _column(target, shown, array("d", values), times, times)  # type: ignore[arg-type]  # none is None
        chosen = [value is not None for value in values]
        shown = self._entities.lineup(self._level, tuple(compress(shown.subjects, chosen)))
        times = self._entities.times(self._level, array("d", compress(times, chosen)))
        return _column(target, shown, array("d", [value for value in values if value is not None]), times, times)

    def finish(self) -> None:
        """Let go of what only columns are made of."""
        self._values.clear()


async def _of_wholes(collected: Collected, read: Read, target: Target) -> Column:
    """A family at a level above that of the feed."""
    entities, level, is_ratio = collected.entities, target.family.level, target.family.quantity in RATIOS
    values, times, spoiled = read.values(target), read.times, collected.spoiled
    silence = max(_SILENCE, 3.0 * (collected.feed.metric.period or 0))
    is_dated, may_be_silent = read.apart > 0, read.apart > silence
    index = entities.of(level)
    subjects: list[Subject] = []
    found, oldest, newest = array("d"), array("d"), array("d")
    for number, (key, places) in enumerate(read.lineup.wholes(level).items(), start=1):
        if not number % _WHOLES:
            await asyncio.sleep(0)
        if not is_ratio and spoiled and (key[0] in spoiled or "" in spoiled):
            continue
        present = _reporting(places, times, silence) if may_be_silent else places
        amounts = [value for place in present if (value := values[place]) is not None]
        if not (is_ratio or len(amounts) == len(present)):
            continue
        total = mean(amounts) if is_ratio and len(amounts) != 1 else math.fsum(amounts)
        if total is None:
            continue
        subjects.append(index.subject(key))
        found.append(total)
        if is_dated:
            read_at = [times[place] for place in present]
            oldest.append(min(read_at))
            newest.append(max(read_at))
    if not is_dated:
        oldest = newest = times[:1] * len(found)
    shown = entities.lineup(level, tuple(subjects))
    oldest, newest = entities.times(level, oldest), newest if is_dated else entities.times(level, newest)
    return _column(target, shown, found, oldest, newest)


def _reporting(places: Sequence[int], times: Sequence[float], silence: float) -> Sequence[int]:
    """The places of parts of a whole, without those that fell silent."""
    newest = max([times[place] for place in places])
    return [place for place in places if newest - times[place] <= silence]


def _column(target: Target, shown: Lineup, values: array[float], oldest: array[float], newest: array[float]) -> Column:
    family = target.family
    field = family.field if family.level == "device" else f"values.{family.field}"
    readings = Readings(_SHOWN[family.level], field, shown.subjects, values)
    return Column(readings, shown, oldest, newest, min(oldest, default=math.inf), family.level)
