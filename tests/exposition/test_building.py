"""Pages that are built for scrapes: whole, once a second, and never in place of something newer."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
import zlib
from collections.abc import Iterable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.exposition import Block, Format, MetricsPage, PageStore
from trainfleet_exporter.families import FAMILIES

ONE, OTHER = FAMILIES[0].name, FAMILIES[5].name
LARGE = 300_000


def text_of(value: int, size: int = 100) -> bytes:
    line = b'x{n="%d"} %d\n' % (value, value)
    return line * (size // len(line) + 1)


def shown(page: MetricsPage) -> set[bytes]:
    """The values on a page."""
    text = page.body(Format.TEXT, b"", gzip=False).joined()
    return {line.rsplit(b" ", 1)[1] for line in text.splitlines() if not line.startswith(b"#")}


async def test_page_shows_a_change_within_a_second() -> None:
    store = PageStore()
    keeping = asyncio.create_task(store.keep_built())
    await asyncio.sleep(0)
    for value in range(1, 5):
        store.put("a", {ONE: [text_of(value)]})
        assert shown(store.page()) == ({b"%d" % (value - 1)} if value > 1 else set())
        await asyncio.sleep(1.001)
        assert shown(store.page()) == {b"%d" % value}
    keeping.cancel()


def test_only_families_that_changed_are_compressed() -> None:
    store = PageStore()
    first = {family.name: [text_of(1, LARGE)] for family in FAMILIES[:5]}
    store.put("a", first)
    before = store.page().families
    store.put("a", {**first, ONE: [text_of(2, LARGE)]})
    after = store.page().families
    assert [family for family in first if after[family] is not before[family]] == [ONE]


@pytest.mark.parametrize(("took", "pages"), [(0.0, 100), (0.1, 100), (0.5, 22), (2.0, 6)])
async def test_builds_come_once_a_second_and_take_a_tenth_of_the_time(
    took: float, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(0.0, took)
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))

    store = PageStore()
    keeping = asyncio.create_task(store.keep_built())
    for value in range(1000):  # for a hundred seconds
        store.put("a", {ONE: [text_of(value)]})
        await asyncio.sleep(0.1)
    assert store.page().number == pytest.approx(pages, abs=2)
    await asyncio.sleep(100)
    built = store.page().number
    await asyncio.sleep(1000)  # nothing has changed
    assert store.page().number == built
    keeping.cancel()


async def test_standing_is_as_old_as_the_samples_of_its_page() -> None:
    moment = 1
    store = PageStore(standing=lambda: moment)
    keeping = asyncio.create_task(store.keep_built())
    await asyncio.sleep(0.5)
    store.put("a", {ONE: [text_of(1)]})
    moment = 2
    assert (shown(store.page()), store.page().standing) == (set(), 1)
    store.build()
    assert (shown(store.page()), store.page().standing) == ({b"1"}, 2)
    moment = 3
    await asyncio.sleep(1)  # nothing has changed but the standing
    assert (shown(store.page()), store.page().standing) == ({b"1"}, 3)
    keeping.cancel()


async def test_while_builds_fail_the_latest_page_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_memory(_: Iterable[bytes]) -> Block:
        raise MemoryError

    moment = 1
    store = PageStore(standing=lambda: moment)
    keeping = asyncio.create_task(store.keep_built())
    store.put("a", {ONE: [text_of(1)]})
    await asyncio.sleep(2.5)
    for times in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(Block, "of", no_memory)
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


def test_a_page_never_changes() -> None:
    store = PageStore()
    store.put("a", {ONE: [text_of(1)]})
    old = store.current()
    store.put("a", {ONE: [text_of(2)]})
    store.put("b", {OTHER: [text_of(3)]})
    store.drop("a")
    assert (shown(old), shown(store.current())) == ({b"1"}, {b"3"})


def test_page_is_held_once_with_its_gzip_and_released_with_its_parts() -> None:
    store, size = PageStore(), 100 * LARGE
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for part in range(100):
            store.put(part, {ONE: [text_of(part, LARGE)]})
        store.build()
        for fmt in Format:
            store.page().body(fmt, b"", gzip=True)
            store.page().body(fmt, b"", gzip=False)
        assert tracemalloc.get_traced_memory()[0] - before < size * 1.2
        for part in range(100):
            store.drop(part)
        store.build()
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()


LINES = st.dictionaries(st.sampled_from([ONE, OTHER]), st.lists(st.sampled_from([b"a 1\n", b"b 2\n", b""]), max_size=3))
Step = tuple[int, dict[str, list[bytes]] | None, bool]
STEPS = st.lists(st.tuples(st.integers(0, 3), st.none() | LINES, st.booleans()), max_size=20)


@given(STEPS)
def test_any_sequence_of_puts_and_drops_is_shown_in_whole(
    steps: list[tuple[int, dict[str, list[bytes]] | None, bool]],
) -> None:
    """A part keeps its place within a family until the family loses it. Pages between steps change nothing."""
    store, expected = PageStore(), {ONE: dict[int, bytes](), OTHER: dict[int, bytes]()}
    for part, lines, looks in [*steps, (9, {}, True)]:
        if lines is not None:
            store.put(part, lines)
        elif part in store.parts:
            store.drop(part)
        for family, texts in expected.items():
            if text := b"".join((lines or {}).get(family, [])):
                texts[part] = text
            else:
                texts.pop(part, None)
        if looks:
            plain = store.current().body(Format.TEXT, b"own 1\n", gzip=False).joined()
            samples = [line for line in plain.splitlines(keepends=True) if not line.startswith(b"#")]
            assert b"".join(samples) == b"".join(b"".join(texts.values()) for texts in expected.values()) + b"own 1\n"
            zipped = store.page().body(Format.TEXT, b"own 1\n", gzip=True).joined()
            inflater = zlib.decompressobj(31)
            assert (inflater.decompress(zipped), inflater.eof, inflater.unused_data) == (plain, True, b"")
