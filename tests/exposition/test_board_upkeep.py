"""The board over time: how old what it says beside its samples is, when pages are made, what it lets go of."""

from __future__ import annotations

import asyncio
import itertools
import weakref

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.exposition import Board, Snapshot
from trainfleet_exporter.exposition import board as board_module
from trainfleet_exporter.exposition.piece import Piece

from .test_ready import LARGE, ONE, OTHER, shown, text_of


def test_what_is_said_beside_samples_is_as_old_as_their_page() -> None:
    async def main() -> None:
        moment = 1
        board = Board(beside=lambda: moment)
        keeping = asyncio.create_task(board.keep_ready())
        await asyncio.sleep(1)
        board.put("a", {ONE: [text_of(1, LARGE)]})
        await board.settled()
        assert (shown(board.page()), board.page().beside) == ({b"1"}, 1)
        moment = 2
        assert board.page().beside == 2  # nothing has changed: the page is of this moment
        board.put("a", {ONE: [text_of(2, LARGE)]})
        moment = 3
        assert (shown(board.page()), board.page().beside) == ({b"1"}, 2)  # the change is not ready
        await board.settled()
        assert (shown(board.page()), board.page().beside) == ({b"2"}, 3)
        keeping.cancel()

    run_stepped(main)


def test_what_is_settled_is_sent_though_the_next_page_is_not_due_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 100.0)  # to make a page took so long that the rest after it is the longest
    monkeypatch.setattr(board_module, "perf_counter", lambda: next(clock))

    async def main() -> None:
        loop, board = asyncio.get_running_loop(), Board()
        made: list[float] = []
        keeping = asyncio.create_task(board.keep_ready(lambda page: made.append(loop.time())))
        await asyncio.sleep(1)
        board.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(0.5)
        assert len(made) == 1
        board.put("a", {ONE: [text_of(2, LARGE)]})
        deflate = Piece.deflate

        def interrupted(piece: Piece) -> None:
            loop.call_soon_threadsafe(board.put, "b", {OTHER: [text_of(3, LARGE)]})
            deflate(piece)

        with monkeypatch.context() as patch:
            patch.setattr(Piece, "deflate", interrupted)
            await board.settled()
        assert shown(board.page()) == {b"2"}  # and not yet what has come meanwhile
        assert len(made) == 1
        keeping.cancel()

    run_stepped(main)


def test_a_page_may_be_settled_where_nobody_keeps_pages_ready() -> None:
    async def main() -> None:
        board = Board()
        for value in (b"1", b"2"):
            board.put("a", {ONE: [text_of(int(value), LARGE)]})
            await board.settled()
            assert not board.page().undeflated()
            assert shown(board.page()) == {value}

    run_stepped(main)


@pytest.mark.parametrize(("took", "pages"), [(0.0, 100), (1000.0, 10)])
def test_the_next_page_waits_as_long_as_the_last_one_took_and_a_second_at_most(
    took: float, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(1e6, took)
    monkeypatch.setattr(board_module, "perf_counter", lambda: next(clock))

    async def main() -> None:
        board = Board()
        made: list[Snapshot] = []
        keeping = asyncio.create_task(board.keep_ready(made.append))
        for value in range(100):  # for ten seconds
            board.put("a", {ONE: [text_of(value, 100)]})
            await asyncio.sleep(0.1)
        keeping.cancel()
        assert len(made) == pytest.approx(pages, abs=1)

    run_stepped(main)


def test_a_page_that_is_sent_no_more_is_held_no_more() -> None:
    async def main() -> None:
        board = Board()
        keeping = asyncio.create_task(board.keep_ready())
        await asyncio.sleep(1)
        board.put("large", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(10)
        held = weakref.ref(board.page())
        board.put("small", {OTHER: [text_of(2, 100)]})
        assert shown(board.page()) == {b"1", b"2"}
        assert held() is None
        keeping.cancel()

    run_stepped(main)


def test_that_not_even_the_first_page_can_be_made_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(piece: Piece) -> None:
        raise MemoryError

    monkeypatch.setattr(Piece, "deflate", fail)

    async def main() -> None:
        board = Board()
        keeping = asyncio.create_task(board.keep_ready())
        board.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(10)
        assert shown(board.page()) == {b"1"}
        assert not keeping.done()
        keeping.cancel()

    run_stepped(main)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_every_unknown_family_is_named() -> None:
    with pytest.raises(KeyError, match="no such family: one, other"):
        Board().put("a", {"other": [], ONE: [], "one": []})


def test_of_a_part_that_was_dropped_nothing_is_kept() -> None:
    class Key:
        """A part's name, of which it can be told whether it is still held."""

    board, key = Board(), Key()
    held = weakref.ref(key)
    board.put(key, {ONE: [text_of(1, 100)]})
    board.snapshot()
    board.drop(key)
    board.snapshot()
    del key
    assert held() is None
