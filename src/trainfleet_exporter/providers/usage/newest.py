"""The newest usable reading of each job, pod, card or pool, of one metric, from batches of plain readings."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from trainfleet_exporter.model import Subject
from trainfleet_exporter.providers.usage.entities import KEY_LENGTHS, EntityIndex, EntityList, Key

FUTURE = 900.0
"""A reading dated further ahead than a request's clock may be off is not believed (seconds)."""


class Batch(NamedTuple):
    """Some readings, about a thousand at most: a millisecond's work."""

    keys: Sequence[Key]
    """What each is of. A key that is too short says whose the reading is, and not of which part."""
    values: Sequence[array[float] | Sequence[float | None]]
    """For each statistic that is read, the values in the metric's unit; None of a reading that lacks it. An array has
    all of them, and need not be looked through."""
    times: float | Sequence[float]
    """Unix seconds, of all together or of each; infinite if it is not known."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose readings are shown in one poll."""

    served: Collection[str]
    """The jobs (or pools)."""
    is_known: Callable[[str], bool] = lambda owner: False
    """Whether another one is there all the same: it uses nothing now, or another source serves it."""


class InOrder:
    """Readings that come in the order of a entity list, as those of most metrics do: columns that only grow."""

    def __init__(self, entity_list: EntityList, statistics: int) -> None:
        self.entity_list = entity_list
        self.columns = [array("d") for _ in range(statistics)]
        self.times = array("d")

    @property
    def is_whole(self) -> bool:
        """Whether there is a reading of each subject."""
        return len(self.times) == len(self.entity_list.subjects) > 0

    def take(self, batch: Batch, since: float, until: float) -> bool:
        """Take over readings if they are those that come next, and usual; whether they were."""
        if not batch.keys:
            return True
        times = array("d", [batch.times] if isinstance(batch.times, float) else batch.times)
        columns = [column for column in batch.values if isinstance(column, array)]
        if len(columns) < len(batch.values) or not (since <= min(times) and max(times) <= until):
            return False
        place, number = len(self.times), len(batch.keys)
        if batch.keys != self.entity_list.keys[place : place + number]:
            return False
        for known, column in zip(self.columns, columns, strict=True):
            known.extend(column)
        self.times.extend(times if len(times) == number else times * number)
        return True


class Newest:
    """The readings of one metric, batch by batch. `dropped` counts by reason what is not shown."""

    def __init__(
        self,
        index: EntityIndex,
        scope: Scope,
        *,
        now: float,
        max_age: float = math.inf,
        statistics: int = 1,
        undated: bool = False,
    ) -> None:
        """`now` is a Unix time, `max_age` is in seconds.

        `undated`: of two different readings of one thing, it is not known which is the present one, so that neither is
        shown.
        """
        self.index = index
        self.dropped: Counter[str] = Counter()
        self.rows = 0
        self.time = math.nan
        """The Unix time of most readings. Of use when `values` was asked for, and so are `times`."""
        self.times: dict[Subject, float] = {}
        """That of all others."""
        self.spoiled: set[str] = set()
        """Owners of unusable readings; an empty text if an owner is not known, so it may be any."""
        self.ambiguous: set[Subject] = set()
        self.since = now - max_age
        """Readings from before this Unix time are too old to be shown, and need not be asked for."""
        self._until = now + FUTURE
        self._scope = scope
        self._in_order: InOrder | None = None
        """All readings, as long as they come in the order in which all entities were reported before."""
        if not undated and all(map(scope.served.__contains__, index.entity_list().owners)):
            self._in_order = InOrder(index.entity_list(), statistics)
        self._values: Sequence[dict[Subject, float]] = [{} for _ in range(statistics)]
        self._live: Mapping[Key, Subject] = index.live(scope.served)
        self._undated = undated
        self._length = KEY_LENGTHS[index.level]

    @property
    def in_order(self) -> InOrder | None:
        """The readings of all entities in their order; None if it is not so, and `values` has them."""
        return self._in_order if self._in_order is not None and self._in_order.is_whole else None

    @property
    def values(self) -> Sequence[dict[Subject, float]]:
        """By statistic: the newest readings, always of the same subjects, in the metric's unit; NaN if absent."""
        if self._in_order is not None:
            given, self._in_order = self._in_order, None
            subjects = given.entity_list.subjects[: len(given.times)]
            for values, column in zip(self._values, given.columns, strict=True):
                values.update(zip(subjects, column, strict=True))
            if subjects:
                self.time = given.times[0]
                self.times = {
                    subject: time for subject, time in zip(subjects, given.times, strict=True) if time != self.time
                }
        return self._values

    @property
    def subjects(self) -> Collection[Subject]:
        """What has a reading."""
        return self.values[0]

    async def take_all(self, batches: AsyncIterator[Batch]) -> None:
        """Take over all readings of an answer. Raises what `batches` raises."""
        async for batch in batches:
            self.take(batch)
            del batch  # before the next call

    def take(self, batch: Batch) -> None:
        """Take over some readings."""
        keys, columns, times = batch
        self.rows += len(keys)
        if self._in_order is not None and self._in_order.take(batch, self.since, self._until):
            return
        subjects: Sequence[Subject | None] = list(map(self._live.get, keys))
        usual: list[bool] | None = None
        if isinstance(times, float):
            if not self.since <= times <= self._until:
                usual = [False] * len(keys)
        elif not all(self.since <= time <= self._until for time in times):
            usual = [self.since <= time <= self._until for time in times]
        for column in (subjects, *columns):
            if not isinstance(column, array) and None in column:
                fit = [value is not None for value in column]
                usual = fit if usual is None else [one and other for one, other in zip(usual, fit, strict=True)]
        if usual is None:
            self._take_usual(subjects, columns, times, keys)  # type: ignore[arg-type]  # none is None
            return
        rest = [not each for each in usual]
        if not set(compress(subjects, usual)).isdisjoint(compress(subjects, rest)):
            usual, rest = [], [True] * len(keys)  # of readings of one thing, the first one counts
        each_time = [times] * len(keys) if isinstance(times, float) else times
        for chosen, take in ((usual, self._take_usual), (rest, self._take_odd)):
            take(
                list(compress(subjects, chosen)),  # type: ignore[arg-type]  # none of the usual ones is None
                [list(compress(column, chosen)) for column in columns],  # type: ignore[arg-type]  # likewise
                list(compress(each_time, chosen)),
                list(compress(keys, chosen)),
            )

    def _take_usual(
        self,
        subjects: Sequence[Subject],
        columns: Sequence[Sequence[float]],
        times: float | Sequence[float],
        keys: Sequence[Key],
    ) -> None:
        """Take over readings of known subjects that have all values, and a time at which they may be shown."""
        if not subjects:
            return
        if len(set(subjects)) < len(subjects) or not self.values[0].keys().isdisjoint(subjects):
            self._take_odd(subjects, columns, times, keys)
            return
        if not self.values[0]:
            self.time = times if isinstance(times, float) else times[0]
        for values, column in zip(self.values, columns, strict=True):
            values.update(zip(subjects, column, strict=True))
        if not isinstance(times, float):
            pairs = zip(subjects, times, strict=True)
            self.times.update([(subject, time) for subject, time in pairs if time != self.time])
        elif times != self.time:
            self.times.update(dict.fromkeys(subjects, times))

    def _take_odd(
        self,
        subjects: Sequence[Subject | None],
        columns: Sequence[Sequence[float | None]],
        times: float | Sequence[float],
        keys: Sequence[Key],
    ) -> None:
        each_time = [times] * len(keys) if isinstance(times, float) else times
        for key, time, *values in zip(keys, each_time, *columns, strict=True):
            reason = self._take(key, time, values)
            if reason:
                self.dropped[reason] += 1
            if reason == "malformed":
                self._spoil(key[0])

    def _take(self, key: Key, time: float, values: Sequence[float | None]) -> str:
        """Why a reading is not shown; empty for one that is, or that another source shows."""
        if not 0 <= time <= self._until:
            return "malformed"
        if time < self.since:
            return "stale"
        if key[0] not in self._scope.served:
            return "" if self._scope.is_known(key[0]) else "unlisted"
        if len(key) < self._length:
            return "malformed"
        known = self.index.subjects.get(key)
        has_reading = known is not None and known in self.subjects
        if known is not None and has_reading and self._undated:
            return self._again(known, values)
        if known is not None and has_reading and self.times.get(known, self.time) >= time:
            return "duplicate"
        if all(value is None for value in values):
            return "malformed"
        self._put(self.index.subject(key), time, values)
        return "duplicate" if has_reading else ""

    def _again(self, subject: Subject, values: Sequence[float | None]) -> str:
        if [known[subject] for known in self.values] == values:
            return "duplicate"
        # Which of them is the present one is not reported: the one that came first is not shown either.
        self.dropped["duplicate"] += 0 if subject in self.ambiguous else 1
        self.ambiguous.add(subject)
        return "duplicate"

    def _put(self, subject: Subject, time: float, values: Sequence[float | None]) -> None:
        if not self.values[0]:
            self.time = time
        self.times.pop(subject, None)
        if time != self.time:
            self.times[subject] = time
        for known, value in zip(self.values, values, strict=True):
            known[subject] = math.nan if value is None else value

    def _spoil(self, owner: str) -> None:
        if owner in self._scope.served:
            self.spoiled.add(owner)
        elif not self._scope.is_known(owner):
            self.spoiled.add("")
