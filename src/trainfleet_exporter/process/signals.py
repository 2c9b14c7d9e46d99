"""Signals: SIGTERM and SIGINT stop the process in bounded time, SIGHUP reloads the config.

    running ──SIGTERM, SIGINT──► stopping ──everything closed──► exit code 0, or 1 for an interrupted command
       │                            ├──second signal───────────► 1, at once
       └──SIGHUP──► reload          └──4 seconds───────────────► as if everything were closed

The handlers belong to the process, not to its event loop: signals come before the loop starts and after it ends.
`__main__` imports this module before all slow ones, so it imports asyncio and logging only when it needs them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

STOP_SECONDS = 4.0
"""Seconds from a signal to the end of the process, even if something hangs. The docs promise five seconds, which leaves
time on a busy machine."""


def interrupt_quietly() -> None:
    """Until `Signals` is entered, Ctrl-C ends the process at once and without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def ignore_hangups() -> Callable[[], object]:
    """Ignore SIGHUP, which would end the process, during the slow imports. Call the result to restore what was set."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return lambda: signal.signal(signal.SIGHUP, before)


class Signals(ExitStack):
    """Handles SIGTERM and SIGINT while it is entered, and SIGHUP from `accept_hangups` on. For the main thread."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_loop: dict[str, Callable[[], object]] = {}
        """What signals call in the loop: `stop` and `reload`."""
        self._came: set[str] = set()
        self._exit_code = 1

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self.callback(signal.signal, number, signal.signal(number, self._stop))
        return self

    def accept_hangups(self) -> None:
        """From now on no SIGHUP ends the process. One that comes before `on_hangup` is handled then."""
        signal.signal(signal.SIGHUP, lambda *_: self._note("reload"))

    def on_hangup(self, reload: Callable[[], object]) -> None:
        """Call `reload` in the running loop at each SIGHUP, and now if one came already. Several may count as one."""
        self._in_loop["reload"] = reload
        if "reload" in self._came:
            reload()

    def serve(self, run: Callable[[asyncio.Event], Awaitable[None]]) -> int:
        """Run until a signal sets the event: the normal end, with exit code 0. SIGHUP is ignored afterwards."""
        import asyncio  # noqa: PLC0415 - see above
        import logging  # noqa: PLC0415

        stopped = asyncio.Event()
        self._exit_code = 0

        async def main() -> None:
            self._begin(asyncio.get_running_loop(), stopped.set)
            if stopped.is_set():  # during the start
                logging.getLogger(__name__).info("stopped")
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
        import asyncio  # noqa: PLC0415 - see above

        async def main() -> T:
            task = asyncio.create_task(work)
            self._begin(asyncio.get_running_loop(), task.cancel)
            return await task

        try:
            return asyncio.run(main())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def _begin(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
        def stop_in_time() -> None:
            end = threading.Timer(STOP_SECONDS, lambda: os._exit(self._exit_code))
            end.daemon = True
            end.start()
            self.callback(end.cancel)
            stop()

        self._loop, self._in_loop["stop"] = loop, stop_in_time
        if "stop" in self._came:
            stop_in_time()

    def _stop(self, *_: object) -> None:
        if "stop" in self._came:
            os._exit(1)
        self._note("stop")

    def _note(self, signalled: str) -> None:
        """Note a signal, and handle it in the loop if there is one: a handler may interrupt any code."""
        self._came.add(signalled)
        if self._loop is not None and signalled in self._in_loop:
            with suppress(RuntimeError):  # the loop is closed: the process is about to end
                self._loop.call_soon_threadsafe(self._in_loop[signalled])
