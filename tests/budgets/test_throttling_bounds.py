"""Where a stretched interval turns into the wait for a new month, to the second; and what they learn and forget."""

from __future__ import annotations

import weakref

import pytest

from tests.budgets.rig import DAY, HOUR, JANUARY, Clock, spend
from trainfleet_exporter.budgets import Budget, Throttle, Throttling
from trainfleet_exporter.budgets.throttling import Rank


class Throttled:
    """One collector of 60 s on a budget, from January's start; it has polled once."""

    def __init__(self, budget: int, calls: int, *, name: str = "jobs") -> None:
        self.clock = Clock(JANUARY.starts)
        self.budget = Budget("dlc", budget, clock=self.clock.watched())
        self.throttling = Throttling()
        self.name = name
        self.throttle = self.join(name)
        self.poll(calls)

    def join(self, name: str) -> Throttle:
        return self.throttling.join("p", name, 60.0, {"dlc": self.budget})

    def poll(self, calls: int, *, throttle: Throttle | None = None, name: str = "") -> None:
        for _ in range(calls):
            self.throttling.attempted("p", name or self.name, "dlc")
        (throttle or self.throttle).polled()

    def at(self, left: float) -> float:
        """The interval when so much of January is left."""
        self.clock.pass_(JANUARY.ends - left - self.clock.wall)
        return self.throttle.interval


@pytest.mark.long
def test_budget_spent_near_month_end_is_waited_out() -> None:
    paced = Throttled(400_000, 20)  # which are polls of 133.92 s
    spend(paced.budget, 400_000)
    assert paced.at(268) == 60
    assert paced.at(267) == 268


def test_a_spent_budget_is_not_waited_out_for_longer_than_a_day() -> None:
    paced = Throttled(100, 20)  # which are polls of six days
    spend(paced.budget, 100)
    assert paced.at(DAY + 0.5) == 60
    assert paced.at(DAY) == DAY + 1


def test_last_polls_of_a_month_are_spread_over_the_rest() -> None:
    paced = Throttled(1000, 20)
    spend(paced.budget, 900)
    assert paced.at(5 * HOUR) == pytest.approx(HOUR)  # five polls, the first of them after an hour
    spend(paced.budget, 1)
    assert paced.at(5 * HOUR) == pytest.approx(5 * HOUR / 99 * 20)


def test_last_call_is_used_at_the_end_if_it_pays_for_a_poll() -> None:
    paced = Throttled(1000, 20)
    spend(paced.budget, 980)
    assert paced.at(HOUR) == pytest.approx(HOUR, abs=0.1)
    spend(paced.budget, 1)
    assert paced.at(HOUR) == HOUR + 1


def test_the_wait_for_the_new_month_begins_with_the_poll() -> None:
    paced = Throttled(1000, 20)
    spend(paced.budget, 990)
    paced.at(HOUR)
    paced.throttle.begin()
    assert paced.at(HOUR - 100) == HOUR + 1


def test_rest_is_spread_from_the_start_of_a_long_poll() -> None:
    for calls, part in ((20, 2), (40, 3), (19, 1)):  # for one poll, two or none: so many gaps to the end
        paced = Throttled(1000, 20)
        spend(paced.budget, 1000 - calls)
        paced.at(15 * HOUR)
        paced.throttle.begin()
        interval = paced.at(5 * HOUR)
        assert interval == pytest.approx(15 * HOUR / part if part > 1 else 15 * HOUR + 1)


def test_detail_is_spread_over_what_the_counts_leave() -> None:
    paced = Throttled(1000, 30, name="pods")
    counts = paced.join("job_counts")
    paced.poll(1, throttle=counts, name="job_counts")
    spend(paced.budget, 670)
    paced.at(15 * HOUR)
    paced.throttle.begin()
    assert paced.at(5 * HOUR) == pytest.approx(7.5 * HOUR)  # 300 of the 330 calls are the counts'


def test_removed_collector_is_forgotten_and_others_keep_pace() -> None:
    paced = Throttled(round(JANUARY.seconds / 60 * 10), 20)
    left = Budget("sts", 1000, clock=paced.clock.watched())
    held = weakref.ref(left)
    paced.throttling.join("q", "jobs", 60.0, {"dlc": paced.budget, "sts": left})
    paced.throttling.leave("q")
    del left
    assert held() is None
    assert paced.throttle.interval == pytest.approx(120, rel=1e-3)
    paced.poll(40)
    assert paced.throttle.interval == pytest.approx(180, rel=1e-3)


def test_ranks_are_counts_then_others_then_detail() -> None:
    throttling = Throttling()
    names = ("job_counts", "jobs", "pools", "usage", "pods", "nodes")
    ranks = [throttling.join("p", name, 60.0, {}).rank for name in names]
    assert ranks == [Rank.COUNTS, Rank.LISTS, Rank.LISTS, Rank.DETAIL, Rank.DETAIL, Rank.DETAIL]
    assert Rank.COUNTS < Rank.LISTS < Rank.DETAIL


def test_clock_set_back_during_a_poll_shortens_no_wait() -> None:
    paced = Throttled(1000, 20)
    spend(paced.budget, 990)
    paced.at(HOUR)
    paced.throttle.begin()
    paced.clock.wall -= 50
    assert paced.throttle.interval == HOUR + 50 + 1


def test_refused_poll_is_no_estimate_unless_it_is_the_first() -> None:
    paced = Throttled(100, 20)
    spend(paced.budget, 100)
    paced.poll(0)
    assert paced.throttle.calls("dlc") == 20
    late = paced.join("pods")
    paced.poll(3, throttle=late, name="pods")
    assert late.calls("dlc") == 3
    paced.poll(0, throttle=late, name="pods")
    assert late.calls("dlc") == 3


def test_each_poll_counts_its_own_attempts() -> None:
    paced = Throttled(1_000_000, 20)
    paced.poll(10)
    assert paced.throttle.calls("dlc") == 15
    paced.poll(0)
    assert paced.throttle.calls("dlc") == 10


def test_who_needs_nothing_of_a_budget_is_not_stretched_by_it() -> None:
    paced = Throttled(10, 5)
    idle = paced.join("pods")
    paced.poll(0, throttle=idle, name="pods")
    spend(paced.budget, 10)
    assert (idle.interval, idle.calls("dlc")) == (60, 0)


def test_rank_that_needs_less_leaves_the_rest_to_others() -> None:
    paced = Throttled(round(JANUARY.seconds / 60 * 10), 20, name="pods")
    counts = paced.join("job_counts")
    paced.poll(1, throttle=counts, name="job_counts")
    assert (counts.interval, paced.throttle.interval) == pytest.approx((60, 60 * 20 / 9), rel=1e-3)
    lists = paced.join("jobs")
    paced.poll(100, throttle=lists, name="jobs")  # all but what the counts take and a tenth for the detail
    assert paced.throttle.interval == pytest.approx(60 * 20 / 1, rel=1e-3)
    assert lists.interval == pytest.approx(60 * 100 / 8, rel=1e-3)
