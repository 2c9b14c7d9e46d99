"""Pages that are built behind the scrapes: whole, soon, and never in place of something newer."""

from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from tests.page.building import LARGE, ONE, OTHER, run, shown, text_of
from tests.support.clock import run_stepped
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Block, PageStore
from trainfleet_exporter.page import store as store_module
from trainfleet_exporter.page.deflate import QUICK_BYTES


def test_a_large_change_is_sent_once_it_is_built() -> None:
    async def main(store: PageStore) -> None:
        store.put("a", {ONE: [text_of(1, LARGE)]})
        assert shown(store.page()) == set()
        await store.build()
        assert shown(store.page()) == {b"1"}
        store.put("a", {ONE: [text_of(2, LARGE)], OTHER: [text_of(2, LARGE)]})
        assert shown(store.page()) == {b"1"}
        await asyncio.sleep(10)
        assert shown(store.page()) == {b"2"}
        assert store.page().number == store.current().number

    run(main)


def test_page_is_built_before_the_first_scrape() -> None:
    async def main(store: PageStore) -> None:
        store.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(10)
        store.put("a", {ONE: [text_of(2, LARGE)]})
        assert shown(store.page()) == {b"1"}

    run(main)


def test_only_families_that_changed_are_compressed(built: list[list[str]]) -> None:
    async def main(store: PageStore) -> None:
        first = {family.name: [text_of(1, LARGE)] for family in FAMILIES[:5]}
        store.put("a", first)
        await asyncio.sleep(10)
        assert built == [list(first)]
        before = store.page().families
        store.put("a", {**first, ONE: [text_of(2, LARGE)]})
        await asyncio.sleep(10)
        assert built[1:] == [[ONE]]
        after = store.page().families
        assert [family for family in first if after[family] is not before[family]] == [ONE]

    run(main)


def test_builds_at_once_compress_everything_once(built: list[list[str]]) -> None:
    async def main(store: PageStore) -> None:
        store.put("a", {ONE: [text_of(1, LARGE)], OTHER: [text_of(1, LARGE)]})
        await asyncio.gather(*(store.build() for _ in range(3)))  # and `keep_built` does
        assert [family for families in built for family in families] == [ONE, OTHER]

    run(main)


def test_a_small_change_is_sent_at_once() -> None:
    async def main(store: PageStore) -> None:
        store.put("large", {ONE: [text_of(1, 2 * LARGE)]})
        await asyncio.sleep(10)
        store.put("small", {OTHER: [text_of(2, 100)]})
        assert shown(store.page()) == {b"1", b"2"}

    run(main)


def test_what_is_small_again_is_sent_at_once() -> None:
    async def main(store: PageStore) -> None:
        for value in range(1, 6):
            store.put("a", {ONE: [text_of(value, QUICK_BYTES * 2 // 3)]})
            assert shown(store.page()) == {b"%d" % value}

    run(main)


def test_many_changes_at_once_make_one_page(built: list[list[str]]) -> None:
    async def main(store: PageStore) -> None:
        for number in range(50):
            store.put(number, {ONE: [text_of(number, LARGE)]})
        await asyncio.sleep(10)
        assert len(built) == 1
        store.put(0, {ONE: [text_of(0, LARGE + 100)]})
        await asyncio.sleep(10)
        assert len(built) == 2
        await asyncio.sleep(1000)
        assert len(built) == 2

    run(main)


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

    async def main(store: PageStore) -> None:
        for value in range(1000):  # for a hundred seconds
            store.put("a", {ONE: [text_of(value, 100)]})
            await asyncio.sleep(0.1)
        assert len(builds) == pytest.approx(pages, abs=2)

    run(main)


def test_compressing_is_timed_by_the_cpu_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5.0, 7.5])
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    assert store_module._compress({})[1] == 2.5


def test_what_was_built_is_sent_though_the_next_build_is_not_due() -> None:
    async def main(store: PageStore) -> None:
        store.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(0.1)
        store.put("a", {ONE: [text_of(2, LARGE)]})
        await asyncio.sleep(0.1)
        assert shown(store.page()) == {b"1"}
        await store.build()
        assert shown(store.page()) == {b"2"}

    run(main)


def test_standings_are_as_old_as_the_samples_of_their_page() -> None:
    async def main() -> None:
        moment = 1
        store = PageStore(standings=lambda: moment)
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(1)
        store.put("a", {ONE: [text_of(1, LARGE)]})
        await store.build()
        assert (shown(store.page()), store.page().standings) == ({b"1"}, 1)
        moment = 2
        assert store.page().standings == 2  # nothing has changed: the page is of this moment
        store.put("a", {ONE: [text_of(2, LARGE)]})
        moment = 3
        assert (shown(store.page()), store.page().standings) == ({b"1"}, 2)  # the change is not built
        await store.build()
        assert (shown(store.page()), store.page().standings) == ({b"2"}, 3)
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
        keeping = asyncio.create_task(store.keep_built())
        store.put("a", {ONE: [text_of(6, 100)]})
        await asyncio.sleep(0.1)
        assert tracemalloc.get_traced_memory()[0] - before < LARGE
        keeping.cancel()

    try:
        asyncio.run(main())
    finally:
        tracemalloc.stop()


def no_memory(_: Mapping[str, Any]) -> Any:
    raise MemoryError


def no_thread(*_: object) -> Any:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    "failing",
    [(store_module, "_compress", no_memory), (threading.Thread, "start", no_thread)],
    ids=["memory", "thread"],
)
def test_while_builds_fail_scrapes_build_for_themselves(
    failing: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(store: PageStore) -> None:
        store.put("a", {ONE: [text_of(1, LARGE)]})
        await asyncio.sleep(10)
        with monkeypatch.context() as patch:
            patch.setattr(*failing)
            store.put("a", {ONE: [text_of(2, LARGE)]})
            await asyncio.sleep(10)
            assert shown(store.page()) == {b"2"}
            store.put("a", {ONE: [text_of(3, LARGE)]})
            assert shown(store.page()) == {b"3"}
            await asyncio.sleep(10)
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        await asyncio.sleep(10)
        store.put("a", {ONE: [text_of(4, LARGE)]})
        assert shown(store.page()) == {b"3"}  # as long as that is not built
        await asyncio.sleep(10)
        assert shown(store.page()) == {b"4"}
        assert len(caplog.records) == 1
        monkeypatch.setattr(*failing)
        store.put("a", {ONE: [text_of(5, LARGE)]})
        await asyncio.sleep(10)
        assert len(caplog.records) == 2  # another time
        monkeypatch.undo()

    run(main)


def test_without_a_task_that_builds_a_page_is_what_is_published() -> None:
    async def main() -> None:
        store = PageStore()
        store.put("a", {ONE: [text_of(1, LARGE)]})
        assert shown(store.page()) == {b"1"}
        keeping = asyncio.create_task(store.keep_built())
        for _ in range(20):
            await asyncio.sleep(0)
            assert shown(store.page()) == {b"1"}  # what was sent before is not taken back
        await asyncio.sleep(5)
        keeping.cancel()
        await asyncio.sleep(0)
        store.put("a", {ONE: [text_of(2, LARGE)]})
        assert shown(store.page()) == {b"2"}

    run_stepped(main)
