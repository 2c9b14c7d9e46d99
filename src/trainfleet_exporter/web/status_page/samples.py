"""Reading published sample lines back, a little at a time: the loop has scrapes to answer meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from time import perf_counter

from trainfleet_exporter.exposition import Snapshot

SLICE_SECONDS = 0.002
_LOOK = 64
"""Lines between two looks at the clock."""

_VALUE = r'([^"\\]*(?:\\.[^"\\]*)*)'
_ESCAPE = re.compile(r"\\(.)")

Row = tuple[tuple[str, ...], float]
"""Label values, as they stand on the page (see `unescape`), and the sample's value."""


class Slices:
    """Gives the event loop back whenever about 2 ms of work are done."""

    def __init__(self) -> None:
        self._began = perf_counter()

    async def rest(self) -> None:
        """Called between two small steps."""
        if perf_counter() - self._began >= SLICE_SECONDS:
            await asyncio.sleep(0)
            self._began = perf_counter()


def _line(family: str, labels: tuple[str, ...]) -> re.Pattern[bytes]:
    """One line of a family that has these labels, all of them, in this order."""
    pairs = ",".join(f'{label}="{_VALUE}"' for label in labels)
    return re.compile(rf"^{family}\{{{pairs}\}} (\S+)$".encode(), re.MULTILINE)


async def rows(snapshot: Snapshot, slices: Slices, family: str, *labels: str) -> AsyncIterator[Row]:
    """All samples of a family."""
    pattern, count = _line(family, labels), 0
    for piece in snapshot.samples(family):
        for match in pattern.finditer(piece.data):
            *values, number = match.groups()
            yield tuple([value.decode() for value in values]), float(number)
            count += 1
            if count % _LOOK == 0:
                await slices.rest()
        await slices.rest()


async def row(snapshot: Snapshot, slices: Slices, family: str, provider: str, job_id: str, *labels: str) -> Row | None:
    """The first sample of one job, with the values of its further labels.

    It is sought as bytes, which takes a millisecond for thousands of jobs with long names. What begins like this stands
    at the beginning of a line: within a label's value its quotes would have a backslash before them.
    """
    beginning = f'{family}{{provider="{provider}",job_id="{job_id}"'.encode()
    pattern = _line(family, ("provider", "job_id", *labels))
    for piece in snapshot.samples(family):
        place = piece.data.find(beginning)
        if place >= 0 and (match := pattern.match(piece.data, place)):
            *values, number = match.groups()
            return tuple([value.decode() for value in values[2:]]), float(number)
        await slices.rest()
    return None


def unescape(value: str) -> str:
    """A label's value as it was given."""
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], value) if "\\" in value else value
