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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple, Self

import msgspec

from trainfleet_exporter.backfill.series import Series
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.exposition.formats import Format, head
from trainfleet_exporter.exposition.text import format_value
from trainfleet_exporter.families import MetricFamily
from trainfleet_exporter.providers.past import Life

OTHER = "has a backfill with other flags or config; choose another folder"
_BUFFER = 1024 * 1024


class State:
    """The jobs that a backfill of a provider has found, in a file of the folder that one process can use at a time.

    `digest` is that of the flags and config. StartError if the file cannot be used, or is of another digest.
    """

    def __init__(self, folder: Path, provider: str, digest: str) -> None:
        self.lives: Sequence[Life] | None = None
        """By id; None as long as not all jobs are found."""
        self._path, self._digest = folder / f".backfill-{provider}.state", digest
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with ExitStack() as lock:
                file = lock.enter_context((folder / f".backfill-{provider}.lock").open("a"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._path.exists():
                    stored, self.lives = msgspec.msgpack.decode(self._path.read_bytes(), type=tuple[str, list[Life]])
                    if stored != digest:
                        raise StartError(f"--out: {folder} {OTHER}")
                self._lock = lock.pop_all()
        except BlockingIOError:
            raise StartError(f"--out: {folder}: another backfill is running in this folder") from None
        except OSError as error:
            raise StartError(f"--out: {folder}: cannot be used: {error.strerror}") from None
        except msgspec.MsgspecError:
            raise StartError(f"{self._path}: damaged, or of another version; choose another --out") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def save(self, lives: Iterable[Life]) -> None:
        found = self.lives = sorted(lives, key=lambda life: life.job.job_id)
        try:
            with _replacing(self._path) as file:
                file.write(msgspec.msgpack.encode((self._digest, found)))
        except OSError as error:
            raise StartError(f"{self._path}: cannot write: {error.strerror}; run the same command again") from None


class _Samples(NamedTuple):
    """Samples of one series, and where they are in the file. Pieces sort by series and time."""

    labels: str
    start: int
    offset: int
    samples: int


class DayParts:
    """The samples of one day, by family, in a file without a name. The index of the file is in memory."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115 - closed by `__exit__`
        self._end = 0
        self._pieces: defaultdict[int, list[_Samples]] = defaultdict(list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # frees the disk

    def add(self, series: Series, times: array[int], values: array[float]) -> None:
        """Add samples of a series, oldest first. Pieces of a series do not overlap."""
        if not times:
            return
        self._pieces[series.family].append(_Samples(series.labels, times[0], self._end, len(times)))
        self._end += self._file.write(times.tobytes()) + self._file.write(values.tobytes())

    def write(self, path: Path, families: Sequence[MetricFamily]) -> None:
        """Write or replace a day's file. `families` is the table of the places of families."""
        with _replacing(path) as file:
            for place, family in [(place, families[place]) for place in sorted(self._pieces)]:
                file.write(head(family.name, family.help, family.kind, Format.OPENMETRICS))
                for piece in sorted(self._pieces[place]):
                    begin = f"{family.name}{{{piece.labels}}} "
                    file.write("".join(self._lines(piece, begin)).encode())
            file.write(Format.OPENMETRICS.end)

    def _lines(self, piece: _Samples, begin: str) -> Iterator[str]:
        self._file.seek(piece.offset)
        times, values = array("q"), array("d")
        times.frombytes(self._file.read(8 * piece.samples))
        values.frombytes(self._file.read(8 * piece.samples))
        return (f"{begin}{format_value(value)} {time}\n" for time, value in zip(times, values, strict=True))


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces another when it is complete, also after a loss of power. Raises OSError."""
    draft = path.with_name(f".{path.name}.part")
    with draft.open("wb", buffering=_BUFFER) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
