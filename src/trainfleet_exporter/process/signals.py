"""Signals: SIGTERM and SIGINT stop the process in bounded time, SIGHUP reloads the config.

    running ──SIGTERM, SIGINT──► stopping ──everything closed──► exit code 0, or 1 for an interrupted command
       │                            ├──second signal───────────► 1, at once
       └──SIGHUP──► reload          └──4 seconds───────────────► as if everything were closed

The handlers belong to the process, not to the event loop. A thread keeps the time and sees the second signal: the
interpreter's C code writes each signal's number into a pipe before any Python code runs. So a call that hangs (a disk,
a thread that is joined) does not delay the end.

`__main__` imports this module before all slow ones, so it imports asyncio and logging only when it needs them.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
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


class Signals:
    """Handles SIGTERM and SIGINT while it is entered, and SIGHUP from `accept_hangups` on.

    Only the main thread can install handlers; in others this does nothing.
    """

    def __init__(self) -> None:
        self._stop_requested = False
        self._exit_code = 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], object] = lambda: None
        self._reload: Callable[[], object] | None = None
        self._hangup_pending = False
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        if _in_main_thread():
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            threading.Thread(target=self._watch, args=[reader], daemon=True).start()
            self._undo.callback(os.close, writer)
            self._undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writer, warn_on_full_buffer=False))
            for number in STOP_SIGNALS:
                self._undo.callback(signal.signal, number, signal.signal(number, self._on_stop))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._undo.close()

    def accept_hangups(self) -> None:
        """From now on no SIGHUP ends the process. One that comes before `on_hangup` is handled then."""
        # The handler outlives the loop and this object: SIGHUP must not end a process that is already stopping.
        if _in_main_thread():
            signal.signal(signal.SIGHUP, self._on_hangup)

    def on_hangup(self, reload: Callable[[], object]) -> None:
        """Call `reload` in the running loop at each SIGHUP, and now if one came already. Several may count as one."""
        self._loop, self._reload = _running_loop(), reload
        if self._hangup_pending:
            reload()

    def serve(self, run: Callable[[asyncio.Event], Awaitable[None]]) -> int:
        """Run until a signal sets the event: the normal end, with exit code 0. SIGHUP is ignored afterwards."""
        import asyncio  # noqa: PLC0415 - see above
        import logging  # noqa: PLC0415

        stopped = asyncio.Event()
        self._exit_code = 0

        async def main() -> None:
            self._call_at_stop(stopped.set)
            try:
                if self._stop_requested:  # during the start
                    logging.getLogger(__name__).info("stopped")
                else:
                    await run(stopped)
            finally:
                if _in_main_thread():
                    signal.signal(signal.SIGHUP, signal.SIG_IGN)

        asyncio.run(main())
        return 0

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that ends without a signal. A signal cancels it: its `finally` blocks run, then this raises
        KeyboardInterrupt."""
        import asyncio  # noqa: PLC0415 - see above

        async def main() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._call_at_stop(task.cancel)
            if self._stop_requested:
                work.close()
                raise asyncio.CancelledError
            return await work

        try:
            return asyncio.run(main())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def _call_at_stop(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._loop = _running_loop()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop_requested = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        if self._loop is None or self._reload is None:
            self._hangup_pending = True
            return
        with suppress(RuntimeError):  # the loop is closed: the process is about to end
            self._loop.call_soon_threadsafe(self._reload)

    def _watch(self, reader: int) -> None:
        """End the process at the second signal, or some seconds after the first; return when the pipe is closed."""
        count, left = 0, None
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            while True:
                began = time.monotonic()
                readable, _, _ = select.select([pipe], [], [], left)
                if not readable:
                    os._exit(self._exit_code)
                numbers = pipe.read(64)
                if not numbers:
                    return
                count += sum(number in STOP_SIGNALS for number in numbers)
                if count > 1:
                    os._exit(1)
                if count:
                    left = STOP_SECONDS if left is None else max(0.0, left - (time.monotonic() - began))


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _running_loop() -> asyncio.AbstractEventLoop:
    import asyncio  # noqa: PLC0415 - see above

    return asyncio.get_running_loop()
