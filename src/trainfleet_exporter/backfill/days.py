"""From the flags --from and --to to UTC days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

from trainfleet_exporter.providers.history import DAY, Range

SETTLED = 900
"""Seconds after which even late readings have arrived: younger ones are not written."""
EARLIEST = int(datetime(2018, 1, 1, tzinfo=UTC).timestamp())
"""Before that no cloud had such training jobs: an earlier time is a typing error, and would cost a call a day."""


def moment(text: str) -> int:
    """Unix seconds of an ISO date (0:00 UTC), or of a time with its zone. ValueError for anything else."""
    try:
        return int(datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).timestamp())
    except ValueError:
        found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("without a zone")
    return int(found.timestamp())


def shown(moment: float) -> str:
    """A time for a person."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of(day: Range) -> str:
    """The date of a day."""
    return datetime.fromtimestamp(day.start, UTC).strftime("%Y-%m-%d")


def days(wanted: Range) -> Iterator[Range]:
    """The UTC days of a range; the first and the last may be parts of one."""
    start = wanted.start
    while start < wanted.end:
        end = min((start // DAY + 1) * DAY, wanted.end)
        yield Range(start, end)
        start = end
