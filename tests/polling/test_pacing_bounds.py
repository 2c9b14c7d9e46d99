"""Where a stretched interval turns into the wait for a new month, to the second; and what paces learn and forget."""

from __future__ import annotations

import weakref

import pytest

from tests.transport.test_budget import DAY, HOUR, JANUARY, Clock, spend
from trainfleet_exporter.polling import Pace, Pacing
from trainfleet_exporter.polling.pacing import Rank
from trainfleet_exporter.transport import Budget


class Paced:
    """One collector of 60 s on a budget, from January's start; it has polled once."""

    def __init__(self, budget: int, calls: int, *, name: str = "jobs") -> None:
        self.clock = Clock(JANUARY.starts)
        self.budget = Budget("dlc", budget, calendar=self.clock.calendar())
        self.pacing = Pacing()
        self.name = name
        self.pace = self.join(name)
        self.poll(calls)

    def join(self, name: str) -> Pace:
        return self.pacing.join("p", name, 60.0, {"dlc": self.budget})

    def poll(self, calls: int, *, pace: Pace | None = None, name: str = "") -> None:
        for _ in range(calls):
            self.pacing.attempted("p", name or self.name, "dlc")
        (pace or self.pace).polled()

    def at(self, left: float) -> float:
        """The interval when so much of January is left."""
        self.clock.pass_(JANUARY.ends - left - self.clock.wall)
        return self.pace.interval


@pytest.mark.long
def test_a_spent_budget_is_waited_out_within_two_stretched_intervals_of_the_end() -> None:
    paced = Paced(400_000, 20)  # which are polls of 133.92 s
    spend(paced.budget, 400_000)
    assert paced.at(268) == 60
    assert paced.at(267) == 268


def test_a_spent_budget_is_not_waited_out_for_longer_than_a_day() -> None:
    paced = Paced(100, 20)  # which are polls of six days
    spend(paced.budget, 100)
    assert paced.at(DAY + 0.5) == 60
    assert paced.at(DAY) == DAY + 1


def test_the_last_polls_of_a_month_are_spread_over_the_whole_rest() -> None:
    paced = Paced(1000, 20)
    spend(paced.budget, 900)
    assert paced.at(5 * HOUR) == pytest.approx(HOUR)  # five polls, the first of them after an hour
    spend(paced.budget, 1)
    assert paced.at(5 * HOUR) == pytest.approx(5 * HOUR / 99 * 20)


def test_a_poll_that_the_last_call_pays_for_is_made_at_the_end_and_one_that_it_does_not_in_the_new_month() -> None:
    paced = Paced(1000, 20)
    spend(paced.budget, 980)
    assert paced.at(HOUR) == pytest.approx(HOUR, abs=0.1)
    spend(paced.budget, 1)
    assert paced.at(HOUR) == HOUR + 1


def test_the_wait_for_the_new_month_begins_with_the_poll() -> None:
    paced = Paced(1000, 20)
    spend(paced.budget, 990)
    paced.at(HOUR)
    paced.pace.begin()
    assert paced.at(HOUR - 100) == HOUR + 1
    assert paced.pace.began("dlc") == JANUARY.ends - HOUR


def test_what_is_left_is_spread_from_the_beginning_of_a_poll_that_takes_hours() -> None:
    for calls, part in ((20, 2), (40, 3), (19, 1)):  # for one poll, two or none: so many gaps to the end
        paced = Paced(1000, 20)
        spend(paced.budget, 1000 - calls)
        paced.at(15 * HOUR)
        paced.pace.begin()
        interval = paced.at(5 * HOUR)
        assert interval == pytest.approx(15 * HOUR / part if part > 1 else 15 * HOUR + 1)


def test_detail_is_spread_over_what_the_counts_leave_from_the_beginning_of_a_poll() -> None:
    paced = Paced(1000, 30, name="pods")
    counts = paced.join("job_counts")
    paced.poll(1, pace=counts, name="job_counts")
    spend(paced.budget, 670)
    paced.at(15 * HOUR)
    paced.pace.begin()
    assert paced.at(5 * HOUR) == pytest.approx(7.5 * HOUR)  # 300 of the 330 calls are the counts'


def test_who_stays_when_another_leaves_is_paced_as_before_and_who_left_is_forgotten() -> None:
    paced = Paced(round(JANUARY.seconds / 60 * 10), 20)
    left = Budget("sts", 1000, calendar=paced.clock.calendar())
    held = weakref.ref(left)
    paced.pacing.join("q", "jobs", 60.0, {"dlc": paced.budget, "sts": left})
    paced.pacing.leave("q")
    del left
    assert held() is None
    assert paced.pace.interval == pytest.approx(120, rel=1e-3)
    paced.poll(40)
    assert paced.pace.interval == pytest.approx(180, rel=1e-3)


def test_usage_pods_and_nodes_are_detail_counts_go_first_and_the_rest_is_between() -> None:
    pacing = Pacing()
    names = ("job_counts", "jobs", "pools", "usage", "pods", "nodes")
    ranks = [pacing.join("p", name, 60.0, {}).rank for name in names]
    assert ranks == [Rank.COUNTS, Rank.LISTS, Rank.LISTS, Rank.DETAIL, Rank.DETAIL, Rank.DETAIL]
    assert Rank.COUNTS < Rank.LISTS < Rank.DETAIL


def test_before_the_first_poll_it_begins_now() -> None:
    paced = Paced(1000, 20)
    assert paced.pace.began("dlc") == paced.clock.wall


def test_a_clock_that_is_set_back_in_a_poll_makes_no_wait_shorter() -> None:
    paced = Paced(1000, 20)
    spend(paced.budget, 990)
    paced.at(HOUR)
    paced.pace.begin()
    paced.clock.wall -= 50
    assert paced.pace.interval == HOUR + 50 + 1


def test_a_poll_that_a_spent_budget_refused_teaches_nothing_but_the_first_one_does() -> None:
    paced = Paced(100, 20)
    spend(paced.budget, 100)
    paced.poll(0)
    assert paced.pace.calls("dlc") == 20
    late = paced.join("pods")
    paced.poll(3, pace=late, name="pods")
    assert late.calls("dlc") == 3
    paced.poll(0, pace=late, name="pods")
    assert late.calls("dlc") == 3


def test_each_poll_counts_its_own_attempts() -> None:
    paced = Paced(1_000_000, 20)
    paced.poll(10)
    assert paced.pace.calls("dlc") == 15
    paced.poll(0)
    assert paced.pace.calls("dlc") == 10


def test_who_needs_nothing_of_a_budget_is_not_stretched_by_it() -> None:
    paced = Paced(10, 5)
    idle = paced.join("pods")
    paced.poll(0, pace=idle, name="pods")
    spend(paced.budget, 10)
    assert (idle.interval, idle.calls("dlc")) == (60, 0)


def test_a_rank_that_asks_for_less_than_its_part_leaves_the_rest_to_the_others() -> None:
    paced = Paced(round(JANUARY.seconds / 60 * 10), 20, name="pods")
    counts = paced.join("job_counts")
    paced.poll(1, pace=counts, name="job_counts")
    assert (counts.interval, paced.pace.interval) == pytest.approx((60, 60 * 20 / 9), rel=1e-3)
    lists = paced.join("jobs")
    paced.poll(100, pace=lists, name="jobs")  # all but what the counts take and a tenth for the detail
    assert paced.pace.interval == pytest.approx(60 * 20 / 1, rel=1e-3)
    assert lists.interval == pytest.approx(60 * 100 / 8, rel=1e-3)
