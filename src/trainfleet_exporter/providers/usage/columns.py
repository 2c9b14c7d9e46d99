"""From the newest readings of a metric to columns: one for each family, at the family's own level."""

from __future__ import annotations

import math
from array import array
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import NamedTuple

from msgspec.structs import replace

from trainfleet_exporter.families.usage import SHOWN_AS, Family, Level
from trainfleet_exporter.model import Readings, Subject
from trainfleet_exporter.providers.usage.entities import Entities, EntityList
from trainfleet_exporter.providers.usage.newest import Newest
from trainfleet_exporter.providers.usage.quantities import convert_each, mean, total

SILENCE = 180.0
"""A pod without readings for three minutes, while others have some, no longer counts for its job."""
UNDATED = array("d")
"""The times of readings that have none."""


class Target(NamedTuple):
    """A family that a metric feeds: how many base units its values count, and which statistic it reads (by number)."""

    family: Family
    factor: float
    statistic: int = 0


@dataclass(frozen=True, eq=False)
class Column:
    """The readings of one family, with the Unix times of the oldest and the newest reading in each; none of readings
    that have no times."""

    readings: Readings
    entity_list: EntityList
    level: Level
    oldest: array[float]
    newest: array[float]

    @cached_property
    def first(self) -> float:
        """The oldest of all; infinite if there is none."""
        return min(self.oldest, default=math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The shown readings of one metric: `columns`, made of `read`."""

    read: Read
    columns: Sequence[Column]
    out_of_range: int


def columns(
    newest: Newest, entities: Entities, targets: Sequence[Target], before: Shown | None = None, *, period: float = 0.0
) -> Shown:
    """Return the shown readings of one metric, each family at its level. `newest` counts values that cannot be true.

    A whole of pods or cards has the mean of their ratios, and the sum of other values. A sum needs the values of all
    parts, and no unreadable value that may belong to one of them. Parts without a reading for three minutes, or for
    three times the `period` of the metric (seconds), do not count.

    Platforms mostly have a new reading once a minute or less often. If the readings equal those of `before`, the same
    columns are shown, which saves a quarter of the CPU time of such a poll.

    """
    read = Read(newest, entities, targets)
    if before is None or not read.same_as(before.read):
        found: list[Column] = []
        for target in targets:
            own = target.family.level == newest.index.level
            found.append(read.column(target) if own else read.wholes(target, max(SILENCE, 3 * period)))
        before = Shown(read, [column for column in found if column.entity_list.subjects], read.out_of_range())
        read.finish()
    for column in before.columns:
        entities.of(column.level).reported(len(column.entity_list.subjects))
    newest.index.reported(len(read.entity_list.subjects))
    if before.out_of_range:
        newest.dropped["out_of_range"] += before.out_of_range
    return before


def kept_of(given: Iterable[Column], *, since: float = -math.inf, owners: Container[str] | None = None) -> list[Column]:
    """The readings from `since` on (Unix time) whose jobs are among `owners`, without empty columns. A column of which
    all is kept is the same object."""
    found: list[Column] = []
    for column in given:
        entity_list = column.entity_list
        is_listed = owners is None or all(map(owners.__contains__, entity_list.owners))
        if not is_listed or column.first < since:
            column = _kept(column, since, entity_list.owners if owners is None else owners)  # noqa: PLW2901
        if column.entity_list.subjects:
            found.append(column)
    return found


def newest_by_owner(given: Iterable[Column]) -> dict[str, float]:
    """The Unix time of the newest reading of each job. Columns of different metrics mostly share theirs."""
    found: dict[str, float] = {}
    for column in {(id(column.entity_list), id(column.newest)): column for column in given}.values():
        for subject, time in zip(column.entity_list.subjects, column.newest, strict=True):
            owner = subject.keys[0]
            if time > found.get(owner, 0.0):
                found[owner] = time
    return found


def _kept(column: Column, since: float, owners: Container[str]) -> Column:
    subjects = column.entity_list.subjects
    chosen = [subject.keys[0] in owners for subject in subjects]
    if column.oldest:
        chosen = [kept and time >= since for kept, time in zip(chosen, column.oldest, strict=True)]
    given = column.readings.values, column.oldest, column.newest
    values, oldest, newest = (array("d", compress(each, chosen)) for each in given)
    entity_list = EntityList(tuple(compress(subjects, chosen)))
    readings = replace(column.readings, subjects=entity_list.subjects, values=values)
    return Column(readings, entity_list, column.level, oldest, newest)


class Read:
    """The readings of a metric, as columns in the order of the index."""

    def __init__(self, newest: Newest, entities: Entities, targets: Sequence[Target]) -> None:
        self._targets, self._spoiled = targets, newest.spoiled
        self._entities, self._level = entities, newest.index.level
        self._values: dict[object, list[float | None]] = {}
        given_in_order = newest.in_order
        if given_in_order is not None:
            self.entity_list, self.times = given_in_order.entity_list, entities.times(self._level, given_in_order.times)
            self._apart = _apart(self.times)
            self._raw: Sequence[array[float]] = given_in_order.columns
            return
        given, everything = newest.values[0], newest.index.entity_list()
        self.entity_list = everything
        if len(given) < len(everything.subjects):
            subjects = tuple([subject for subject in everything.subjects if subject in given])
            self.entity_list = entities.entity_list(self._level, subjects)
        subjects, times = self.entity_list.subjects, newest.times
        if times:
            self.times = array("d", [times.get(subject, newest.time) for subject in subjects])
        else:
            self.times = array("d", [newest.time]) * len(subjects)
        self.times = entities.times(self._level, self.times)
        self._apart = _apart(self.times)
        """Seconds from the oldest reading to the newest."""
        in_order = tuple(given) == subjects
        self._raw = [
            array("d", list(raw.values()) if in_order else map(raw.__getitem__, subjects)) for raw in newest.values
        ]
        """By statistic, in the metric's unit; NaN of a reading that has none."""

    def same_as(self, other: Read) -> bool:
        """Return whether all was read as in another poll."""
        return (
            self._targets == other._targets
            and self._spoiled == other._spoiled
            and [raw.tobytes() for raw in self._raw] == [raw.tobytes() for raw in other._raw]
            and self.times.tobytes() == other.times.tobytes()
            and self.entity_list.subjects == other.entity_list.subjects
        )

    def out_of_range(self) -> int:
        """Return the number of readings without a value for any target."""
        first, *others = self._values.values()
        if not others:
            return first.count(None)
        return sum(all(value is None for value in values) for values in zip(first, *others, strict=True))

    def finish(self) -> None:
        """Release what only columns are made of."""
        self._values.clear()

    def column(self, target: Target) -> Column:
        """A family at the level of the metric."""
        values, shown, times = self._converted(target), self.entity_list, self.times
        if None not in values:
            return column_of(target.family, shown, array("d", values), times, times)  # type: ignore[arg-type]
        chosen = [value is not None for value in values]
        shown = self._entities.entity_list(self._level, tuple(compress(shown.subjects, chosen)))
        times = self._entities.times(self._level, array("d", compress(times, chosen)))
        given = array("d", [value for value in values if value is not None])
        return column_of(target.family, shown, given, times, times)

    def wholes(self, target: Target, silence: float) -> Column:
        """A family at a level above that of the metric."""
        family, level = target.family, target.family.level
        groups = self.entity_list.groups(self._entities, level)
        values = self._converted(target)
        is_complete = None not in values
        parts = groups.split(values)
        spoiled = set() if family.is_ratio else self._spoiled
        if is_complete and not self._apart and not spoiled:
            return self._complete_wholes(family, groups.wholes, parts)  # type: ignore[arg-type]  # none is None
        times = groups.split(self.times) if self._apart else []
        found, oldest, newest = array("d"), array("d"), array("d")
        subjects: list[Subject] = []
        for number, (subject, given) in enumerate(zip(groups.wholes.subjects, parts, strict=True)):
            if spoiled and (subject.keys[0] in spoiled or "" in spoiled):
                continue
            read_at: Sequence[float] = times[number] if times else ()
            if self._apart > silence:
                limit = max(read_at) - silence
                present = [time >= limit for time in read_at]
                given, read_at = list(compress(given, present)), list(compress(read_at, present))  # noqa: PLW2901
            value = given[0] if len(given) == 1 else total(given, is_ratio=family.is_ratio)
            if value is None:
                continue
            subjects.append(subject)
            found.append(value)
            if read_at:
                oldest.append(min(read_at))
                newest.append(max(read_at))
        if not times:
            oldest = newest = self.times[:1] * len(found)
        shown = self._entities.entity_list(level, tuple(subjects))
        oldest, newest = self._entities.times(level, oldest), newest if times else self._entities.times(level, newest)
        return column_of(family, shown, found, oldest, newest)

    def _complete_wholes(self, family: Family, shown: EntityList, parts: Sequence[Sequence[float]]) -> Column:
        """The same for the usual case: no part lacks a value, and all have one time."""
        found = array("d")
        found.extend([mean(each) if family.is_ratio else math.fsum(each) for each in parts])  # type: ignore[misc]
        times = self._entities.times(family.level, self.times[:1] * len(found))
        return column_of(family, shown, found, times, times)

    def _converted(self, target: Target) -> list[float | None]:
        """The values for a target in base units; None of a reading that has none, or none that can be true."""
        quantity = target.family.quantity
        key = target.statistic, target.factor, quantity
        if key not in self._values:  # most targets of a metric read the same
            self._values[key] = convert_each(self._raw[target.statistic], target.factor, quantity)
        return self._values[key]


def _apart(times: array[float]) -> float:
    """Seconds from the oldest time to the newest. They are mostly the same, which is quickly seen."""
    return 0.0 if times.tobytes() == (times[:1] * len(times)).tobytes() else max(times) - min(times)


def column_of(
    family: Family,
    shown: EntityList,
    values: array[float],
    oldest: array[float] = UNDATED,
    newest: array[float] = UNDATED,
) -> Column:
    """The column of a family."""
    readings = Readings(SHOWN_AS[family.level], family.path, shown.subjects, values)
    return Column(readings, shown, family.level, oldest, newest)
