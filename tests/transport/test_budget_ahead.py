"""How far ahead of the calls a budget has the state file written, call by call; and what others know of its calls."""

from __future__ import annotations

import pytest

from tests.transport.test_budget import DAY, HOUR, JANUARY, Clock, spend
from trainfleet_exporter.errors import BudgetSpent
from trainfleet_exporter.transport.budget import Budget
from trainfleet_exporter.transport.calendar import Month

DECEMBER, FEBRUARY = Month(2025, 12), Month(2026, 2)


class Written:
    """A budget from January's start, and what it had written: after how many calls, whether at once, up to what."""

    def __init__(self, calls: int, *, known: int = 0, slow: bool = False) -> None:
        self.clock = Clock(JANUARY.starts)
        self.pages: list[tuple[int, bool, int]] = []
        self.slow = slow
        self.budget = Budget("dlc", calls, calendar=self.clock.calendar(), known={JANUARY: known}, save=self.save)

    def save(self, at_once: bool) -> None:
        bounds = self.budget.promise(exact=False)
        self.pages.append((self.budget.spent[JANUARY], at_once, bounds[JANUARY]))
        if not self.slow:
            self.budget.promised(bounds)

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


def test_nothing_is_written_before_the_first_call_and_then_at_once() -> None:
    written = Written(100_000)
    assert written.pages == []
    assert written.budget.promise(exact=False) == {JANUARY: 0}
    assert written.after(0, 1) == [(1, True, 4)]  # a minute's calls ahead: 2.3 of them


def test_many_calls_at_once_double_what_is_written_ahead() -> None:
    written = Written(100_000)
    assert written.after(0, 40) == [(1, True, 4), (3, False, 9), (6, False, 18), (12, False, 36), (24, False, 72)]


@pytest.mark.parametrize(("calls", "most"), [(300, 10), (1_000, 20)])
def test_a_fiftieth_or_ten_calls_are_written_ahead_at_most(calls: int, most: int) -> None:
    written = Written(calls)
    pages = written.after(0, 100)
    assert [at_once for _, at_once, _ in pages] == [True] + [False] * (len(pages) - 1)
    ahead = [bound - made for made, _, bound in pages]
    doubled = [1, 2, 4, 8, 16]
    assert ahead[: len(doubled)] == [min(number, most) for number in doubled]
    assert set(ahead[len(doubled) :]) == {most}


def test_from_one_to_ten_minutes_as_many_are_written_ahead_as_before() -> None:
    for seconds in (60.0, 600.0):
        written = Written(100_000)
        written.after(0, 12)  # 24 are allowed beyond the last writing
        assert written.after(seconds, 12) == [(24, False, 48)]


def test_in_less_than_a_minute_twice_as_many_and_after_ten_half_as_many() -> None:
    written = Written(100_000)
    written.after(0, 12)
    assert written.after(59.5, 12) == [(24, False, 72)]
    assert written.after(600.5, 24) == [(48, False, 72)]
    assert written.after(600.5, 12) == [(60, False, 72)]
    assert written.after(600.5, 6) == [(66, False, 72)]
    assert written.after(600.5, 3) == [(69, False, 72)]
    assert written.after(600.5, 2) == [(71, False, 74)]  # not less than a minute's calls


def test_a_clock_that_was_set_back_was_long_ago() -> None:
    written = Written(100_000)
    written.after(DAY, 12)
    written.clock.wall -= HOUR / 2
    assert written.after(0, 12) == [(24, False, 36)]


def test_what_is_written_ahead_is_within_the_budget_and_what_is_spent_all_the_same() -> None:
    written = Written(20)
    assert written.after(0, 20)[-1][2] == 20
    assert written.budget.promise(exact=False) == {JANUARY: 20}
    written.budget.calls = 5
    assert written.budget.promise(exact=False) == {JANUARY: 20}


def test_while_a_page_is_being_written_no_other_is_asked_for_unless_a_call_exceeds_it() -> None:
    written = Written(100_000)
    assert written.after(0, 12)[-1] == (12, False, 36)
    written.slow = True
    assert written.after(0, 24) == [(24, False, 72)]
    assert written.after(0, 1) == [(37, True, 133)]


def test_in_doubt_of_the_month_both_are_written_ahead_of_the_call() -> None:
    written = Written(100_000)
    written.after(JANUARY.seconds - 6 * DAY, 9)  # more of January is allowed than one call
    written.clock.wall += 10 * DAY
    assert [at_once for _, at_once, _ in written.after(0, 1)] == [True]
    assert {JANUARY, FEBRUARY} <= written.budget.promise(exact=False).keys()


def test_whoever_writes_from_the_first_call_on_does_so_at_once() -> None:
    written = Written(100_000)
    written.budget.saved_by(written.save)
    assert written.after(0, 1) == [(1, True, 4)]


def test_whoever_writes_from_now_on_has_nothing_yet() -> None:
    written = Written(100_000)
    written.after(0, 30)
    written.budget.saved_by(None)
    assert written.after(0, 30) == []
    written.budget.saved_by(written.save)
    assert written.after(0, 3) == [(61, True, 64), (63, False, 69)]
    written.slow = True
    written.after(0, 3)
    written.budget.saved_by(written.save)
    assert written.after(0, 1) == [(67, True, 70)]  # although the one before was asked


def test_in_doubt_of_the_month_the_tighter_one_sets_the_rate_and_both_are_spent() -> None:
    clock = Clock(JANUARY.ends - 6 * DAY)
    budget = Budget("dlc", 100, calendar=clock.calendar(), known={JANUARY: 90, FEBRUARY: 0})
    clock.wall += 10 * DAY
    assert budget.now == clock.wall
    assert budget.rate == pytest.approx(10 / (6 * DAY))
    assert spend(budget, 100) == 10
    assert budget.spent == {JANUARY: 100, FEBRUARY: 10}
    assert (budget.remaining, budget.rate) == (0, 0)


def test_a_month_that_only_the_steady_clock_has_reached_is_spent_too() -> None:
    clock = Clock(JANUARY.ends - HOUR)
    budget = Budget("dlc", 100, calendar=clock.calendar(), known={JANUARY: 40, FEBRUARY: 90})
    clock.wall -= 10 * DAY
    assert budget.remaining == 60
    clock.pass_(2 * HOUR)
    assert budget.remaining == 10
    assert spend(budget, 100) == 10
    assert budget.spent == {JANUARY: 50, FEBRUARY: 100}


def test_what_is_assumed_of_a_month_stays_while_only_the_steady_clock_has_reached_the_next() -> None:
    clock = Clock(JANUARY.ends - HOUR)
    budget = Budget("dlc", 100, calendar=clock.calendar())
    assert budget.remaining == 0
    clock.wall -= 10 * DAY
    clock.pass_(2 * HOUR)
    assert budget.remaining == 0


@pytest.mark.parametrize("age", [100, 2 * DAY])
def test_a_short_visit_to_an_earlier_month_changes_nothing(age: float) -> None:
    clock = Clock(FEBRUARY.starts + 7 * DAY)
    budget = Budget("dlc", 100, calendar=clock.calendar())
    clock.pass_(age)
    assert spend(budget, 5) == 5
    clock.wall -= 32 * DAY
    clock.pass_(25)
    budget.check()
    clock.wall += 32 * DAY
    clock.pass_(100)
    assert budget.remaining == 100 - 25 - 5
    assert budget.spent[FEBRUARY] == 30


def test_a_clock_that_is_corrected_back_over_the_month_s_end_takes_its_calls_along() -> None:
    clock = Clock(JANUARY.ends + 10)
    budget = Budget("dlc", 100, calendar=clock.calendar(), known={JANUARY: 30, FEBRUARY: 0})
    assert spend(budget, 20) == 20
    unknown = Budget("dlc", 100, calendar=clock.calendar())
    assert unknown.remaining == 99
    clock.wall -= 40  # in which there is no doubt
    assert budget.remaining == 50
    assert unknown.remaining == 0  # of January, which it did not see begin


def test_a_clock_that_is_set_back_after_a_day_takes_nothing_along() -> None:
    clock = Clock(JANUARY.ends - DAY)
    budget = Budget("dlc", 100, calendar=clock.calendar(), known={JANUARY: 10, FEBRUARY: 0})
    clock.pass_(2 * DAY)
    assert spend(budget, 20) == 20
    clock.wall -= 10 * DAY
    assert budget.remaining == 80
    clock.pass_(DAY)  # and it is believed
    assert budget.remaining == 90


def test_a_clock_that_is_set_right_in_two_steps_takes_its_calls_along() -> None:
    march = Month(2026, 3)
    clock = Clock(march.starts + HOUR)
    budget = Budget("dlc", 100, calendar=clock.calendar(), known={JANUARY: 0, FEBRUARY: 0, march: 0})
    assert spend(budget, 20) == 20
    clock.wall = JANUARY.starts + DAY
    assert spend(budget, 5) == 5
    clock.wall = FEBRUARY.starts + DAY
    assert budget.remaining == 75
    clock.pass_(DAY)  # and it is believed
    assert budget.remaining == 75


def test_what_others_counted_is_added_by_month_and_never_below_none() -> None:
    budget = Written(1000, known=10).budget
    spend(budget, 2)
    budget.add({JANUARY: 5, DECEMBER: 3})
    assert budget.spent == {JANUARY: 17, DECEMBER: 3}
    budget.add({DECEMBER: -2})
    assert budget.spent == {JANUARY: 17, DECEMBER: 1}
    budget.add({JANUARY: -100, DECEMBER: -100, FEBRUARY: -1})
    assert budget.spent == {JANUARY: 0, DECEMBER: 0, FEBRUARY: 0}
    assert budget.remaining == 1000


def test_what_others_know_of_at_least_is_no_sum() -> None:
    budget = Written(1000).budget
    budget.at_least({DECEMBER: 1})
    assert budget.spent == {JANUARY: 0, DECEMBER: 1}
    budget.at_least({JANUARY: 12, DECEMBER: 3})
    assert budget.spent == {JANUARY: 12, DECEMBER: 3}
    budget.at_least({JANUARY: 7, DECEMBER: 2})
    assert budget.spent == {JANUARY: 12, DECEMBER: 3}
    assert budget.remaining == 988


def test_what_is_assumed_can_be_taken_back_and_what_was_counted_stays() -> None:
    clock = Clock(JANUARY.starts + 10 * DAY)
    budget = Budget("dlc", 31_000, calendar=clock.calendar())
    spend(budget, 5)
    assert budget.spent == {JANUARY: 10_005}
    budget.assume_nothing()
    assert budget.spent == {JANUARY: 5}


def test_what_is_assumed_of_a_month_that_nobody_looked_at_yet_is_taken_back_too() -> None:
    clock = Clock(JANUARY.ends - 6 * DAY)
    budget = Budget("dlc", 31_000, calendar=clock.calendar())
    clock.wall += 10 * DAY
    budget.assume_nothing()
    assert budget.spent == {JANUARY: 0, FEBRUARY: 0}
    assert budget.remaining == 31_000


def test_what_is_assumed_is_of_the_moment_in_which_counting_begins() -> None:
    clock = Clock(JANUARY.starts + 10 * DAY)
    budget = Budget("dlc", 31_000, calendar=clock.calendar())
    clock.pass_(10 * DAY)
    assert budget.remaining == 21_000


def test_of_a_month_that_it_saw_begin_only_the_record_is_spent() -> None:
    clock = Clock(JANUARY.ends - HOUR)
    budget = Budget("dlc", 1000, calendar=clock.calendar(), known={JANUARY: 0, FEBRUARY: 7})
    clock.pass_(DAY)
    assert budget.remaining == 993


def test_a_check_refuses_what_taking_would_refuse_and_counts_nothing() -> None:
    budget = Written(2).budget
    budget.check()
    assert spend(budget, 3) == 2
    with pytest.raises(BudgetSpent, match=r"ends in 31\.0 days"):
        budget.check()


def test_the_end_of_a_spent_month_is_told_in_days_and_on_its_last_in_hours() -> None:
    # A twentieth is just enough to be rounded up.
    spans = {DAY: "1.0 days", 1.05 * DAY + 0.5: "1.1 days", DAY - 360: "23.9 hours", 1.05 * HOUR + 0.5: "1.1 hours"}
    for left, words in spans.items():
        clock = Clock(JANUARY.ends - left)
        budget = Budget("dlc", 1, calendar=clock.calendar(), known={JANUARY: 1})
        with pytest.raises(BudgetSpent, match=f"ends in {words}"):
            budget.check()
