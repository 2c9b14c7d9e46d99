"""How polls behave: parts are whole, kept for a while when they fail, then gone; cycles roll and stretch."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from tests.polling.rig import Rig, count
from tests.support.clock import START
from tests.support.logs import line_of
from trainfleet_exporter.errors import BadAnswer, NotReady, ServerTrouble
from trainfleet_exporter.polling import BulkCollector, Part, PerObjectCollector, Poll, Schedule


def _sweep(run: Callable[[Poll], Awaitable[None]], interval: float = 60) -> BulkCollector:
    return BulkCollector("jobs", interval, run)


async def test_failing_part_is_kept_three_intervals_and_dropped() -> None:
    broken: set[str] = set()

    async def run(poll: Poll) -> None:
        for key in ("a", "b"):
            async with poll.part(key) as part:
                if key in broken:
                    raise ServerTrouble("down", operation="ListJobs", status=500)
                await part.publish(count(key))

    rig = Rig(_sweep(run))
    schedule = Schedule([rig.runner])
    schedule.start()
    await asyncio.sleep(1)
    assert await rig.parts() == {"a", "b"}
    assert rig.own("collector_success") == 1
    broken.add("b")
    await asyncio.sleep(60)  # t = 61: the first failure, at t = 60
    assert await rig.parts() == {"a", "b"}
    assert rig.own("collector_success") == 0
    assert rig.own("collector_parts_failed") == 1
    assert rig.own("collector_errors_total", reason="server") == 1
    await asyncio.sleep(178)  # t = 239: three intervals are nearly over
    assert await rig.parts() == {"a", "b"}
    oldest = rig.own("collector_oldest_part_timestamp_seconds")
    assert oldest == START  # the old part shows its age
    await asyncio.sleep(3)  # t = 242
    assert await rig.parts() == {"a"}
    assert rig.own("collector_parts") == 1
    broken.clear()
    await asyncio.sleep(60)
    assert await rig.parts() == {"a", "b"}
    assert rig.own("collector_success") == 1
    assert rig.own("collector_parts_failed") == 0
    await schedule.stop()


async def test_without_keeping_a_failed_part_goes_at_once() -> None:
    broken: set[str] = set()

    async def run(poll: Poll) -> None:
        async with poll.part("a") as part:
            if part.key in broken:
                raise BadAnswer("half a list")
            await part.publish(count("a"))

    rig = Rig(_sweep(run), keep=0)
    await rig.runner.tick()
    await asyncio.sleep(165)  # late, but not failed
    rig.runner.expire()
    assert await rig.parts() == {"a"}
    broken.add("a")
    await rig.runner.tick()
    assert await rig.parts() == set()


async def test_parts_do_not_outlive_a_poller_that_stopped() -> None:
    async def run(poll: Poll) -> None:
        async with poll.part("a") as part:
            await part.publish(count("a"))

    rig = Rig(_sweep(run))
    await rig.runner.tick()
    await asyncio.sleep(4 * 60 + 50)
    rig.runner.expire()
    assert await rig.parts() == set()


async def test_what_is_no_more_goes_at_once() -> None:
    keys = ["a", "b"]

    async def run(poll: Poll) -> None:
        poll.keep_only(keys)
        for key in keys:
            async with poll.part(key) as part:
                await part.publish(count(key))

    rig = Rig(_sweep(run))
    await rig.runner.tick()
    keys.remove("b")
    await rig.runner.tick()
    assert await rig.parts() == {"a"}
    assert rig.own("collector_series") == 1


async def test_a_hanging_part_is_cut_off_and_its_neighbour_stays_fresh() -> None:
    async def run(poll: Poll) -> None:
        async def read(key: str) -> None:
            async with poll.part(key) as part:
                if key == "b":
                    await asyncio.sleep(3600)
                await part.publish(count(key))

        async with asyncio.TaskGroup() as group:
            for key in ("a", "b"):
                group.create_task(read(key))

    rig = Rig(_sweep(run))
    started = asyncio.get_running_loop().time()
    await rig.runner.tick()
    assert asyncio.get_running_loop().time() - started == pytest.approx(51)
    assert await rig.parts() == {"a"}
    assert rig.own("collector_errors_total", reason="deadline") == 1
    assert rig.own("collector_parts_failed") == 1


async def test_failed_poll_is_logged_and_the_next_one_runs() -> None:
    ready: list[bool] = []

    async def run(poll: Poll) -> None:
        if not ready:
            raise NotReady("not yet")
        async with poll.part("a") as part:
            await part.publish(count("a"))

    rig = Rig(_sweep(run))
    await rig.runner.tick()
    assert rig.runner.first_poll_done.is_set()
    assert rig.own("collector_success") == 0
    assert rig.own("collector_parts_failed") == 1
    assert rig.own("collector_last_success_timestamp_seconds") == 0
    ready.append(True)
    await rig.runner.tick()
    assert rig.own("collector_success") == 1
    assert rig.own("collector_parts_failed") == 0
    assert rig.own("collector_last_success_timestamp_seconds") == START


async def test_internal_error_fails_one_part_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run(poll: Poll) -> None:
        for key, divisor in (("a", 0), ("b", 1)):
            async with poll.part(key) as part:
                await part.publish(count(key, 1 // divisor))

    rig = Rig(_sweep(run))
    await rig.runner.tick()
    assert await rig.parts() == {"b"}
    assert rig.own("collector_errors_total", reason="internal") == 1
    shown = rig.runner.state.error  # on the status page, without the text of the exception
    assert shown is not None
    assert shown.text == "internal error (ZeroDivisionError); see the log"
    assert "ZeroDivisionError" in caplog.text


async def test_failures_are_logged_once_and_so_is_their_end(caplog: pytest.LogCaptureFixture) -> None:
    fails = True

    async def run(poll: Poll) -> None:
        for key in ("a", "b", "c"):
            async with poll.part(key) as part:
                if fails:
                    raise ServerTrouble("down")
                await part.publish(count(key))

    with caplog.at_level(logging.INFO):
        rig = Rig(_sweep(run))
        for _ in range(5):
            await rig.runner.tick()
        fails = False
        for _ in range(5):
            await rig.runner.tick()
        assert rig.own("collector_errors_total", reason="server") == 15
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "poll recovered provider=p collector=jobs reasons=server" in line_of(caplog.records[1])


class _Units(PerObjectCollector):
    """A rolling collector: its units, and when each was read. One of its methods may have a bug."""

    def __init__(self, *names: str, takes: float = 0.0, workers: int = 2) -> None:
        super().__init__("pods", 300, workers=workers)
        self.names = list(names)
        self.takes = takes
        self.read_at: list[tuple[str, float]] = []
        self.changed: Callable[[], None] = lambda: None
        self.bug = ""

    def _runs(self, method: str) -> None:
        if self.bug == method:
            raise KeyError("the fault")

    async def begin(self, poll: Poll) -> None:
        self._runs("begin")

    def objects(self) -> list[str]:
        self._runs("objects")
        return list(self.names)

    def is_current(self, object_id: str) -> bool:
        self._runs("is_current")
        return object_id in self.names

    def watch(self, callback: Callable[[], None]) -> None:
        self.changed = callback

    async def poll(self, part: Part) -> None:
        self.read_at.append((part.key, asyncio.get_running_loop().time()))
        await asyncio.sleep(self.takes)
        await part.publish(count(part.key))


@pytest.mark.parametrize("method", ["begin", "objects", "is_current"])
async def test_bug_in_a_cycle_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture, method: str) -> None:
    units = _Units("a", "b")
    rig = Rig(units)
    await rig.runner.tick()
    assert rig.own("collector_success") == 1
    units.bug = method
    await rig.runner.tick()
    assert rig.own("collector_success") == 0
    assert rig.own("collector_errors_total", reason="internal") == 1
    assert rig.own("collector_parts_failed") == 1
    assert [str(error) for error in rig.runner.errors] == ["'the fault'"]
    assert await rig.parts() == {"a", "b"}
    units.bug = ""
    await rig.runner.tick()
    assert rig.own("collector_success") == 1
    assert rig.own("collector_parts_failed") == 0
    assert [record.levelname for record in caplog.records if "internal error" in record.message] == ["ERROR"]


async def test_first_cycle_is_immediate_and_later_ones_are_spread() -> None:
    units = _Units("a", "b", "c")
    rig = Rig(units)
    schedule = Schedule([rig.runner])
    schedule.start()
    await asyncio.sleep(299)
    assert [name for name, _ in units.read_at] == ["a", "b", "c"]
    assert max(when for _, when in units.read_at) < 1
    units.read_at.clear()
    units.names.append("d")
    await asyncio.sleep(300)
    assert [name for name, _ in units.read_at] == ["d", "a", "b", "c"]
    assert [round(when) for _, when in units.read_at] == [300, 300, 400, 500]
    assert rig.own("collector_interval_seconds") == 300
    await schedule.stop()


async def test_a_unit_that_goes_away_takes_its_series_along_at_once() -> None:
    units = _Units("a", "b")
    rig = Rig(units)
    await rig.runner.tick()
    units.names.remove("a")
    units.changed()
    assert await rig.parts() == {"b"}


async def test_answer_about_an_ended_unit_is_not_shown() -> None:
    units = _Units("a", takes=10)
    rig = Rig(units)
    tick = asyncio.create_task(rig.runner.tick())
    await asyncio.sleep(5)
    units.names.clear()
    await tick
    assert await rig.parts() == set()


async def test_stretched_cycle_is_reported_and_the_next_follows() -> None:
    units = _Units("a", "b", "c", "d", takes=200, workers=1)  # 800 s of work each 300 s
    rig = Rig(units, poll_timeout=250)
    schedule = Schedule([rig.runner])
    schedule.start()
    await asyncio.sleep(1601)
    starts = [round(when) for name, when in units.read_at if name == "a"]
    assert starts == [0, 800, 1600]
    assert rig.own("collector_interval_seconds") == pytest.approx(800)
    assert rig.own("collector_configured_interval_seconds") == 300
    await schedule.stop()


async def test_ready_needs_a_rolling_collectors_first_slice_only() -> None:
    units = _Units("a", "b", takes=100, workers=1)
    rig = Rig(units, poll_timeout=250)
    tick = asyncio.create_task(rig.runner.tick())
    await asyncio.sleep(99)
    assert not rig.runner.first_poll_done.is_set()
    await asyncio.sleep(2)
    assert rig.runner.first_poll_done.is_set()
    await tick


async def test_part_that_cannot_be_rebuilt_loses_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    rebuilt: list[str] = []

    async def run(poll: Poll) -> None:
        for key in ("a", "b"):

            def rebuild(now: float, key: str = key) -> tuple[list[object], float | None]:
                rebuilt.append(key)
                return count(key, 1 // (key != "a")), None

            async with poll.part(key) as part:
                await part.publish(count(key, 2), stale_at=time.time() + 10, rebuild=rebuild)

    rig = Rig(_sweep(run))
    schedule = Schedule([rig.runner])
    schedule.start()
    await asyncio.sleep(20)
    assert sorted((await rig.shown()).values()) == [1, 2]
    assert rebuilt.count("b") == 1
    await schedule.stop()
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wall_clock_that_is_set_does_not_stop_or_flood_polling(hours: int) -> None:
    polls: list[float] = []

    async def run(poll: Poll) -> None:
        polls.append(asyncio.get_running_loop().time())

    rig = Rig(_sweep(run))
    schedule = Schedule([rig.runner])
    schedule.start()
    await asyncio.sleep(30)
    # A second traveller inside the stepped one: the wall clock moves, the loop's does not.
    loop = asyncio.get_running_loop()
    loop._traveller.shift(hours * 3600)  # type: ignore[attr-defined]  # SteppedLoop's own clock
    await asyncio.sleep(300)
    await schedule.stop()
    gaps = [later - earlier for earlier, later in pairwise(polls)]
    assert len(polls) in (6, 7)
    assert all(50 <= gap <= 61 for gap in gaps[1:])


async def test_a_runner_removed_amid_a_poll_is_forgotten() -> None:
    polls: list[float] = []

    async def run(poll: Poll) -> None:
        polls.append(asyncio.get_running_loop().time())
        await asyncio.sleep(30)

    rig, other = Rig(_sweep(run)), Rig(_Units())
    schedule = Schedule([rig.runner, other.runner])
    schedule.start()
    await asyncio.sleep(10)
    await schedule.remove([rig.runner])
    await asyncio.sleep(300)
    assert polls == [0]
    removed = weakref.ref(rig.runner)
    del rig
    gc.collect()
    assert removed() is None
    await schedule.stop()
