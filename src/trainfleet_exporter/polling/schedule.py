"""When collectors run: one APScheduler job for each, the first run at once, never two of one at a time.

Known of APScheduler and mended here: it plans by the wall clock, so that a clock set back an hour would stop polling
for an hour; a run that outlasts its interval is skipped rather than followed at once; and its intervals are fixed,
while ours stretch, so that each run's end sets the time of the next.
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

log = logging.getLogger(__name__)

_HOUSEKEEPING_INTERVAL = 1.0
_CLOCK_JUMP = 2.0
"""A wall clock that moved by more than this against the loop's was set, not slewed."""
_TOLERANCE = 0.5
"""Seconds by which a planned run may differ from what the interval, which changes all the time, asks for by now."""


@dataclass(slots=True)
class _Turns:
    """The runs of one runner. `began` is the loop time that its latest was due at, `due` that of the next."""

    runner: Runner
    began: float
    due: float
    job: Job
    running: bool = False


class Schedule:
    """Runs the runners on their intervals, and every second lets go of what was shown long enough."""

    def __init__(self, runners: Iterable[Runner]) -> None:
        self._runners = tuple(runners)
        # A cycle that outlasts its interval is normal here and shown by a metric.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._turns: list[_Turns] = []
        self._housekeeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start every runner's first poll now."""
        self._scheduler.start()
        now = asyncio.get_running_loop().time()
        for number, runner in enumerate(self._runners):
            job = self._scheduler.add_job(
                self._run,
                IntervalTrigger(seconds=runner.collector.interval, timezone=UTC),
                args=[number],
                next_run_time=datetime.now(UTC),
                misfire_grace_time=None,
                coalesce=True,
                max_instances=1,
            )
            self._turns.append(_Turns(runner, now, now, job))
        self._housekeeping = asyncio.create_task(self._keep_house())

    async def stop(self) -> None:
        """End all running polls and start no other."""
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.wait([self._housekeeping])
        if self._scheduler.running:
            self._scheduler.pause()
        await asyncio.gather(*(runner.stop() for runner in self._runners))
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)  # its shutdown is a callback on this loop

    async def _run(self, number: int) -> None:
        turns, loop = self._turns[number], asyncio.get_running_loop()
        turns.running = True
        try:
            while self._scheduler.running:
                # Counted from when it was due, so that small delays do not add up. It may begin before, where the wall
                # clock was set or the pace slowed down in this very moment.
                turns.began = min(turns.due, loop.time())
                await turns.runner.tick()
                turns.due = turns.began + turns.runner.interval
                if turns.due > loop.time():
                    break
                turns.due = loop.time()  # one that outlasted its interval is followed at once
        finally:
            turns.running = False
            self._plan(turns)

    def _plan(self, turns: _Turns) -> None:
        wait = max(0.0, turns.due - asyncio.get_running_loop().time())
        if self._scheduler.running and not turns.running:
            turns.job.modify(next_run_time=datetime.now(UTC) + timedelta(seconds=wait))

    def _follow_pace(self, turns: _Turns) -> None:
        """Move the next run where the interval has changed since the latest one ended."""
        turns.runner.look_ahead()
        due = max(turns.began + turns.runner.interval, asyncio.get_running_loop().time())
        if not turns.running and turns.began != turns.due and abs(due - turns.due) > _TOLERANCE:
            turns.due = due
            self._plan(turns)

    async def _keep_house(self) -> None:
        loop = asyncio.get_running_loop()
        offset = time.time() - loop.time()
        while True:
            await asyncio.sleep(_HOUSEKEEPING_INTERVAL)
            jump = time.time() - loop.time() - offset
            if abs(jump) > _CLOCK_JUMP:
                offset += jump
                log.warning("the clock was set by %+.1f s; polls keep their intervals", jump)
                for turns in self._turns:
                    self._plan(turns)
            for turns in self._turns:
                try:
                    self._follow_pace(turns)
                    await turns.runner.expire()
                except Exception:  # what is too old must go, whatever happens to a neighbour
                    log.exception("housekeeping failed on a fault of the exporter's own")
