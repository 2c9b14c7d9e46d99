"""Builds of a page next to scrapes, changes and other tasks: nothing half, nothing older, and no waiting."""

from __future__ import annotations

import asyncio
import itertools
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.page.building import LARGE, ONE, OTHER, run, shown, text_of
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Block, Format, PageStore
from trainfleet_exporter.page import store as store_module

Compress = Callable[[Mapping[str, Any]], tuple[dict[str, Block], float]]


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
