"""The table of the days, and the check of the rows that must stay flat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_KIB = 1024.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The allowed growth after the first day: `share` of the value, or `more`, if that is larger."""

    share: float = 0.0
    more: float = 0.0

    def allows(self, first: float, last: float) -> bool:
        """Return whether the growth is within the limit."""
        return last - first <= max(first * self.share, self.more)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `unit` is its divisor in the table. A row without a limit is not judged."""

    name: str
    title: str
    limit: Limit | None = None
    unit: float = 1.0


ROWS: Sequence[Row] = (
    Row("tasks", "asyncio tasks", Limit(more=3)),
    Row("descriptors", "open file descriptors", Limit(more=3)),
    Row("threads", "threads", Limit(more=4)),
    Row("live", "live jobs on the page", Limit()),
    Row("series", "series of the clouds", Limit(share=0.02)),
    Row("parts", "parts that the page store keeps", Limit(more=2)),
    Row("own series", "series of the exporter itself", Limit(share=0.1)),
    Row("text", "page as text, KiB", Limit(share=0.02), _KIB),
    Row("openmetrics", "page as OpenMetrics, KiB", Limit(share=0.02), _KIB),
    Row("deflated", "page gzipped, KiB", Limit(share=0.05), _KIB),
    Row("allocated: own", "allocated by the exporter's own code, KiB", Limit(share=0.05), _KIB),
    Row("reachable", "held by the exporter, from any allocator, KiB", Limit(share=0.05), _KIB),
    Row("own objects", "objects of the exporter's own classes", Limit(share=0.05)),
    Row("allocated: tables", "tables of small dicts that the exporter created, KiB", None, _KIB),
    Row("allocated: libraries", "allocated by libraries for the whole process, KiB", None, _KIB),
    Row("allocated: simulator", "allocated by the simulator, KiB", None, _KIB),
    Row("all objects", "objects of the garbage collector, whole process", None),
    Row("blocks", "blocks of Python's allocator, whole process", None),
    Row("resident", "resident memory of the whole process, MiB", None, _KIB * _KIB),
)
"""Rows without a limit grow with the simulated clouds, which are in the same process and keep every job."""


def failures(days: Sequence[Mapping[str, float]], rows: Sequence[Row] = ROWS) -> list[str]:
    """Return the rows that grew by more than their limit from the first to the last day."""
    first, last = days[0], days[-1]
    return [
        f"{row.title}: {_number(first[row.name], row)} on day 1, {_number(last[row.name], row)} on day {len(days)}"
        for row in rows
        if row.limit is not None and row.name in first and not row.limit.allows(first[row.name], last[row.name])
    ]


def table(days: Sequence[Mapping[str, float]], rows: Sequence[Row] = ROWS) -> str:
    """Return a table of the days, with the growth from the first to the last."""
    head = ["", *(f"day {number}" for number in range(1, len(days) + 1)), "growth", "allowed"]
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for row in rows:
        if row.name not in days[0]:
            continue
        first, last = days[0][row.name], days[-1][row.name]
        growth = f"{(last - first) / first:+.1%}" if first else f"{last - first:+,.0f}"
        cells = [row.title, *(_number(day[row.name], row) for day in days), growth, _allowed(row.limit)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def growing(title: str, first: Counter[str], last: Counter[str], most: int = 8) -> str:
    """Return a list of what grew most between two days."""
    grown = sorted(((last[name] - first[name], name) for name in last.keys() | first.keys()), reverse=True)[:most]
    lines = [f"- {name}: {growth:+,} ({first[name]:,} → {last[name]:,})" for growth, name in grown if growth > 0]
    return "\n".join([f"{title}:", "", *(lines or ["- nothing"])])


def _number(value: float, row: Row) -> str:
    return f"{value / row.unit:,.1f}" if row.unit > 1 else f"{value:,.0f}"


def _allowed(limit: Limit | None) -> str:
    if limit is None:
        return "not judged"
    if limit.more:
        return f"+{limit.more:.0f}"
    return f"+{limit.share:.0%}" if limit.share else "0"
