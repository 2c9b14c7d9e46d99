"""Dated readings of parts (pods, cards), and what a whole made of them has at each time: pure."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trainfleet_exporter.providers.history import SILENCE
from trainfleet_exporter.providers.readings import mean

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
    """What a whole has: the mean of ratios; the sum of all else, where no part lacks its value.

    A part lacks one at a time at which it has none although it had some within the three minutes before, and will have
    some again: a sum without it would look like a drop. Where the readings end because nobody asked for more (at
    `goes_on`, Unix seconds), it may have had some again. `spoiled`: some part's reading could not be read, so that
    nothing can be summed up.
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
            last = min(bisect_left(times, after), bisect_right(times, before + SILENCE))
            found.update(times[first:last])
    return found
