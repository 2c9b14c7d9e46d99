"""A store that builds pages in stepped time, and lines to put into it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.support.clock import run_stepped
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Format, MetricsPage, PageStore
from trainfleet_exporter.page.deflate import QUICK_BYTES

ONE, OTHER = FAMILIES[0].name, FAMILIES[5].name
LARGE = QUICK_BYTES + 1000
"""Bytes that a scrape does not build itself."""


def text_of(value: int, size: int) -> bytes:
    line = b'x{n="%d"} %d\n' % (value, value)
    return line * (size // len(line) + 1)


def shown(page: MetricsPage) -> set[bytes]:
    """The values on a page."""
    text = page.body(Format.TEXT, b"", gzip=False).joined()
    return {line.rsplit(b" ", 1)[1] for line in text.splitlines() if not line.startswith(b"#")}


def run(main: Callable[[PageStore], Awaitable[None]]) -> None:
    """Run with a store whose pages are kept built."""

    async def whole() -> None:
        store = PageStore()
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(1)
        await main(store)
        keeping.cancel()

    run_stepped(whole)
