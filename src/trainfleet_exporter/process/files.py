"""Reading files that may not respond: of a file server that is down, or a named pipe."""

from __future__ import annotations

import concurrent.futures
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from trainfleet_exporter.process.threads import DaemonThreadExecutor

READ_SECONDS, NEXT_SECONDS, PIPE_SECONDS = 2.0, 0.25, 10.0
"""Longest time for a first reading of a file; for others, or while a file hangs (event loops wait); and for a pipe."""

T = TypeVar("T")
Stamp: TypeAlias = tuple[int, int, int]
"""Time, size and inode of a file, by which a change shows."""
_hanging: dict[Path, concurrent.futures.Future[Any]] = {}
"""The attempts that were given up, by file."""


def read_file(path: Path) -> bytes:
    """Return the content of a file of any kind, such as `/dev/stdin`. Raises OSError like `read_regular_file`."""
    return in_time(path, path.read_bytes, PIPE_SECONDS)


def read_regular_file(path: Path, most: int, *, unless: Stamp | None = None) -> tuple[Stamp, bytes]:
    """Return the stamp and the content of a regular file; no content if the stamp is still `unless`.

    A thread reads at most `most` bytes. Raises OSError, whose `strerror` says why the file is unusable, and ValueError
    for what is not a path.
    """
    may_wait = unless is None and all(each.done() for each in list(_hanging.values()))
    return in_time(path, lambda: _read(path, most, unless), READ_SECONDS if may_wait else NEXT_SECONDS)


def in_time(path: Path, read: Callable[[], T], seconds: float) -> T:
    if path in _hanging and not _hanging[path].done():
        raise OSError(None, "an earlier attempt to read it has not ended")
    reading = DaemonThreadExecutor().submit(read)
    try:
        return reading.result(seconds)
    except concurrent.futures.TimeoutError:
        _hanging[path] = reading
        raise OSError(None, f"it could not be read within {seconds:g} seconds") from None


def _read(path: Path, most: int, unless: Stamp | None) -> tuple[Stamp, bytes]:
    # Without O_NONBLOCK, opening a named pipe waits for its writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        # One open file gives both the stamp and the content, so that a rotation in between cannot part them.
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "it is not a regular file")
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        content = b"" if stamp == unless else file.read(most + 1)
    if len(content) > most:
        raise OSError(None, f"it is longer than {most} bytes")
    return stamp, content
