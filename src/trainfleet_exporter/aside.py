"""A thread for what may never end, such as reading a file of a server that is gone: the process ends without it."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import ParamSpec, TypeVar

_NAME = "aside"

P = ParamSpec("P")
T = TypeVar("T")


class Aside(Executor):
    """Runs each call in a thread of its own, which nobody joins: the loop's own executor is waited for at the end."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin a call now."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, name=_NAME, daemon=True).start()
        return future


def leave(code: int) -> None:
    """End the process with this exit code if a call is still under way; else do nothing. All else is over by now.

    The interpreter's own end would unwind the call's thread out of whatever it is in. Compiled code that is not C
    (pydantic's, bcrypt's) answers that by aborting the process, which then ends as if it had crashed.
    """
    if not any(thread.name == _NAME for thread in threading.enumerate()):
        return
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)
