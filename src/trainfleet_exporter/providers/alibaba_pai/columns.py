"""From the readings of a feed to what is shown of them: a column for each family, at the family's own level.

What takes time goes on in slices of about half a millisecond, as generators; `at_leisure` lets others in between.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeAlias, TypeVar

from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, Readings, Subject
from trainfleet_exporter.providers.alibaba_pai.catalogue import Level
from trainfleet_exporter.providers.alibaba_pai.datapoints import UNFIT, UNREAD, Collected
from trainfleet_exporter.providers.alibaba_pai.metric_map import Target
from trainfleet_exporter.providers.alibaba_pai.roster import Lineup, Rosters
from trainfleet_exporter.providers.alibaba_pai.units import RATIOS
from trainfleet_exporter.providers.readings import mean
from trainfleet_exporter.slices import give_way

_T = TypeVar("_T")
Sliced: TypeAlias = Generator[None, None, _T]
"""Work that gives the others their turn whenever it yields."""
_SHOWN: Mapping[Level, type] = {"job": JobUsage, "pod": PodUsage, "device": DeviceUsage, "pool": PoolUsage}
_SILENCE = 180.0
"""A pod that lacks three minutes of readings while others go on no longer reports, and counts no more for its job."""
_SUBJECTS = 2_000
"""A slice, of what costs 0.2 us each."""
_PARTS = 1_000
"""A slice, in wholes and parts of them, which cost 0.3 us each, or 0.7 us where they have to be looked at."""


async def at_leisure(work: Sliced[_T]) -> _T:
    """Do it slice by slice, so that scrapes go on being answered."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _T = end.value
            return result
        await give_way()


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The readings of one family, with the Unix times of the oldest and the newest reading in each."""

    readings: Readings
    lineup: Lineup
    oldest: array[float]
    newest: array[float]
    first: float
    """The oldest of all; infinite where there is none."""

    def kept(self, since: float, listed: Mapping[str, object] | None) -> Sliced[Column]:
        """What of it is from `since` on (Unix time), and of who is listed: itself, if that is all of it."""
        if self.first >= since and (listed is None or self.lineup.owners <= listed.keys()):
            return self
        subjects, times = self.lineup.subjects, self.oldest
        chosen = bytearray()
        for start in range(0, len(subjects), _SUBJECTS):
            part = slice(start, start + _SUBJECTS)
            chosen += bytes(
                [
                    time >= since and (listed is None or subject.keys[0] in listed)
                    for subject, time in zip(subjects[part], times[part], strict=True)
                ]
            )
            yield
        found, (values, oldest, newest) = yield from _chosen(chosen, subjects, self.readings.values, times, self.newest)
        return Column(
            _readings(self.readings.of, self.readings.field, found, values),
            Lineup(found, (yield from _owners(found))),
            oldest,
            newest,
            min(oldest, default=math.inf),
        )


def columns(collected: Collected) -> Sliced[list[Column]]:
    """What the readings of one feed show, each family at its own level.

    A whole made of pods or cards has the mean of their ratios and the sum of everything else, the latter only where
    none of them lacks its value, and no point of it was unreadable: a sum that lacks a pod would look like a drop.
    """
    found: list[Column] = []
    collected.roster.told(collected.read)
    for target in collected.feed.targets:
        own = target.family.level == collected.feed.level
        column = yield from (_own if own else _of_wholes)(collected, target)
        if column.lineup.subjects:
            found.append(column)
    return found


def kept_of(
    columns: Sequence[Column], since: float, listed: Mapping[str, object] | None = None
) -> Sliced[list[Column]]:
    """What of columns is kept (Column.kept), without those that have nothing any more."""
    found: list[Column] = []
    for column in columns:
        kept = yield from column.kept(since, listed)
        yield
        if kept.lineup.subjects:
            found.append(kept)
    return found


def newest_by_owner(columns: Collection[tuple[Lineup, array[float]]]) -> Sliced[dict[str, float]]:
    """The Unix time of the newest reading of each job. Columns of different metrics mostly share theirs."""
    found: dict[str, float] = {}
    for lineup, newest in {(id(lineup), id(newest)): (lineup, newest) for lineup, newest in columns}.values():
        for start in range(0, len(newest), _SUBJECTS):
            part = slice(start, start + _SUBJECTS)
            for subject, time in zip(lineup.subjects[part], newest[part], strict=True):
                owner = subject.keys[0]
                if time > found.get(owner, 0.0):
                    found[owner] = time
            yield
    return found


def _own(collected: Collected, target: Target) -> Sliced[Column]:
    """A family at the level of the feed."""
    level, lineup = collected.feed.level, collected.roster.lineup()
    values, times = collected.values(target), collected.times
    if not (collected.read == len(times) == len(lineup.subjects) and collected.is_fit(target)):
        everybody = lineup.subjects
        chosen = bytearray()
        for start in range(0, len(times), _SUBJECTS):
            part = slice(start, start + _SUBJECTS)
            chosen += bytes(
                [time != UNREAD and value != UNFIT for time, value in zip(times[part], values[part], strict=True)]
            )
            yield
        found, (values, times) = yield from _chosen(chosen, everybody, values, times)
        lineup = yield from _shared(collected.rosters, level, found)
    times = collected.rosters.shared_times(level, times)
    readings = _readings(_SHOWN[level], _field(target), lineup.subjects, values)
    yield
    return Column(readings, lineup, times, times, _first(times, collected))


def _of_wholes(collected: Collected, target: Target) -> Sliced[Column]:
    """A family at a level above that of the feed."""
    level, is_ratio = target.family.level, target.family.quantity in RATIOS
    values, times = collected.values(target), collected.times
    silence = max(_SILENCE, 3.0 * (collected.feed.metric.period or 0))
    apart = collected.latest - collected.earliest
    is_even = collected.read == len(times) and apart <= silence
    groups, whole = collected.roster.wholes[level], collected.rosters.of(level)
    places = array("l")
    found, oldest, newest = array("d"), array("d"), array("d")
    done = 0
    for key in list(groups):
        if done >= _PARTS:
            done = 0
            yield
        given: Sequence[int] = groups[key]
        done += 1 + len(given)
        if not (is_even and given[-1] < len(times)):
            given = _present(given, times, silence)
        if not given or not (is_ratio or not collected.may_lack(key[0])):
            continue
        if isinstance(given, range):
            amounts = values[given.start : given.stop].tolist()
        else:
            amounts = [values[place] for place in given]
        value = amounts[0] if len(amounts) == 1 else _of_whole(amounts, is_ratio=is_ratio)
        if value is None or value == UNFIT:
            continue
        places.append(whole.place(key))
        found.append(value)
        if apart:
            read_at = [times[place] for place in given]
            oldest.append(min(read_at))
            newest.append(max(read_at))
    if not apart:
        oldest = newest = array("d", [collected.latest]) * len(found)
    whole.told(len(places))
    everybody = whole.lineup().subjects
    lineup = yield from _shared(collected.rosters, level, tuple([everybody[place] for place in places]))
    oldest, newest = (
        collected.rosters.shared_times(level, oldest),
        newest if apart else collected.rosters.shared_times(level, newest),
    )
    readings = _readings(_SHOWN[level], _field(target), lineup.subjects, found)
    yield
    return Column(readings, lineup, oldest, newest, _first(oldest, collected))


def _present(places: Sequence[int], times: array[float], silence: float) -> list[int]:
    """The places of a whole that have readings, without those of pods that fell silent."""
    given = [place for place in places if place < len(times) and times[place] != UNREAD]
    newest = max([times[place] for place in given], default=UNREAD)
    return [place for place in given if newest - times[place] <= silence]


def _of_whole(amounts: list[float], *, is_ratio: bool) -> float | None:
    fit = [amount for amount in amounts if amount != UNFIT]
    if is_ratio:
        return mean(fit)
    return math.fsum(fit) if len(fit) == len(amounts) else None


def _chosen(
    chosen: bytearray, subjects: Sequence[Subject], *columns: Sequence[float]
) -> Sliced[tuple[tuple[Subject, ...], list[array[float]]]]:
    """Of subjects, and of columns that are in their order, what is chosen."""
    found: list[Subject] = []
    kept = [array("d") for _ in columns]
    for start in range(0, len(chosen), _SUBJECTS):
        part = slice(start, start + _SUBJECTS)
        found += compress(subjects[part], chosen[part])
        for into, column in zip(kept, columns, strict=True):
            into.extend(compress(column[part], chosen[part]))
        yield
    return tuple(found), kept


def _owners(subjects: Sequence[Subject]) -> Sliced[frozenset[str]]:
    found: set[str] = set()
    for start in range(0, len(subjects), _SUBJECTS):
        found.update([subject.keys[0] for subject in subjects[start : start + _SUBJECTS]])
        yield
    return frozenset(found)


def _shared(rosters: Rosters, level: Level, subjects: tuple[Subject, ...]) -> Sliced[Lineup]:
    known = rosters.known_lineup(level, subjects)
    if known is None:
        known = rosters.shared_lineup(level, Lineup(subjects, (yield from _owners(subjects))))
    return known


def _first(times: array[float], collected: Collected) -> float:
    if collected.earliest == collected.latest and times:
        return collected.earliest
    return min(times, default=math.inf)


def _field(target: Target) -> str:
    return target.family.field if target.family.level == "device" else f"values.{target.family.field}"


def _readings(of: type, field: str, subjects: Sequence[Subject], values: array[Any]) -> Readings:
    return Readings(of, field, subjects, values)
