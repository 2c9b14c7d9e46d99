"""The thread that polls: an event loop of its own, so that no computation of a poll delays a scrape.

    main thread: signals, web server ──call, post──► poll thread: schedule, collectors, transport, reloads, lease, pages

What crosses: coroutines to run (`call`), functions to call (`post`), and immutable values, such as a page.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from trainfleet_exporter.process.threads import POLLS

log = logging.getLogger(__name__)

T = TypeVar("T")
_JOIN_SECONDS = 0.3
_SWITCH_SECONDS = 0.0002
"""The main thread waits at most this long for computations of polls. Python's 5 ms would delay scrapes often."""
_NICENESS = 12
"""Of the poll thread: where it shares a core with the main thread, Linux lets scrapes go first."""


class PollThread:
    """A thread with an event loop. It starts with the first call, and ends with the process at the latest.

    If an error ends its loop, the log has the traceback, and it calls `died` at home.
    """

    def __init__(self, died: Callable[[], object]) -> None:
        self._died = died
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name=POLLS, daemon=True)

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and wait for its result. Cancelling the wait cancels the coroutine. Raises
        RuntimeError if the thread has ended."""
        if self._thread.ident is None:
            self._home = asyncio.get_running_loop()
            sys.setswitchinterval(_SWITCH_SECONDS)
            self._thread.start()
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop.result())
        except RuntimeError:
            work.close()
            raise
        return await asyncio.wrap_future(future)

    def post(self, function: Callable[[], object]) -> None:
        """Call a function in the thread soon. Does nothing before the first call, and after the end."""
        if self._loop.done() and not self._loop.result().is_closed():
            self._loop.result().call_soon_threadsafe(function)

    def post_home(self, function: Callable[[], object]) -> None:
        """Call a function soon in the loop that called first."""
        with suppress(RuntimeError):  # the loop is closed: the process is about to end
            self._home.call_soon_threadsafe(function)

    async def close(self) -> None:
        """Cancel all that still runs there, and end the thread. A thread that hangs ends with the process."""
        if self._loop.done():
            self.post(self._stopped.set)
            await asyncio.to_thread(self._thread.join, _JOIN_SECONDS)

    def _run(self) -> None:
        try:
            if sys.platform == "linux":  # elsewhere, a thread has no niceness of its own
                with suppress(OSError):  # a filter of system calls may forbid it
                    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
            asyncio.run(self._main())
        except BaseException:
            log.critical("the poll thread died; the exporter exits", exc_info=True)
            self.post_home(self._died)

    async def _main(self) -> None:
        self._stopped = asyncio.Event()
        self._loop.set_result(asyncio.get_running_loop())
        await self._stopped.wait()


class OneLoop(PollThread):
    """Runs polls in the caller's loop, as tests and the demo do."""

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def post(self, function: Callable[[], object]) -> None:
        function()

    def post_home(self, function: Callable[[], object]) -> None:
        function()
