"""Readings of usage: the newest of each thing, base units, wholes of parts, and how long they are shown.

    points of an answer ──put──► NewestReadings (what counts, and why not) ──of_families──► FamilyReadings

A reading is (key, time, value). Its key is the job (or pool), the pod, the device, down to its level.
"""

from __future__ import annotations

import time as wall_clock
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.model import Readings, Subject
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.usage.quantities import convert, total
from trainfleet_exporter.providers.usage.table import SHOWN_AS, Family, Level

Key = tuple[str, ...]
_KEY_LENGTHS: Mapping[Level, int] = {"job": 1, "pool": 1, "pod": 2, "device": 4}
_SILENCE = 180.0
"""A part without readings for so many seconds, while others have some, no longer counts for its whole."""
_FUTURE = 900.0
"""A reading dated further ahead than a clock may be off is not believed (seconds)."""
_TOUCH = 0.001
"""A reading goes so much later than its limit, so that it is surely beyond it then (seconds)."""


class NewestReadings:
    """The newest reading of each thing, of one metric. `dropped` counts by reason what is not shown.

    `begun` has, for each job (or pool) that is polled, the Unix time of its beginning: a reading from before it is of
    an earlier thing with the same id.
    """

    def __init__(self, level: Level, begun: Mapping[str, float], *, now: float, max_age: float) -> None:
        """`now` is a Unix time, `max_age` is in seconds."""
        self.level = level
        self.found: dict[Key, tuple[float, float | None]] = {}
        """Unix seconds, and the value in the metric's unit; None if it is unusable."""
        self.dropped: Counter[str] = Counter()
        self._begun, self._since, self._until = begun, now - max_age, now + _FUTURE

    def put(self, key: Key, time: float, value: float | None) -> None:
        """Take over a reading, if it is newer than the last one of its key."""
        begun = self._begun.get(key[0])
        if not 0 <= time <= self._until:
            self.dropped["malformed"] += 1
        elif time < self._since:
            self.dropped["stale"] += 1
        elif begun is None or time < begun:
            self.dropped["unlisted"] += 1
        else:
            self.dropped["malformed"] += value is None
            if key not in self.found or self.found[key][0] < time:
                self.found[key] = time, value

    def of_families(self, targets: Mapping[Family, float], *, period: float) -> list[FamilyReadings]:
        """Return the readings of each family. `targets` has how many base units a value counts. `period` is the time
        between two points in seconds.

        A whole has the mean of the ratios of its parts, and the sum of other values. A sum needs the values of all
        parts. Parts without a reading for three minutes, or three periods, do not count.
        """
        result: list[FamilyReadings] = []
        usable = set[Key]()
        for family, factor in targets.items():
            values: dict[Key, tuple[float, float | None]] = {}
            for key, (time, raw) in self.found.items():
                value = None if raw is None else convert(raw, factor, family.quantity)
                values[key] = time, value
                if value is not None:
                    usable.add(key)
            if family.level == self.level:
                rows = {key: (value, time, time) for key, (time, value) in values.items() if value is not None}
            else:
                rows = _wholes(values, family, max(_SILENCE, 3 * period))
            result.append(FamilyReadings(family, rows))
        self.dropped["out_of_range"] += sum(
            key not in usable and value is not None for key, (_, value) in self.found.items()
        )
        return result


@dataclass(frozen=True, slots=True)
class FamilyReadings:
    """The values of one family, each with the Unix times of its oldest and its newest reading."""

    family: Family
    rows: Mapping[Key, tuple[float, float, float]]

    def since(self, since: float, begun: Mapping[str, float]) -> FamilyReadings:
        """Return what is not older, and of the jobs (or pools) of `begun` since they began."""
        rows = {key: row for key, row in self.rows.items() if key[0] in begun and row[1] >= max(since, begun[key[0]])}
        return FamilyReadings(self.family, rows)


def _wholes(
    values: Mapping[Key, tuple[float, float | None]], family: Family, silence: float
) -> dict[Key, tuple[float, float, float]]:
    groups: defaultdict[Key, list[tuple[float, float | None]]] = defaultdict(list)
    for key, reading in values.items():
        groups[key[: _KEY_LENGTHS[family.level]]].append(reading)
    found = {}
    for key, group in groups.items():
        newest = max(time for time, _ in group)
        present = [(time, value) for time, value in group if time >= newest - silence]
        whole = total([value for _, value in present], is_ratio=family.is_ratio)
        if whole is not None:
            times = [time for time, value in present if value is not None]
            found[key] = whole, min(times), max(times)
    return found


class Subjects:
    """The subject of each key and level: one constant object each, so that its labels are written once."""

    def __init__(self) -> None:
        self._known: defaultdict[Level, dict[Key, Subject]] = defaultdict(dict)

    def readings(self, given: Iterable[FamilyReadings]) -> list[Readings]:
        """Return readings as the page takes them."""
        return [Readings(SHOWN_AS[each.family.level], each.family.path, *self._columns(each)) for each in given]

    def keep_only(self, owners: Collection[str]) -> None:
        """Forget all other jobs (or pools)."""
        for level, known in self._known.items():
            self._known[level] = {key: subject for key, subject in known.items() if key[0] in owners}

    def _columns(self, given: FamilyReadings) -> tuple[list[Subject], array[float]]:
        known = self._known[given.family.level]
        subjects = [known.get(key) or known.setdefault(key, Subject(key)) for key in given.rows]
        return subjects, array("d", [value for value, _, _ in given.rows.values()])


def newest_by_owner(columns: Sequence[FamilyReadings]) -> dict[str, float]:
    """Return the Unix time of the newest reading of each job (or pool)."""
    found: dict[str, float] = {}
    for column in columns:
        for key, (_, _, newest) in column.rows.items():
            found[key[0]] = max(newest, found.get(key[0], 0.0))
    return found


async def publish_fresh(
    part: Part,
    columns: Sequence[FamilyReadings],
    shown: Callable[[Sequence[FamilyReadings]], Sequence[object]],
    *,
    begun: Callable[[], Mapping[str, float]],
    max_data_age: float,
    ahead: float = 0.0,
) -> None:
    """Show what `shown` makes of the readings that are not too old now, and again when some are.

    A reading is too old after `max_data_age` seconds, or two intervals if that is longer. `begun` as in NewestReadings.
    `ahead` is by how many seconds the clock of the readings is ahead of this machine's.
    """

    async def build(now: float) -> tuple[Sequence[object], float | None]:
        age, known = max(max_data_age, 2 * part.interval), begun()
        fresh = [each for column in columns if (each := column.since(now + ahead - age, known)).rows]
        oldest = min((row[1] for column in fresh for row in column.rows.values()), default=None)
        return shown(fresh), None if oldest is None else oldest - ahead + age + _TOUCH

    objects, stale_at = await build(wall_clock.time())
    await part.publish(objects, stale_at=stale_at, rebuild=build)
