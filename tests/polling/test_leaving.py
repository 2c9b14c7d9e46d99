"""Runners that come and go while a schedule runs, and parts that are dropped while others are rebuilt."""

from __future__ import annotations

import asyncio

from tests.polling.rig import Rig, count
from tests.support.clock import run_stepped
from tests.support.collectors import Bulk
from trainfleet_exporter.polling import Poll, Schedule


def _counting(polls: list[float], *, seconds: float = 0.0) -> Rig:
    async def run(poll: Poll) -> None:
        polls.append(asyncio.get_running_loop().time())
        async with poll.part("a") as part:
            await asyncio.sleep(seconds)
            await part.publish(count("a"))

    return Rig(Bulk(name="jobs", interval=60, run=run))


def test_one_that_comes_polls_at_once_and_one_that_goes_no_more() -> None:
    async def main() -> None:
        first: list[float] = []
        later: list[float] = []
        early: list[float] = []
        staying, coming, never = _counting(first), _counting(later), _counting(early)
        schedule = Schedule([staying.runner])
        schedule.add([never.runner])
        await schedule.remove([never.runner])  # before the start
        schedule.start()
        await asyncio.sleep(30)
        schedule.add([coming.runner])
        await asyncio.sleep(65)
        await schedule.remove([coming.runner])
        await asyncio.sleep(200)
        await schedule.stop()
        schedule.add([_counting(early).runner])
        await asyncio.sleep(200)
        assert (first, later, early) == ([0, 60, 120, 180, 240], [30, 90], [])
        assert await coming.parts() == {"a"}  # what it showed is another's business
        coming.runner.vanish()
        assert await coming.parts() == set()
        assert coming.own("collector_parts") == coming.own("collector_series") == 0

    run_stepped(main)


def test_provider_removed_during_an_overlong_poll() -> None:
    async def main() -> None:
        polls: list[float] = []
        rig = _counting(polls, seconds=49)
        rig.runner.collector = Bulk(name="jobs", interval=20, run=rig.runner.collector.run)  # type: ignore[union-attr]
        schedule = Schedule([rig.runner])
        schedule.start()
        await asyncio.sleep(60)
        await schedule.remove([rig.runner])
        await asyncio.sleep(300)
        await schedule.stop()
        assert polls == [0, 49]
        assert rig.own("collector_errors_total", reason="deadline") is None

    run_stepped(main)
