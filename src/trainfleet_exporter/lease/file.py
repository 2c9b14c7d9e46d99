"""A lease as the name of a file, in a folder on a volume that the exporters share.

    PATH/3.1187.exporter-0_5f2c9a01        term 3, write 1187, the holder

To replace the record is to rename the file. The first of two renames succeeds; the second does not find its source.
That is one atomic step of the file server, also over NFS. A lock would not do: a stopped process keeps it.
"""

from __future__ import annotations

import asyncio
import errno
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from trainfleet_exporter.errors import LeaseConflict, LeaseUnavailable
from trainfleet_exporter.lease.record import Record
from trainfleet_exporter.process.threads import DaemonThreadExecutor

_FILE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([A-Za-z0-9_.-]*)")
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY, errno.EXDEV)
"""A folder cannot replace one that has files, or where a volume is mounted."""
_LOOKS = 3
"""A list that is read while the file gets its new name may have neither name, or both."""


class FileLease:
    """A lease in the folder `path`, which is made when it is first written. `run` calls a function that may hang."""

    def __init__(self, path: Path, run: Callable[[Callable[[], Record]], Awaitable[Record]] | None = None) -> None:
        self._path = path
        self._run = _in_thread if run is None else run
        self._running: asyncio.Future[Record] | None = None

    async def read(self) -> Record:
        """Read the record (see LeaseStore)."""
        return await self._call(self._read)

    async def create(self) -> None:
        """Make a record without a holder (see LeaseStore)."""
        await self._call(self._create)

    async def write(self, seen: Record, holder: str, term: int) -> Record:
        """Replace the record (see LeaseStore)."""
        return await self._call(partial(self._write, seen, holder, term))

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _call(self, work: Callable[[], Record]) -> Record:
        """Call after the call before has ended: a file server that hangs must not fill the process with threads."""
        if self._running is not None:
            await asyncio.wait([self._running])
        self._running = asyncio.ensure_future(self._run(work))
        self._running.add_done_callback(lambda done: done.cancelled() or done.exception())  # the caller may have gone
        try:
            return await asyncio.shield(self._running)
        except OSError as error:
            raise LeaseUnavailable(f"{self._path}: {error.strerror or type(error).__name__}") from None

    def _read(self) -> Record:
        for _ in range(_LOOKS):
            try:
                names = [path.name for path in self._path.iterdir()]
            except FileNotFoundError:
                return Record()
            found = [match for name in names if (match := _FILE.fullmatch(name))]
            if found:
                newest = max(found, key=lambda match: int(match[2]))
                return Record(newest[3], int(newest[1]), newest[0])
        return Record()

    def _write(self, seen: Record, holder: str, term: int) -> Record:
        match = _FILE.fullmatch(seen.version)
        assert match is not None
        name = f"{term}.{int(match[2]) + 1}.{holder}"
        try:
            (self._path / seen.version).rename(self._path / name)
        except FileNotFoundError:
            raise LeaseConflict(f"{self._path}: another exporter has written it") from None
        return Record(holder, term, name)

    def _create(self) -> Record:
        """Make the folder with its first file, in one step: a folder cannot replace one that has a file."""
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        first = f"0.{secrets.randbelow(10**15)}."  # no earlier record of this path had the same name
        draft.mkdir()
        try:
            (draft / first).touch()
            draft.rename(self._path)
        except OSError as error:
            with suppress(OSError):
                (draft / first).unlink()
            with suppress(OSError):
                draft.rmdir()
            if error.errno not in _TAKEN:
                raise
            if self._read().version:
                raise LeaseConflict(f"{self._path}: another exporter has made it") from None
            words = f"{self._path} is a mount point or has other files; name a new folder in it"
            raise LeaseUnavailable(words) from None
        return Record(version=first)


async def _in_thread(work: Callable[[], Record]) -> Record:
    return await asyncio.get_running_loop().run_in_executor(DaemonThreadExecutor(), work)
