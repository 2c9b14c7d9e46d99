"""How polls stretch under a budget: by rank, not below the configured interval, in each month."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budgets.rig import DAY, HOUR, JANUARY, Clock
from tests.polling.rig import Rig, count
from tests.support.clock import run_stepped
from tests.support.collectors import Bulk, PerObject
from trainfleet_exporter.budgets import Budget, Throttle, Throttling
from trainfleet_exporter.polling import Part, Poll, Schedule

COLLECTORS = ("job_counts", "jobs", "workspaces", "pools", "pool_workloads", "pool_usage", "usage", "pods", "nodes")


def _budget(calls: int, clock: Clock | None = None) -> Budget:
    return Budget("dlc", calls, clock=(clock or Clock(JANUARY.starts)).watched())


def _learn(throttling: Throttling, throttle: Throttle, collector: str, calls: int, provider: str = "p") -> None:
    for _ in range(calls):
        throttling.attempted(provider, collector, "dlc")
    throttle.polled()


def _paces(budget: Budget, **calls: int) -> dict[str, Throttle]:
    """Collectors with an interval of 60 s that have polled once, with so many calls."""
    throttling = Throttling()
    throttles = {name: throttling.join("p", name, 60.0, {"dlc": budget}) for name in calls}
    for name, throttle in throttles.items():
        _learn(throttling, throttle, name, calls[name])
    return throttles


def test_what_the_budget_allows_keeps_its_interval() -> None:
    (throttle,) = _paces(_budget(1_000_000), jobs=20).values()
    assert throttle.interval == 60


def test_a_first_poll_that_has_not_ended_keeps_its_interval() -> None:
    assert Throttling().join("p", "jobs", 60.0, {"dlc": _budget(1)}).interval == 60


def test_one_collector_alone_is_spread_over_the_month() -> None:
    (throttle,) = _paces(_budget(400_000), usage=20).values()
    assert throttle.interval == pytest.approx(JANUARY.seconds / 20_000)


def test_an_api_without_a_budget_stretches_nothing() -> None:
    throttling = Throttling()
    throttle = throttling.join("p", "jobs", 60.0, {"dlc": _budget(400_000)})
    for _ in range(1000):
        throttling.attempted("p", "jobs", "aiworkspace")
    throttle.polled()
    assert throttle.interval == 60


def test_attempts_without_a_caller_are_not_counted() -> None:
    throttling = Throttling()
    throttle = throttling.join("p", "jobs", 60.0, {"dlc": _budget(1000)})
    throttling.attempted("p", "", "dlc")
    throttle.polled()
    assert throttle.interval == 60


def test_detail_stretches_first_and_counts_last() -> None:
    def intervals(calls_a_minute: float) -> tuple[float, ...]:
        budget = _budget(round(JANUARY.seconds / 60 * calls_a_minute))
        throttles = _paces(budget, job_counts=10, jobs=10, usage=10)
        return tuple(throttle.interval for throttle in throttles.values())

    assert intervals(30.1) == (60, 60, 60)
    assert intervals(25) == pytest.approx((60, 60, 120))
    assert intervals(15) == pytest.approx((60, 600 / 3.5, 600 / 1.5))
    assert intervals(5) == pytest.approx((600 / 4, 600 / 0.5, 600 / 0.5))


def test_what_rolls_over_the_jobs_is_detail_whatever_its_name() -> None:
    throttling = Throttling()
    sweep = throttling.join("p", "somebody-else-s", 60.0, {})
    rolling = throttling.join("p", "job_metrics", 60.0, {}, rolls=True)
    counts = throttling.join("p", "job_counts", 60.0, {})
    assert counts.rank < sweep.rank < rolling.rank


def test_collectors_of_one_rank_stretch_alike_whatever_they_cost() -> None:
    throttling, budget = Throttling(), _budget(round(JANUARY.seconds / 60 * 20))
    usage = throttling.join("p", "usage", 60.0, {"dlc": budget})
    pods = throttling.join("q", "pods", 300.0, {"dlc": budget})  # of another provider of the account
    _learn(throttling, usage, "usage", 20)
    _learn(throttling, pods, "pods", 100, "q")
    assert (usage.interval, pods.interval) == pytest.approx((120, 600))


def test_of_several_budgets_the_longest_interval_counts() -> None:
    throttling, clock = Throttling(), Clock(JANUARY.starts)
    budgets = {api: Budget(api, calls, clock=clock.watched()) for api, calls in (("dlc", 90_000), ("sts", 9_000))}
    throttle = throttling.join("p", "jobs", 60.0, budgets)
    throttling.attempted("p", "jobs", "dlc")
    throttling.attempted("p", "jobs", "sts")
    throttle.polled()
    assert throttle.interval == pytest.approx(JANUARY.seconds / 9_000)


def test_growing_poll_is_not_estimated_by_the_last_one() -> None:
    throttling, budget = Throttling(), _budget(44_640)
    throttle = throttling.join("p", "pods", 60.0, {"dlc": budget})
    _learn(throttling, throttle, "pods", 1)
    assert throttle.interval == 60
    for _ in range(10):
        throttling.attempted("p", "pods", "dlc")
    assert throttle.interval == pytest.approx(600)


def test_the_cost_is_the_mean_of_the_last_five_polls() -> None:
    throttling, budget = Throttling(), _budget(44_640)
    throttle = throttling.join("p", "jobs", 60.0, {"dlc": budget})
    for calls in (1000, 2, 4, 6, 8, 10):
        _learn(throttling, throttle, "jobs", calls)
    assert throttle.interval == pytest.approx(360)


def test_unaffordable_poll_waits_for_the_new_month() -> None:
    clock = Clock(JANUARY.starts)
    budget = _budget(100, clock)
    throttling = Throttling()
    throttle = throttling.join("p", "usage", 60.0, {"dlc": budget})
    clock.pass_(JANUARY.seconds - HOUR)
    for _ in range(90):
        budget.take()
    _learn(throttling, throttle, "usage", 20)
    assert throttle.interval == HOUR + 1
    clock.pass_(HOUR)
    assert throttle.interval == pytest.approx(31 * DAY * 28 / 31 / 5)  # February's 28 days for five polls


def test_detail_leaves_enough_calls_for_the_counts() -> None:
    clock = Clock(JANUARY.starts)
    budget = _budget(2_000, clock)
    throttling = Throttling()
    counts, pods = (throttling.join("p", name, 60.0, {"dlc": budget}) for name in ("job_counts", "pods"))
    clock.pass_(JANUARY.seconds - 10 * HOUR)
    for _ in range(1_400):
        budget.take()
    _learn(throttling, counts, "job_counts", 1)
    _learn(throttling, pods, "pods", 300)  # of the last 600 calls, job_counts wants all but the least part
    assert counts.interval == pytest.approx(10 * HOUR / 540)
    assert pods.interval == 10 * HOUR + 1


def test_budget_spent_early_lets_polls_fail_visibly() -> None:
    clock = Clock(JANUARY.starts)
    budget = _budget(1_000, clock)
    (throttle,) = _paces(budget, jobs=20).values()
    for _ in range(1_000):
        budget.take()
    assert throttle.interval == 60
    throttle.polled()  # refused, so that it made no call: not what polls cost
    clock.pass_(JANUARY.seconds)
    assert throttle.interval > 10 * HOUR


@pytest.mark.long
def test_budget_spent_in_time_waits_without_failures() -> None:
    clock = Clock(JANUARY.starts)
    budget = _budget(400_000, clock)
    (throttle,) = _paces(budget, jobs=20).values()
    for _ in range(400_000):
        budget.take()
    clock.pass_(JANUARY.seconds - 130)
    assert throttle.interval == pytest.approx(131)


@given(
    budget=st.integers(min_value=1, max_value=3_000_000),
    gone=st.floats(min_value=0, max_value=0.999),
    calls=st.dictionaries(st.sampled_from(COLLECTORS), st.integers(min_value=0, max_value=3000), min_size=1),
)
def test_polls_stay_within_the_budget_and_are_never_early(budget: int, gone: float, calls: dict[str, int]) -> None:
    clock = Clock(JANUARY.starts)
    whole = _budget(budget, clock)
    throttles = _paces(whole, **calls)
    clock.pass_(gone * JANUARY.seconds)
    asked = 0.0
    for name, throttle in throttles.items():
        assert 60 <= throttle.interval <= max(60, whole.left + 1)
        if throttle.interval < whole.left:
            asked += calls[name] / throttle.interval
    assert asked <= whole.rate * (1 + 1e-9)


class _Rolls:
    """A rolling collector of some units with a call each."""

    def __init__(self, units: int, made: Callable[[], None]) -> None:
        self.read_at: list[float] = []
        self._made = made
        names = [str(number) for number in range(units)]
        self.collector = PerObject(
            name="pods",
            interval=300,
            objects=lambda: names,
            read=self._read,
            begin=self._begin,
            is_current=lambda name: True,
            watch=lambda callback: None,
            workers=4,
        )

    async def _begin(self, poll: Poll) -> None:
        return None

    async def _read(self, part: Part) -> None:
        self.read_at.append(asyncio.get_running_loop().time())
        self._made()
        await part.publish(count(part.key))


@pytest.mark.long
def test_stretched_collector_publishes_its_longer_interval() -> None:
    async def main() -> None:
        budget = Budget("dlc", 40_000, known={JANUARY.name: 0})
        throttling = Throttling()
        began: list[float] = []
        broken = False

        async def run(poll: Poll) -> None:
            began.append(asyncio.get_running_loop().time())
            async with poll.part("a") as part:
                for _ in range(20):
                    budget.take()
                    throttling.attempted("p", "jobs", "dlc")
                await asyncio.sleep(70)  # longer than the configured interval, and no reason to hurry
                if broken:
                    raise RuntimeError
                assert part.interval >= 60
                await part.publish(count("a"))

        collector = Bulk(name="jobs", interval=60, run=run)
        rig = Rig(collector, poll_timeout=100, throttle=throttling.join("p", "jobs", 60.0, {"dlc": budget}))
        schedule = Schedule([rig.runner])
        schedule.start()
        await asyncio.sleep(2 * HOUR)
        assert rig.own("collector_errors_total", reason="internal") is None  # what is asserted in a part is its fault
        interval = JANUARY.seconds / 2000
        gaps = [later - earlier for earlier, later in pairwise(began)]
        assert gaps == pytest.approx([interval] * len(gaps), abs=1)
        assert rig.own("collector_interval_seconds") == pytest.approx(interval, abs=1)
        broken = True
        await asyncio.sleep(began[-1] + interval + 70 + 3 * interval - 10 - 2 * HOUR)
        assert await rig.parts() == {"a"}  # three effective intervals after the failure, not three minutes
        await asyncio.sleep(20)
        assert await rig.parts() == set()
        await schedule.stop()

    run_stepped(main, start=JANUARY.starts)


def test_rolling_collector_spreads_over_a_stretched_interval() -> None:
    async def main() -> None:
        budget = Budget("dlc", 22_320, known={JANUARY.name: 0})
        throttling = Throttling()

        def made() -> None:
            budget.take()
            throttling.attempted("p", "pods", "dlc")

        rolls = _Rolls(10, made)
        rig = Rig(rolls.collector, throttle=throttling.join("p", "pods", 300.0, {"dlc": budget}))
        schedule = Schedule([rig.runner])
        schedule.start()
        await asyncio.sleep(1199)
        assert max(rolls.read_at) < 1  # the first cycle is at once, and pays for 1200 s
        rolls.read_at.clear()
        await asyncio.sleep(1200)
        gaps = [later - earlier for earlier, later in pairwise(rolls.read_at)]
        assert len(gaps) == 9
        assert gaps == pytest.approx([120] * 9, abs=1)
        assert rig.own("collector_interval_seconds") == pytest.approx(1200, abs=2)
        await schedule.stop()

    run_stepped(main, start=JANUARY.starts)


def test_a_new_month_is_not_slept_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainfleet_exporter.polling.schedule._EXPIRY_INTERVAL", 30.0)  # two days are long

    async def main() -> None:
        budget = Budget("dlc", 1000, known={JANUARY.name: 960})
        throttling = Throttling()
        began: list[float] = []

        async def run(poll: Poll) -> None:
            began.append(asyncio.get_running_loop().time())
            async with poll.part("a") as part:
                for _ in range(20):
                    budget.take()
                    throttling.attempted("p", "jobs", "dlc")
                await part.publish(count("a"))

        collector = Bulk(name="jobs", interval=60, run=run)
        rig = Rig(collector, throttle=throttling.join("p", "jobs", 60.0, {"dlc": budget}))
        schedule = Schedule([rig.runner])
        schedule.start()
        await asyncio.sleep(2 * DAY)
        await schedule.stop()
        assert began[:2] == pytest.approx([0, DAY / 2], abs=31)  # a day of January for 40 calls
        stretched = 28 * DAY / 50  # February has 28 for 1000
        assert DAY <= began[2] <= DAY / 2 + stretched + 31
        assert began[3] - began[2] == pytest.approx(stretched, rel=0.01)
        assert len(began) == 4

    run_stepped(main, start=JANUARY.ends - DAY)
