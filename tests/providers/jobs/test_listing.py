"""Lists that move while they are read: whole, or an error; a row that moved is found by reading once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ReferenceType, ref

import msgspec
import pytest

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.jobs.listing import Listing, Page, read_whole_list

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


@pytest.mark.parametrize(("count", "pages"), [(0, 1), (1, 1), (3, 1), (4, 2), (9, 3), (10, 4)])
def test_a_list_that_stays_is_read_once(count: int, pages: int) -> None:
    service = Service([f"row {number}" for number in range(count)])
    assert list(read(service).rows) == service.rows
    assert service.answered == pages


def test_a_long_page_is_let_go_before_others_get_their_turn() -> None:
    class Rows(list[Any]):
        """A list that can be referred to weakly."""

    held: list[ReferenceType[Rows]] = []

    async def read_page(_: int) -> Page[Any]:
        rows = Rows({"id": str(number)} for number in range(2_000))
        held.append(ref(rows))
        asyncio.get_running_loop().call_soon(lambda: left.append(held[-1]() is not None))
        return Page(2_000, rows)

    async def main() -> Listing[Any]:
        listing = await read_whole_list(read_page, id_of=lambda row: str(row["id"]), operation="ListThings")
        await asyncio.sleep(0)
        return listing

    left: list[bool] = []
    assert len(asyncio.run(main()).rows) == 2_000
    assert left == [False]


def test_a_page_is_let_go_before_the_next_is_asked_for() -> None:
    class Rows(list[Any]):
        """A list that can be referred to weakly."""

    class Watched(Service):
        last: ReferenceType[Rows] | None = None

        async def page(self, number: int) -> Page[Any]:
            assert self.last is None or self.last() is None
            page = await super().page(number)
            rows = Rows(page.rows or ())
            self.last = ref(rows)
            return Page(page.total, rows)

    assert len(read(Watched("abcdefghi")).rows) == 9


def test_row_that_moved_between_pages_is_found_by_rereading() -> None:
    def one_leaves_and_one_comes(rows: list[str]) -> None:
        rows[:] = [*rows[1:], "j"]

    def and_again(rows: list[str]) -> None:
        rows[:] = ["x", *rows[:-1]]

    service = Service("abcdefghi", {1: one_leaves_and_one_comes, 2: and_again})  # `d` slips by, `x` comes too late
    assert sorted(read(service).rows) == list("abcdefghix")
    assert service.answered == 6


def test_a_list_that_is_short_of_its_own_total_is_no_list() -> None:
    service = Service("abcdef")
    service.hidden = 1
    with pytest.raises(BadAnswer, match="incomplete: 6 rows of 7"):
        read(service)
    assert service.answered == 6  # twice: two pages, and the one that would hold the missing row


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


def test_of_plain_json_values_only_objects_are_rows() -> None:
    async def page(number: int) -> Page[Any]:
        return Page(4, [{"id": "a"}, "b", 5, ["c"]])

    listing = asyncio.run(read_whole_list(page, id_of=lambda row: str(row["id"]), operation="ListThings"))
    assert listing == Listing({"a": {"id": "a"}}, malformed=3)


def test_the_row_that_came_last_counts() -> None:
    async def page(number: int) -> Page[Any]:
        return Page(2, [{"id": "a", "value": 1}, {"id": "b"}, {"id": "a", "value": 2}])

    listing = asyncio.run(read_whole_list(page, id_of=lambda row: str(row["id"]), operation="ListThings"))
    assert listing.rows == {"a": {"id": "a", "value": 2}, "b": {"id": "b"}}
