"""Files that rotate together, read together: the keys of one rotation, never half of an old and half of a new one.

    whole ──some files changed──► changing: what was whole stays in use
      ▲                               │ all files changed, and nothing more happens for two seconds
      │                               │ or: their folder was swapped as one, as Kubernetes does (`..data`)
      └────────── taken ◄─────────────┤ or: a service refuses the old keys
                                      │ or: a minute went by (only one file was meant to change)
                                      └ a minute went by and a file cannot be read: that is told

That a writer pauses in the middle for longer than two seconds, after it touched every file once, cannot be seen from
outside; then the refusal of what was taken brings the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.redaction import HoldsSecrets

SETTLE = 2.0
"""Seconds without a change after which a rotation is over."""
PATIENCE = 60.0
"""Seconds after which a rotation that does not come to an end is taken as it is."""
_TRIES = 3

T = TypeVar("T")

_Stamp: TypeAlias = tuple[int, int, int, int] | None
"""What tells that a file is another one: time, size, inode and device; None for one that is not there."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The files as they stand: where their links lead, and the folder of all of them if that is one."""

    paths: tuple[str, ...]
    stamps: tuple[_Stamp, ...]

    @property
    def folder(self) -> str | None:
        folders = {os.path.dirname(path) for path in self.paths}  # noqa: PTH120 - texts, for a set
        return folders.pop() if len(folders) == 1 else None

    def is_swapped_for(self, other: _Look) -> bool:
        """Whether the other one stands in another folder, as a whole."""
        return None not in (self.folder, other.folder) and self.folder != other.folder

    def is_all_changed(self, other: _Look) -> bool:
        """Whether none of the files is what it was."""
        return all(before != after for before, after in zip(self.stamps, other.stamps, strict=True))


@dataclass(frozen=True, slots=True)
class _Reading(HoldsSecrets, Generic[T]):
    look: _Look
    parts: tuple[T, ...] = field(repr=False)


@dataclass(slots=True)
class _Change:
    began: float
    """Unix seconds at which the files were first seen to differ from what is in use."""
    look: _Look
    seen: float
    """Unix seconds at which they were first seen as they stand."""


class KeyFiles(Generic[T]):
    """What some files hold, as `read` takes it from each. `edition` counts the changes of what is in use.

    `read` raises AccessDenied for a file that is of no use.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[Path], T]) -> None:
        self._paths = tuple(paths)
        self._read_one = read
        self._held: _Reading[T] | None = None
        self._change: _Change | None = None
        self.edition = 0

    def current(self) -> tuple[T, ...]:
        """What the files hold, in their order. `AccessDenied` names a file that has been of no use for a while."""
        held = self._held
        if held is None:
            return self._take(self._read())
        now, look = time.time(), self._look()
        if look == held.look:
            self._change = None
            return held.parts
        change = self._change
        if change is None:
            change = self._change = _Change(now, look, now)
        elif change.look != look:
            change.look, change.seen = look, now
        is_late = _passed(now - change.began, PATIENCE)
        if is_late or held.look.is_swapped_for(look) or self._has_settled(held, change, now):
            try:
                return self._take(self._read())
            except AccessDenied:
                if is_late:
                    self._held = None
                    raise
        return held.parts

    def take_now(self) -> bool:
        """What is in use is refused: take what the files hold now. False if that is the same, or of no use."""
        if self._held is not None and self._look() == self._held.look:
            return False
        before = self.edition
        try:
            self._take(self._read())
        except AccessDenied:
            return False
        return self.edition != before

    def _has_settled(self, held: _Reading[T], change: _Change, now: float) -> bool:
        return held.look.is_all_changed(change.look) and _passed(now - change.seen, SETTLE)

    def _take(self, reading: _Reading[T]) -> tuple[T, ...]:
        if self._held is None or self._held.parts != reading.parts:
            self.edition += 1
        self._held, self._change = reading, None
        return reading.parts

    def _look(self) -> _Look:
        paths = tuple(os.path.realpath(path) for path in self._paths)
        return _Look(paths, tuple(map(_stamp, paths)))

    def _read(self) -> _Reading[T]:
        """All files, with no change while they were read."""
        for _ in range(_TRIES):
            look = self._look()
            reading = _Reading(look, tuple(map(self._read_one, self._paths)))
            if self._look() == look:
                return reading
        raise AccessDenied(f"{' and '.join(map(str, self._paths))}: changed again and again while they were read")


def read_secret(path: Path) -> str:
    """The one line of a file."""
    return Secret.from_file(path).reveal()


def follow_secret(path: Path) -> Secret:
    """The one line of a file as it is now, which nothing can print."""
    return Secret(read_secret(path), source=f"file {path}")


def _passed(seconds: float, limit: float) -> bool:
    # A clock that was set back must not make anybody wait.
    return not 0 <= seconds < limit


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - a text, once an attempt
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev
