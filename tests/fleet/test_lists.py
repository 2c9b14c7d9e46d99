"""Lists that move while they are read: whole, or an error. Unreadable rows do not prove that anything is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.fleet.lists import Listing, Page, read_whole_list, with_unread

SIZE = 3


class Service:
    """A list in pages of three. `after` changes it when so many pages have been answered."""

    def __init__(self, rows: Sequence[str], after: dict[int, Callable[[list[str]], None]] | None = None) -> None:
        self.rows = list(rows)
        self.hidden = 0
        self.answered = 0
        self._after = after or {}

    async def page(self, number: int) -> Page[Any]:
        rows = [{"id": row} for row in self.rows[number * SIZE : (number + 1) * SIZE]]
        page = Page(len(self.rows) + self.hidden, rows)
        self.answered += 1
        if self.answered in self._after:
            self._after[self.answered](self.rows)
        return page


def read(service: Service) -> Listing[Any]:
    def id_of(row: Any) -> str:
        return str(row["id"])

    return asyncio.run(read_whole_list(service.page, id_of=id_of, operation="ListThings"))


def test_a_list_that_is_short_of_its_own_total_is_no_list() -> None:
    service = Service("abcdef")
    service.hidden = 1
    with pytest.raises(BadAnswer, match="incomplete: 6 rows of 7"):
        read(service)
    assert service.answered == 3  # two pages, and the one that would hold the missing row


def test_rows_that_go_leave_a_smaller_list_that_is_whole() -> None:
    service = Service("abcdefg", {1: lambda rows: rows.remove("g")})
    assert sorted(read(service).rows) == list("abcdef")
    assert service.answered == 2


class Thing(msgspec.Struct):
    """A row of a cloud that describes its payloads."""

    name: str | None = None


def test_rows_without_id_and_non_objects_are_counted() -> None:
    async def page(number: int) -> Page[Thing]:
        return Page(5, [Thing("a"), Thing(""), None, Thing(), Thing("b")])

    listing = asyncio.run(read_whole_list(page, id_of=lambda row: row.name, operation="ListThings"))
    assert listing == Listing({"a": Thing("a"), "b": Thing("b")}, malformed=3)


def test_the_row_that_came_last_counts() -> None:
    async def page(number: int) -> Page[Any]:
        return Page(2, [{"id": "a", "value": 1}, {"id": "b"}, {"id": "a", "value": 2}])

    listing = asyncio.run(read_whole_list(page, id_of=lambda row: str(row["id"]), operation="ListThings"))
    assert listing.rows == {"a": {"id": "a", "value": 2}, "b": {"id": "b"}}


@pytest.mark.parametrize(
    ("found", "known", "malformed", "named", "expected"),
    [
        ("ab", "abc", 0, "ab", "ab"),  # every row was read: what is missing is gone
        ("ab", "abc", 1, "ab", "abc"),  # the broken row may be that of c
        ("ab", "abcd", 1, "ab", "ab"),  # one of c and d is surely gone, but not which
        ("ab", "abcd", 2, "ab", "abcd"),
        ("ab", "abc", 1, "abc", "ab"),  # c was read, and left out on purpose
        ("abe", "abc", 1, "abe", "abec"),
        ("", "", 3, "", ""),
    ],
)
def test_what_was_known_is_kept_for_a_broken_row(
    found: str, known: str, malformed: int, named: str, expected: str
) -> None:
    assert with_unread(found, known, malformed=malformed, named=named) == tuple(expected)


def test_it_does_not_grow_while_a_row_stays_broken() -> None:
    known: tuple[str, ...] = tuple("abcde")
    for number in range(200):
        found = [*known[1:5], f"new-{number}"]
        known = with_unread(found, known, malformed=1, named=found)
        assert len(known) <= 6
