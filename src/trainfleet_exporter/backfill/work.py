"""The work of a backfill: find the jobs, then read and write each day, unit by unit.

    searches ─► details ─► for each day: readings ─► what is left ─► what records prove ─► the day's file

Each unit is done once, completely or not at all. A day is written only when all of its units are done: failed is not
empty.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from trainfleet_exporter.backfill.days import days, name_of
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.series import Namer, steady
from trainfleet_exporter.backfill.spool import Spool
from trainfleet_exporter.backfill.writer import write_day
from trainfleet_exporter.errors import AccessDenied, CloudError, OperatorError, StartError
from trainfleet_exporter.families import MetricFamily
from trainfleet_exporter.providers.history import History, Life, Range, Track, Unit

_CALL_SECONDS = 3600.0
"""Seconds that one unit may take: a thousand tasks at one call a second, and pauses that the service requests. Each
attempt has its own, shorter timeout."""
_PAUSES = (5.0, 30.0, 120.0)
"""Seconds before a failed unit is tried again. The transport has already tried each call several times."""
_ENOUGH = 8
"""Units in a row that failed after all retries. After so many, the cause is not a single unit."""
_FAILURES_SHOWN = 20
"""Failures that are listed."""
_SEARCH, _DETAIL, _ONCE = "search", "detail", "once"
_SEARCHED = "searched"
"""The fact that all searches are done."""
_SAMPLES_BUFFERED = 250_000
"""Samples that are buffered before they are written to disk: 4 MB."""
_RECORDS = 100
"""Jobs whose records are converted to samples at a time."""


class Unfinished(OperatorError):
    """The work stopped before its end. The results are kept, and the same command continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The range of time, the jobs and the intervals of a backfill."""

    provider: str
    wanted: Range
    begun: float
    """Unix time at which the work first began."""
    job_id: str
    """The only job to read; empty for all."""
    out: Path
    step: int
    """Seconds between two samples of values that records prove."""
    retention: float
    """Seconds for which a job is shown after its end."""
    workers: int
    families: Sequence[MetricFamily]
    """The table of metrics, with the HELP texts of the files."""


@dataclass(slots=True)
class Outcome:
    """The files and failures of a backfill."""

    files: list[Path] = field(default_factory=list)
    """The written days, including those of earlier runs."""
    missing: list[str] = field(default_factory=list)
    """The dates of days without a file."""
    failures: list[str] = field(default_factory=list)
    """Descriptions of some failures."""


class Work:
    """One backfill."""

    def __init__(self, history: History, spool: Spool, namer: Namer, order: Order, progress: Progress) -> None:
        self._history = history
        self._spool = spool
        self._namer = namer
        self._order = order
        self._progress = progress
        self._outcome = Outcome()
        self._in_a_row = 0

    async def learn(self) -> Counter[str]:
        """Read what the plans depend on; return the least number of calls of the search for jobs, by API. Raises
        Unfinished."""
        order, history = self._order, self._history
        learned = self._spool.recall("learned")
        if learned is None:
            self._progress.stage = "reading lists"
            try:
                learned = await history.learn(asyncio.get_running_loop().time() + _CALL_SECONDS)
            except CloudError as error:
                raise Unfinished(f"cannot read the provider's lists: {error}") from None
            self._spool.note("learned", learned)
        history.recall(learned, order.job_id)
        calls: Counter[str] = Counter()
        if self._spool.recall(_SEARCHED) is None:
            for unit in chain.from_iterable(history.searches(order.wanted, order.begun)):
                calls.update(unit.calls)
        return calls

    async def find(self) -> None:
        """Find the jobs. Raises Unfinished."""
        order, history, spool = self._order, self._history, self._spool

        self._progress.stage = "finding jobs"
        if spool.recall(_SEARCHED) is None:
            # After an interruption, it begins again: since then, a job may have moved from a list that is still to be
            # read to one that was already read.
            spool.begin_search(_SEARCH)
            for searches in history.searches(order.wanted, order.begun):
                if not await self._all(_SEARCH, searches):
                    break
            else:
                spool.note(_SEARCHED, b"")
        self._progress.stage = "reading records of jobs"
        if not self._outcome.failures:
            await self._all(_DETAIL, history.details(spool.lives()))
        if self._outcome.failures:
            raise Unfinished(f"cannot find all jobs: {self._outcome.failures[0]}")

    def expected(self) -> Counter[str]:
        """Return the expected calls of the rest of the work, by API."""
        calls: Counter[str] = Counter()
        seen: set[str] = set()
        for day in days(self._order.wanted):
            if self._spool.is_written(day.start):
                continue
            for unit in (*self._history.readings(day, self._spool.lives), *self._history.left(day, self._lives, None)):
                if unit.once and unit.key in seen:
                    continue
                seen.update([unit.key] if unit.once else [])
                if not self._spool.is_done(_ONCE if unit.once else name_of(day), unit.key):
                    calls.update(unit.calls)
        return calls

    async def run(self) -> Outcome:
        """Read and write all days. Raises Unfinished if the work cannot continue."""
        for day in days(self._order.wanted):
            path = self._order.out / f"{self._order.provider}-{name_of(day)}.om"
            if not self._spool.is_written(day.start):
                self._progress.stage = name_of(day)
                if not await self._day(day, path):
                    self._outcome.missing.append(name_of(day))
                    continue
            self._outcome.files.append(path)
        if not self._outcome.missing:
            self._spool.shrink()
        return self._outcome

    async def _day(self, day: Range, path: Path) -> bool:
        """Read and write a day; return whether its file exists."""
        history, spool = self._history, self._spool
        if not await self._all(name_of(day), history.readings(day, self._lives), day):
            return False
        if not await self._all(name_of(day), history.left(day, self._lives, spool.marks(day.start)), day):
            return False
        self._add_records(day)
        with spool.transaction():
            spool.forget(day.start, history.outshone(day, self._lives, spool.marks(day.start)))
        try:
            write_day(path, spool.pieces(day.start), self._order.families)
        except OSError as error:
            raise StartError(
                f"{path}: cannot write: {error.strerror}; run the same command again to continue"
            ) from None
        spool.written(day.start, name_of(day))
        self._progress.report(at_once=True)
        return True

    def _lives(self, within: Range) -> Iterator[Life]:
        return self._spool.lives(within)

    def _add_records(self, day: Range) -> None:
        order, spool = self._order, self._spool
        if spool.is_done(name_of(day), "records"):
            return
        unit = spool.begin(name_of(day), "records")
        lives = spool.lives(day, shown_after=order.retention)
        while some := list(islice(lives, _RECORDS)):
            with spool.transaction():
                for life in some:
                    found = steady(
                        life,
                        day,
                        self._namer,
                        step=order.step,
                        retention=order.retention,
                        last=order.wanted.end,
                    )
                    spool.add_steady(unit, day.start, found, order.step)
        spool.done(unit)

    async def _all(self, stage: str, units: Iterable[Unit], day: Range | None = None) -> bool:
        """Do units, several at a time; return whether all of them are done. Raises Unfinished."""
        source, good = iter(units), True

        async def work() -> None:
            nonlocal good
            for unit in source:  # shared: only one worker takes each unit
                where = _ONCE if unit.once else stage
                if self._spool.is_done(where, unit.key):
                    self._progress.report()  # its calls were not expected either
                elif await self._one(where, unit, day):
                    self._progress.done(0 if day is None else sum(unit.calls.values()))
                else:
                    good = False

        workers = [asyncio.create_task(work()) for _ in range(self._order.workers)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return good

    async def _one(self, stage: str, unit: Unit, day: Range | None) -> bool:
        loop = asyncio.get_running_loop()
        pauses = iter(_PAUSES)
        while True:
            number = self._spool.begin(stage, unit.key)
            sink = _Gathering(self._spool, number, self._days(stage, day), self._namer, self._order)
            try:
                await unit.do(sink, loop.time() + _CALL_SECONDS)
            except AccessDenied as error:
                raise Unfinished(f"a right is missing, or the cloud rejects the credentials: {error}") from None
            except CloudError as error:
                pause = next(pauses, None)
                if pause is None:
                    self._failed(unit, error)
                    return False
                await asyncio.sleep(pause)
                continue
            self._in_a_row = 0
            sink.end()
            return True

    def _failed(self, unit: Unit, error: CloudError) -> None:
        """Give up a unit for this run. Raises Unfinished if all units seem to fail."""
        self._in_a_row += 1
        if self._in_a_row >= _ENOUGH:
            raise Unfinished(f"{self._in_a_row} failures in a row, the last one: {error}")
        if len(self._outcome.failures) < _FAILURES_SHOWN:
            self._outcome.failures.append(f"{unit.key}: {error}")

    def _days(self, stage: str, day: Range | None) -> list[Range]:
        """Return the days that a unit covers."""
        if day is None:
            return []
        if stage != _ONCE:
            return [day]
        return [each for each in days(self._order.wanted) if not self._spool.is_written(each.start)]


class _Gathering:
    """Collects the results of one unit for the spool (history.Sink)."""

    def __init__(self, spool: Spool, unit: int, within: list[Range], namer: Namer, order: Order) -> None:
        self._spool = spool
        self._unit = unit
        self._days = within
        self._namer = namer
        self._lives: list[Life] = []
        self._tracks: list[Track] = []
        self._samples = 0
        self._marks: list[tuple[int, str, str]] = []
        self._dropped: Counter[str] = Counter()
        self._gone: list[str] = []
        self._order = order

    def life(self, life: Life) -> None:
        wanted = self._order.wanted
        ended = life.until is not None and life.until + self._order.retention < wanted.start
        if life.since < wanted.end and not ended:
            self._lives.append(life)

    def track(self, track: Track) -> None:
        self._tracks.append(track)
        self._samples += len(track.times)
        if self._samples >= _SAMPLES_BUFFERED:
            with self._spool.transaction():
                self._flush()

    def mark(self, job_id: str, mark: str, times: array[int] | None = None) -> None:
        for day in self._days:
            if times is None or bisect_left(times, day.start) < bisect_left(times, day.end):
                self._marks.append((day.start, job_id, mark))

    def dropped(self, reason: str, count: int = 1) -> None:
        self._dropped[reason] += count

    def gone(self, job_id: str) -> None:
        self._gone.append(job_id)

    def end(self) -> None:
        """Mark the unit as done: its results count from now on."""
        with self._spool.transaction():
            self._flush()
            self._spool.keep(self._lives)
            for start, job_id, mark in self._marks:
                self._spool.mark(self._unit, start, job_id, mark)
            for job_id in self._gone:
                self._spool.gone(job_id)
            self._spool.dropped(self._unit, self._dropped)
            self._spool.done(self._unit)

    def _flush(self) -> None:
        for track in self._tracks:
            series = self._namer.of_track(track)
            if series is not None:
                self._spool.add_points(
                    self._unit, series, self._by_day(track), job_id=track.keys[0], source=track.source
                )
        self._tracks.clear()
        self._samples = 0

    def _by_day(self, track: Track) -> Iterator[tuple[int, array[int], array[float]]]:
        for day in self._days:
            part = slice(bisect_left(track.times, day.start), bisect_left(track.times, day.end))
            yield day.start, track.times[part], track.values[part]


def in_words(counts: Mapping[str, int]) -> str:
    """Format counts by name for a user."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
