"""Complete lists, by pages with numbers or with tokens, and rows by id. A missing page is an error."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.polling import Part, Poll

T = TypeVar("T")
MOST_PAGES = 2_000
"""Pages of one list that are read at most. At the usual limits a poll has time for a few hundred."""


class Page(NamedTuple, Generic[T]):
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

    Rows move between pages during the read, so ids may repeat (the last row counts) and others may be missed. Each
    response has the total again. The list is complete if it has at least as many rows as the smallest of these totals.
    If a row leaves, another one may be missed, and no total shows that. A caller that must not lose a known row looks
    it up by its id.
    """
    malformed = read = 0
    rows, smallest = dict[str, T](), math.inf
    for number in range(MOST_PAGES):
        page = await read_page(read if by_offset else number)
        items = [] if page.rows is None and page.total == 0 else page.rows
        if page.total is None or items is None:
            raise BadAnswer("the answer has no list, or does not say how long it is", operation=operation)
        if number == 0 and page.total > MOST_PAGES * len(items) > 0:
            raise BadAnswer(f"a list of {page.total} rows in pages of {len(items)} is implausible", operation=operation)
        smallest, read = min(smallest, page.total), read + len(items)
        is_last = not items or read >= page.total
        for row in items:  # without a wait: the next large answer is decoded in the first one (transport.body)
            if row is not None and (row_id := id_of(row)):
                rows[row_id] = row
            else:
                malformed += 1
        if is_last:
            break
        del page, items, row  # before the next page is awaited
    if (found := len(rows) + malformed) < smallest or not is_last:
        raise BadAnswer(f"the list is incomplete: {found} rows of {smallest}", operation=operation)
    return Listing(rows, malformed)


async def pages_by_token(
    read_page: Callable[[str], Awaitable[tuple[T | None, str | None]]], operation: str
) -> AsyncIterator[T]:
    """Yield the rows of each page. `read_page` gets a token, empty for the first page, and returns rows and next token.

    Raises BadAnswer if a page has no list, if a token comes twice, or if the list does not end.
    """
    token, seen = "", set[str]()
    while True:
        rows, following = await read_page(token)
        if rows is None:
            raise BadAnswer("the answer has no list", operation=operation)
        yield rows
        del rows  # to free memory before the next call
        if not following:
            return
        if following in seen or len(seen) == MOST_PAGES:
            raise BadAnswer("the same page came twice, or the list does not end", operation=operation)
        seen.add(following)
        token = following


def distinct(
    part: Part | Poll, found: Iterable[T | None], id_of: Callable[[T], str], elsewhere: Collection[str] = ()
) -> tuple[dict[str, T], int]:
    """Translated rows by id, and how many are malformed (None). An id that comes again, or is one of `elsewhere`, is
    dropped as a duplicate."""
    kept: dict[str, T] = {}
    malformed = 0
    for item in found:
        if item is None:
            malformed += 1
        elif (key := id_of(item)) in kept or key in elsewhere:
            part.dropped("duplicate")
        else:
            kept[key] = item
    part.dropped("malformed", malformed)
    return kept, malformed


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
