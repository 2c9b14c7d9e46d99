"""Lists that move while they are read: whole, or an error. Unreadable rows do not prove that anything is gone."""

from __future__ import annotations

import pytest

from trainfleet_exporter.fleet.lists import Listing, Page, read_whole_list, with_unread


async def test_the_row_that_came_last_counts() -> None:
    """A job that moves to the next page during the read may have changed meanwhile."""
    old, new = ({"id": "a", "status": status} for status in ("Running", "Failed"))
    assert (await _read(Page(3, [old, {"id": "b"}]), Page(3, [new, {"id": "c"}]))).rows["a"] == new


async def _read(*pages: Page[dict[str, str]]) -> Listing[dict[str, str]]:
    async def page(number: int) -> Page[dict[str, str]]:
        return pages[number]

    return await read_whole_list(page, id_of=lambda row: row.get("id"), operation="ListThings")


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
