"""Dated readings of a range: of parts (pods, cards), and what wholes made of them have at each time. Pure."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trainfleet_exporter.families.usage import SHOWN_AS
from trainfleet_exporter.model import UsageSource
from trainfleet_exporter.providers.history import Range, Sink, Track
from trainfleet_exporter.providers.usage.columns import SILENCE, Target
from trainfleet_exporter.providers.usage.entities import KEY_LENGTHS, Key
from trainfleet_exporter.providers.usage.newest import Batch
from trainfleet_exporter.providers.usage.quantities import convert, mean

UNFIT = math.nan
"""The value of a reading that has none, or none that can be true."""


@dataclass(slots=True)
class Dated:
    """The readings of one thing. After `sort`, oldest first and each time once."""

    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, time: int, value: float | None) -> None:
        """A reading; None for one that cannot be true."""
        self.times.append(time)
        self.values.append(UNFIT if value is None else value)

    def sort(self) -> int:
        """Put them in order; how many shared their time with an earlier one, which counts."""
        if all(before < after for before, after in zip(self.times, self.times[1:], strict=False)):
            return 0
        first: dict[int, float] = {}
        for time, value in zip(self.times, self.values, strict=True):
            first.setdefault(time, value)
        twice = len(self.times) - len(first)
        self.times = array("q", sorted(first))
        self.values = array("d", [first[time] for time in self.times])
        return twice

    def fit(self) -> tuple[array[int], array[float]]:
        """The readings that can be shown."""
        if not any(map(math.isnan, self.values)):
            return self.times, self.values
        kept = [(time, value) for time, value in zip(self.times, self.values, strict=True) if not math.isnan(value)]
        return array("q", [time for time, _ in kept]), array("d", [value for _, value in kept])


def whole(parts: Sequence[Dated], *, is_ratio: bool, goes_on: int | None = None, spoiled: bool = False) -> Dated:
    """Return the values of a whole: the mean of ratios, and the sum of others at times at which no part lacks its
    value.

    A part lacks its value at a time if it has one within the three minutes before and one later: a sum without the part
    would look like a drop. If the readings end because no more were requested (at `goes_on`, Unix seconds), a later
    value is assumed. `spoiled`: a part's reading could not be read, so there are no sums.
    """
    found = Dated()
    if not is_ratio and spoiled:
        return found
    if len(parts) == 1:
        found.times, found.values = parts[0].fit()
        return found
    times = sorted({time for part in parts for time in part.times})
    values: dict[int, list[float]] = {time: [] for time in times}
    for part in parts:
        for time, value in zip(part.times, part.values, strict=True):
            values[time].append(value)
    lacking = set() if is_ratio else _lacking(parts, times, goes_on)
    for time in times:
        fit = [value for value in values[time] if not math.isnan(value)]
        if is_ratio:
            average = mean(fit)
            if average is not None:
                found.add(time, average)
        elif fit and len(fit) == len(values[time]) and time not in lacking:
            found.add(time, math.fsum(fit))
    return found


def _lacking(parts: Iterable[Dated], times: Sequence[int], goes_on: int | None) -> set[int]:
    """The times at which some part lacks a reading."""
    found: set[int] = set()
    for part in parts:
        ends: Iterable[int] = part.times[1:]
        if goes_on is not None and part.times:
            ends = [*ends, goes_on]
        for before, after in zip(part.times, ends, strict=False):
            first = bisect_right(times, before)
            last = min(bisect_left(times, after), bisect_right(times, before + int(SILENCE)))
            found.update(times[first:last])
    return found


class Past:
    """The readings of one metric from within a range, batch by batch. `dropped` counts by reason what is not shown.

    `targets` are the families that it feeds, at its own level or above. `runs` is when a job (or pool) has readings
    that are shown; None for one that is not wanted.
    """

    def __init__(self, targets: Sequence[Target], runs: Callable[[str], Range | None], source: str) -> None:
        self.dropped: Counter[str] = Counter()
        self._targets = targets
        self._runs = runs
        self._source = source
        self._found: Sequence[dict[Key, Dated]] = [{} for _ in targets]
        """For each target, by what the reading is of."""
        self._spoiled: set[str] = set()
        """Owners of readings of which it is not known when they are from, or which of their parts they are of."""

    def take(self, batch: Batch, length: int) -> None:
        """Take over some readings; `length` is how many texts name what the metric is of (entities.KEY_LENGTHS)."""
        times = [batch.times] * len(batch.keys) if isinstance(batch.times, float) else batch.times
        for key, time, *values in zip(batch.keys, times, *batch.values, strict=True):
            reason = self._take(key, time, values, length)
            if reason:
                self.dropped[reason] += 1

    @property
    def found(self) -> bool:
        """Whether there is any reading."""
        return bool(self._found[0])

    def spoil(self, owner: str) -> None:
        """Note an unusable reading of a job (or pool) whose time or part is unknown."""
        self._spoiled.add(owner)

    def tracks(self, asked: Range, *, names_source: bool = False) -> Iterator[Track]:
        """The tracks to show for the requested range; with `names_source`, also which source served each job, and
        when."""
        for number, found in enumerate(self._found):
            twice = sum([dated.sort() for dated in found.values()])
            if number == 0:
                self.dropped["duplicate"] += twice
        for target, found in zip(self._targets, self._found, strict=True):
            family = target.family
            for key, dated in self._at_level(target, found, asked).items():
                times, values = dated.fit()
                if times:
                    yield Track(SHOWN_AS[family.level], family.path, key, times, values, source=self._source)
        if names_source:
            moments: dict[str, set[int]] = {}
            for key, dated in self._found[0].items():
                moments.setdefault(key[0], set()).update(dated.fit()[0])
            for owner, times_of in moments.items():
                yield from source_tracks(owner, self._source, times_of)

    def publish(self, sink: Sink, asked: Range, *, names_source: bool = False) -> None:
        """Put it into a sink: the tracks, and what is not shown."""
        for track in self.tracks(asked, names_source=names_source):
            sink.track(track)
        for reason, count in (+self.dropped).items():
            sink.dropped(reason, count)

    def _take(self, key: Key, time: float, values: Sequence[float | None], length: int) -> str:
        runs = self._runs(key[0])
        if runs is None:
            return "unlisted"
        if not 0 <= time < math.inf or len(key) < length:
            self._spoiled.add(key[0])
            return "malformed"
        if not runs.start <= int(time) < runs.end:
            return ""  # the daemon shows nothing of a job that does not run
        fit, lacks = False, False
        for target, found in zip(self._targets, self._found, strict=True):
            raw = values[target.statistic]
            value = None if raw is None else convert(raw, target.factor, target.family.quantity)
            fit, lacks = fit or value is not None, lacks or raw is None
            dated = found.get(key)
            if dated is None:
                dated = found[key] = Dated()
            dated.add(int(time), value)
        return "malformed" if lacks else "" if fit else "out_of_range"

    def _at_level(self, target: Target, found: Mapping[Key, Dated], asked: Range) -> Mapping[Key, Dated]:
        length = KEY_LENGTHS[target.family.level]
        parts: dict[Key, list[Dated]] = {}
        for key, dated in found.items():
            parts.setdefault(key[:length], []).append(dated)
        if all(len(key) == length for key in found):
            return found
        return {
            key: whole(
                dated,
                is_ratio=target.family.is_ratio,
                goes_on=self._goes_on(key[0], asked),
                spoiled=key[0] in self._spoiled,
            )
            for key, dated in parts.items()
        }

    def _goes_on(self, owner: str, asked: Range) -> int | None:
        """The end of what was asked for, where a job ran on beyond it."""
        runs = self._runs(owner)
        return asked.end if runs is not None and runs.end >= asked.end else None


def source_tracks(job_id: str, source: str, moments: Iterable[int], *, are_dated: bool = True) -> Iterator[Track]:
    """That a job had readings of a source, at each time at which it had some; `are_dated`: by the source's own word."""
    times = array("q", sorted(moments))
    if times:
        yield Track(UsageSource, "source", (job_id,), times, array("d", [1.0]) * len(times), source=source)
        if are_dated:
            yield Track(UsageSource, "timestamp", (job_id,), times, array("d", map(float, times)), source=source)
