"""Reading published sample lines back, a little at a time: the loop has scrapes to answer meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from trainfleet_exporter.page import Page

_LINES = 256
"""Lines that are read, in a millisecond, between two turns of others."""
_BYTES = 1 << 19
"""Bytes that are searched in as long."""

_VALUE = r'([^"\\]*(?:\\.[^"\\]*)*)'
_ESCAPE = re.compile(r"\\(.)")

Row = tuple[tuple[str, ...], float]
"""Label values, as they stand on the page (see `unescape`), and the sample's value."""


def _line(family: str, labels: tuple[str, ...]) -> re.Pattern[bytes]:
    """One line of a family that has these labels, all of them, in this order."""
    pairs = ",".join(f'{label}="{_VALUE}"' for label in labels)
    return re.compile(rf"^{family}\{{{pairs}\}} (\S+)$".encode(), re.MULTILINE)


async def rows(page: Page, family: str, *labels: str) -> AsyncIterator[Row]:
    """All samples of a family."""
    pattern, count = _line(family, labels), 0
    for text in page.samples(family):
        for match in pattern.finditer(text):
            *values, number = match.groups()
            yield tuple([value.decode() for value in values]), float(number)
            count += 1
            if count % _LINES == 0:
                await asyncio.sleep(0)


async def row(page: Page, family: str, provider: str, job_id: str, *labels: str) -> Row | None:
    """The first sample of one job, with the values of its further labels.

    It is sought as bytes, which takes a millisecond for thousands of jobs with long names. What begins like this stands
    at the beginning of a line: within a label's value its quotes would have a backslash before them.
    """
    beginning = f'{family}{{provider="{provider}",job_id="{job_id}"'.encode()
    pattern, sought = _line(family, ("provider", "job_id", *labels)), 0
    for text in page.samples(family):
        place = text.find(beginning)
        if place >= 0 and (match := pattern.match(text, place)):
            *values, number = match.groups()
            return tuple([value.decode() for value in values[2:]]), float(number)
        sought += len(text)
        if sought >= _BYTES:
            await asyncio.sleep(0)
            sought = 0
    return None


def unescape(value: str) -> str:
    """A label's value as it was given."""
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], value) if "\\" in value else value
