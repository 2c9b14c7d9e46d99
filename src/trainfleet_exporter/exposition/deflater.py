"""The threads that pages are deflated in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_THREADS = 2
"""One for the page that is made ready, one for a scrape that has a rest to do meanwhile."""
_NICE = 19
"""So that a scrape need not wait for the milliseconds that the system gives to a thread at a time, where the loop has
to share its core with these. Measured beside polls, one scrape in a hundred took 5 to 6 ms with 0, 3 ms with 19."""


class Deflater:
    """Threads of a board's own: the loop's may all be waiting for a name server that is gone, and pages grow old.

    They are begun when they are first needed, and end with the board.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        """Of who joins a page: scrapes that come together share what the first of them does."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deflate", initializer=_stand_back)

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Do some work aside. zlib lets the event loop go on meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)


def _stand_back() -> None:
    if sys.platform == "linux":  # elsewhere it is not a thread's own
        with contextlib.suppress(OSError):  # refused by whoever has fenced the process in
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
