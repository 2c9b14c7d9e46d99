"""Reading a list page by page until it is whole: half a list is never taken for a whole one."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from trainfleet_exporter.errors import BadAnswer

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
T = TypeVar("T")
_MAX_PAGES = 2_000
"""Pages of one list that are read at most. At the usual limits a poll has time for a few hundred."""
_MORE_PAGES = 10
"""By how many pages a list may grow while it is read."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page as it was answered: how many rows the service says there are in all, and these rows."""

    total: int | None
    rows: Sequence[T | None] | None
    """None where the answer has no list; a row is None that is no object."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A whole list: its rows by id (or what was kept of them), and how many rows were no objects with an id."""

    rows: dict[str, T]
    malformed: int = 0


Row: TypeAlias = dict[str, Any]
Taken: TypeAlias = tuple[str, object]
"""A row that was looked at when it was decoded: its id, and what the listing has of it. JSON has no tuples."""


def as_it_is(row: Row) -> object:
    """Keep a row as it is."""
    return row


def packed(row: Row) -> object:
    """Keep a row as bytes: a quarter of its size, and nothing that the garbage collector has to look through."""
    try:
        return _pack(row)
    except (OverflowError, ValueError, RecursionError):  # numbers of more than 64 bits, nesting beyond reason
        return row


def unpacked(kept: Any) -> Row:
    """The row again that was packed, or was not."""
    row: Row = _unpack(kept) if isinstance(kept, bytes) else kept
    return row


async def read_whole_list(
    read_page: Callable[[int], Awaitable[Page[Any]]],
    *,
    id_of: Callable[[Any], str],
    operation: str,
    keep: Callable[[Row], object] = as_it_is,
) -> Listing[Any]:
    """Every page, counted from 0, or BadAnswer.

    Rows move between pages while they are read, so that ids repeat and others are passed over; each answer tells the
    total anew. The list is whole when at least as many rows came as the smallest total that was told on the way. One
    that is not is read once more, for what came meanwhile. A row that leaves lets another one slip by, which no total
    tells: who must not lose a row that was there before asks for it by its id.

    `keep` makes of a row what the listing has of it. Until it is whole, thousands of rows are many objects.
    """
    reading = _Reading(read_page, id_of, keep, operation)
    missing = await reading.all_pages()
    if missing:
        missing = await reading.all_pages()
    if missing:
        total = len(reading.rows) + reading.malformed
        raise BadAnswer(f"the list is incomplete: {total} rows of {total + missing}", operation=operation)
    return Listing(reading.rows, reading.malformed)


class _Reading:
    """The rows of a list, from one or more readings of its pages."""

    def __init__(
        self,
        read_page: Callable[[int], Awaitable[Page[Any]]],
        id_of: Callable[[Any], str],
        keep: Callable[[Row], object],
        operation: str,
    ) -> None:
        self.rows: dict[str, Any] = {}
        self.malformed = 0
        self._read_page = read_page
        self._id_of = id_of
        self._keep = keep
        self._operation = operation

    async def all_pages(self) -> int:
        """Read from the first page to the last; how many rows are missing."""
        self.malformed = read = 0
        smallest: int | None = None
        most = _MAX_PAGES
        for number in itertools.count():
            if number >= most:
                raise BadAnswer(f"the list does not end after {number} pages", operation=self._operation)
            page = await self._read_page(number)
            items = [] if page.rows is None and page.total == 0 else page.rows
            if page.total is None or not isinstance(items, list):
                raise BadAnswer("the answer has no list, or does not say how long it is", operation=self._operation)
            if number == 0:
                most = self._pages_to_come(page.total, len(items)) + _MORE_PAGES
            smallest = page.total if smallest is None else min(smallest, page.total)
            read += len(items)
            is_last = not items or read >= page.total
            for item in items:  # without a wait: the next large answer is decoded in the first one (transport.body)
                if isinstance(item, tuple):
                    self.rows[item[0]] = item[1]
                    continue
                row_id = self._id_of(item) if isinstance(item, dict | msgspec.Struct) else ""
                if row_id:
                    self.rows[row_id] = self._keep(item)
                else:
                    self.malformed += 1
            if is_last:
                break
            del page, items, item  # before anything is waited for
        return max(0, (smallest or 0) - len(self.rows) - self.malformed)

    def _pages_to_come(self, total: int, rows: int) -> int:
        """How many pages a list has, by its first one. BadAnswer if nobody would wait for them."""
        pages = -(-total // max(rows, 1))
        if pages > _MAX_PAGES and rows:
            raise BadAnswer(
                f"a list of {total} rows in pages of {rows} is taken for a mistake", operation=self._operation
            )
        return pages
