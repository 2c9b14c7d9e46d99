"""Pages that are ready before they are asked for: whole, soon, and never in place of something newer that is small."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.exposition import Board, Format, Snapshot, body
from trainfleet_exporter.exposition import board as board_module
from trainfleet_exporter.exposition.families import FAMILIES

ONE, OTHER = FAMILIES[0].name, FAMILIES[5].name
LARGE = board_module._AT_ONCE + 1000
"""Bytes that a scrape leaves to others."""


def text_of(value: int, size: int) -> bytes:
    line = b'x{n="%d"} %d\n' % (value, value)
    return line * (size // len(line) + 1)


def shown(snapshot: Snapshot) -> set[bytes]:
    """The values on a page."""
    page = b"".join(snapshot.pieces(Format.TEXT))
    return {line.rsplit(b" ", 1)[1] for line in page.splitlines() if not line.startswith(b"#")}


def run(main: Callable[[Board], Awaitable[None]]) -> None:
    """Run beside a board that is kept ready."""

    async def whole() -> None:
        board = Board()
        keeping = asyncio.create_task(board.keep_ready())
        await asyncio.sleep(1)
        await main(board)
        keeping.cancel()

    run_stepped(whole)


def test_a_large_change_is_sent_once_it_is_ready_and_until_then_what_was_before() -> None:
    async def main(board: Board) -> None:
        board.put("a", {ONE: [text_of(1, LARGE)]})
        assert shown(board.page()) == set()
        await board.settled()
        assert shown(board.page()) == {b"1"}
        board.put("a", {ONE: [text_of(2, LARGE)], OTHER: [text_of(2, LARGE)]})
        assert shown(board.page()) == {b"1"}
        await asyncio.sleep(10)
        assert shown(board.page()) == {b"2"}
        assert board.page() is board.page() is board.snapshot()

    run(main)


def test_what_is_ready_is_deflated_already() -> None:
    async def main(board: Board) -> None:
        board.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(10)
        page = board.page()
        deflated = asyncio.create_task(body(page, Format.OPENMETRICS, gzip=True, extra=b""))
        await asyncio.sleep(0)
        assert deflated.done()  # no thread had to be waited for
        assert zlib.decompress(b"".join(deflated.result()), 31).startswith(b"# HELP")

    run(main)


def test_a_small_change_is_sent_at_once() -> None:
    async def main(board: Board) -> None:
        board.put("large", {ONE: [text_of(1, 2 * LARGE)]})
        await asyncio.sleep(10)
        board.put("small", {OTHER: [text_of(2, 100)]})
        assert shown(board.page()) == {b"1", b"2"}

    run(main)


def test_no_page_is_older_than_one_that_was_sent_before() -> None:
    async def main(board: Board) -> None:
        board.put("large", {ONE: [text_of(1, 2 * LARGE)]})
        await asyncio.sleep(10)
        board.put("small", {OTHER: [text_of(2, 100)]})
        assert shown(board.page()) == {b"1", b"2"}
        board.put("large", {ONE: [text_of(3, 2 * LARGE)]})
        assert shown(board.page()) == {b"1", b"2"}
        await asyncio.sleep(10)
        assert shown(board.page()) == {b"2", b"3"}

    run(main)


def test_many_changes_at_once_make_one_page() -> None:
    async def main() -> None:
        board = Board()
        made: list[Snapshot] = []
        keeping = asyncio.create_task(board.keep_ready(made.append))
        for number in range(50):
            board.put(number, {ONE: [text_of(number, 100)]})
        await asyncio.sleep(10)
        assert len(made) == 1
        board.put(0, {ONE: [text_of(0, 200)]})
        await asyncio.sleep(10)
        assert len(made) == 2
        await asyncio.sleep(1000)
        assert len(made) == 2
        keeping.cancel()

    run_stepped(main)


def test_a_page_shows_all_of_a_change_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "_SLICE_SECONDS", 0.0)  # a turn for others after every piece

    async def main(board: Board) -> None:
        ready: set[Snapshot] = set()
        for value in range(1, 40):
            board.put("a", {ONE: [text_of(value, LARGE)] * 3, OTHER: [text_of(value, LARGE)] * 3})
            for _ in range(value % 7):  # while a page is being joined
                await asyncio.sleep(0)
            ready.add(board.page())
            if not value % 10:
                await asyncio.sleep(5)
                assert shown(board.page()) == {b"%d" % value}
        assert len(ready) > 3
        assert all(len(shown(page)) <= 1 for page in ready)

    run(main)


def test_without_anybody_who_keeps_pages_ready_a_page_is_what_is_published() -> None:
    async def main() -> None:
        board = Board()
        board.put("a", {ONE: [text_of(1, LARGE)]})
        assert shown(board.page()) == {b"1"}
        keeping = asyncio.create_task(board.keep_ready())
        await asyncio.sleep(5)
        keeping.cancel()
        await asyncio.sleep(0)
        board.put("a", {ONE: [text_of(2, LARGE)]})
        assert shown(board.page()) == {b"2"}

    run_stepped(main)


def test_a_family_that_stays_as_it_is_keeps_its_samples() -> None:
    board = Board()
    board.put("a", {ONE: [text_of(1, 50)], OTHER: [text_of(1, 50)]})
    before = board.series("a")
    pieces = board.snapshot().samples(ONE)
    board.put("a", {ONE: None, OTHER: [text_of(2, 50)]})
    assert board.snapshot().samples(ONE)[0] is pieces[0]
    assert (shown(board.snapshot()), board.series("a")) == ({b"1", b"2"}, before)
    board.put("a", {OTHER: None})
    assert shown(board.snapshot()) == {b"2"}
