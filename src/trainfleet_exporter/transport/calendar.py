"""Months as the clouds bill them, told by two clocks so that a wall clock that is set refills nothing twice.

Both clouds bill by the calendar month in China Standard Time, which is UTC+8 all the year.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple, Self

_CHINA = timezone(timedelta(hours=8))
_FORM = re.compile(r"([1-9][0-9]{3})-(0[1-9]|1[0-2])", re.ASCII)
_SLEW = 60.0
"""Seconds by which the wall clock may move against the steady one, between two looks, without having been set."""
_DOUBT = 86400.0
"""Seconds for which both clocks count after the wall clock was set; then it is believed."""


class Month(NamedTuple):
    """One calendar month in UTC+8; `str()` is as `2026-01`."""

    year: int
    number: int

    @classmethod
    def at(cls, moment: float) -> Self:
        """The month that a Unix time falls into."""
        date = datetime.fromtimestamp(moment, _CHINA)
        return cls(date.year, date.month)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The month that `str()` gave this text for; ValueError if there is none."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError("not a month")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.year}-{self.number:02d}"

    @property
    def starts(self) -> float:
        """The Unix time of its first moment."""
        return _span(self)[0]

    @property
    def ends(self) -> float:
        """The Unix time of the first moment after it."""
        return _span(self)[1]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.ends - self.starts


@lru_cache(maxsize=16)
def _span(month: Month) -> tuple[float, float]:
    starts = datetime(month.year, month.number, 1, tzinfo=_CHINA)
    after = datetime(month.year + month.number // 12, month.number % 12 + 1, 1, tzinfo=_CHINA)
    return starts.timestamp(), after.timestamp()


class Moment(NamedTuple):
    """A Unix time with the month that it falls into."""

    time: float
    month: Month

    @property
    def left(self) -> float:
        """Seconds to the month's end, above 0."""
        return max(self.month.ends - self.time, 1e-3)


class Calendar:
    """What time it is by the wall clock, and, for a day after that was set, by the clock that nobody sets as well.

    Which of the two is right cannot be told from here; who counts in both months is on the safe side.
    """

    def __init__(
        self, *, wall: Callable[[], float] = time.time, steady: Callable[[], float | None] | None = None
    ) -> None:
        self._wall = wall
        self._steady = _loop_time if steady is None else steady
        self._began: float | None = None
        self._offset = 0.0
        self._set_by = 0.0
        self._set_at: float | None = None
        self._known = Month(1, 1)
        self._starts = self._ends = math.inf

    def now(self) -> tuple[Moment, ...]:
        """The present moment; a second one, by the steady clock, where that is another month in doubt."""
        wall = self._wall()
        if not self._starts <= wall < self._ends:
            self._known = Month.at(wall)
            self._starts, self._ends = self._known.starts, self._known.ends
        moment = Moment(wall, self._known)
        steady = self._steady()
        if steady is None:
            return (moment,)
        if self._began is None:
            self._began, self._offset = steady, wall - steady
        believed = self._believe(wall, steady)
        if believed == wall or (month := Month.at(believed)) == moment.month:
            return (moment,)
        return (moment, Moment(believed, month))

    @property
    def young(self) -> bool:
        """Whether the steady clock has been watched for less than a day: it was started from a wall clock that may
        have been wrong.
        """
        return self._age() < _DOUBT

    def saw_begin(self, moment: Moment) -> bool:
        """Whether the moment's month began after the steady clock was first watched."""
        return self._began is None or moment.time - self._age() <= moment.month.starts

    def _age(self) -> float:
        """Seconds since the steady clock was first watched; 0 where there is none."""
        steady = self._steady()
        return 0.0 if steady is None or self._began is None else steady - self._began

    def _believe(self, wall: float, steady: float) -> float:
        """The Unix time by the steady clock, which follows the wall clock in small steps and after a day of doubt."""
        difference = wall - (self._offset + steady)
        if abs(difference) <= _SLEW:
            self._offset, self._set_at = wall - steady, None
        elif self._set_at is None or abs(difference - self._set_by) > _SLEW:
            self._set_by, self._set_at = difference, steady
        elif steady - self._set_at >= _DOUBT:
            self._offset, self._set_at = wall - steady, None
        else:
            self._set_by = difference
        return wall if self._set_at is None else self._offset + steady


def elapsed(calls: int, moment: Moment) -> int:
    """The part of a month's calls that its elapsed share stands for, rounded up."""
    share = (moment.time - moment.month.starts) / moment.month.seconds
    return min(calls, math.ceil(calls * share))


def _loop_time() -> float | None:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # outside of a loop there is only the wall clock
        return None
