"""Lists whose pages have numbers, read until they are complete. A missing page is an error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from trainfleet_exporter.errors import BadAnswer

T = TypeVar("T")
_ROW_TYPES: tuple[type, ...] = (msgspec.Struct, dict)
"""The types of a row; dict if a platform reads plain JSON values."""
_MAX_PAGES = 2_000
"""Pages of one list that are read at most. At the usual limits a poll has time for a few hundred."""
_MORE_PAGES = 10
"""By how many pages a list may grow while it is read."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page as it was answered: how many rows the service says there are in all, and these rows."""

    total: int | None
    rows: Sequence[T | None] | None
    """None if the answer has no list; a row is None that is no object."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A whole list: its rows by id, and how many rows were no objects with an id."""

    rows: dict[str, T]
    malformed: int = 0


async def read_whole_list(
    read_page: Callable[[int], Awaitable[Page[T]]],
    *,
    id_of: Callable[[T], str | None],
    operation: str,
    by_offset: bool = False,
) -> Listing[T]:
    """Return every row, or raise BadAnswer. `read_page` gets the number of a page, from 0 on; with `by_offset`, the
    number of its first row.

    Rows move between pages during the read, so ids may repeat and others may be missed. Each response has the total
    again. The list is complete if it has at least as many rows as the smallest of these totals. If a row leaves,
    another one may be missed, and no total shows that. A caller that must not lose a known row looks it up by its id.
    """
    rows: dict[str, T] = {}
    malformed = read = 0
    smallest, most = math.inf, _MAX_PAGES
    for number in itertools.count():
        if number >= most:
            raise BadAnswer(f"the list does not end after {number} pages", operation=operation)
        page = await read_page(read if by_offset else number)
        items = [] if page.rows is None and page.total == 0 else page.rows
        if page.total is None or not isinstance(items, list):
            raise BadAnswer("the answer has no list, or does not say how long it is", operation=operation)
        if number == 0:
            most = _pages_to_come(page.total, len(items), operation) + _MORE_PAGES
        smallest = min(smallest, page.total)
        read += len(items)
        is_last = not items or read >= page.total
        for row in items:  # without a wait: the next large answer is decoded in the first one (transport.body)
            is_object = isinstance(row, _ROW_TYPES)
            row_id = id_of(row) if row is not None and is_object else None
            if row is not None and row_id:
                rows[row_id] = row
            else:
                malformed += 1
        if is_last:
            break
        del page, items, row  # before the next page is awaited
    if len(rows) + malformed < smallest:
        found = len(rows) + malformed
        raise BadAnswer(f"the list is incomplete: {found} rows of {smallest}", operation=operation)
    return Listing(rows, malformed)


def _pages_to_come(total: int, rows: int, operation: str) -> int:
    """Return the number of pages of a list, from its first page. BadAnswer if there are too many to read."""
    pages = -(-total // max(rows, 1))
    if pages > _MAX_PAGES and rows:
        raise BadAnswer(f"a list of {total} rows in pages of {rows} is implausible", operation=operation)
    return pages


def with_unread(
    found: Iterable[str], known: Iterable[str], *, malformed: int, named: Collection[str] = ()
) -> tuple[str, ...]:
    """The ids of a list, plus the `known` ids that its malformed rows may be about.

    A malformed row does not prove that anything is gone; what is really gone is refused when it is asked for. `named`
    are ids that the list contained, `found` or left out on purpose. If more ids are missing than rows are malformed,
    some are certainly gone. Then none of them is kept, because it is unknown which.
    """
    wanted = tuple(found)
    unseen = [one for one in known if one not in wanted and one not in named]
    return (*wanted, *unseen) if 0 < len(unseen) <= malformed else wanted
