"""Runs collectors: one APScheduler job for each, the first run at once, never two runs of one at a time.

APScheduler plans by the wall clock and by fixed intervals, and skips a run that the last one outlasts. Here intervals
are counted by the loop's clock and stretch, so each second the next run is planned again if its time has moved.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.job import Job
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

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
    """The runs of one runner. `began` is the loop time from which the interval to the next one counts."""

    runner: Runner
    began: float
    job: Job | None = None
    running: bool = False
    over: bool = False


class Schedule:
    """Runs the runners on their intervals, and drops expired parts every second."""

    def __init__(self, runners: Iterable[Runner]) -> None:
        self._waiting = list(runners)
        """The runners to run when it starts."""
        # A cycle that outlasts its interval is normal here and shown by a metric.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._runs: list[_Runs] = []
        self._housekeeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start every runner's first poll now."""
        self._scheduler.start()
        self._housekeeping = asyncio.create_task(self._expire_parts())
        waiting, self._waiting = self._waiting, []
        self.add(waiting)

    def add(self, runners: Iterable[Runner]) -> None:
        """Add these runners. Start their first poll now, or with the others if the schedule has not started."""
        if not self._scheduler.running:
            self._waiting += runners
            return
        for runner in runners:
            runs = _Runs(runner, asyncio.get_running_loop().time() - runner.interval)
            runs.job = self._scheduler.add_job(
                self._run,
                IntervalTrigger(seconds=runner.collector.interval, timezone=UTC),
                args=[runs],
                next_run_time=datetime.now(UTC),
                misfire_grace_time=None,
                coalesce=True,
            )
            self._runs.append(runs)

    async def remove(self, runners: Iterable[Runner]) -> None:
        """Remove these, and end their running polls."""
        gone = list(runners)
        self._waiting = [runner for runner in self._waiting if runner not in gone]
        for runs in [runs for runs in self._runs if runs.runner in gone]:
            self._runs.remove(runs)
            runs.over = True
            if runs.job is not None:
                runs.job.remove()
        await asyncio.gather(*(runner.stop() for runner in gone))

    async def stop(self) -> None:
        """End all running polls and start no other."""
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.wait([self._housekeeping])
        if self._scheduler.running:
            self._scheduler.pause()
        await asyncio.gather(*(runs.runner.stop() for runs in self._runs), *(runner.stop() for runner in self._waiting))
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)  # its shutdown is a callback on this loop

    async def _run(self, runs: _Runs) -> None:
        now = asyncio.get_running_loop().time
        runs.running = True
        try:
            while self._scheduler.running and not runs.over:
                # Counted from its due time, so that small delays do not add up.
                due = runs.began + runs.runner.interval
                runs.began = due if 0 <= now() - due <= _TOLERANCE else now()
                await runs.runner.tick()
                if runs.began + runs.runner.interval > now():
                    break
                runs.began = now() - runs.runner.interval  # it outlasted its interval: the next one starts at once
        finally:
            runs.running = False
            self._plan(runs, tolerance=0.0)

    def _plan(self, runs: _Runs, tolerance: float = _TOLERANCE) -> None:
        """Plan the next run, unless it is planned for about that time already."""
        if not self._scheduler.running or runs.running or runs.over or runs.job is None:
            return
        wait = max(0.0, runs.began + runs.runner.interval - asyncio.get_running_loop().time())
        planned = datetime.now(UTC) + timedelta(seconds=wait)
        if abs((planned - runs.job.next_run_time).total_seconds()) > tolerance:
            runs.job.modify(next_run_time=planned)

    async def _expire_parts(self) -> None:
        loop = asyncio.get_running_loop()
        offset = time.time() - loop.time()
        while True:
            await asyncio.sleep(_EXPIRY_INTERVAL)
            jump = time.time() - loop.time() - offset
            if abs(jump) > _CLOCK_JUMP:
                offset += jump
                log.warning("system clock jumped; polls keep their intervals", extra=fields(seconds=round(jump, 1)))
            for runs in [runs for runs in self._runs if not runs.over]:
                try:
                    runs.runner.look_ahead()
                    self._plan(runs)
                    await runs.runner.expire()
                except Exception:  # an error of one runner must not keep old parts of another
                    log.exception("dropping expired parts failed: internal error")
