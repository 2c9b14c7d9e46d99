"""Readings of usage: the newest of each thing, base units, wholes of parts, and how long they are shown.

    points of an answer ──put──► NewestReadings (what counts, and why not) ──of_families──► FamilyReadings
    FamilyReadings ──Subjects.columns──► Column (kept until the next poll) ──publish_fresh──► page

A reading is (key, time, value). Its key is the job (or pool), the pod, the device, down to its level.
"""

from __future__ import annotations

import math
import time as wall_clock
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import TypeAlias

from trainfleet_exporter.families.usage import MEASURES, SHOWN_AS, Family, Level, Quantity
from trainfleet_exporter.model import Accelerator, Readings, Subject, UsageSource
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.usage.quantities import convert_each, total

Key: TypeAlias = tuple[str, ...]
Reading: TypeAlias = tuple[Key, float, float | None]
"""The key, the Unix time (infinite if unknown), and the value in the metric's unit (None if unusable)."""
KEY_LENGTHS: Mapping[Level, int] = {"job": 1, "pool": 1, "pod": 2, "device": 4}
SILENCE = 180.0
"""A part without readings for so many seconds, while others have some, no longer counts for its whole."""
FUTURE = 900.0
"""A reading dated further ahead than a clock may be off is not believed (seconds)."""
UNDATED = math.inf
"""The time of a reading that its source does not date: it is shown as long as its part."""
_TOUCH = 0.001
"""A reading goes so much later than its limit, so that it is surely beyond it then (seconds)."""


class NewestReadings:
    """The newest reading of each thing, of one metric. `dropped` counts by reason what is not shown.

    `begun` has, for each job (or pool) that is polled, the Unix time of its beginning: a reading from before it is of
    an earlier thing with the same id. `is_known` returns whether another job exists all the same. `once`: a thing has
    one reading, and others are duplicates. `accelerator` is the kind that readings are of. Unix times, and seconds.
    """

    def __init__(
        self,
        level: Level,
        begun: Mapping[str, float],
        *,
        now: float,
        max_age: float,
        is_known: Callable[[str], bool] = lambda owner: False,
        once: bool = False,
        accelerator: Accelerator = "gpu",
    ) -> None:
        self.level, self.accelerator = level, accelerator
        self.found: dict[Key, tuple[float, float | None]] = {}
        """Unix seconds, and the value in the metric's unit; None if it is unusable."""
        self.dropped: Counter[str] = Counter()
        self.spoiled: set[str] = set()
        """Owners of readings of an unknown part or time, which have no sums; an empty text if any may be the owner."""
        self.points = 0
        """Readings so far, whether or not they are shown."""
        self.since = now - max_age
        """Readings from before this Unix time are too old to be shown, and need not be asked for."""
        self._begun, self._until, self._length = begun, now + FUTURE, KEY_LENGTHS[level]
        self._is_known, self._once = is_known, once

    def put(self, key: Key, time: float, value: float | None) -> None:
        """Take over one reading."""
        self.take([(key, time, value)])

    def take(self, readings: Iterable[Reading]) -> None:
        """Take over each reading that is newer than the last one of its key."""
        found, since, until = self.found, self.since, self._until
        for key, time, value in readings:
            self.points += 1
            begun = self._begun.get(key[0])
            if not 0 <= time <= until or (begun is not None and len(key) < self._length):
                self.spoil(key[0])
            elif time < since:
                self.dropped["stale"] += 1
            elif begun is None or time < begun:
                self.dropped["unlisted"] += begun is not None or not self._is_known(key[0])
            else:
                if value is None:
                    self.dropped["malformed"] += 1
                before, left_out = found.get(key), value
                if before is None or before[0] < time:
                    found[key], left_out = (time, value), before and before[1]
                if self._once and left_out is not None:
                    self.dropped["duplicate"] += 1

    def spoil(self, owner: str) -> None:
        """Note an unusable reading of a job (or pool) whose time or part is unknown."""
        self.dropped["malformed"] += 1
        if owner in self._begun or not owner:
            self.spoiled.add(owner)

    def of_families(self, targets: Mapping[Family, float], *, period: float) -> list[FamilyReadings]:
        """Return the readings of each family. `targets` has how many base units a value counts. `period` is the time
        between two points in seconds.

        A whole has the mean of the ratios of its parts, and the sum of other values. A sum needs the values of all
        parts. Parts without a reading for three minutes, or three periods, do not count.
        """
        result: list[FamilyReadings] = []
        raws, times = [raw for _, raw in self.found.values()], [time for time, _ in self.found.values()]
        by_unit: dict[tuple[float, Quantity], list[float | None]] = {}
        for family, factor in targets.items():
            unit = factor, family.quantity
            values = by_unit[unit] = by_unit[unit] if unit in by_unit else _converted(raws, *unit)
            parts = zip(self.found, times, values, strict=True)
            if family.level == self.level:
                rows = {key: (value, time, time) for key, time, value in parts if value is not None}
            else:
                rows = wholes(parts, family, max(SILENCE, 3 * period), self.spoiled)
            result.append(FamilyReadings(family, rows, self.accelerator))
        if by_unit and all(None in values for values in by_unit.values()):
            each = zip(raws, *by_unit.values(), strict=True)
            self.dropped["out_of_range"] += sum([raw is not None and set(values) == {None} for raw, *values in each])
        return result


def _converted(raws: Sequence[float | None], factor: float, quantity: Quantity) -> list[float | None]:
    """Return values in base units; None for what is unusable."""
    values = iter(convert_each([raw for raw in raws if raw is not None], factor, quantity))
    return [None if raw is None else next(values) for raw in raws]


@dataclass(frozen=True, slots=True)
class FamilyReadings:
    """The values of one family, each with the Unix times of its oldest and its newest reading (or UNDATED)."""

    family: Family
    rows: Mapping[Key, tuple[float, float, float]]
    accelerator: Accelerator = "gpu"


@dataclass(frozen=True, slots=True)
class Column:
    """The same as it is kept: 32 bytes a value, a tenth of the rows of an answer."""

    family: Family
    accelerator: Accelerator
    subjects: Sequence[Subject]
    values: array[float]
    oldest: array[float]
    newest: array[float]
    owners: Collection[str]
    first: float
    """The Unix time of the oldest reading of all; infinite without any."""

    def since(self, since: float, begun: Mapping[str, float]) -> Column:
        """Return what is not older, and of the jobs (or pools) of `begun` since they began."""
        starts = {owner: begun.get(owner, math.nan) for owner in self.owners}  # not infinity, which UNDATED is
        if self.first >= since and all(start <= self.first for start in starts.values()):
            return self
        is_kept = [since <= at >= starts[each.keys[0]] for each, at in zip(self.subjects, self.oldest, strict=True)]
        subjects = list(compress(self.subjects, is_kept))
        numbers = [array("d", compress(each, is_kept)) for each in (self.values, self.oldest, self.newest)]
        return _column(self.family, self.accelerator, subjects, numbers)


def _column(
    family: Family, accelerator: Accelerator, subjects: Sequence[Subject], numbers: Sequence[array[float]]
) -> Column:
    owners, (values, oldest, newest) = {subject.keys[0] for subject in subjects}, numbers
    return Column(family, accelerator, subjects, values, oldest, newest, owners, min(oldest, default=math.inf))


def wholes(
    parts: Iterable[tuple[Key, float, float | None]], family: Family, silence: float, spoiled: Collection[str] = ()
) -> dict[Key, tuple[float, float, float]]:
    """Return the values of the wholes of a family, made of the readings of their parts."""
    groups: defaultdict[Key, list[tuple[Key, float, float | None]]] = defaultdict(list)
    length = KEY_LENGTHS[family.level]
    for part in parts:
        groups[part[0][:length]].append(part)
    found = {}
    for key, group in groups.items():
        first = max([time for _, time, _ in group]) - silence
        values = [value for _, time, value in group if time >= first]
        whole = total(values, is_ratio=family.is_ratio)
        is_spoiled = bool(spoiled) and not family.is_ratio and ("" in spoiled or key[0] in spoiled)
        if whole is not None and not is_spoiled:
            times = [time for _, time, value in group if time >= first and value is not None]
            found[key] = whole, min(times), max(times)
    return found


def of_jobs(
    columns: Iterable[FamilyReadings], pods: Mapping[Key, float], *, spoiled: Collection[str] = ()
) -> list[FamilyReadings]:
    """Return the values of jobs, made of those of all pods. `pods` has the time of the newest reading of each, of any
    family: one that lacks its reading of another family leaves no sum. `spoiled` are the paths of families without
    sums.
    """
    last, found = max(pods.values(), default=0.0), []
    present = [key for key, at in pods.items() if at >= last - SILENCE]
    for column in columns:
        family = MEASURES[column.family.suffix.removeprefix("pod_")].of("job")
        parts: list[tuple[Key, float, float | None]] = []
        for key in present:
            if key in column.rows:
                parts.append((key, column.rows[key][1], column.rows[key][0]))
            elif not family.is_ratio:
                parts.append((key, last, None))
        rows = wholes(parts, family, math.inf, {""} if family.path in spoiled else ())
        found.append(FamilyReadings(family, rows, column.accelerator))
    return found


class Subjects:
    """The subject of each key and level: one constant object each, so that its labels are written once."""

    def __init__(self) -> None:
        self._known: defaultdict[Level, dict[Key, Subject]] = defaultdict(dict)

    def columns(self, given: Iterable[FamilyReadings]) -> list[Column]:
        """Return readings as they are kept."""
        found = []
        for each in given:
            known = self._known[each.family.level]
            subjects = [known.get(key) or known.setdefault(key, Subject(key)) for key in each.rows]
            numbers = [array("d", map(itemgetter(at), each.rows.values())) for at in range(3)]
            found.append(_column(each.family, each.accelerator, subjects, numbers))
        return found

    def keep_only(self, used: Iterable[Column]) -> None:
        """Forget what these columns are not of."""
        kept: defaultdict[Level, set[Key]] = defaultdict(set)
        for each in used:
            kept[each.family.level].update(subject.keys for subject in each.subjects)
        for level, known in self._known.items():
            self._known[level] = {key: subject for key, subject in known.items() if key in kept[level]}


def page_readings(columns: Iterable[Column]) -> list[Readings]:
    """Return columns as the page takes them."""
    return [
        Readings(SHOWN_AS[each.family.level], each.family.path, each.subjects, each.values, each.accelerator)
        for each in columns
    ]


def usage_sources(columns: Iterable[Column], source: str) -> list[UsageSource]:
    """Return the source of each job's usage, with the Unix time of its newest reading (None if that is UNDATED)."""
    newest: dict[str, float] = {}
    for column in columns:
        for subject, at in zip(column.subjects, column.newest, strict=True):
            if at > newest.get(subject.keys[0], -1.0):
                newest[subject.keys[0]] = at
    return [UsageSource(job_id, source, None if at == UNDATED else at) for job_id, at in newest.items()]


async def publish_fresh(
    part: Part,
    columns: Sequence[Column],
    shown: Callable[[Sequence[Column]], Sequence[object]] = page_readings,
    *,
    begun: Callable[[], Mapping[str, float]],
    max_data_age: float,
    clock: ServerClock,
) -> None:
    """Show what `shown` makes of the readings that are not too old now, and again when some are.

    A reading is too old after `max_data_age` seconds, or two intervals if that is longer. `begun` as in NewestReadings.
    `clock` is that of the readings.
    """

    async def build(now: float) -> tuple[Sequence[object], float | None]:
        ahead, age, known = clock.ahead, max(max_data_age, 2 * part.interval), begun()
        fresh = [each for column in columns if (each := column.since(now + ahead - age, known)).subjects]
        oldest = min((each.first for each in fresh), default=UNDATED)
        return shown(fresh), None if oldest == UNDATED else oldest - ahead + age + _TOUCH

    objects, stale_at = await build(wall_clock.time())
    await part.publish(objects, stale_at=stale_at, rebuild=build)


def count(part: Part, dropped: Counter[str]) -> None:
    """Count what a part does not show, by reason."""
    for reason, number in dropped.items():
        part.dropped(reason, number)
