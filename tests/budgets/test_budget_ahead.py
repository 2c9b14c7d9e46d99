"""How far ahead of the calls a budget has the state file written, call by call; and what others know of its calls."""

from __future__ import annotations

import pytest

from tests.budgets.rig import DAY, HOUR, JANUARY, Clock, month, spend
from trainfleet_exporter.budgets import Budget
from trainfleet_exporter.errors import BudgetSpent

DECEMBER, FEBRUARY = month("2025-12"), month("2026-02")


class Written:
    """A budget from January's start, and what it had written: after how many calls, whether at once, up to what."""

    def __init__(self, calls: int, *, known: int = 0, slow: bool = False) -> None:
        self.clock = Clock(JANUARY.starts)
        self.pages: list[tuple[int, bool, int]] = []
        self.slow = slow
        self.budget = Budget("dlc", calls, clock=self.clock.watched(), known={JANUARY.name: known}, save=self.save)

    def save(self, at_once: bool) -> None:
        bounds = self.budget.bounds
        self.pages.append((self.budget.spent[JANUARY.name], at_once, bounds[JANUARY.name]))
        if not self.slow:
            self.budget.saved(bounds)

    def after(self, seconds: float, calls: int) -> list[tuple[int, bool, int]]:
        """What is written by so many calls then."""
        self.pages.clear()
        self.clock.pass_(seconds)
        assert spend(self.budget, calls) == calls
        return list(self.pages)


def test_a_budget_goes_by_the_wall_clock() -> None:
    written = Written(100)
    assert (written.budget.now, written.budget.left) == (JANUARY.starts, JANUARY.seconds)
    written.clock.pass_(HOUR)
    assert (written.budget.now, written.budget.left) == (JANUARY.starts + HOUR, JANUARY.seconds - HOUR)


def test_first_call_is_written_at_once_and_nothing_before() -> None:
    written = Written(100_000)
    assert written.pages == []
    assert written.after(0, 1) == [(1, True, 21)]


@pytest.mark.parametrize(("calls", "ahead"), [(50, 1), (300, 3), (5_000, 10), (50_000, 10), (1_000_000, 200)])
def test_calls_of_some_minutes_are_written_ahead(calls: int, ahead: int) -> None:
    written = Written(calls)
    pages = written.after(0, min(calls, 1000))
    assert [at_once for _, at_once, _ in pages] == [True] + [False] * (len(pages) - 1)
    assert [bound for _, _, bound in pages] == [min(calls, made + ahead) for made, _, _ in pages]
    assert pages[1][0] == 1 + ahead - ahead // 2


def test_calls_written_ahead_stay_within_the_budget() -> None:
    written = Written(20)
    assert written.after(0, 20)[-1][2] == 20
    assert written.budget.bounds == {JANUARY.name: 20}
    written.budget.calls = 5
    assert written.budget.bounds == {JANUARY.name: 20}


def test_what_is_not_written_in_time_is_written_at_once() -> None:
    written = Written(100_000)
    written.after(0, 1)
    written.slow = True
    pages = written.after(0, 21)
    assert pages[-2:] == [(21, False, 41), (22, True, 42)]


def test_uncertain_month_writes_both_months_ahead() -> None:
    written = Written(100_000)
    written.after(JANUARY.seconds - 6 * DAY, 9)  # more of January is allowed than one call
    written.clock.wall += 10 * DAY
    assert [at_once for _, at_once, _ in written.after(0, 1)] == [True]
    assert {JANUARY.name, FEBRUARY.name} <= written.budget.bounds.keys()


def test_later_writer_begins_with_nothing() -> None:
    written = Written(100_000)
    written.after(0, 30)
    written.budget.saved_by(None)
    assert written.after(0, 30) == []
    written.budget.saved_by(written.save)
    assert written.after(0, 11) == [(61, True, 81), (71, False, 91)]


def test_uncertain_month_uses_the_tighter_one_and_spends_both() -> None:
    clock = Clock(JANUARY.ends - 6 * DAY)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 90, FEBRUARY.name: 0})
    clock.wall += 10 * DAY
    assert budget.now == clock.wall
    assert budget.rate == pytest.approx(10 / (6 * DAY))
    assert spend(budget, 100) == 10
    assert budget.spent == {JANUARY.name: 100, FEBRUARY.name: 10}
    assert (budget.remaining, budget.rate) == (0, 0)


def test_month_reached_by_the_loop_clock_alone_is_spent_too() -> None:
    clock = Clock(JANUARY.ends - HOUR)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 40, FEBRUARY.name: 90})
    clock.wall -= 10 * DAY
    assert budget.remaining == 60
    clock.pass_(2 * HOUR)
    assert budget.remaining == 10
    assert spend(budget, 100) == 10
    assert budget.spent == {JANUARY.name: 50, FEBRUARY.name: 100}


def test_assumed_share_stays_until_both_clocks_change_month() -> None:
    clock = Clock(JANUARY.ends - HOUR)
    budget = Budget("dlc", 100, clock=clock.watched())
    assert budget.remaining == 0
    clock.wall -= 10 * DAY
    clock.pass_(2 * HOUR)
    assert budget.remaining == 0


@pytest.mark.parametrize("age", [100, 2 * DAY])
def test_a_short_visit_to_an_earlier_month_changes_nothing(age: float) -> None:
    clock = Clock(FEBRUARY.starts + 7 * DAY)
    budget = Budget("dlc", 100, clock=clock.watched())
    clock.pass_(age)
    assert spend(budget, 5) == 5
    clock.wall -= 32 * DAY
    clock.pass_(25)
    budget.check()
    clock.wall += 32 * DAY
    clock.pass_(100)
    assert budget.remaining == 100 - 25 - 5
    assert budget.spent[FEBRUARY.name] == 30


def test_calls_move_back_with_a_clock_corrected_over_month_end() -> None:
    clock = Clock(JANUARY.ends + 10)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 30, FEBRUARY.name: 0})
    assert spend(budget, 20) == 20
    unknown = Budget("dlc", 100, clock=clock.watched())
    assert unknown.remaining == 99
    clock.wall -= 40  # in which there is no doubt
    assert budget.remaining == 50
    assert unknown.remaining == 0  # of January, which it did not see begin


def test_calls_move_back_with_a_clock_set_back_after_a_day() -> None:
    clock = Clock(JANUARY.ends - DAY)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 10, FEBRUARY.name: 0})
    clock.pass_(2 * DAY)
    assert spend(budget, 20) == 20
    clock.wall -= 10 * DAY
    assert budget.remaining == 80
    clock.pass_(DAY)  # and it is believed
    assert budget.remaining == 70


def test_calls_move_with_a_clock_set_in_two_steps() -> None:
    march = month("2026-03")
    clock = Clock(march.starts + HOUR)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 0, FEBRUARY.name: 0, march.name: 0})
    assert spend(budget, 20) == 20
    clock.wall = JANUARY.starts + DAY
    assert spend(budget, 5) == 5
    clock.wall = FEBRUARY.starts + DAY
    assert budget.remaining == 75
    clock.pass_(DAY)  # and it is believed
    assert budget.remaining == 75


def test_assumed_share_is_taken_back_and_counted_calls_stay() -> None:
    clock = Clock(JANUARY.starts + 10 * DAY)
    budget = Budget("dlc", 31_000, clock=clock.watched())
    spend(budget, 5)
    assert budget.spent == {JANUARY.name: 10_005}
    budget.assume_nothing()
    assert budget.spent == {JANUARY.name: 5}


def test_assumed_calls_of_an_unread_month_are_taken_back() -> None:
    clock = Clock(JANUARY.ends - 6 * DAY)
    budget = Budget("dlc", 31_000, clock=clock.watched())
    clock.wall += 10 * DAY
    budget.assume_nothing()
    assert budget.spent == {JANUARY.name: 0, FEBRUARY.name: 0}
    assert budget.remaining == 31_000


def test_assumed_share_is_that_of_the_first_moment() -> None:
    clock = Clock(JANUARY.starts + 10 * DAY)
    budget = Budget("dlc", 31_000, clock=clock.watched())
    clock.pass_(10 * DAY)
    assert budget.remaining == 21_000


def test_of_a_month_that_it_saw_begin_only_the_record_is_spent() -> None:
    clock = Clock(JANUARY.ends - HOUR)
    budget = Budget("dlc", 1000, clock=clock.watched(), known={JANUARY.name: 0, FEBRUARY.name: 7})
    clock.pass_(DAY)
    assert budget.remaining == 993


def test_check_refuses_like_take_and_counts_nothing() -> None:
    budget = Written(2).budget
    budget.check()
    assert spend(budget, 3) == 2
    with pytest.raises(BudgetSpent, match=r"ends in 31\.0 days"):
        budget.check()


def test_end_of_a_spent_month_is_in_days_then_in_hours() -> None:
    # A twentieth is just enough to be rounded up.
    spans = {DAY: "1.0 days", 1.05 * DAY + 0.5: "1.1 days", DAY - 360: "23.9 hours", 1.05 * HOUR + 0.5: "1.1 hours"}
    for left, words in spans.items():
        clock = Clock(JANUARY.ends - left)
        budget = Budget("dlc", 1, clock=clock.watched(), known={JANUARY.name: 1})
        with pytest.raises(BudgetSpent, match=f"ends in {words}"):
            budget.check()
