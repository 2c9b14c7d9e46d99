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
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, Self, TypeVar

T = TypeVar("T")

STOP_SECONDS = 4.0
"""Seconds from a signal to the end of the process, even if something hangs. The docs promise five seconds, which leaves
time on a busy machine."""
_ACTIONS: dict[int, str] = {signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGHUP: "reload"}

log = logging.getLogger(__name__)


class Signals(ExitStack):
    """Handles SIGTERM and SIGINT while it is entered, and SIGHUP from `accept_hangups` on. For the main thread."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_loop: dict[str, Callable[[], object]] = {}
        """What signals call in the loop: `stop` and `reload`."""
        self._came: set[str] = set()
        self._over = threading.Event()
        self._exit_code = 1

    def __enter__(self) -> Self:
        numbers, sending = socket.socketpair()
        sending.setblocking(False)
        threading.Thread(target=self._follow, args=(numbers,), daemon=True).start()
        self.callback(self._over.set)
        self.enter_context(sending)  # closing it ends the thread
        self.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False))
        for number in (signal.SIGTERM, signal.SIGINT):
            self.callback(signal.signal, number, signal.signal(number, _leave_to_thread))
        return self

    def accept_hangups(self) -> None:
        """From now on no SIGHUP ends the process. One that comes before `on_hangup` is handled then."""
        signal.signal(signal.SIGHUP, _leave_to_thread)

    def on_hangup(self, reload: Callable[[], object]) -> None:
        """Call `reload` in the running loop at each SIGHUP, and now if one came already. Several may count as one."""
        self._in_loop["reload"] = reload
        if "reload" in self._came:
            reload()

    def serve(self, run: Callable[[asyncio.Event], Awaitable[None]]) -> int:
        """Run until a signal sets the event: the normal end, with exit code 0. SIGHUP is ignored afterwards."""
        stopped = asyncio.Event()
        self._exit_code = 0

        async def main() -> None:
            self._begin(stopped.set)
            if stopped.is_set():  # during the start
                log.info("stopped")
            else:
                await run(stopped)

        try:
            asyncio.run(main())
        finally:  # the interpreter would restore the default, which ends the process
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return 0

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that ends without a signal. A signal cancels it: its `finally` blocks run, then this raises
        KeyboardInterrupt."""

        async def main() -> T:
            task = asyncio.create_task(work)
            self._begin(task.cancel)
            return await task

        try:
            return asyncio.run(main())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def _begin(self, stop: Callable[[], object]) -> None:
        self._in_loop["stop"], self._loop = stop, asyncio.get_running_loop()
        if "stop" in self._came:
            stop()

    def _follow(self, numbers: socket.socket) -> None:
        """Handle the numbers of signals, in a thread."""
        with numbers:
            while received := numbers.recv(1):
                kind = _ACTIONS.get(received[0], "")
                if kind == "stop" in self._came:
                    os._exit(1)
                if kind == "stop":
                    threading.Thread(target=self._end_in_time, daemon=True).start()
                self._note(kind)

    def _end_in_time(self) -> None:
        if not self._over.wait(STOP_SECONDS):
            os._exit(self._exit_code)

    def _note(self, kind: str) -> None:
        self._came.add(kind)
        if self._loop is not None and kind in self._in_loop:
            with suppress(RuntimeError):  # the loop is closed: the process is about to end
                self._loop.call_soon_threadsafe(self._in_loop[kind])


def _leave_to_thread(*_: object) -> None:
    """Do nothing: a handler of its own keeps a signal from its default action."""
