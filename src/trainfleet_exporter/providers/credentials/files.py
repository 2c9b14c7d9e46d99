"""Files that rotate together: the credential of one rotation, never half of an old one and half of a new one.

    whole ──some files changed──► changing: the old credential stays in use
      ▲                               │ all files changed, and then none for two seconds
      │                               │ or: their folder was swapped as one, as Kubernetes does (`..data`)
      └────────── taken ◄─────────────┤ or: a service refuses the old credential
                                      │ or: a minute passed (only one file was meant to change)

If the new files are unusable, the old credential stays in use. After a minute, the log says why.

A writer may pause for longer than two seconds after it touched every file once. That cannot be seen from outside. The
refusal of what was taken then brings the rest.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.files import ask_in_time
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.redaction import HoldsSecrets
from trainfleet_exporter.providers.credentials.credential import Credential, Keys

log = logging.getLogger(__name__)

SETTLE = 2.0
"""Seconds without a change after which a rotation is over."""
LONGEST_ROTATION = 60.0
"""Seconds after which the files are taken as they are, even if only some of them have changed."""
_TRIES = 3

T = TypeVar("T")

_Stamp: TypeAlias = tuple[int, int, int, int] | None
"""Time, size, inode and device of a file, by which a change shows; None for a missing file."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The state of the files: where their links lead, and their stamps."""

    paths: tuple[str, ...]
    stamps: tuple[_Stamp, ...]

    @property
    def folder(self) -> str | None:
        folders = {os.path.dirname(path) for path in self.paths}  # noqa: PTH120 - texts, for a set
        return folders.pop() if len(folders) == 1 else None

    def is_swapped_for(self, other: _Look) -> bool:
        """Return whether all files are in another folder now, such as a new `..data`."""
        return None not in (self.folder, other.folder) and self.folder != other.folder

    def is_all_changed(self, other: _Look) -> bool:
        """Return whether every file has changed."""
        return all(before != after for before, after in zip(self.stamps, other.stamps, strict=True))


@dataclass(frozen=True, slots=True)
class _FileReading(HoldsSecrets, Generic[T]):
    look: _Look
    parts: tuple[T, ...] = field(repr=False)


@dataclass(slots=True)
class _Change:
    began: float
    """Unix seconds of the first look that differs from the contents in use."""
    look: _Look
    seen: float
    """Unix seconds of the first look that equals `look`."""
    reported: str = ""
    """The error that the log already has."""


class RotatingFiles(Generic[T]):
    """The contents of some files, as `read` returns them. `edition` counts the changes of the contents in use.

    `read` raises AccessDenied for a file that it cannot use.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[Path], T]) -> None:
        self._paths = tuple(paths)
        self._read_one = read
        self._held: _FileReading[T] | None = None
        self._change: _Change | None = None
        self.edition = 0

    def current(self) -> tuple[T, ...]:
        """The contents in the order of the files. `AccessDenied` names a file that was never usable."""
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
        is_late = _passed(now - change.began, LONGEST_ROTATION)
        if is_late or held.look.is_swapped_for(look) or self._has_settled(held, change, now):
            try:
                return self._take(self._read())
            except AccessDenied as error:
                if is_late and change.reported != str(error):
                    change.reported = str(error)
                    log.warning("rotated files are unusable; the old content stays in use", extra=fields(error=error))
        return held.parts

    def take_now(self) -> bool:
        """Use the files now, because the cloud rejected the contents in use. False if unchanged or unusable."""
        if self._held is not None and self._look() == self._held.look:
            return False
        before = self.edition
        try:
            self._take(self._read())
        except AccessDenied:
            return False
        return self.edition != before

    def _has_settled(self, held: _FileReading[T], change: _Change, now: float) -> bool:
        return held.look.is_all_changed(change.look) and _passed(now - change.seen, SETTLE)

    def _take(self, reading: _FileReading[T]) -> tuple[T, ...]:
        if self._held is None or self._held.parts != reading.parts:
            self.edition += 1
        self._held, self._change = reading, None
        return reading.parts

    def _look(self) -> _Look:
        try:
            return ask_in_time(self._paths, self._stamps)
        except OSError as error:  # only of a file server that does not respond
            if self._held is not None:
                return self._held.look
            raise AccessDenied(f"{' and '.join(map(str, self._paths))}: {error.strerror}") from None

    def _stamps(self) -> _Look:
        paths = tuple(os.path.realpath(path) for path in self._paths)
        return _Look(paths, tuple(map(_stamp, paths)))

    def _read(self) -> _FileReading[T]:
        """All files, read without a change in between."""
        for _ in range(_TRIES):
            look = self._look()
            reading = _FileReading(look, tuple(map(self._read_one, self._paths)))
            if self._look() == look:
                return reading
        raise AccessDenied(f"{' and '.join(map(str, self._paths))}: kept changing while they were read")


class FileCredential(Credential[Keys], Generic[T]):
    """Keys that are in files, as a whole or in part. `assemble` makes them of what the files hold."""

    def __init__(self, origin: str, files: RotatingFiles[T], assemble: Callable[[tuple[T, ...]], Keys]) -> None:
        super().__init__(lambda: origin)
        self._files = files
        self._assemble = assemble

    @property
    def edition(self) -> object:
        """How often the files have changed so far."""
        with suppress(AccessDenied):
            self._files.current()
        return self._files.edition

    async def prepare(self, deadline: float) -> object:
        """Read the files if they have changed."""
        self._files.current()
        return self._files.edition

    def current(self) -> Keys:
        """The keys of the files."""
        return self._assemble(self._files.current())

    def refused(self, mark: object) -> bool:
        """Return whether the files have changed. Rejected keys are not used until a rotation has settled."""
        return mark != self._files.edition or self._files.take_now()


def read_secret(path: Path) -> Secret:
    """The one line of a file as it is now."""
    return Secret.from_file(path).now()


def _passed(seconds: float, limit: float) -> bool:
    # A clock that was set back must not extend the wait.
    return not 0 <= seconds < limit


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - a text, once an attempt
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev
