"""Runs collectors: one APScheduler job for each next run, the first at once, never two runs of one at a time.

APScheduler plans by the wall clock. Here intervals are counted by the loop's clock and stretch, so each second a next
run is moved if its time has changed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.job import Job
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from trainfleet_exporter.polling.runner import Runner
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

_EXPIRY_INTERVAL = 1.0
_CLOCK_JUMP = 2.0
"""If the wall clock moves by more than this against the loop's clock, it was set."""
_TOLERANCE = 0.5
"""Seconds by which a run may differ from the current interval, which changes all the time."""


@dataclass(slots=True, eq=False)
class _Runs:
    """The runs of one runner. `began` is the loop time from which the interval counts, `next` None while one runs."""

    runner: Runner
    began: float = -math.inf
    next: Job | None = None


class Schedule:
    """Runs the runners on their intervals, and drops expired parts every second."""

    def __init__(self, runners: Iterable[Runner]) -> None:
        logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it logs each run
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._runs: list[_Runs] = []
        self._housekeeping: asyncio.Task[None] | None = None
        self.add(runners)

    def start(self) -> None:
        """Start every runner's first poll now."""
        self._scheduler.start()
        self._housekeeping = asyncio.create_task(self._expire_parts())
        for runs in self._runs:
            self._plan(runs)

    def add(self, runners: Iterable[Runner]) -> None:
        """Add these runners. Start their first poll now, or with the others if the schedule has not started."""
        for runner in runners:
            self._runs.append(_Runs(runner))
            self._plan(self._runs[-1])

    async def remove(self, runners: Collection[Runner]) -> None:
        """Remove these, and end their running polls."""
        self._runs = [runs for runs in self._runs if runs.runner not in runners]
        for job in self._scheduler.get_jobs():
            if job.args[0].runner in runners:
                job.remove()
        await asyncio.gather(*(runner.stop() for runner in runners))

    async def stop(self) -> None:
        """End all running polls and start no other."""
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.wait([self._housekeeping])
        await self.remove([runs.runner for runs in self._runs])
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)  # its shutdown is a callback on this loop

    async def _run(self, runs: _Runs) -> None:
        runs.next, now = None, asyncio.get_running_loop().time()
        # Counted from its due time, so that small delays do not add up.
        due = runs.began + runs.runner.interval
        runs.began = due if 0 <= now - due <= _TOLERANCE else now
        try:
            await runs.runner.tick()
        finally:
            self._plan(runs)

    def _plan(self, runs: _Runs) -> None:
        """Plan the next run, or move it if its time has changed."""
        if not self._scheduler.running or runs not in self._runs:
            return
        wait = max(0.0, runs.began + runs.runner.interval - asyncio.get_running_loop().time())
        planned = datetime.now(UTC) + timedelta(seconds=wait)
        if runs.next is None:
            runs.next = self._scheduler.add_job(self._run, "date", [runs], run_date=planned, misfire_grace_time=None)
        elif abs((planned - runs.next.next_run_time).total_seconds()) > _TOLERANCE:
            with suppress(JobLookupError):  # it is about to begin
                runs.next.modify(next_run_time=planned)

    async def _expire_parts(self) -> None:
        loop = asyncio.get_running_loop()
        offset = time.time() - loop.time()
        while True:
            await asyncio.sleep(_EXPIRY_INTERVAL)
            jump = time.time() - loop.time() - offset
            if abs(jump) > _CLOCK_JUMP:
                offset += jump
                log.warning("system clock jumped; polls keep their intervals", extra=fields(seconds=round(jump, 1)))
            for runs in self._runs:
                try:
                    if runs.next is not None:
                        self._plan(runs)
                    runs.runner.expire()
                except Exception:  # an error of one runner must not keep old parts of another
                    log.exception("dropping expired parts failed: internal error")
