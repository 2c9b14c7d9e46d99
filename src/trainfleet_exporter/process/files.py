"""Reading files that may not respond: of a file server that is down, or a named pipe."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from trainfleet_exporter.process.threads import DaemonThreadExecutor

READ_SECONDS = 2.0
"""Longest time for reading a file."""
LOOP_SECONDS = 0.25
"""The same for callers on an event loop, which wait only once while a file hangs."""
T = TypeVar("T")

Stamp: TypeAlias = tuple[int, int, int]
"""Time, size and inode of a file, by which a change shows."""
_hanging: dict[object, concurrent.futures.Future[Any]] = {}
"""The attempts that were given up, by file."""


def read_regular_file(path: Path, most: int, *, unless: Stamp | None = None) -> tuple[Stamp, bytes]:
    """Return the stamp and the content of a regular file; no content if the stamp is still `unless`.

    A thread reads at most `most` bytes. Raises OSError, whose `strerror` says why the file is unusable, and ValueError
    for what is not a path.
    """
    return ask_in_time(path, lambda: _read(path, most, unless))


def ask_in_time(file: object, ask: Callable[[], T]) -> T:
    """Return what a thread finds out about a file. OSError if that takes too long, or if an earlier attempt hangs."""
    try:
        asyncio.get_running_loop()
        seconds = LOOP_SECONDS
    except RuntimeError:
        seconds = READ_SECONDS
    if file in _hanging and not _hanging[file].done():  # the caller waits for a file only once
        raise OSError(None, "an earlier attempt to read it has not ended")
    asking = DaemonThreadExecutor().submit(ask)
    try:
        return asking.result(seconds)
    except concurrent.futures.TimeoutError:
        _hanging[file] = asking
        raise OSError(None, f"it could not be read within {seconds:g} seconds") from None


def _read(path: Path, most: int, unless: Stamp | None) -> tuple[Stamp, bytes]:
    # Without O_NONBLOCK, opening a named pipe waits for its writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        # One open file gives both the stamp and the content, so that a rotation in between cannot part them.
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "it is not a regular file")
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == unless:
            return stamp, b""
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(None, f"it is longer than {most} bytes")
    return stamp, content
