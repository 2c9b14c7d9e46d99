"""The threads that pages are deflated in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_THREADS = 2
"""One for the page that is made ready, one for a scrape that has a rest to do meanwhile."""


class Deflater:
    """Threads of a board's own: the loop's may all be waiting for a name server that is gone, and pages grow old.

    They are begun when they are first needed, and end with the board.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        """Of who joins a page: scrapes that come together share what the first of them does."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deflate")

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Do some work aside. zlib lets the event loop go on meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
