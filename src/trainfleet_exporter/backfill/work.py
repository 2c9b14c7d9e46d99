"""The work of a backfill: find the jobs, then read and write each day.

    searches ─► details ─► for each day: calls ─► what records prove ─► the day's file

A day is written only when all of its calls succeeded: a failed call is not an empty one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeVar

from trainfleet_exporter.backfill.days import days, name_of
from trainfleet_exporter.backfill.parts import DayParts
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.series import Namer, records
from trainfleet_exporter.config import Global, ProviderConfig
from trainfleet_exporter.errors import AccessDenied, CloudError, OperatorError, StartError
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.fleet.jobs import job_filter
from trainfleet_exporter.providers.past import Life, Past, PastCall, Range, Track

T = TypeVar("T")
_CALL_SECONDS = 3600.0
"""Seconds that one planned call may take: it may have a thousand pages, and pauses that the service requests."""
_PAUSES = (5.0, 30.0, 120.0)
"""Seconds before a failed call is planned again. The transport has already tried it several times."""
_SHORTEST_STEP, _LONGEST_STEP = 60, 240
"""Seconds between two samples of values that records prove. A scrape interval is not shorter, and Prometheus looks back
five minutes."""
_ENOUGH = 3
"""Days in a row that failed after all retries. After so many, the cause is not a single day."""


class Unfinished(OperatorError):
    """The work stopped before its end. Whole days are kept, and the same command continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    provider: str
    wanted: Range
    out: Path
    job_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def file(self, day: Range) -> Path:
        return self.out / f"{self.provider.replace('/', '%2F')}-{name_of(day)}.om"

    def left(self) -> list[Range]:
        return [day for day in days(self.wanted) if not self.file(day).exists()]


@dataclass(slots=True)
class Outcome:
    files: list[Path] = field(default_factory=list)
    """The written days, including those of earlier runs."""
    failures: dict[str, CloudError] = field(default_factory=dict)
    """By the date of a day without a file, why it has none."""


class Work:
    def __init__(self, past: Past, flags: Flags, settings: Global, config: ProviderConfig, progress: Progress) -> None:
        self.past = past
        self._flags = flags
        self._namer = Namer(flags.provider, settings, flags.labels)
        self._is_shown = job_filter(config.jobs)
        self._step = int(min(max(settings.poll_interval, _SHORTEST_STEP), _LONGEST_STEP))
        self._retention = settings.finished_job_retention
        self._workers = config.limits.concurrency
        self._progress = progress

    async def learn(self) -> None:
        """Read what calls are planned by. Raises Unfinished."""
        self._progress.stage = "reading lists"
        try:
            await self.past.learn(asyncio.get_running_loop().time() + _CALL_SECONDS)
        except CloudError as error:
            raise Unfinished(f"cannot read the provider's lists: {error}") from None

    async def find(self, now: float, say: Callable[[str], None]) -> dict[str, Life]:
        """Return the jobs of the range, by id. `now` is a Unix time. Raises Unfinished."""
        wanted, past, found = self._flags.wanted, self.past, dict[str, Life]()

        def take(life: Life) -> None:
            is_one = past.job_id in ("", life.job.job_id)
            if is_one and self._is_shown(life.job) and life.is_in(wanted, shown_after=self._retention):
                found[life.job.job_id] = life

        rounds = list(past.searches(wanted, now))
        least = _sum(chain.from_iterable(rounds))
        say(f"looking for jobs: {in_words(least)} call(s) at least, and more for the records of jobs")
        self._progress.stage = "finding jobs"
        try:
            for calls in rounds:
                await self._each(calls, take)
            await self._each(past.details(list(found.values())), take)
        except CloudError as error:
            raise Unfinished(f"cannot find all jobs: {error}") from None
        return found

    def expected(self, lives: Sequence[Life]) -> Counter[str]:
        """Return the expected calls of the rest of the work, by API."""
        return _sum(
            call
            for day in self._flags.left()
            for call in self.past.readings(day, [life for life in lives if life.is_in(day)])
        )

    async def run(self, lives: Sequence[Life], expected: int) -> Outcome:
        """Read and write all days. `expected` are the calls for it. Raises Unfinished if the work cannot continue."""
        self._progress.expected = expected
        outcome, in_a_row = Outcome(), 0
        for day in days(self._flags.wanted):
            path, name = self._flags.file(day), name_of(day)
            if not path.exists():
                self._progress.stage = name
                try:
                    with DayParts(self._flags.out) as parts:
                        await self._read_day(day, lives, parts)
                        parts.write(path, FAMILIES)
                except OSError as error:
                    again = "run the same command again to continue"
                    raise StartError(f"{path}: cannot write: {error.strerror}; {again}") from None
                except AccessDenied as error:
                    raise Unfinished(f"a right is missing, or the cloud rejects the credentials: {error}") from None
                except CloudError as error:
                    outcome.failures[name] = error
                    in_a_row += 1
                    if in_a_row == _ENOUGH:
                        raise Unfinished(f"{in_a_row} days in a row failed, the last one: {error}") from None
                    continue
                in_a_row = 0
            outcome.files.append(path)
        return outcome

    async def _read_day(self, day: Range, lives: Sequence[Life], parts: DayParts) -> None:
        def take(track: Track) -> None:
            within = slice(bisect_left(track.times, day.start), bisect_left(track.times, day.end))
            series = self._namer.of_track(track)
            if series is not None:
                parts.add(series, track.times[within], track.values[within])

        await self._each(self.past.readings(day, [life for life in lives if life.is_in(day)]), take)
        retention, is_last = self._retention, day.end == self._flags.wanted.end
        for life in lives:
            if life.is_in(day, shown_after=retention):
                proven = records(life, day, self._namer, step=self._step, retention=retention, is_last=is_last)
                for series, times, values in proven:
                    parts.add(series, times, values)

    async def _each(self, calls: Iterable[PastCall[T]], take: Callable[[T], None]) -> None:
        """Make planned calls, several at a time. Raises CloudError."""
        source = iter(calls)

        async def work() -> None:
            for call in source:  # shared: only one worker takes each call
                for found in await self._one(call):
                    take(found)

        workers = [asyncio.create_task(work()) for _ in range(self._workers)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _one(self, call: PastCall[T]) -> list[T]:
        """Make a planned call. What a failed attempt found does not count."""
        clock = asyncio.get_running_loop().time
        for pause in (*_PAUSES, None):
            try:
                return [found async for found in call.read(clock() + _CALL_SECONDS)]
            except AccessDenied:
                raise
            except CloudError as error:
                if pause is None:
                    error.message = f"{call.what}: {error.message}"
                    raise
                await asyncio.sleep(pause)
        raise AssertionError


def _sum(calls: Iterable[PastCall[T]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for call in calls:
        found.update(call.calls)
    return found


def in_words(counts: Mapping[str, int]) -> str:
    """Format counts by name for a user."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
