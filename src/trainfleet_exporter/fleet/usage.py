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
from itertools import chain, compress, filterfalse, repeat
from operator import itemgetter, le
from typing import Any, TypeAlias

from trainfleet_exporter.families.usage import SHOWN_AS, Family, Level, Quantity
from trainfleet_exporter.fleet.quantities import convert_each, total
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Accelerator, Readings, Subject, UsageSource
from trainfleet_exporter.polling import Part, Poll

Key: TypeAlias = tuple[str, ...]
Reading: TypeAlias = tuple[Key, float, float | None]
"""The key, the Unix time (infinite if unknown), and the value in the metric's unit (None if unusable)."""
Points: TypeAlias = tuple[Sequence[Key], Sequence[float], Sequence[float | None]]
"""Readings as columns."""
KEY_LENGTHS: Mapping[Level, int] = {"job": 1, "pool": 1, "pod": 2, "device": 4}
SILENCE = 180.0
"""A part without readings for so many seconds, while others have some, no longer counts for its whole."""
FUTURE = 900.0
"""A reading dated further ahead than a clock may be off is not believed (seconds)."""
UNDATED = math.inf
"""The time of a reading that its source does not date: it is shown as long as its part."""
_TOUCH = 0.001
"""A reading goes so much later than its limit, so that it is surely beyond it then (seconds)."""


@dataclass(slots=True, eq=False)
class SourceMetric:
    """A metric that is requested separately. `key` names it."""

    key: str
    level: Level
    """That of its readings."""
    targets: dict[Family, float]
    """The families that it feeds, and how many base units a value counts."""

    @property
    def of_accelerators(self) -> bool:
        """Whether jobs without accelerators have no readings of it."""
        return all(family.of_accelerators for family in self.targets)


@dataclass(slots=True)
class Column:
    """The readings of one family: 32 bytes a value. Times are Unix seconds, or UNDATED."""

    family: Family
    accelerator: Accelerator
    owners: Collection[str]
    subjects: Sequence[Subject]
    values: array[float]
    oldest: array[float]
    newest: array[float]
    first: float = field(init=False)
    """The time of the oldest reading of all; infinite without any."""

    def __post_init__(self) -> None:
        self.first = min(self.oldest, default=math.inf)

    def since(self, since: float, begun: Mapping[str, float]) -> Column:
        """Return what is not older, and of the jobs (or pools) of `begun` since they began."""
        first, starts = self.first, map(begun.get, self.owners, repeat(math.nan))  # not infinity, which UNDATED is
        if first >= since and all(map(first.__ge__, starts)):
            return self
        dated = zip(self.subjects, self.oldest, strict=True)
        is_kept = [since <= at >= begun.get(each.keys[0], math.nan) for each, at in dated]
        numbers = [array("d", compress(each, is_kept)) for each in (self.values, self.oldest, self.newest)]
        subjects = list(compress(self.subjects, is_kept))
        owners = dict.fromkeys([subject.keys[0] for subject in subjects])
        return Column(self.family, self.accelerator, owners, subjects, *numbers)


class Subjects:
    """The subject of each key and level: one constant object each, so that its labels are written once."""

    def __init__(self) -> None:
        self.known: defaultdict[Level, dict[Key, Subject]] = defaultdict(dict)

    def of(self, level: Level, keys: Sequence[Key]) -> list[Subject]:
        """Return the subjects of some keys. Those of one job (or pool) share its id."""
        known = self.known[level]
        for key in filterfalse(known.__contains__, keys):
            own = self.known["job"].setdefault(key[:1], Subject(key[:1])).keys + key[1:]
            known[own] = Subject(own)
        return list(map(known.__getitem__, keys))

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
        self.taken: list[Subject] = []
        """Of the readings so far that may be shown, the subjects."""
        self.times, self.values = array("d"), list[float | None]()
        """The Unix times and the values of these, in the metric's unit (None if unusable)."""
        self.dropped: Counter[str] = Counter()
        self.spoiled: set[str | Key] = set()
        """Owners of readings of an unknown part or time, which have no sums, or single wholes; empty: any owner."""
        self.points = 0
        """Readings so far, whether or not they are shown."""
        self.since = now - max_age
        """Readings from before this Unix time are too old to be shown, and need not be asked for."""
        self._begun, self._until, self._length = begun, now + FUTURE, KEY_LENGTHS[level]
        self._since = {owner: max(at, self.since) for owner, at in begun.items()}
        self._subjects, self._is_known, self._once = subjects, is_known, once

    def take(self, keys: Sequence[Key], times: Sequence[float], values: Sequence[float | None]) -> None:
        """Take over the readings that may be shown."""
        self.points += len(keys)
        subjects: list[Any] = list(map(self._subjects.known[self.level].get, keys))
        starts = map(self._since.get, map(itemgetter(0), keys), repeat(math.inf))
        if not all(subjects) or not all(map(le, starts, times)) or max(times, default=0.0) > self._until:
            may_be_shown = list(map(self._may_be_shown, keys, times))
            keys, times = list(compress(keys, may_be_shown)), list(compress(times, may_be_shown))
            values = list(compress(values, may_be_shown))
            subjects = self._subjects.of(self.level, keys)
        self.dropped["malformed"] += values.count(None)
        self.taken += subjects
        self.times.extend(times)
        self.values += values

    def take_newest(self, readings: Sequence[Reading]) -> None:
        """Take over the newest reading of one key that can be true, and count a newer one; if none can, the newest."""
        usable = [one for one in readings if one[1] <= self._until and one[2] is not None and 0 <= one[2] < math.inf]
        self.dropped["malformed"] += bool(usable) and max(readings, key=itemgetter(1)) not in usable
        self.take_each([max(usable or readings, key=itemgetter(1))] if readings else ())

    def take_each(self, readings: Iterable[Reading]) -> None:
        """Take over a few readings."""
        for key, time, value in readings:
            self.take([key], [time], [value])

    def _may_be_shown(self, key: Key, time: float) -> bool:
        """Return whether a reading may be shown; count it if not."""
        begun = self._begun.get(key[0])
        if not 0 <= time <= self._until or (begun is not None and len(key) < self._length):
            self.spoil(key[0])
        elif time < self._since.get(key[0], self.since):
            self.dropped["stale"] += 1
        elif begun is None:
            self.dropped["unlisted"] += not self._is_known(key[0])
        else:
            return True
        return False

    def spoil(self, owner: str) -> None:
        """Note an unusable reading of a job (or pool) whose time or part is unknown."""
        self.dropped["malformed"] += 1
        if owner in self._begun or not owner:
            self.spoiled.add(owner)

    def current(self) -> set[Subject]:
        """Return the things that have reported as lately as others."""
        since = max(self.times, default=0.0) - SILENCE
        return set(compress(self.taken, map(since.__le__, self.times)))

    def of_families(self, targets: Mapping[Family, float], *, period: float) -> list[Column]:
        """Return the readings of each family. `targets` has how many base units a value counts. `period` is the time
        between two points in seconds.

        A thing has its newest reading; of several of one time, the first. A whole has the mean of the ratios of its
        parts, and the sum of other values. A sum needs the values of all parts. Parts without a reading for three
        minutes, or three periods, do not count.
        """
        if len(set(self.taken)) < len(self.taken):
            usable = len(self.values) - self.values.count(None)
            readings = reversed([*zip(self.taken, self.times, self.values, strict=True)])
            newest = {each[0]: each for each in sorted(readings, key=itemgetter(1))}
            self.taken, times, self.values = map(list, zip(*newest.values(), strict=True))
            self.times = array("d", times)
            self.dropped["duplicate"] += self._once * (usable - len(self.values) + self.values.count(None))
        result: list[Column] = []
        keys = [subject.keys for subject in self.taken]
        owners = dict.fromkeys(map(itemgetter(0), keys))
        by_unit: dict[tuple[float, Quantity], list[float | None]] = {}
        for family, factor in targets.items():
            unit = factor, family.quantity
            values = by_unit[unit] = by_unit[unit] if unit in by_unit else convert_each(self.values, *unit)
            if family.level != self.level:
                result.append(self._wholes(family, keys, values, max(SILENCE, 3 * period)))
                continue
            subjects, dates = self.taken, self.times
            if None in values:
                is_usable = [value is not None for value in values]
                subjects, dates = list(compress(subjects, is_usable)), array("d", compress(dates, is_usable))
            numbers = array("d", [value for value in values if value is not None])
            result.append(Column(family, self.accelerator, owners, subjects, numbers, dates, dates))
        if by_unit and all(None in values for values in by_unit.values()):
            each = zip(self.values, *by_unit.values(), strict=True)
            self.dropped["out_of_range"] += sum([raw is not None and set(found) == {None} for raw, *found in each])
        return result

    def _wholes(
        self, family: Family, all_keys: Sequence[Key], values: Sequence[float | None], silence: float
    ) -> Column:
        """Return the wholes of a family, made of the values of their parts."""
        times: Sequence[float] = self.times
        keys, numbers, oldest, newest = list[Key](), array("d"), array("d"), array("d")
        first, last = min(times, default=UNDATED), max(times, default=UNDATED)
        length, is_ratio, is_uneven = KEY_LENGTHS[family.level], family.is_ratio, first < last
        of = itemgetter(0 if length == 1 else slice(length))
        wholes = list(map(of, all_keys))
        if wholes != list(chain.from_iterable(map(repeat, (sizes := Counter(wholes)), sizes.values()))):
            order = sorted(range(len(wholes)), key=wholes.__getitem__)  # some parts are apart
            all_keys, times = [all_keys[at] for at in order], [times[at] for at in order]
            values, sizes = [values[at] for at in order], Counter(map(of, all_keys))
        end = 0
        for size in sizes.values():
            start, end = end, end + size
            key = all_keys[start][:length]
            if self.spoiled and not is_ratio and not self.spoiled.isdisjoint(("", key[0], key)):
                continue
            parts = values[start:end]
            if is_uneven:
                dates = times[start:end]
                since = max(dates) - silence
                counted = [(at, value) for at, value in zip(dates, parts, strict=True) if at >= since]
                parts, dated = [value for _, value in counted], [at for at, value in counted if value is not None]
                first, last = min(dated, default=UNDATED), max(dated, default=UNDATED)
            whole = total(parts, is_ratio=is_ratio)
            if whole is not None:
                keys.append(key)
                numbers.append(whole)
                oldest.append(first)
                newest.append(last)
        owners, subjects = dict.fromkeys(map(itemgetter(0), keys)), self._subjects.of(family.level, keys)
        return Column(family, self.accelerator, owners, subjects, numbers, oldest, newest)


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
        if any(map(last.__gt__, map(newest.get, column.owners, repeat(-1.0)))):
            for subject, at in zip(column.subjects, column.newest, strict=True):
                newest[subject.keys[0]] = max(at, newest.get(subject.keys[0], -1.0))
    return [UsageSource(job_id, source, None if at == UNDATED else at) for job_id, at in newest.items()]


async def publish_fresh(
    part: Part,
    columns: Sequence[Column],
    shown: Callable[[Sequence[Column]], Sequence[object]] = page_readings,
    *,
    fleet: Workspaces,
    begun: Callable[[], Mapping[str, float]],
) -> None:
    """Show what `shown` makes of the readings that are not too old now, and again when some are.

    A reading is too old after `max_data_age`, or two intervals if that is longer. `begun` as in NewestReadings.
    """

    def build(now: float) -> tuple[Sequence[object], float | None]:
        ahead, age, known = fleet.clock.ahead, max(fleet.max_data_age, 2 * part.interval), begun()
        fresh = [each for column in columns if (each := column.since(now + ahead - age, known)).subjects]
        oldest = min((each.first for each in fresh), default=UNDATED)
        return shown(fresh), None if oldest == UNDATED else oldest - ahead + age + _TOUCH

    objects, stale_at = build(wall_clock.time())
    await part.publish(objects, stale_at=stale_at, rebuild=build)


def count(part: Part | Poll, dropped: Counter[str]) -> None:
    """Count what a part does not show, by reason."""
    for reason, number in dropped.items():
        part.dropped(reason, number)
