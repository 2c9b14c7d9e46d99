"""Readings of usage: the newest of each thing, base units, wholes of parts, and how long they are shown.

    points of an answer ──take──► NewestReadings (what counts, and why not) ──of_families──► Column of each family
    Column (kept until the next poll) ──publish_fresh──► page

A reading is (key, time, value). Its key is the job (or pool), the pod, the device, down to its level.
"""

from __future__ import annotations

import math
import time as wall_clock
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from operator import attrgetter, itemgetter
from typing import TypeAlias

from trainfleet_exporter.families.usage import MEASURES, SHOWN_AS, Family, Level, Quantity
from trainfleet_exporter.fleet.quantities import convert_each, total
from trainfleet_exporter.model import Accelerator, Readings, Subject, UsageSource
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.judging import ServerClock

Key: TypeAlias = tuple[str, ...]
Reading: TypeAlias = tuple[Key, float, float | None]
"""The key, the Unix time (infinite if unknown), and the value in the metric's unit (None if unusable)."""
Row: TypeAlias = tuple[float, float, float]
"""A value in base units, and the Unix times of its oldest and its newest reading (or UNDATED)."""
KEY_LENGTHS: Mapping[Level, int] = {"job": 1, "pool": 1, "pod": 2, "device": 4}
SILENCE = 180.0
"""A part without readings for so many seconds, while others have some, no longer counts for its whole."""
FUTURE = 900.0
"""A reading dated further ahead than a clock may be off is not believed (seconds)."""
UNDATED = math.inf
"""The time of a reading that its source does not date: it is shown as long as its part."""
_TOUCH = 0.001
"""A reading goes so much later than its limit, so that it is surely beyond it then (seconds)."""


@dataclass(slots=True)
class Column:
    """The readings of one family: 32 bytes a value. Times are Unix seconds, or UNDATED."""

    family: Family
    accelerator: Accelerator
    subjects: Sequence[Subject]
    values: array[float]
    oldest: array[float]
    newest: array[float]
    owners: Collection[str] = field(init=False)
    first: float = field(init=False)
    """The time of the oldest reading of all; infinite without any."""

    def __post_init__(self) -> None:
        self.owners = tuple(dict.fromkeys(map(itemgetter(0), map(attrgetter("keys"), self.subjects))))
        self.first = min(self.oldest, default=math.inf)

    def since(self, since: float, begun: Mapping[str, float]) -> Column:
        """Return what is not older, and of the jobs (or pools) of `begun` since they began."""
        starts = map(begun.get, self.owners, repeat(math.nan))  # not infinity, which UNDATED is
        if self.first >= since and all(map(self.first.__ge__, starts)):
            return self
        dated = zip(self.subjects, self.oldest, strict=True)
        return self.only([since <= at >= begun.get(each.keys[0], math.nan) for each, at in dated])

    def only(self, is_kept: Sequence[bool]) -> Column:
        numbers = [array("d", compress(each, is_kept)) for each in (self.values, self.oldest, self.newest)]
        return Column(self.family, self.accelerator, list(compress(self.subjects, is_kept)), *numbers)


class Subjects:
    """The subject of each key and level: one constant object each, so that its labels are written once."""

    def __init__(self) -> None:
        self.known: defaultdict[Level, dict[Key, Subject]] = defaultdict(dict)

    def column(self, family: Family, rows: Mapping[Key, Row], accelerator: Accelerator = "gpu") -> Column:
        """Return readings as they are kept."""
        known = self.known[family.level]
        subjects = [known.get(key) or known.setdefault(key, Subject(key)) for key in rows]
        numbers = [array("d", map(itemgetter(at), rows.values())) for at in range(3)]
        return Column(family, accelerator, subjects, *numbers)

    def keep_only(self, used: Iterable[Column]) -> None:
        """Forget what these columns are not of."""
        kept = set(chain.from_iterable(each.subjects for each in used))
        for level, known in self.known.items():
            self.known[level] = {key: subject for key, subject in known.items() if subject in kept}


class NewestReadings:
    """The newest reading of each thing, of one metric. `dropped` counts by reason what is not shown.

    `begun` has, for each job (or pool) that is polled, the Unix time of its beginning: a reading from before it is of
    an earlier thing with the same id. `subjects` are those of the collector, so that no key of an answer outlives it.
    `is_known` returns whether another job exists all the same. `once`: a thing has one reading, and others are
    duplicates. `accelerator` is the kind that readings are of. Unix times, and seconds.
    """

    def __init__(
        self,
        level: Level,
        begun: Mapping[str, float],
        subjects: Subjects,
        *,
        now: float,
        max_age: float,
        is_known: Callable[[str], bool] = lambda owner: False,
        once: bool = False,
        accelerator: Accelerator = "gpu",
    ) -> None:
        self.level, self.accelerator = level, accelerator
        self.times: dict[Subject, float] = {}
        """Of the newest reading of each thing, in Unix seconds."""
        self.values: dict[Subject, float | None] = {}
        """Its value in the metric's unit; None if it is unusable."""
        self.dropped: Counter[str] = Counter()
        self.spoiled: set[str] = set()
        """Owners of readings of an unknown part or time, which have no sums; an empty text if any may be the owner."""
        self.points = 0
        """Readings so far, whether or not they are shown."""
        self.since = now - max_age
        """Readings from before this Unix time are too old to be shown, and need not be asked for."""
        self._begun, self._until, self._length = begun, now + FUTURE, KEY_LENGTHS[level]
        self._since = {owner: max(at, self.since) for owner, at in begun.items()}
        self._subjects, self._is_known, self._once = subjects, is_known, once

    def take(self, readings: Iterable[Reading]) -> None:
        """Take over each reading that is newer than the last one of its key."""
        times, values, since_of, until, points = self.times, self.values, self._since.get, self._until, 0
        known, length = self._subjects.known[self.level], self._length
        for key, time, value in readings:
            points += 1
            since = since_of(key[0])
            if since is None or not since <= time <= until or len(key) < length:
                self._leave_out(key, time)
                continue
            if value is None:
                self.dropped["malformed"] += 1
            subject = known.get(key) or known.setdefault(key, Subject(key))
            before, left_out = times.get(subject), value
            if before is None or before < time:
                times[subject], values[subject], left_out = time, value, values.get(subject)
            if left_out is not None:
                self.dropped["duplicate"] += self._once
        self.points += points

    def take_newest(self, readings: Sequence[Reading]) -> None:
        """Take over the newest reading of one key that can be true, and count a newer one; if none can, the newest."""
        usable = [one for one in readings if one[1] <= self._until and one[2] is not None and 0 <= one[2] < math.inf]
        self.dropped["malformed"] += bool(usable) and max(readings, key=itemgetter(1)) not in usable
        self.take([max(usable or readings, key=itemgetter(1))] if readings else ())

    def _leave_out(self, key: Key, time: float) -> None:
        begun = self._begun.get(key[0])
        if not 0 <= time <= self._until or (begun is not None and len(key) < self._length):
            self.spoil(key[0])
        elif time < self.since:
            self.dropped["stale"] += 1
        else:
            self.dropped["unlisted"] += begun is not None or not self._is_known(key[0])

    def spoil(self, owner: str) -> None:
        """Note an unusable reading of a job (or pool) whose time or part is unknown."""
        self.dropped["malformed"] += 1
        if owner in self._begun or not owner:
            self.spoiled.add(owner)

    def of_families(self, targets: Mapping[Family, float], *, period: float) -> list[Column]:
        """Return the readings of each family. `targets` has how many base units a value counts. `period` is the time
        between two points in seconds.

        A whole has the mean of the ratios of its parts, and the sum of other values. A sum needs the values of all
        parts. Parts without a reading for three minutes, or three periods, do not count.
        """
        result: list[Column] = []
        subjects, times, raws = list(self.times), array("d", self.times.values()), list(self.values.values())
        by_unit: dict[tuple[float, Quantity], list[float | None]] = {}
        for family, factor in targets.items():
            unit = factor, family.quantity
            values = by_unit[unit] = by_unit[unit] if unit in by_unit else convert_each(raws, *unit)
            if family.level == self.level:
                numbers = array("d", [math.nan if value is None else value for value in values])
                column = Column(family, self.accelerator, subjects, numbers, times, times)
                result.append(column.only([value is not None for value in values]) if None in values else column)
            else:
                parts = zip(map(attrgetter("keys"), subjects), times, values, strict=True)
                rows = wholes(parts, family, max(SILENCE, 3 * period), self.spoiled)
                result.append(self._subjects.column(family, rows, self.accelerator))
        if by_unit and all(None in values for values in by_unit.values()):
            each = zip(raws, *by_unit.values(), strict=True)
            self.dropped["out_of_range"] += sum([raw is not None and set(found) == {None} for raw, *found in each])
        return result


def wholes(parts: Iterable[Reading], family: Family, silence: float, spoiled: Collection[str] = ()) -> dict[Key, Row]:
    """Return the values of the wholes of a family, made of the readings of their parts."""
    groups: defaultdict[Key, tuple[list[float], list[float | None]]] = defaultdict(lambda: ([], []))
    length, found = KEY_LENGTHS[family.level], dict[Key, Row]()
    for key, time, value in parts:
        times, values = groups[key[:length]]
        times.append(time)
        values.append(value)
    for key, group in groups.items():
        if spoiled and not family.is_ratio and ("" in spoiled or key[0] in spoiled):
            continue
        times, values = group
        oldest, newest = min(times), max(times)
        if oldest < newest - silence:
            is_counted = [time >= newest - silence for time in times]
            times, values = list(compress(times, is_counted)), list(compress(values, is_counted))
            oldest = min(times)
        whole = total(values, is_ratio=family.is_ratio)
        if whole is not None:
            if None in values:
                dated = [time for time, value in zip(times, values, strict=True) if value is not None]
                oldest, newest = min(dated), max(dated)
            found[key] = whole, oldest, newest
    return found


def of_jobs(
    columns: Iterable[Column], pods: Mapping[Key, float], subjects: Subjects, *, spoiled: Collection[str] = ()
) -> list[Column]:
    """Return the values of jobs, made of those of all pods. `pods` has the time of the newest reading of each, of any
    family: one that lacks its reading of another family leaves no sum. `spoiled` are the paths of families without
    sums.
    """
    last, found = max(pods.values(), default=0.0), []
    present = [key for key, at in pods.items() if at >= last - SILENCE]
    for column in columns:
        family = MEASURES[column.family.suffix.removeprefix("pod_")].of("job")
        numbers = zip(column.oldest, column.values, strict=True)
        rows = {subject.keys: number for subject, number in zip(column.subjects, numbers, strict=True)}
        parts = [(key, *rows.get(key, (last, None))) for key in present if key in rows or not family.is_ratio]
        made = wholes(parts, family, math.inf, {""} if family.path in spoiled else ())
        found.append(subjects.column(family, made, column.accelerator))
    return found


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
        last = max(column.newest, default=0.0)
        if any(newest.get(owner, -1.0) < last for owner in column.owners):
            for subject, at in zip(column.subjects, column.newest, strict=True):
                newest[subject.keys[0]] = max(at, newest.get(subject.keys[0], -1.0))
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

    def build(now: float) -> tuple[Sequence[object], float | None]:
        ahead, age, known = clock.ahead, max(max_data_age, 2 * part.interval), begun()
        fresh = [each for column in columns if (each := column.since(now + ahead - age, known)).subjects]
        oldest = min((each.first for each in fresh), default=UNDATED)
        return shown(fresh), None if oldest == UNDATED else oldest - ahead + age + _TOUCH

    objects, stale_at = build(wall_clock.time())
    await part.publish(objects, stale_at=stale_at, rebuild=build)


def count(part: Part, dropped: Counter[str]) -> None:
    """Count what a part does not show, by reason."""
    for reason, number in dropped.items():
        part.dropped(reason, number)
