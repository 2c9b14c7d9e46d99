"""Daemon threads for calls that may never return, such as reading a file of a file server that is down."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import ParamSpec, TypeVar

THREAD_NAME = "daemon-thread-executor"
POLLS = "polls"

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreadExecutor(Executor):
    """Runs each call in a new daemon thread. asyncio's default executor would join its threads at exit."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a call now."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from now on it cannot be cancelled

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        threading.Thread(target=run, name=THREAD_NAME, daemon=True).start()
        return future


def exit_if_calls_hang(code: int) -> None:
    """End the process with this exit code if a call, or a poll, is still running. Everything else is closed.

    At its own end the interpreter would unwind the call's thread. Compiled code that is not C (pydantic, bcrypt) then
    aborts the process, which would look like a crash.
    """
    if any(thread.name in (THREAD_NAME, POLLS) for thread in threading.enumerate()):
        logging.shutdown()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
