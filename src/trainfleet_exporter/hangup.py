"""SIGHUP: the usual word for "read your config again"."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType


class Hangup:
    """Hears SIGHUP from now on until the process ends: unheard it would end the process, even one that starts or stops.

    What comes before `listen` is told then. Several that come together may be told as one.
    """

    def __init__(self) -> None:
        self._came = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tell: Callable[[], object] | None = None
        # Not the loop's own handlers, which go with the loop, before the process does.
        if threading.current_thread() is threading.main_thread():  # nothing can be done about signals in others
            signal.signal(signal.SIGHUP, self._handle)

    def listen(self, tell: Callable[[], object]) -> None:
        """Call this in the running loop for every SIGHUP, and now for one that has come already."""
        self._loop, self._tell = asyncio.get_running_loop(), tell
        if self._came:
            tell()

    def ignore(self) -> None:
        """The process is about to end, and not by a SIGHUP: not even while its loop is being closed."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._loop is None or self._tell is None:
            self._came = True
            return
        with contextlib.suppress(RuntimeError):  # the loop has been closed: it is the end
            self._loop.call_soon_threadsafe(self._tell)
