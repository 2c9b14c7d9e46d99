"""The page store against a naive one: the same lines, no empty heads, pages that never change."""

from __future__ import annotations

import asyncio
import tracemalloc
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Format, MetricsPage, PageStore

from .reading import lines_by_family

FEW = tuple(FAMILIES[n] for n in (0, 2, 3, 16, 20))
NAMES = [family.name for family in FEW]
Rendered = dict[str, list[bytes]]


def lines(family: str, part: int, version: int, first: int, count: int) -> bytes:
    return b"".join(
        f'{family}{{provider="p",part="{part}",n="{n}"}} {version}\n'.encode() for n in range(first, first + count)
    )


@st.composite
def puts(draw: st.DrawFn) -> tuple[int, Rendered]:
    part, version = draw(st.integers(0, 8)), draw(st.integers(0, 3))
    rendered: Rendered = {}
    for family in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        counts = draw(st.lists(st.integers(0, 4), max_size=3))
        rendered[family] = [lines(family, part, version, 10 * n, count) for n, count in enumerate(counts)]
    return part, rendered


def text_of(page: MetricsPage, fmt: Format = Format.TEXT) -> bytes:
    return page.body(fmt, b"", gzip=False).joined().removesuffix(fmt.end)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), puts()), max_size=30), st.sampled_from(Format))
def test_any_sequence_of_puts_and_drops(sequence: list[tuple[bool, tuple[int, Rendered]]], fmt: Format) -> None:
    store = PageStore(FEW)
    naive: dict[str, dict[int, bytes]] = {name: {} for name in NAMES}
    for drop, (part, rendered) in sequence:
        if drop:
            store.drop(part)
        else:
            store.put(part, rendered)
        for name in NAMES:
            text = b"" if drop else b"".join(rendered.get(name, []))
            if text:
                naive[name][part] = text  # in its place, or at the end
            else:
                naive[name].pop(part, None)
        found = lines_by_family(text_of(store.current(), fmt))
        for name in NAMES:
            shown = name.removesuffix("_total") if fmt is Format.OPENMETRICS else name
            assert found.get(shown, []) == b"".join(naive[name].values()).split(b"\n")[:-1]
    for part in range(9):
        counts = {name: texts[part].count(b"\n") for name, texts in naive.items() if part in texts}
        assert store.series(part) == counts
    order = [NAMES.index(name) for name in lines_by_family(text_of(store.current()))]
    assert order == sorted(order)


def test_a_page_has_the_same_number_while_nothing_changes() -> None:
    store = PageStore()
    empty = store.current()
    assert store.current().number == empty.number
    assert text_of(empty) == b""
    store.put("a", {NAMES[0]: [lines(NAMES[0], 0, 0, 0, 3)]})
    first = store.current()
    assert first.number > empty.number
    store.put("a", {NAMES[0]: [lines(NAMES[0], 0, 0, 0, 3)], NAMES[1]: [b""]})
    store.drop("never there")
    assert store.current().number == first.number
    assert store.current().families is first.families


def test_families_that_do_not_change_keep_their_blocks() -> None:
    store = PageStore()
    for part in range(20):
        store.put(part, {name: [lines(name, part, 0, 0, 3)] for name in NAMES})
    before = store.current().families
    store.put(7, {**{name: [lines(name, 7, 0, 0, 3)] for name in NAMES}, NAMES[1]: [lines(NAMES[1], 7, 1, 0, 3)]})
    after = store.current().families
    assert [name for name in NAMES if after[name] is not before[name]] == [NAMES[1]]


def test_a_page_refers_to_the_texts_that_were_put() -> None:
    store, text = PageStore(), lines(NAMES[0], 0, 0, 0, 3)
    store.put("a", {NAMES[0]: [text]})
    assert store.current().samples(NAMES[0])[0] is text
    assert store.current().samples(NAMES[1]) == store.current().samples("unheard_of") == ()


def test_a_page_never_changes() -> None:
    store = PageStore()
    store.put("a", {NAMES[0]: [lines(NAMES[0], 0, 0, 0, 3)], NAMES[1]: [lines(NAMES[1], 0, 0, 0, 1)]})
    old = store.current()
    before = text_of(old)
    store.put("a", {NAMES[0]: [lines(NAMES[0], 0, 1, 0, 5)]})
    store.put("b", {NAMES[1]: [lines(NAMES[1], 1, 1, 0, 5)]})
    store.drop("a")
    assert text_of(old) == before
    # also when it is read for the first time only after the changes
    assert text_of(old, Format.OPENMETRICS).count(b"\n") == before.count(b"\n")


def test_unknown_families_are_refused_and_change_nothing() -> None:
    store = PageStore(FEW)
    store.put("a", {NAMES[0]: [b"x{} 1\n"]})
    before = store.current()
    with pytest.raises(KeyError, match="no such family: one, other"):
        store.put("a", {NAMES[0]: [b"x{} 2\n"], "other": [b"y{} 1\n"], "one": []})
    assert store.current().number == before.number
    assert store.series("a") == {NAMES[0]: 1}


def test_nothing_is_kept_of_a_part_that_was_dropped() -> None:
    class Key:
        """A part's name, which shows whether it is still held."""

    store, key = PageStore(), Key()
    held = weakref.ref(key)
    store.put(key, {NAMES[0]: [b"x{} 1\n"]})
    assert list(store.parts) == [key]
    store.current()
    store.drop(key)
    store.current()
    assert list(store.parts) == []
    del key
    assert held() is None


def test_memory_is_released_after_drops() -> None:
    async def main() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for part in range(100):
            store.put(part, {name: [b"%s %d\n" % (name.encode(), part) * 1000] for name in NAMES})
        store.build()
        assert tracemalloc.get_traced_memory()[0] - before > 10_000_000
        for part in range(100):
            store.drop(part)
        store.build()
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
        keeping.cancel()

    try:
        asyncio.run(main())
    finally:
        tracemalloc.stop()


def test_the_page_is_held_once_with_its_gzip() -> None:
    async def main() -> None:
        store = PageStore()
        texts = {part: b"%s %d\n" % (NAMES[0].encode(), part) * 20_000 for part in range(20)}
        size = sum(map(len, texts.values()))
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for part, text in texts.items():
            store.put(part, {NAMES[0]: [text]})
        store.build()
        for fmt in Format:
            store.page().body(fmt, b"", gzip=True)
            store.page().body(fmt, b"", gzip=False)
        assert tracemalloc.get_traced_memory()[0] - before < size / 5

    try:
        asyncio.run(main())
    finally:
        tracemalloc.stop()
