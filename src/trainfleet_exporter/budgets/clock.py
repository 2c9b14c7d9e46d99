"""The clock of budgets, and its rule for a wall clock that is set.

The time is that of the wall clock. If the wall clock moves by more than a minute against the clock of the event loop,
it was set. Then the old time continues for a day as a second time: a call needs room in the months of both times, and
counts in both. During this day, only the old time is certain. On the first day of a process, it is the earlier of the
two, because the wall clock may have been wrong at the start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

_SLEW = 60.0
"""Seconds by which the wall clock may move against the loop's between two looks without having been set."""
_DOUBT = 86400.0
"""Seconds after which the new time of a wall clock counts as correct."""


class Look(NamedTuple):
    """A reading of the clock, as Unix times."""

    times: tuple[float, ...]
    """The time by the wall clock; for a day after it was set, also the old time, which continues."""
    certain: float
    """One of them: the time that has certainly been reached."""


class BudgetClock:
    """The wall clock, checked against a steady clock that cannot be set. Tests pass their own.

    `steady` may return None.
    """

    def __init__(
        self, *, wall: Callable[[], float] = time.time, steady: Callable[[], float | None] | None = None
    ) -> None:
        self._wall = wall
        self._steady = _loop_time if steady is None else steady
        self._began: float | None = None
        self._believed = self._last = 0.0
        """Seconds by which the wall clock is ahead of the steady one: as assumed, and at the last reading."""
        self._set_at = 0.0
        """When the wall clock was set for the last time, by the steady clock."""

    def look(self) -> Look:
        """The present time or times."""
        wall, steady = self._wall(), self._steady()
        if steady is None:
            return Look((wall,), wall)
        ahead = wall - steady
        if self._began is None:
            self._began, self._believed, self._last = steady, ahead, ahead
        if abs(ahead - self._last) > _SLEW:
            self._set_at = steady
        self._last = ahead
        if abs(ahead - self._believed) <= _SLEW or steady - self._set_at >= _DOUBT:
            self._believed = ahead
            return Look((wall,), wall)
        before = steady + self._believed
        is_first_day = steady - self._began < _DOUBT
        return Look((wall, before), min(wall, before) if is_first_day else before)


def _loop_time() -> float | None:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # outside of a loop there is only the wall clock
        return None
