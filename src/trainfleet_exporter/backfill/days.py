"""UTC days from the flags --from and --to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

from trainfleet_exporter.providers.past import DAY, Range

SETTLED = 900
"""Seconds after which late readings have arrived. Younger readings are not written."""
EARLIEST = int(datetime(2018, 1, 1, tzinfo=UTC).timestamp())
"""No cloud had such training jobs earlier, so an earlier time is a mistake. It would cost one call for each day."""


def moment(text: str) -> int:
    """Parse an ISO date (0:00 UTC), or a time with its zone, into Unix seconds. ValueError for other texts."""
    try:
        return int(datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).timestamp())
    except ValueError:
        found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("without a zone")
    return int(found.timestamp())


def shown(moment: float) -> str:
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of(day: Range) -> str:
    return datetime.fromtimestamp(day.start, UTC).strftime("%Y-%m-%d")


def days(wanted: Range) -> Iterator[Range]:
    """Return the UTC days of a range. The first and the last may be partial."""
    start = wanted.start
    while start < wanted.end:
        end = min((start // DAY + 1) * DAY, wanted.end)
        yield Range(start, end)
        start = end
