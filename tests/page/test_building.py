"""Pages that are built behind the scrapes: whole, soon, and never in place of something newer."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Block, Format, MetricsPage, PageStore
from trainfleet_exporter.page import store as store_module
from trainfleet_exporter.page.deflate import QUICK_BYTES

ONE, OTHER = FAMILIES[0].name, FAMILIES[5].name
LARGE = QUICK_BYTES + 1000
"""Bytes that a scrape does not build itself."""
Compress = Callable[[Mapping[str, Any]], tuple[dict[str, Block], float]]


def text_of(value: int, size: int) -> bytes:
    line = b'x{n="%d"} %d\n' % (value, value)
    return line * (size // len(line) + 1)


def shown(page: MetricsPage) -> set[bytes]:
    """The values on a page."""
    text = page.body(Format.TEXT, b"", gzip=False).joined()
    return {line.rsplit(b" ", 1)[1] for line in text.splitlines() if not line.startswith(b"#")}


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The families of each build, as the thread gets them."""
    builds: list[list[str]] = []
    compress = store_module._compress

    def noted(gathered: Mapping[str, Any]) -> Any:
        builds.append(list(gathered))
        return compress(gathered)

    monkeypatch.setattr(store_module, "_compress", noted)
    return builds


def run(main: Callable[[PageStore], Awaitable[None]]) -> None:
    """Run with a store whose pages are kept built."""

    async def whole() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(1)
        await main(store)
        keeping.cancel()

    run_stepped(whole)


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


def test_no_page_is_older_than_one_that_was_sent_before() -> None:
    async def main(store: PageStore) -> None:
        store.put("large", {ONE: [text_of(1, 2 * LARGE)]})
        await asyncio.sleep(10)
        store.put("small", {OTHER: [text_of(2, 100)]})
        assert shown(store.page()) == {b"1", b"2"}
        store.put("large", {ONE: [text_of(3, 2 * LARGE)]})
        assert shown(store.page()) == {b"1", b"2"}
        await asyncio.sleep(10)
        assert shown(store.page()) == {b"2", b"3"}

    run(main)


class Held:
    """Compressing that waits in its thread until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = asyncio.get_running_loop()
        self._compress: Compress = store_module._compress
        self.begun = asyncio.Event()
        self._go_on = threading.Event()
        monkeypatch.setattr(store_module, "_compress", self._held)

    def _held(self, gathered: Mapping[str, Any]) -> tuple[dict[str, Block], float]:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self._go_on.wait(30)
        return self._compress(gathered)

    def go_on(self) -> None:
        self._go_on.set()


def test_a_slow_build_does_not_replace_a_newer_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        moment = 1
        store, held = PageStore(standings=lambda: moment), Held(monkeypatch)
        store.put("a", {ONE: [text_of(1, LARGE)]})
        building = asyncio.create_task(store.build())
        await held.begun.wait()
        store.put("a", {ONE: [text_of(2, 100)]})
        moment = 2
        page = store.current()
        held.go_on()
        await building
        assert store.current().number == page.number
        assert (shown(store.current()), store.current().standings) == ({b"2"}, 2)

    asyncio.run(main())


def test_a_slow_build_does_not_make_standings_older(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        moment = 1
        store, held = PageStore(standings=lambda: moment), Held(monkeypatch)
        store.put("a", {ONE: [text_of(1, LARGE)]})
        building = asyncio.create_task(store.build())
        await held.begun.wait()
        moment = 2
        assert store.current().standings == 2
        store.put("a", {ONE: [text_of(2, LARGE)]})
        held.go_on()
        await building
        assert (shown(store._page), store._page.standings) == ({b"1"}, 2)

    asyncio.run(main())


def test_others_have_their_turn_between_families() -> None:
    async def main() -> None:
        store, turns = PageStore(), 0
        store.put("a", {family.name: [text_of(1, 10)] for family in FAMILIES[:20]})

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        gathered = await store._gather()
        counting.cancel()
        assert len(gathered) == 20
        assert turns >= 19

    asyncio.run(main())


def test_a_scrape_does_not_wait_for_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = PageStore()
        store.put("a", {ONE: [text_of(1, LARGE)]})
        keeping = asyncio.create_task(store.keep_built())
        await store.build()
        held = Held(monkeypatch)
        store.put("a", {ONE: [text_of(2, LARGE)]})
        await held.begun.wait()
        for fmt in Format:
            plain = store.page().body(fmt, b"", gzip=False).joined()
            assert zlib.decompress(store.page().body(fmt, b"", gzip=True).joined(), 31) == plain
        assert shown(store.page()) == {b"1"}
        held.go_on()
        await store.build()
        assert shown(store.page()) == {b"2"}
        keeping.cancel()

    asyncio.run(main())


def test_a_put_during_a_build_is_not_half_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(0)
        held, show = Held(monkeypatch), store._show
        store.put("a", {ONE: [text_of(1, LARGE)], OTHER: [text_of(1, 100)]})
        await held.begun.wait()
        store.put("a", {ONE: [text_of(2, LARGE)], OTHER: [text_of(2, 100)]})
        assert shown(store.page()) == set()
        store.put("b", {OTHER: [text_of(3, 100)]})  # small, and of a family that is being built
        assert shown(store.page()) == set()
        seen = []

        def watched(*given: Any) -> None:
            show(*given)
            seen.append(shown(store._page))

        monkeypatch.setattr(store, "_show", watched)
        held.go_on()
        await store.build()
        assert seen == [{b"1"}, {b"2", b"3"}]
        assert shown(store.page()) == {b"2", b"3"}
        keeping.cancel()

    asyncio.run(main())


def test_a_page_shows_all_of_a_change_or_nothing() -> None:
    async def main(store: PageStore) -> None:
        seen: dict[int, set[bytes]] = {}
        families = [family.name for family in FAMILIES[:20]]
        for value in range(1, 60):
            store.put("a", {family: [text_of(value, LARGE // 10)] for family in families})
            for _ in range(value % 23):  # while a page is gathered, compressed, or shown
                await asyncio.sleep(0)
            seen[store.page().number] = shown(store.page())
            if not value % 10:
                await asyncio.sleep(5)
                assert shown(store.page()) == {b"%d" % value}
        assert len(seen) > 3
        assert all(len(values) <= 1 for values in seen.values())

    run(main)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 3), min_size=1), st.integers(0, 12), st.booleans()), max_size=12))
def test_any_pages_in_between_are_states_that_were_published(changes: list[tuple[set[int], int, bool]]) -> None:
    async def main() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(0)
        states: list[dict[str, bytes]] = [{}]
        newest = 0
        for value, (families, turns, large) in enumerate(changes):
            size = LARGE if large else 10
            store.put(value % 3, {FAMILIES[family].name: [text_of(value, size)] for family in families})
            states.append({name: b"".join(sum(lines.parts.values(), ())) for name, lines in store._lines.items()})
            for _ in range(turns):
                await asyncio.sleep(0)
                page = store.page()
                found = {name: b"".join(page.samples(name)) for name in store._lines}
                matches = [n for n, state in enumerate(states) if all(found[k] == state.get(k, b"") for k in found)]
                assert matches
                assert matches[-1] >= newest  # never an older one
                newest = next(match for match in matches if match >= newest)
        await store.build()
        assert store.page().number == store.current().number
        keeping.cancel()

    asyncio.run(main())


def test_changes_that_do_not_end_do_not_hold_up_a_build() -> None:
    async def main() -> None:
        store = PageStore()
        families = [family.name for family in FAMILIES[:5]]

        async def change() -> None:
            for value in itertools.count():
                store.put("a", {family: [text_of(value, 100)] for family in families})
                await asyncio.sleep(0)

        changing = asyncio.create_task(change())
        await asyncio.sleep(0)
        async with asyncio.timeout(30):  # the changes themselves never end
            await store.build()
        assert len(shown(store._page)) == 1
        changing.cancel()

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
