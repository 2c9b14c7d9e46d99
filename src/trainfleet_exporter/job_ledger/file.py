"""The ledger's file: JSON lines, appended in a thread, so that a slow disk does not block the exporter.

The file is opened for each batch of lines, so that it may be moved away at any time. Each line is one write. A line
that was cut short, by a crash or a full disk, ends where the next one begins. A batch that fails is written again.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
import threading
from collections import deque
from pathlib import Path

import msgspec

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.job_ledger.line import EndedJob
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.threads import DaemonThreadExecutor

log = logging.getLogger(__name__)

_MOST_WAITING = 10_000
"""Lines that are kept while the file cannot be written; beyond that, the oldest are lost."""
_LAST_LINES_SECONDS = 1.0
"""Seconds to wait for the last lines."""


def check_writable(path: Path | None) -> None:
    """Create the file if there is none. Raises StartError if lines cannot be appended to it."""
    if path is None:
        return
    try:
        os.close(_open(path))
    except OSError as error:
        raise StartError(
            f"cannot write the ledger {path}: {error.strerror or error}; "
            "name a file that the exporter may write in --ledger or global.ledger_file"
        ) from None


class LedgerFile:
    """Appends ended jobs to the file at `path`, in their order; without a path it does nothing.

    While the file cannot be written, the log says so once, and the lines wait for the next one. The log also says once
    that lines were lost, because too many waited.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.write_errors = 0
        """Writes that failed, and lines that were lost."""
        self._waiting: deque[bytes] = deque()
        self._lost = 0
        self._busy = False
        self._fails = False
        self._writing = threading.Lock()

    def add(self, job: EndedJob) -> None:
        if self.path is None:
            return
        self._waiting.append(msgspec.json.encode(job) + b"\n")
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()
            self.write_errors += 1
            self._lost += 1
            if self._lost == 1:
                log.error("ended jobs are lost: too many wait for the ledger", extra=fields(**self._facts()))
        self._write_soon()

    def close(self) -> None:
        """Write the remaining lines, unless the disk hangs. It may be called more than once."""
        if self.path is None or not (self._waiting or self._busy):
            return
        thread = threading.Thread(target=self._write, args=(self.path,), daemon=True)
        thread.start()
        thread.join(_LAST_LINES_SECONDS)
        if self._waiting or thread.is_alive():
            log.error("ended jobs are not in the ledger", extra=fields(**self._facts()))

    def _write_soon(self) -> None:
        if self._busy or self.path is None:
            return
        try:
            done = asyncio.get_running_loop().run_in_executor(DaemonThreadExecutor(), self._write, self.path)
        except RuntimeError:  # there is no loop, or no thread can be started: the next line tries again
            return
        self._busy = True
        done.add_done_callback(self._end)

    def _end(self, done: asyncio.Future[str]) -> None:
        self._busy = False
        if done.cancelled():
            return
        failure = done.result()
        self.write_errors += bool(failure)
        if failure and not self._fails:
            facts = fields(**self._facts(), error=failure)
            log.error("cannot write ended jobs to the ledger; the next write retries", extra=facts)
        elif not failure and (self._fails or self._lost):
            log.info("ended jobs are written to the ledger again", extra=fields(**self._facts()))
            self._lost = 0
        self._fails = bool(failure)
        if self._waiting and not failure:
            self._write_soon()

    def _facts(self) -> dict[str, object]:
        return {"file": str(self.path), "waiting": len(self._waiting), "lost": self._lost}

    def _write(self, path: Path) -> str:
        """Write all lines that wait, in any thread; the result is why that failed, or nothing."""
        with self._writing:
            try:
                descriptor = _open(path)
                try:
                    self._append(descriptor)
                finally:
                    os.close(descriptor)
            except OSError as error:
                return error.strerror or type(error).__name__
        return ""

    def _append(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        begin = b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
        done = 0
        try:
            for line in list(self._waiting):
                if os.write(descriptor, begin + line) < len(begin + line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                begin, done = b"", done + 1
        finally:
            os.fsync(descriptor)
            for _ in range(done):
                self._waiting.popleft()


def _open(path: Path) -> int:
    """Never follow a symlink: where others may write to the folder, it could lead to any file of the exporter."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o640)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symlink") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor
