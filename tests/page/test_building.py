"""Pages that are built for scrapes: whole, once a second, and never in place of something newer."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Block, Format, MetricsPage, PageStore
from trainfleet_exporter.page import store as store_module
from trainfleet_exporter.process.threads import THREAD_NAME

ONE, OTHER = FAMILIES[0].name, FAMILIES[5].name
LARGE = 300_000

Compress = Callable[[Mapping[str, Any]], tuple[dict[str, Block], float]]


def text_of(value: int, size: int = 100) -> bytes:
    line = b'x{n="%d"} %d\n' % (value, value)
    return line * (size // len(line) + 1)


def shown(page: MetricsPage) -> set[bytes]:
    """The values on a page."""
    text = page.body(Format.TEXT, b"", gzip=False).joined()
    return {line.rsplit(b" ", 1)[1] for line in text.splitlines() if not line.startswith(b"#")}


def join_builds() -> None:
    """Wait until the threads of ended builds let go of their lines."""
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The families of each build that had any."""
    builds: list[list[str]] = []
    compress = store_module._compress

    def noted(gathered: Mapping[str, Any]) -> Any:
        if gathered:
            builds.append(list(gathered))
        return compress(gathered)

    monkeypatch.setattr(store_module, "_compress", noted)
    return builds


def test_page_shows_a_change_within_a_second() -> None:
    async def main() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(0)
        for value in range(1, 5):
            store.put("a", {ONE: [text_of(value)]})
            assert shown(store.page()) == ({b"%d" % (value - 1)} if value > 1 else set())
            await asyncio.sleep(1.001)
            assert shown(store.page()) == {b"%d" % value}
        keeping.cancel()

    run_stepped(main)


def test_only_families_that_changed_are_compressed(built: list[list[str]]) -> None:
    store = PageStore()
    first = {family.name: [text_of(1, LARGE)] for family in FAMILIES[:5]}
    store.put("a", first)
    before = store.page().families
    store.put("a", {**first, ONE: [text_of(2, LARGE)]})
    after = store.page().families
    assert built == [list(first), [ONE]]
    assert [family for family in first if after[family] is not before[family]] == [ONE]


def test_many_changes_at_once_make_one_page(built: list[list[str]]) -> None:
    async def main() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(0.5)
        for number in range(50):
            store.put(number, {ONE: [text_of(number)]})
        await asyncio.sleep(10)
        assert len(built) == 1
        await asyncio.sleep(1000)
        assert len(built) == 1
        keeping.cancel()

    run_stepped(main)


@pytest.mark.parametrize(("took", "pages"), [(0.0, 100), (0.1, 100), (0.5, 22), (2.0, 6)])
def test_builds_come_once_a_second_and_take_a_tenth_of_the_time(
    took: float, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compress = store_module._compress
    builds: list[float] = []

    def timed(gathered: Mapping[str, Any]) -> tuple[dict[str, Block], float]:
        builds.append(took)
        return compress(gathered)[0], took

    monkeypatch.setattr(store_module, "_compress", timed)

    async def main() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        for value in range(1000):  # for a hundred seconds
            store.put("a", {ONE: [text_of(value)]})
            await asyncio.sleep(0.1)
        assert len(builds) == pytest.approx(pages, abs=2)
        keeping.cancel()

    run_stepped(main)


def test_standing_is_as_old_as_the_samples_of_its_page() -> None:
    async def main() -> None:
        moment = 1
        store = PageStore(standing=lambda: moment)
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(0.5)
        store.put("a", {ONE: [text_of(1)]})
        moment = 2
        assert (shown(store.page()), store.page().standing) == (set(), 1)
        await store.build()
        assert (shown(store.page()), store.page().standing) == ({b"1"}, 2)
        moment = 3
        await asyncio.sleep(1)  # nothing has changed but the standing
        assert (shown(store.page()), store.page().standing) == ({b"1"}, 3)
        keeping.cancel()

    run_stepped(main)


def test_replaced_blocks_are_let_go() -> None:
    async def main() -> None:
        store = PageStore()
        store.put("a", {ONE: [text_of(1, 50 * LARGE)]})
        await store.build()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for value in range(2, 5):
            store.put("a", {ONE: [text_of(value, 50 * LARGE)]})
            await store.build()
        assert tracemalloc.get_traced_memory()[0] - before < 50 * LARGE * 1.1
        store.put("a", {ONE: [text_of(6)]})
        await store.build()
        join_builds()
        assert tracemalloc.get_traced_memory()[0] - before < LARGE

    try:
        asyncio.run(main())
    finally:
        tracemalloc.stop()


def test_while_builds_fail_the_latest_page_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_memory(_: Mapping[str, Any]) -> Any:
        raise MemoryError

    async def main() -> None:
        moment = 1
        store = PageStore(standing=lambda: moment)
        keeping = asyncio.create_task(store.keep_built())
        store.put("a", {ONE: [text_of(1)]})
        await asyncio.sleep(2.5)
        for times in (1, 2):
            with monkeypatch.context() as patch:
                patch.setattr(store_module, "_compress", no_memory)
                store.put("a", {ONE: [text_of(2)]})
                moment = 2
                await asyncio.sleep(10)
                assert (shown(store.page()), store.page().standing) == ({b"1"}, 1)
                assert [record.levelname for record in caplog.records] == ["ERROR"] * times
            await asyncio.sleep(1)
            assert (shown(store.page()), store.page().standing) == ({b"2"}, 2)
            store.put("a", {ONE: [text_of(1)]})
            moment = 1
            await asyncio.sleep(2)
        keeping.cancel()

    run_stepped(main)


class Held:
    """Compressing that waits in its thread until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = asyncio.get_running_loop()
        self._compress: Compress = store_module._compress
        self.begun = asyncio.Event()
        self._go_on = threading.Event()
        monkeypatch.setattr(store_module, "_compress", self._held)

    def _held(self, gathered: Mapping[str, Any]) -> tuple[dict[str, Block], float]:
        if threading.current_thread() is not threading.main_thread():
            self._loop.call_soon_threadsafe(self.begun.set)
            assert self._go_on.wait(30)
        return self._compress(gathered)

    def go_on(self) -> None:
        self._go_on.set()


def test_a_slow_build_does_not_replace_a_newer_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        moment = 1
        store, held = PageStore(standing=lambda: moment), Held(monkeypatch)
        store.is_kept_built = True
        store.put("a", {ONE: [text_of(1, LARGE)]})
        building = asyncio.create_task(store.build())
        await held.begun.wait()
        assert shown(store.page()) == set()
        store.put("a", {ONE: [text_of(2)]})
        moment = 2
        store.current()
        held.go_on()
        await building
        assert (shown(store.page()), store.page().standing) == ({b"2"}, 2)

    asyncio.run(main())


def test_a_put_during_a_build_is_not_half_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store, held = PageStore(), Held(monkeypatch)
        store.is_kept_built = True
        store.put("a", {ONE: [text_of(1, LARGE)], OTHER: [text_of(1)]})
        building = asyncio.create_task(store.build())
        await held.begun.wait()
        store.put("a", {ONE: [text_of(2, LARGE)], OTHER: [text_of(2)]})
        store.put("b", {OTHER: [text_of(3)]})
        held.go_on()
        await building
        assert shown(store.page()) == {b"1"}
        await store.build()
        assert shown(store.page()) == {b"2", b"3"}

    asyncio.run(main())


def test_builds_do_not_wait_for_threads_of_others() -> None:
    over = threading.Event()

    async def main() -> None:
        store, loop = PageStore(), asyncio.get_running_loop()
        hanging = [loop.run_in_executor(None, over.wait) for _ in range(50)]  # names that no server resolves
        try:
            store.put("a", {ONE: [text_of(1, LARGE)]})
            async with asyncio.timeout(30):
                await store.build()
        finally:
            over.set()
            await asyncio.gather(*hanging)

    asyncio.run(main())


def test_without_a_task_each_reader_builds_its_page() -> None:
    store = PageStore()
    for value in (b"1", b"2"):
        store.put("a", {ONE: [text_of(int(value), LARGE)]})
        assert shown(store.page()) == {value}
