"""The page store: pages that never change, and memory that is released."""

from __future__ import annotations

import asyncio
import tracemalloc

from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Format, MetricsPage, PageStore

FEW = tuple(FAMILIES[n] for n in (0, 2, 3, 16, 20))
NAMES = [family.name for family in FEW]


def lines(family: str, part: int, version: int, first: int, count: int) -> bytes:
    return b"".join(
        f'{family}{{provider="p",part="{part}",n="{n}"}} {version}\n'.encode() for n in range(first, first + count)
    )


def text_of(page: MetricsPage, fmt: Format = Format.TEXT) -> bytes:
    return page.body(fmt, b"", gzip=False).joined().removesuffix(fmt.end)


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
