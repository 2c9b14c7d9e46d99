"""What is on disk: the state of a backfill, the parts of the day that is being read, and the files of whole days.

A day's file is written completely or not at all. Interrupted work continues after the last whole day.

https://prometheus.io/docs/prometheus/latest/storage/#backfilling-from-openmetrics-format
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import msgspec

from trainfleet_exporter.backfill.series import Series
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.families import MetricFamily
from trainfleet_exporter.page.formats import Format, head
from trainfleet_exporter.page.text import format_value
from trainfleet_exporter.providers.history import Life

_BUFFER = 1024 * 1024


class _Stored(msgspec.Struct):
    facts: dict[str, Any]
    lives: list[Life]


class State:
    """The flags of a backfill and the jobs that it found, in one file. Only one process can open it at a time.

    StartError if the file cannot be used, or if it has other `facts`, which are the flags and config by name.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.lives: Sequence[Life] | None = None
        """By id; None as long as not all jobs are found."""
        self._path, self._facts = path, dict(facts)
        try:
            self._lock = path.with_suffix(".lock").open("a")
        except OSError as error:
            raise StartError(f"{path.parent}: cannot be used: {error.strerror}") from None
        try:
            self._read()
        except BaseException:
            self._lock.close()
            raise

    def _read(self) -> None:
        path = self._path
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stored = msgspec.msgpack.decode(path.read_bytes(), type=_Stored) if path.exists() else None
        except BlockingIOError:
            raise StartError(f"{path.parent}: another backfill is running in this folder") from None
        except OSError as error:
            raise StartError(f"{path}: cannot be used: {error.strerror}") from None
        except msgspec.MsgspecError:
            raise StartError(f"{path}: damaged, or of another version; choose another --out to start again") from None
        if stored is None:
            return
        changed = sorted(name for name, value in self._facts.items() if stored.facts.get(name) != value)
        if changed:
            raise StartError(
                f"{path.parent}: was started with another value of {', '.join(changed)}: start again with another"
                " --out, or continue with the old value"
            )
        self.lives = stored.lives

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def save(self, lives: Iterable[Life]) -> None:
        """Store all jobs."""
        found = self.lives = sorted(lives, key=lambda life: life.job.job_id)
        try:
            with _replacing(self._path) as file:
                file.write(msgspec.msgpack.encode(_Stored(self._facts, found)))
        except OSError as error:
            raise StartError(f"{self._path}: cannot write: {error.strerror}; run the same command again") from None


class _Samples(NamedTuple):
    """Samples of one series, and where they are in the file. Pieces sort by series and time."""

    labels: str
    start: int
    offset: int
    samples: int
    job_id: str
    source: str


class DayParts:
    """The samples of one day, by family, in a file without a name. The index of the file is in memory."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115 - closed by `__exit__`
        self._end = 0
        self._pieces: defaultdict[int, list[_Samples]] = defaultdict(list)
        self._sources: dict[str, str] = {}
        """By job, the source that counts: the one that was added last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # frees the disk

    def add(
        self, series: Series, times: array[int], values: array[float], *, job_id: str = "", source: str = ""
    ) -> None:
        """Add samples of a series, oldest first. Pieces of a series do not overlap."""
        if not times:
            return
        if source:
            self._sources[job_id] = source
        piece = _Samples(series.labels, times[0], self._end, len(times), job_id, source)
        self._pieces[series.family].append(piece)
        self._end += self._file.write(times.tobytes()) + self._file.write(values.tobytes())

    def write(self, path: Path, families: Sequence[MetricFamily]) -> None:
        """Write or replace a day's file. `families` is the table of the places of families."""
        with _replacing(path) as file:
            for place, family in [(place, families[place]) for place in sorted(self._pieces)]:
                file.write(head(family.name, family.help, family.kind, Format.OPENMETRICS))
                for piece in sorted(self._pieces[place]):
                    if piece.source in ("", self._sources.get(piece.job_id)):
                        begin = f"{family.name}{{{piece.labels}}} "
                        file.write("".join(self._lines(piece, begin)).encode())
            file.write(Format.OPENMETRICS.end)

    def _lines(self, piece: _Samples, begin: str) -> Iterator[str]:
        self._file.seek(piece.offset)
        times, values = array("q"), array("d")
        times.frombytes(self._file.read(8 * piece.samples))
        values.frombytes(self._file.read(8 * piece.samples))
        return (f"{begin}{format_value(value)} {time}\n" for time, value in zip(times, values, strict=True))


class _replacing:  # noqa: N801 - used like a function
    """A file that takes the place of another when it is complete, also after a loss of power. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path, self._draft = path, path.with_name(f".{path.name}.part")

    def __enter__(self) -> IO[bytes]:
        self._file = self._draft.open("wb", buffering=_BUFFER)
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._file:
            if kind is not None:
                return
            self._file.flush()
            os.fsync(self._file.fileno())
        self._draft.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
