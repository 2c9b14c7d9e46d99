"""Lists that move while they are read: whole, or an error; a row that moved is found by reading once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ReferenceType, ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.listing import Listing, Page, packed, read_whole_list, unpacked

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
        listing = await read_whole_list(
            read_page, id_of=lambda row: str(row["id"]), operation="ListThings", keep=packed
        )
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


def test_what_moved_while_it_was_read_is_found_by_reading_once_more() -> None:
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


def test_what_is_kept_of_a_row_is_what_the_list_has() -> None:
    service = Service("abcdefghi", {1: lambda rows: rows.append("j")})
    listing = asyncio.run(
        read_whole_list(
            service.page, id_of=lambda row: str(row["id"]), operation="ListThings", keep=lambda row: row["id"].upper()
        )
    )
    assert listing.rows == {row: row.upper() for row in service.rows}


def test_rows_that_were_taken_already_are_kept_as_they_are() -> None:
    async def page(number: int) -> Page[Any]:
        return Page(3, [("a", "taken"), {"id": "b"}, {"id": ""}, ("a", "again")])

    listing = asyncio.run(
        read_whole_list(page, id_of=lambda row: str(row["id"]), operation="ListThings", keep=lambda row: "kept")
    )
    assert listing == Listing({"a": "again", "b": "kept"}, malformed=1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(2**63, 2**65) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_a_row_that_was_packed_is_the_same_again(row: dict[str, Any]) -> None:
    assert repr(unpacked(packed(row))) == repr(row)  # as text: NaN, and 1 or 1.0 or True


def test_a_usual_row_is_packed_to_bytes_and_one_beyond_reason_is_kept_as_it_is() -> None:
    assert isinstance(packed({"id": "a", "nodes": [{"count": 2}]}), bytes)
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"a": nested}
    for row in ({"id": 10**30}, nested):
        assert packed(row) is row
        assert unpacked(row) is row
