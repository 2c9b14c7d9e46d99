"""Pages that are ready before they are asked for: whole, soon, and never in place of something newer that is small."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.exposition import Board, Format, Snapshot, body
from trainfleet_exporter.exposition import board as board_module
from trainfleet_exporter.exposition import crc as crc_module
from trainfleet_exporter.exposition import snapshot as snapshot_module
from trainfleet_exporter.exposition.deflater import Deflater
from trainfleet_exporter.exposition.piece import Piece
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.slices import give_way

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


@pytest.fixture
def deflated(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """Every piece that is deflated ahead of scrapes, as often as it is."""
    pieces: list[Piece] = []
    deflate = Piece.deflate

    def noted(piece: Piece) -> None:
        pieces.append(piece)
        deflate(piece)

    monkeypatch.setattr(Piece, "deflate", noted)
    return pieces


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


def test_what_is_ready_is_sent_although_nobody_asked_before_the_next_change() -> None:
    async def main(board: Board) -> None:
        board.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(10)
        board.put("a", {ONE: [text_of(2, LARGE)]})
        assert shown(board.page()) == {b"1"}

    run(main)


def test_what_is_ready_is_joined_and_deflated_already(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(board: Board) -> None:
        board.put("a", {ONE: [text_of(1, LARGE)], OTHER: [text_of(1, 100)]})
        await asyncio.sleep(10)
        page = board.page()
        monkeypatch.delattr(snapshot_module, "gathered")
        assert all(page.pieces(fmt) for fmt in Format)
        deflated = asyncio.create_task(body(page, Format.OPENMETRICS, gzip=True, extra=b""))
        await asyncio.sleep(0)
        assert deflated.done()  # no thread had to be waited for
        assert zlib.decompress(b"".join(deflated.result()), 31).startswith(b"# HELP")

    run(main)


def test_only_what_changed_is_deflated(deflated: list[Piece]) -> None:
    async def main(board: Board) -> None:
        board.put("a", {family.name: [text_of(1, LARGE)] for family in FAMILIES[:5]})
        await asyncio.sleep(10)
        assert len(deflated) == 5
        board.put("a", {**{family.name: None for family in FAMILIES[:5]}, ONE: [text_of(2, LARGE)]})
        await asyncio.sleep(10)
        assert len(deflated) == 6

    run(main)


def test_what_is_sent_is_deflated_while_others_make_pages_ready_too() -> None:
    async def main(board: Board) -> None:
        for number in range(10):
            board.put(number, {ONE: [text_of(number, 4 * LARGE)]})
            await asyncio.sleep(0)
        await asyncio.sleep(10)
        board.put(0, {ONE: [text_of(20, 4 * LARGE)]})
        while not any(piece.is_deflated for piece in board.snapshot().samples(ONE)[:1]):
            assert not board.page().undeflated()
            await asyncio.sleep(0)
        for number in range(1, 10):
            board.put(number, {ONE: [text_of(number + 20, 4 * LARGE)]})
        settling = asyncio.create_task(board.settled())
        while not settling.done():
            assert not board.page().undeflated()
            await asyncio.sleep(0)
        assert shown(board.page()) == {b"%d" % number for number in range(20, 30)}

    run(main)


def test_who_makes_the_same_page_ready_at_once_deflates_it_once(deflated: list[Piece]) -> None:
    async def main(board: Board) -> None:
        for number in range(20):
            board.put(number, {ONE: [text_of(number, 4 * LARGE)]})
        await asyncio.gather(*(board.settled() for _ in range(3)))  # and `keep_ready` does
        assert len(board.snapshot().samples(ONE)) > 1
        assert Counter(map(id, deflated)) == Counter(map(id, board.snapshot().samples(ONE)))

    run(main)


@pytest.mark.parametrize("overdue", [False, True])
def test_other_work_waits_for_a_page_that_is_overdue(overdue: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if overdue:
        monkeypatch.setattr(board_module, "_OVERDUE", 0.0)
    over = threading.Event()
    slices = 0

    async def work() -> None:
        nonlocal slices
        while True:
            await give_way()
            slices += 1

    async def main(board: Board) -> None:
        loop, deflating = asyncio.get_running_loop(), asyncio.Event()

        def deflate(piece: Piece) -> None:
            loop.call_soon_threadsafe(deflating.set)
            over.wait()

        working = asyncio.create_task(work())
        board.put("a", {ONE: [text_of(1, LARGE)]})
        with monkeypatch.context() as patch:
            patch.setattr(Piece, "deflate", deflate)
            making = asyncio.create_task(board.settled())
            await deflating.wait()
            before = slices
            for _ in range(100):
                await asyncio.sleep(0)
            assert (slices == before) is overdue
            over.set()
            await making
        working.cancel()

    try:
        run(main)
    finally:
        over.set()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_threads_that_deflate_stand_back() -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def main() -> tuple[int, int]:
        return await Deflater().run(priority), priority()

    deflating, ours = asyncio.run(main())
    assert deflating > ours


def test_making_pages_ready_takes_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 0.025)  # a look at it each time costs as much
    monkeypatch.setattr(board_module, "perf_counter", lambda: next(clock))

    async def main() -> None:
        board = Board()
        made: list[Snapshot] = []
        keeping = asyncio.create_task(board.keep_ready(made.append))
        for number in range(1000):
            board.put("a", {ONE: [text_of(number, 100)]})
            await asyncio.sleep(0.01)
        assert 5 < len(made) < 40
        keeping.cancel()

    run_stepped(main)


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


def test_a_page_that_took_long_to_make_ready_does_not_take_the_place_of_a_newer_one() -> None:
    async def main(board: Board) -> None:
        def newest() -> int:
            return max((int(value) for value in shown(board.page())), default=0)

        board.put("large", {ONE: [text_of(0, LARGE)]})
        seen: list[int] = []
        making = asyncio.create_task(board.settled())
        while not making.done():
            board.put("small", {OTHER: [text_of(len(seen) + 1, 100)]})
            seen.append(newest())
            await asyncio.sleep(0)
        assert seen[-1]  # sent while the page without it was still being made ready
        board.put("other", {ONE: [text_of(0, LARGE)]})
        seen.append(newest())
        assert seen == sorted(seen)

    run(main)


def test_pages_do_not_wait_for_threads_of_others() -> None:
    over = threading.Event()

    async def main() -> None:
        board, loop = Board(), asyncio.get_running_loop()
        keeping = asyncio.create_task(board.keep_ready())
        hanging = [loop.run_in_executor(None, over.wait) for _ in range(50)]  # names that nobody resolves
        try:
            board.put("a", {ONE: [text_of(1, LARGE)]})
            async with asyncio.timeout(30):
                await board.settled()
                zipped = await body(board.page(), Format.TEXT, gzip=True, extra=b"")
            assert zlib.decompress(b"".join(zipped), 31).endswith(b" 1\n")
        finally:
            over.set()
            await asyncio.gather(*hanging)
            keeping.cancel()

    asyncio.run(main())


def test_a_failure_leaves_pages_to_scrapes_until_one_can_be_made_ready_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(piece: Piece) -> None:
        raise MemoryError

    async def main(board: Board) -> None:
        board.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(10)
        with monkeypatch.context() as patch:
            patch.setattr(Piece, "deflate", fail)
            board.put("a", {ONE: [text_of(2, LARGE)]})
            await asyncio.sleep(10)
            assert shown(board.page()) == {b"2"}
            board.put("a", {ONE: [text_of(3, LARGE)]})
            assert shown(board.page()) == {b"3"}
            await asyncio.sleep(10)
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        await asyncio.sleep(10)
        board.put("a", {ONE: [text_of(4, LARGE)]})
        assert shown(board.page()) == {b"3"}  # as long as that is not ready
        await asyncio.sleep(10)
        assert shown(board.page()) == {b"4"}
        assert len(caplog.records) == 1
        monkeypatch.setattr(Piece, "deflate", fail)
        board.put("a", {ONE: [text_of(5, LARGE)]})
        await asyncio.sleep(10)
        assert len(caplog.records) == 2  # another time

    run(main)


def test_checksums_are_joined_by_what_was_worked_out_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply, here, worked_out = crc_module._multiply, threading.get_ident(), 0

    def watched(first: int, second: int) -> int:
        nonlocal worked_out
        worked_out += threading.get_ident() == here
        return multiply(first, second)

    async def main(board: Board) -> None:
        board.put("a", {family.name: [text_of(1, 1000)] for family in FAMILIES})
        await asyncio.sleep(10)  # heads are deflated the first time
        board.put("a", {family.name: [text_of(n, 10_000 + 100 * n)] for n, family in enumerate(FAMILIES)})
        monkeypatch.setattr(crc_module, "_multiply", watched)
        await asyncio.sleep(10)
        assert 0 < worked_out <= 2 * 2 * len(FAMILIES)  # a step for each head and each piece, in both formats

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


def test_what_was_sent_before_anybody_kept_pages_ready_is_not_taken_back() -> None:
    async def main() -> None:
        board = Board()
        board.put("a", {ONE: [text_of(1, LARGE)]})
        assert shown(board.page()) == {b"1"}
        keeping = asyncio.create_task(board.keep_ready())
        for _ in range(20):
            await asyncio.sleep(0)
            assert shown(board.page()) == {b"1"}
        keeping.cancel()

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
