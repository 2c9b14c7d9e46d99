"""Readings of usage: the newest of each thing, base units, wholes of parts, and how long they are shown.

    points of an answer ──put──► NewestReadings (what counts, and why not) ──of_families──► FamilyReadings

A reading is (key, time, value). Its key is the job (or pool), the pod, the device, down to its level.
"""

from __future__ import annotations

import math
import time as wall_clock
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    one reading, and others are duplicates. `accelerator` is the kind of the accelerators that readings are of.
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
        """`now` is a Unix time, `max_age` is in seconds."""
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
        self._begun, self._length = begun, KEY_LENGTHS[level]
        self._first, self._until = max(0.0, self.since), now + FUTURE
        self._is_known, self._once = is_known, once

    def take(self, readings: Iterable[Reading]) -> None:
        """Take over readings."""
        begun, found, length, first, last = self._begun, self.found, self._length, self._first, self._until
        for key, time, value in readings:
            is_usable = value is not None and first <= time <= last and len(key) == length and key not in found
            if is_usable and begun.get(key[0], math.inf) <= time:
                found[key] = time, value
                self.points += 1
            else:
                self.put(key, time, value)

    def put(self, key: Key, time: float, value: float | None) -> None:
        """Take over a reading, if it is newer than the last one of its key."""
        self.points += 1
        begun = self._begun.get(key[0])
        if not 0 <= time <= self._until or (begun is not None and len(key) < self._length):
            self.spoil(key[0])
        elif time < self.since:
            self.dropped["stale"] += 1
        elif begun is None or time < begun:
            self.dropped["unlisted"] += begun is not None or not self._is_known(key[0])
        else:
            if value is None:
                self.dropped["malformed"] += 1
            before, left_out = self.found.get(key), value
            if before is None or before[0] < time:
                self.found[key], left_out = (time, value), before and before[1]
            if self._once and left_out is not None:
                self.dropped["duplicate"] += 1

    def spoil(self, owner: str) -> None:
        """Note an unusable reading of a job (or pool) whose time or part is unknown."""
        self.dropped["malformed"] += 1
        if owner in self._begun or not self._is_known(owner):
            self.spoiled.add(owner if owner in self._begun else "")

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


@dataclass(slots=True)
class FamilyReadings:
    """The values of one family, each with the Unix times of its oldest and its newest reading (or UNDATED)."""

    family: Family
    rows: Mapping[Key, tuple[float, float, float]]
    accelerator: Accelerator = "gpu"
    """The kind that ratios of accelerators are of."""
    oldest: float = field(init=False)
    """The Unix time of the oldest reading; infinite without any."""
    _owners: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.oldest = min([oldest for _, oldest, _ in self.rows.values()], default=math.inf)
        self._owners = {key[0] for key in self.rows}

    def since(self, since: float, begun: Mapping[str, float]) -> FamilyReadings:
        """Return what is not older, and of the jobs (or pools) of `begun` since they began."""
        if begun.keys() >= self._owners and self.oldest >= max(since, 0.0, *map(begun.__getitem__, self._owners)):
            return self
        rows = {key: row for key, row in self.rows.items() if key[0] in begun and row[1] >= max(since, begun[key[0]])}
        return FamilyReadings(self.family, rows, self.accelerator)


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

    def readings(self, given: Iterable[FamilyReadings]) -> list[Readings]:
        """Return readings as the page takes them."""
        return [
            Readings(SHOWN_AS[each.family.level], each.family.path, *self._columns(each), each.accelerator)
            for each in given
        ]

    def keep_only(self, used: Iterable[FamilyReadings]) -> None:
        """Forget what these readings are not of."""
        kept: defaultdict[Level, set[Key]] = defaultdict(set)
        for each in used:
            kept[each.family.level].update(each.rows)
        for level, known in self._known.items():
            self._known[level] = {key: subject for key, subject in known.items() if key in kept[level]}

    def _columns(self, given: FamilyReadings) -> tuple[list[Subject], array[float]]:
        known = self._known[given.family.level]
        subjects = [known.get(key) or known.setdefault(key, Subject(key)) for key in given.rows]
        return subjects, array("d", [value for value, _, _ in given.rows.values()])


def usage_sources(columns: Iterable[FamilyReadings], source: str) -> list[UsageSource]:
    """Return the source of each job's usage, with the Unix time of its newest reading (None if that is UNDATED)."""
    newest: dict[str, float] = {}
    for column in columns:
        for key, (_, _, at) in column.rows.items():
            if at > newest.get(key[0], -1.0):
                newest[key[0]] = at
    return [UsageSource(job_id, source, None if at == UNDATED else at) for job_id, at in newest.items()]


async def publish_fresh(
    part: Part,
    columns: Sequence[FamilyReadings],
    shown: Callable[[Sequence[FamilyReadings]], Sequence[object]],
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
        fresh = [each for column in columns if (each := column.since(now + ahead - age, known)).rows]
        oldest = min((each.oldest for each in fresh), default=UNDATED)
        return shown(fresh), None if oldest == UNDATED else oldest - ahead + age + _TOUCH

    objects, stale_at = await build(wall_clock.time())
    await part.publish(objects, stale_at=stale_at, rebuild=build)


def count(part: Part, dropped: Counter[str]) -> None:
    """Count what a part does not show, by reason."""
    for reason, number in dropped.items():
        part.dropped(reason, number)
