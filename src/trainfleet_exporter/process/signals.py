"""Signals: SIGTERM and SIGINT stop the process in bounded time, SIGHUP reloads the config.

    running ──SIGTERM, SIGINT──► stopping ──everything closed──► exit code 0, or 1 for an interrupted command
       │                            ├──second signal───────────► 1, at once
       └──SIGHUP──► reload          └──4 seconds───────────────► as if everything were closed

Python handles signals between two instructions of the main thread, so a call into C code may hold them up without end.
A thread therefore gets the number of each signal, at once, by a socket.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)

STOP_SECONDS = 4.0
"""Seconds from a signal to the end of the process, even if something hangs. The docs promise five seconds, which leaves
time on a busy machine."""


class Signals:
    """Handles SIGTERM and SIGINT while it is entered, and SIGHUP from `accept_hangups` on. For the main thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._actions = dict[int, Callable[[], object]]()
        """What signals call in the loop."""
        self._came = set[int]()
        self._exit_code = 1

    def __enter__(self) -> Self:
        numbers, self._sending = socket.socketpair()
        self._sending.setblocking(False)
        threading.Thread(target=self._follow, args=(numbers,), daemon=True).start()
        self._wakeup = signal.set_wakeup_fd(self._sending.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, _leave_to_thread) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._sending.close()  # which ends the thread

    def accept_hangups(self) -> None:
        """From now on no SIGHUP ends the process. One that comes before its `on` is handled then."""
        signal.signal(signal.SIGHUP, _leave_to_thread)

    def on(self, number: int, action: Callable[[], object]) -> None:
        """Call `action` in the loop at each signal, and now if one came already. Several may count as one."""
        self._actions[number] = action
        if number in self._came:
            action()

    def serve(self, work: Coroutine[Any, Any, None]) -> int:
        """Run a coroutine until a signal cancels it: the normal end, with exit code 0. SIGHUP is ignored afterwards."""
        self._exit_code = 0
        try:
            self.finish(work)
        except KeyboardInterrupt:
            log.info("stopped")
        finally:  # the interpreter would restore the default, which ends the process
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return 0

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that ends without a signal. A signal cancels it, and this raises KeyboardInterrupt."""

        async def main() -> T:
            task = asyncio.create_task(work)
            self._loop = asyncio.get_running_loop()
            self.on(signal.SIGTERM, task.cancel)
            return await task

        try:
            return asyncio.run(main())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def _follow(self, numbers: socket.socket) -> None:
        """Handle the numbers of signals, in a thread, until the other end is closed."""
        end = threading.Timer(STOP_SECONDS, lambda: os._exit(self._exit_code))
        end.daemon = True
        try:
            while received := numbers.recv(1):
                number = signal.SIGTERM if received[0] == signal.SIGINT else received[0]
                if number == signal.SIGTERM:  # a library may handle others
                    if number in self._came:
                        os._exit(1)
                    end.start()
                self._came.add(number)
                if self._loop is not None and number in self._actions:
                    with suppress(RuntimeError):  # the loop is closed: the process is about to end
                        self._loop.call_soon_threadsafe(self._actions[number])
        finally:
            end.cancel()
            numbers.close()


def _leave_to_thread(*_: object) -> None:
    """Keep a signal from its default action."""
