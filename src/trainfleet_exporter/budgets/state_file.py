"""The state file: its format, its owner and its writes.

Its form is JSON with one row for each account, API and billing month. One process writes it; others only read it.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from trainfleet_exporter.budgets.billing import MONTH
from trainfleet_exporter.config import AccountKey
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

Spent = dict[tuple[AccountKey, str], dict[str, int]]
"""Calls by account and API, and by the name of the month."""

_LARGEST = 1_000_000
"""Bytes of a state file that are read at most."""


class _Row(msgspec.Struct):
    api: str
    month: Annotated[str, msgspec.Meta(pattern=f"^{MONTH}$")]
    calls: Annotated[int, msgspec.Meta(ge=0)]
    account: str | None = None
    provider: str | None = None

    def __post_init__(self) -> None:
        if (self.account is None) == (self.provider is None):
            raise ValueError("an account or a provider is required, and not both")

    @property
    def key(self) -> tuple[AccountKey, str]:
        kind, name = ("account", self.account) if self.provider is None else ("provider", self.provider)
        return AccountKey(kind, name or ""), self.api


class _Page(msgspec.Struct):
    version: Literal[1]
    spent: list[_Row]
    part: str = ""
    term: int = 0


def state_page(spent: Spent, *, part: str = "", term: int = 0) -> bytes:
    """The text of a state file. `part` names the shard whose part of the limits is spent here; empty without shards.
    `term` is the term of the lease in which the calls were made; 0 without a lease.
    """
    rows = [
        {account.kind: account.name, "api": api, "month": month, "calls": calls}
        for (account, api), months in spent.items()
        for month, calls in months.items()
    ]
    marks = ({"part": part} if part else {}) | ({"term": term} if term else {})
    page = {"version": 1, **marks, "spent": rows}
    return (json.dumps(page, indent=1) + "\n").encode()


def read_state(path: Path, *, part: str = "") -> Spent:
    """The spent calls in the file. If it is invalid, none, with a warning.

    A file of another shard does not count: its calls were not spent of this shard's part of the limits.
    """
    try:
        page = _read(path)
        if page.part == part:
            found: Spent = {}
            for row in page.spent:
                found.setdefault(row.key, {})[row.month] = row.calls
            return found
        reason = f"it belongs to {_in_words(page.part)}, and this is {_in_words(part)}"
    except FileNotFoundError:
        return {}
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except (ValueError, RecursionError):
        reason = "it is not a state file"
    facts = fields(file=path, error=reason)
    log.warning("cannot use the state file; the elapsed share of each budget counts as spent", extra=facts)
    return {}


def read_term(path: Path) -> int | None:
    """The term of the lease in which the file was written, 0 without a lease. None if there is no valid file."""
    try:
        return _read(path).term
    except (OSError, ValueError, RecursionError):
        return None


def is_of_shard(path: Path) -> bool:
    """Return whether the file belongs to a shard."""
    try:
        return bool(_read(path).part)
    except (OSError, ValueError, RecursionError):
        return False


class StateFile:
    """The file of `global.state_file`, or none. The first process that opens it owns it until `release` or its own end.

    The lock is on a file next to it, because the file itself is replaced whole. If there can be no such lock, every
    process owns the file, and its log says why it cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.owned = True
        """Whether this process may write it."""
        self.released = threading.Event()
        self.busy = False
        """Whether a thread is writing."""
        self._lock: int | None = None
        self._writing = threading.Lock()
        self._newest = self._written = 0
        """Numbers of pages: a page that a later one overtook is not written."""
        self._broken = False
        if path is not None:
            self._acquire(path)

    @property
    def kept(self) -> bool:
        """Whether there is a file, and this process writes it."""
        return self.path is not None and self.owned

    def is_at(self, path: Path | None) -> bool:
        """Return whether it is the file of this path, perhaps by another name of its folder."""
        if path is None or self.path is None:
            return path is self.path
        return path.name == self.path.name and path.parent.resolve() == self.path.parent.resolve()

    def acquire_again(self) -> bool:
        """Own the file from now on, if another process owned it and has released it. Returns whether it was so."""
        if self.path is None or self.owned or self.released.is_set():
            return False
        self._acquire(self.path)
        return self.owned

    def release(self) -> None:
        """Release the file for other processes. Idempotent."""
        self._unlock()
        self.released.set()

    def save(self, data: bytes, *, at_once: bool, then: Callable[[], None]) -> None:
        """Write a page, in a thread unless `at_once`; then call `then`, unless a later page overtook it."""
        number = self._number()
        if not at_once:
            with suppress(RuntimeError):  # there is no loop, or no thread can be started
                done = asyncio.get_running_loop().run_in_executor(None, self._write, number, data)
                self.busy = True
                done.add_done_callback(partial(self._end, number, then))
                return
        self._report(self._write(number, data))
        then()

    def last_page(self, data: bytes, *, term: int = 0) -> Callable[[], None]:
        """Return the function that writes the last page, in any thread. It keeps a page of a later `term`."""
        number = self._number()

        def write() -> None:
            if self.path is None or not term or (read_term(self.path) or 0) <= term:
                self._report(self._write(number, data))

        return write

    def _number(self) -> int:
        self._newest += 1
        return self._newest

    def _end(self, number: int, then: Callable[[], None], done: asyncio.Future[str]) -> None:
        self.busy = False
        if number == self._newest and not done.cancelled() and done.exception() is None:
            self._report(done.result())
            then()

    def _report(self, failure: str) -> None:
        """Log the first writing that failed."""
        if failure and not self._broken:
            facts = fields(file=self.path, error=failure)
            log.warning("cannot write the state file; after a restart, spent calls may be unknown", extra=facts)
        self._broken = bool(failure)

    def _write(self, number: int, data: bytes) -> str:
        """Replace the file; the result is why that failed, or nothing."""
        assert self.path is not None
        with self._writing:
            if number <= self._written:  # a later page overtook it, or no thread could be started for it
                return ""
            try:
                _replace(self.path, data)
            except OSError as error:
                return error.strerror or type(error).__name__
            self._written = number
        return ""

    def _acquire(self, path: Path) -> None:
        try:
            self._lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.owned = True
        except BlockingIOError:
            self.owned = False
            self._unlock()
        except OSError:
            self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _read(path: Path) -> _Page:
    """Raises ValueError (as msgspec does) if it is not a state file."""
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError("it is too large")
    return msgspec.json.decode(data, type=_Page)


def _in_words(part: str) -> str:
    return f"shard {part}" if part else "an exporter without shards"


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        draft.unlink()  # left by a crash, perhaps with other rights
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name survives a loss of power, too
    finally:
        os.close(folder)
