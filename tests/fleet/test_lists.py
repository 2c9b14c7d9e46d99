"""Lists that move while they are read."""

from __future__ import annotations

from trainfleet_exporter.fleet.lists import Page, read_whole_list


async def test_the_row_that_came_last_counts() -> None:
    """A job that moves to the next page during the read may have changed meanwhile."""
    old, new = ({"id": "a", "status": status} for status in ("Running", "Failed"))
    pages = [Page(3, [old, {"id": "b"}]), Page(3, [new, {"id": "c"}])]

    async def page(number: int) -> Page[dict[str, str]]:
        return pages[number]

    found = await read_whole_list(page, id_of=lambda row: row.get("id"), operation="ListThings")
    assert found.rows["a"] == new
