"""Fails a test whose computation would take hours."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise AssertionError in the block after so many seconds of real time. For the main thread only."""

    def stop(signal_number: int, frame: object) -> None:
        raise AssertionError(f"still busy after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
