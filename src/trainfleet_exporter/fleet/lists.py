"""Lists with a token for the next page, read until they are complete, and rows by id. A missing page is an error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.polling import Part, Poll

T = TypeVar("T")
MOST_PAGES = 2_000
"""Pages of one list that are read at most. At the usual limits a poll has time for a few hundred."""


async def pages_by_token(
    read_page: Callable[[str], Awaitable[tuple[Sequence[T | None] | None, str | None]]], operation: str
) -> AsyncIterator[Sequence[T | None]]:
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
