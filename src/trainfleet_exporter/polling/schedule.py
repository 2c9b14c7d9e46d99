"""When collectors run: one APScheduler job for each, the first run at once, never two of one at a time.

Known of APScheduler and mended here: it plans by the wall clock, so that a clock set back an hour would stop polling
for an hour; and a run that outlasts its interval is skipped rather than followed at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from apscheduler.job import Job
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from trainfleet_exporter.polling.runner import Runner

log = logging.getLogger(__name__)

_HOUSEKEEPING_INTERVAL = 1.0
_CLOCK_JUMP = 2.0
"""A wall clock that moved by more than this against the loop's was set, not slewed."""


class Schedule:
    """Runs the runners on their intervals, and every second lets go of what was shown long enough."""

    def __init__(self, runners: Iterable[Runner]) -> None:
        self._runners = tuple(runners)
        # A cycle that outlasts its interval is normal here and shown by a metric.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._jobs: dict[Runner, Job] = {}
        self._housekeeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start every runner's first poll now."""
        self._scheduler.start()
        for runner in self._runners:
            self._jobs[runner] = self._scheduler.add_job(
                self._run,
                IntervalTrigger(seconds=runner.collector.interval, timezone=UTC),
                args=[runner],
                next_run_time=datetime.now(UTC),
                misfire_grace_time=None,
                coalesce=True,
                max_instances=1,
            )
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

    async def _run(self, runner: Runner) -> None:
        loop = asyncio.get_running_loop()
        late = True
        while late and self._scheduler.running:
            started = loop.time()
            await runner.tick()
            # One that outlasted its interval is followed at once: its own tick came while it ran, and was skipped.
            late = loop.time() - started >= runner.collector.interval

    async def _keep_house(self) -> None:
        loop = asyncio.get_running_loop()
        offset = time.time() - loop.time()
        while True:
            await asyncio.sleep(_HOUSEKEEPING_INTERVAL)
            jump = time.time() - loop.time() - offset
            if abs(jump) > _CLOCK_JUMP:
                offset += jump
                log.warning("the clock was set by %+.1f s; polls keep their intervals", jump)
                for job in self._jobs.values():
                    if job.next_run_time is not None:
                        job.modify(next_run_time=job.next_run_time + timedelta(seconds=jump))
            for runner in self._runners:
                try:
                    await runner.expire()
                except Exception:  # what is too old must go, whatever happens to a neighbour
                    log.exception("housekeeping failed on a fault of the exporter's own")
