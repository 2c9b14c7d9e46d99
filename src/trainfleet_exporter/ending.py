"""Ending on SIGTERM and SIGINT: in good order and in bounded time; asked twice, at once.

    running ──signal──► ending ──everything closed──► exit code 0, or 1 for a command that was cut short
                          ├──second signal──────────► 1, at once
                          └──4 seconds──────────────► as if everything were closed

The handlers are the process's, not the event loop's, and a thread of its own keeps the time and hears the second
signal: it is told of signals by the interpreter's innermost part, before any Python code would run, so that even a call
which hangs (a disk, a thread that is waited for) does not hold up the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LONGEST = 4.0
"""Seconds from a signal to the end of the process, whatever still hangs. Five are promised: a busy machine takes its
time to run us at all."""


class Ending:
    """What SIGTERM and SIGINT do, while it is entered. Only in the main thread can anything be done about signals."""

    def __init__(self) -> None:
        self._asked = False
        self._code = 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin: Callable[[], object] = lambda: None
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            told, telling = os.pipe()
            os.set_blocking(telling, False)
            threading.Thread(target=self._watch, args=[told], daemon=True).start()
            self._undo.callback(os.close, telling)
            self._undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(telling, warn_on_full_buffer=False))
            for number in SIGNALS:
                self._undo.callback(signal.signal, number, signal.signal(number, self._handle))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._undo.close()

    def serve(
        self, run: Callable[[asyncio.Event], Awaitable[None]], *, after: Callable[[], object] = lambda: None
    ) -> int:
        """Run until a signal sets the event; that is how it is meant to end, with exit code 0. Then call `after`."""
        stopped = asyncio.Event()
        self._code = 0

        async def main() -> None:
            self._may_end(stopped.set)
            try:
                if self._asked:  # while it was starting
                    log.info("stopped")
                else:
                    await run(stopped)
            finally:
                after()

        asyncio.run(main())
        return 0

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what comes to an end by itself. A signal cuts it short: its `finally` runs, then KeyboardInterrupt."""

        async def main() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._may_end(task.cancel)
            if self._asked:
                work.close()
                raise asyncio.CancelledError
            return await work

        try:
            return asyncio.run(main())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def _may_end(self, begin: Callable[[], object]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin)

    def _watch(self, told: int) -> None:
        """Until the other end of the pipe is closed: end the process at the second signal, or some time after one."""
        count, left = 0, None
        with os.fdopen(told, "rb", buffering=0) as signals:
            while True:
                began = time.monotonic()
                readable, _, _ = select.select([signals], [], [], left)
                if not readable:
                    os._exit(self._code)
                numbers = signals.read(64)
                if not numbers:
                    return
                count += sum(number in SIGNALS for number in numbers)
                if count > 1:
                    os._exit(1)  # asked twice: whatever holds things up is not waited for
                if count:
                    left = LONGEST if left is None else max(0.0, left - (time.monotonic() - began))
