"""Billing months: which month a time belongs to, by the rule of the cloud that bills."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

MONTH = r"[1-9][0-9]{3}-(0[1-9]|1[0-2])"
"""The form of a month's name."""
_MONTH_KEPT_SECONDS = 86400.0
"""Seconds for which a month stays on record after its end, in case the clock is set back by some hours."""


class Month(NamedTuple):
    """One billing month. Names are like `2026-01`, after the month of its first day, and sort by time."""

    name: str
    starts: float
    """The Unix time of its first moment."""
    ends: float
    """The Unix time of the first moment after it."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ends - self.starts

    def contains(self, time: float) -> bool:
        """Return whether a Unix time falls into it."""
        return self.starts <= time < self.ends

    def left(self, time: float) -> float:
        """Seconds from a Unix time to its end, above 0."""
        return max(self.ends - time, 1e-3)

    def elapsed_share(self, calls: int, time: float) -> int:
        """Return the elapsed share of a month's calls, rounded up."""
        return min(calls, math.ceil(calls * (time - self.starts) / self.seconds))


@dataclass(frozen=True, slots=True)
class BillingPeriod:
    """When the billing months of a cloud begin.

    That is at midnight of `first_day`, in the time zone that is ahead of UTC by `utc_offset`. ValueError for a day that
    some months do not have.
    """

    utc_offset: timedelta = timedelta(0)
    first_day: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.first_day <= 28:
            raise ValueError(f"first_day is {self.first_day}: 1 to 28 are allowed")

    def month(self, time: float) -> Month:
        """The month that a Unix time falls into."""
        date = datetime.fromtimestamp(time, timezone(self.utc_offset)) - timedelta(days=self.first_day - 1)
        return _month(self, date.year, date.month)

    def named(self, name: str) -> Month:
        """The month of this name; ValueError if there is none."""
        if re.fullmatch(MONTH, name) is None:
            raise ValueError("not a month")
        return _month(self, int(name[:4]), int(name[5:]))

    def keeps(self, name: str, time: float) -> bool:
        """Return whether a month is still on record at a Unix time: until a day after its end."""
        return self.named(name).ends + _MONTH_KEPT_SECONDS > time


@lru_cache(maxsize=64)
def _month(period: BillingPeriod, year: int, number: int) -> Month:
    zone = timezone(period.utc_offset)
    starts = datetime(year, number, period.first_day, tzinfo=zone)
    after = datetime(year + number // 12, number % 12 + 1, period.first_day, tzinfo=zone)
    return Month(f"{year:04d}-{number:02d}", starts.timestamp(), after.timestamp())
