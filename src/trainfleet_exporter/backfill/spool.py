"""The spool: the results so far, in one SQLite file, so that interrupted work can continue.

A unit stores its rows under its number. The rows count when the unit is marked as done. If an interrupted unit runs
again, it deletes its rows first. When a day's file is written, the rows of the day are deleted.

Rows are pieces of series in the order of an index, so a day is written without being in memory.
"""

from __future__ import annotations

import json
import math
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from trainfleet_exporter.backfill.series import Series, Steady
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.providers.history import Life, Range, packed_life, unpacked_life

_VERSION = 1
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE units (number INTEGER PRIMARY KEY AUTOINCREMENT, stage TEXT NOT NULL, key TEXT NOT NULL,
                    done INTEGER NOT NULL, UNIQUE (stage, key));
CREATE TABLE lives (job_id TEXT PRIMARY KEY, since REAL NOT NULL, until REAL, life BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE pieces (day INTEGER NOT NULL, family INTEGER NOT NULL, labels TEXT NOT NULL, start INTEGER NOT NULL,
                     unit INTEGER NOT NULL, job_id TEXT NOT NULL, source TEXT NOT NULL,
                     step INTEGER NOT NULL, end INTEGER NOT NULL, value TEXT NOT NULL, points BLOB NOT NULL);
CREATE INDEX pieces_in_order ON pieces (day, family, labels, start);
CREATE INDEX pieces_of_jobs ON pieces (day, job_id, source);
CREATE INDEX pieces_of_units ON pieces (unit);
CREATE TABLE marks (day INTEGER NOT NULL, job_id TEXT NOT NULL, mark TEXT NOT NULL, unit INTEGER NOT NULL,
                    PRIMARY KEY (day, job_id, mark)) WITHOUT ROWID;
CREATE TABLE dropped (reason TEXT NOT NULL, unit INTEGER NOT NULL, count INTEGER NOT NULL,
                      PRIMARY KEY (reason, unit)) WITHOUT ROWID;
CREATE TABLE gone (job_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE days (day INTEGER PRIMARY KEY);
"""


@dataclass(frozen=True, slots=True)
class SampleRun:
    """Some samples of one series: points, or one value at the start and at each step before an end."""

    series: Series
    start: int
    end: int
    step: int
    value: str
    points: tuple[array[int], array[float]] | None


class Spool:
    """The SQLite file. Only one process can open it at a time. StartError if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=0.2)
            # Locked until it is closed: two processes would do the same work and spend the calls twice.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA temp_store = MEMORY")
            self._db.execute("PRAGMA cache_size = -4096")
            self._db.execute("BEGIN IMMEDIATE")
            self._begin()
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise StartError(f"{path}: another backfill is running in this folder") from None
            raise StartError(
                f"{path}: cannot be used as a spool: {error}; choose another --out to start again"
            ) from None

    def _begin(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise StartError(
                f"{self.path}: was written by another version of the exporter; choose another --out to start again"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the changes of the block at its end; roll them back after an exception."""
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def agree(self, facts: Mapping[str, object]) -> list[str]:
        """Store the facts of new work, or return the names of facts that differ from the stored ones."""
        given = json.dumps(facts, sort_keys=True)
        before = self.recall("work")
        if before is None:
            self.note("work", given.encode())
            return []
        then, now = json.loads(before), json.loads(given)
        return sorted(name for name in {*then, *now} if then.get(name) != now.get(name))

    def note(self, name: str, value: bytes) -> None:
        """Store a value."""
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def recall(self, name: str) -> bytes | None:
        """Return a stored value; None if there is none."""
        found: bytes | None = self._first("SELECT value FROM facts WHERE name = ?", name)
        return found

    # Units of work.

    def is_done(self, stage: str, key: str) -> bool:
        """Return whether a unit is done."""
        return bool(self._first("SELECT done FROM units WHERE stage = ? AND key = ?", stage, key))

    def begin(self, stage: str, key: str) -> int:
        """Begin a unit, and delete its rows. Return its number."""
        with self.transaction():
            self._db.execute("INSERT OR IGNORE INTO units (stage, key, done) VALUES (?, ?, 0)", (stage, key))
            number = int(self._first("SELECT number FROM units WHERE stage = ? AND key = ?", stage, key))
            for table in ("pieces", "marks", "dropped"):
                self._db.execute(f"DELETE FROM {table} WHERE unit = ?", (number,))  # noqa: S608 - one of three words
        return number

    def done(self, unit: int) -> None:
        """Mark a unit as done."""
        self._db.execute("UPDATE units SET done = 1 WHERE number = ?", (unit,))

    # Jobs.

    def begin_search(self, stage: str) -> None:
        """Delete all jobs, and the units that found them."""
        with self.transaction():
            self._db.execute("DELETE FROM units WHERE stage = ?", (stage,))
            for table in ("lives", "gone"):
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - one of two words

    def keep(self, lives: Iterable[Life]) -> None:
        """Store jobs. The later record of a job replaces the earlier one."""
        self._db.executemany(
            "INSERT OR REPLACE INTO lives VALUES (?, ?, ?, ?)",
            ((life.job.job_id, life.since, life.until, packed_life(life)) for life in lives),
        )

    def lives(self, within: Range | None = None, *, shown_after: float = 0.0) -> Iterator[Life]:
        """Yield the jobs that lived in a range, or that ended at most so many seconds before it, by id."""
        after = ""
        start, end = (-math.inf, math.inf) if within is None else (within.start - shown_after, within.end)
        while True:  # in pages: no commit is possible while a cursor is open
            rows = self._db.execute(
                "SELECT job_id, life FROM lives WHERE job_id > ? AND since < ? AND (until IS NULL OR until >= ?)"
                " ORDER BY job_id LIMIT 200",
                (after, end, start),
            ).fetchall()
            for _, data in rows:
                yield unpacked_life(data)
            if len(rows) < 200:
                return
            after = rows[-1][0]

    def count_lives(self) -> int:
        """Count the stored jobs."""
        return int(self._first("SELECT count(*) FROM lives"))

    def gone(self, job_id: str) -> None:
        """Store that a job was deleted in the cloud."""
        self._db.execute("INSERT OR IGNORE INTO gone VALUES (?)", (job_id,))

    def count_gone(self) -> int:
        """Count the jobs that were deleted in the cloud."""
        return int(self._first("SELECT count(*) FROM gone"))

    # Samples.

    def add_points(
        self,
        unit: int,
        series: Series,
        points: Iterable[tuple[int, array[int], array[float]]],
        *,
        job_id: str,
        source: str,
    ) -> None:
        """Store points of one series. Each point belongs to a day (Unix seconds of its beginning)."""
        self._db.executemany(
            "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, '', ?)",
            [
                (day, *series, times[0], unit, job_id, source, times[-1] + 1, _packed(times, values))
                for day, times, values in points
                if times
            ],
        )

    def add_steady(self, unit: int, day: int, found: Iterable[Steady], step: int) -> None:
        """Store series that have one value for a time."""
        self._db.executemany(
            "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, '', '', ?, ?, ?, x'')",
            ((day, *one.series, one.within.start, unit, step, one.within.end, one.value) for one in found),
        )

    def forget(self, day: int, found: Iterable[tuple[str, str]]) -> None:
        """Delete what sources reported about jobs on a day: (job, source)."""
        self._db.executemany(
            "DELETE FROM pieces WHERE day = ? AND job_id = ? AND source = ?", ((day, *pair) for pair in found)
        )

    def pieces(self, day: int) -> Iterator[SampleRun]:
        """Yield the pieces of a day, by family, series and time."""
        cursor = self._db.execute(
            "SELECT family, labels, start, end, step, value, points FROM pieces"
            " WHERE day = ? ORDER BY family, labels, start",
            (day,),
        )
        for family, labels, start, end, step, value, points in cursor:
            yield SampleRun(Series(family, labels), start, end, step, value, None if step else _unpacked(points))

    def mark(self, unit: int, day: int, job_id: str, mark: str) -> None:
        """Store a mark of a job."""
        self._db.execute("INSERT OR IGNORE INTO marks VALUES (?, ?, ?, ?)", (day, job_id, mark, unit))

    def marks(self, day: int) -> dict[str, frozenset[str]]:
        """Return the marks of a day, by job."""
        found: dict[str, set[str]] = {}
        for job_id, mark in self._db.execute("SELECT job_id, mark FROM marks WHERE day = ?", (day,)):
            found.setdefault(job_id, set()).add(mark)
        return {job_id: frozenset(marks) for job_id, marks in found.items()}

    def dropped(self, unit: int, counts: Mapping[str, int]) -> None:
        """Add dropped values, by reason."""
        self._db.executemany(
            "INSERT INTO dropped VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            ((reason, unit, count) for reason, count in counts.items() if count),
        )

    def all_dropped(self) -> dict[str, int]:
        """Return the dropped values of all units, by reason."""
        rows = self._db.execute("SELECT reason, sum(count) FROM dropped GROUP BY reason ORDER BY reason")
        return {reason: int(count) for reason, count in rows}

    # Days.

    def is_written(self, day: int) -> bool:
        """Return whether the day's file is written."""
        return bool(self._first("SELECT 1 FROM days WHERE day = ?", day))

    def written(self, day: int, stage: str) -> None:
        """Mark the day as written, and delete its rows."""
        with self.transaction():
            self._db.execute("INSERT INTO days VALUES (?)", (day,))
            self._db.execute("DELETE FROM pieces WHERE day = ?", (day,))
            self._db.execute("DELETE FROM marks WHERE day = ?", (day,))
            # The command reports the dropped values of all units at the end.
            self._db.execute("DELETE FROM units WHERE stage = ?", (stage,))

    def _first(self, query: str, *values: object) -> Any:
        """Return the first column of the first row; None without a row."""
        row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]

    def shrink(self) -> None:
        """Release disk space that is no longer needed."""
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _packed(times: array[int], values: array[float]) -> bytes:
    return array("q", times).tobytes() + array("d", values).tobytes()


def _unpacked(data: bytes) -> tuple[array[int], array[float]]:
    half = len(data) // 2
    times, values = array("q"), array("d")
    times.frombytes(data[:half])
    values.frombytes(data[half:])
    return times, values
