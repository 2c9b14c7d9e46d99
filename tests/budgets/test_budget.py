"""Budgets of a month: never more attempts than they allow, whatever happens to the process, its file or its clock."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budgets.rig import DAY, HOUR, JANUARY, MAIN, Clock, opened, spend
from trainfleet_exporter.budgets import BillingPeriod, Budget
from trainfleet_exporter.errors import BudgetSpent


def test_a_budget_counts_down_refuses_and_starts_afresh() -> None:
    clock = Clock(JANUARY.starts)
    budget = Budget("cloudmonitor", 100, clock=clock.watched())
    assert (budget.calls, budget.remaining) == (100, 100)
    assert budget.rate == pytest.approx(100 / (31 * DAY))
    assert spend(budget, 30) == 30
    assert budget.remaining == 70
    clock.pass_(10 * DAY)
    assert spend(budget, 1000) == 70
    with pytest.raises(BudgetSpent) as caught:
        budget.take()
    assert str(caught.value) == (
        "cloudmonitor: not tried: the month's 100 calls (limits.monthly_calls) are spent; "
        "the month of 2026-01 ends in 21.0 days"
    )
    assert (caught.value.reason, caught.value.transient) == ("budget", False)
    clock.pass_(21 * DAY - 1)
    assert spend(budget, 1) == 0
    clock.pass_(1)
    assert budget.remaining == 100
    assert spend(budget, 1000) == 100


def test_what_was_spent_before_is_the_elapsed_share() -> None:
    clock = Clock(JANUARY.starts + JANUARY.seconds / 4)
    budget = Budget("dlc", 1001, clock=clock.watched())
    assert budget.remaining == 750  # 250.25 are taken as 251
    assert budget.rate <= budget.whole_rate
    clock.pass_(JANUARY.seconds)  # a month that it saw begin
    assert budget.remaining == 1001


@given(
    calls=st.integers(min_value=1, max_value=300),
    start=st.integers(min_value=0, max_value=31 * 86400 - 1),
    known=st.none() | st.integers(min_value=0, max_value=400),
    steps=st.lists(st.tuples(st.floats(min_value=0, max_value=9 * DAY), st.integers(min_value=0, max_value=90))),
)
def test_no_month_has_more_attempts_than_the_budget(
    calls: int, start: int, known: int | None, steps: list[tuple[float, int]]
) -> None:
    clock = Clock(JANUARY.starts + start)
    budget = Budget("dlc", calls, clock=clock.watched(), known=None if known is None else {JANUARY.name: known})
    spent: dict[str, int] = {}
    if known is None:
        spent[JANUARY.name] = min(calls, math.ceil(calls * start / JANUARY.seconds))
    else:
        spent[JANUARY.name] = min(calls, known)
    for gap, wanted in steps:
        clock.pass_(gap)
        month = BillingPeriod().month(clock.wall).name
        spent[month] = spent.get(month, 0) + spend(budget, wanted)
        assert spent[month] + budget.remaining == calls
        assert budget.rate == pytest.approx(budget.remaining / budget.left)


@pytest.mark.long
@settings(max_examples=200)
@given(
    calls=st.integers(min_value=1, max_value=200),
    steps=st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=3 * DAY),
            st.integers(min_value=0, max_value=60),
            st.sampled_from(["go on", "go on", "stop", "crash"]),
        ),
        max_size=25,
    ),
)
def test_restarts_anywhere_never_let_a_month_exceed_its_budget(
    tmp_path_factory: pytest.TempPathFactory, calls: int, steps: list[tuple[float, int, str]]
) -> None:
    path = tmp_path_factory.mktemp("state") / "state.json"
    clock = Clock(JANUARY.starts)
    ledger = opened(path, clock)
    budget = ledger.budget(MAIN, "dlc", calls)
    spent: dict[str, int] = {}
    for gap, wanted, then in steps:
        clock.pass_(gap)
        month = BillingPeriod().month(clock.wall).name
        spent[month] = spent.get(month, 0) + spend(budget, wanted)
        assert spent[month] <= calls
        assert budget.remaining <= calls - spent[month]
        if then != "go on":
            exact = calls - budget.remaining
            if then == "stop":
                ledger.close()
            ledger = opened(path, clock)
            budget = ledger.budget(MAIN, "dlc", calls)
            assert calls - budget.remaining >= exact
            if then == "stop":
                assert calls - budget.remaining == exact


@given(
    calls=st.integers(min_value=1, max_value=200),
    steps=st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=6 * HOUR),
            st.sampled_from([0.0, 0.0, -40 * DAY, -2 * HOUR, 90.0, 2 * HOUR, 20 * DAY, 40 * DAY]),
            st.integers(min_value=0, max_value=60),
        ),
        max_size=12,
    ),
)
def test_a_clock_that_is_set_refills_nothing(calls: int, steps: list[tuple[float, float, int]]) -> None:
    """The true time stays within three days of one month, wherever the wall clock is set to meanwhile."""
    clock = Clock(JANUARY.starts + 5 * DAY)
    budget = Budget("dlc", calls, clock=clock.watched(), known={JANUARY.name: 0})
    assert budget.remaining == calls
    made = 0
    for gap, error, wanted in steps:
        clock.steady += min(gap, DAY / 13)
        clock.wall = JANUARY.starts + 5 * DAY + clock.steady + error
        made += spend(budget, wanted)
        assert made <= calls


def test_new_month_is_whole_after_a_wrong_clock_showed_it() -> None:
    clock = Clock(JANUARY.ends - 2 * DAY)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 40})
    assert spend(budget, 10) == 10
    clock.wall += 5 * DAY
    assert budget.remaining == 50  # of January's, although February has begun by the wall clock
    assert spend(budget, 5) == 5
    clock.wall -= 5 * DAY
    assert budget.remaining == 45
    clock.pass_(2 * DAY)
    assert budget.remaining == 95  # what was made by February's date counts there too


@pytest.mark.parametrize("step", [-2 * DAY, 3 * DAY])
def test_clock_set_within_the_month_counts_no_call_twice(step: float) -> None:
    clock = Clock(JANUARY.starts + 10 * DAY)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 40})
    clock.wall += step
    assert spend(budget, 10) == 10
    assert (budget.remaining, budget.spent) == (50, {JANUARY.name: 50})


def test_calls_counted_in_both_months_are_taken_back_once() -> None:
    clock = Clock(JANUARY.ends - 10)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 30, "2026-02": 0})
    assert spend(budget, 5) == 5
    clock.pass_(20)
    assert spend(budget, 20) == 20
    clock.wall -= 40
    assert budget.remaining == 50


def test_a_single_call_is_taken_back_too() -> None:
    clock = Clock(JANUARY.ends + HOUR)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 30, "2026-02": 0})
    assert spend(budget, 1) == 1
    clock.wall -= 3 * HOUR
    assert [budget.remaining, budget.remaining] == [69, 69]  # once


def test_calls_move_back_with_a_clock_ahead_at_start() -> None:
    clock = Clock(JANUARY.ends + HOUR)
    budget = Budget("dlc", 100, clock=clock.watched(), known={JANUARY.name: 30, "2026-02": 0})
    assert spend(budget, 20) == 20
    clock.wall -= 3 * HOUR
    assert budget.remaining == 50


def test_after_a_day_a_clock_that_was_set_is_believed() -> None:
    clock = Clock(datetime(1970, 1, 20, tzinfo=UTC).timestamp())
    budget = Budget("dlc", 100, clock=clock.watched(), known={"1970-01": 99, JANUARY.name: 0})
    clock.wall = JANUARY.starts + DAY  # the time service has answered
    assert budget.remaining == 1
    for _ in range(30):
        clock.pass_(HOUR)
        assert budget.remaining <= 100
    assert budget.remaining == 100


def test_small_corrections_of_the_clock_add_up_to_no_doubt() -> None:
    clock = Clock(JANUARY.starts)
    budget = Budget("dlc", 100, clock=clock.watched())
    for _ in range(24 * 32):
        clock.pass_(HOUR)
        clock.wall += 20  # a very bad clock: 8 minutes a day
        assert budget.remaining == 100


def test_a_lower_budget_than_what_is_spent_is_spent() -> None:
    clock = Clock(JANUARY.starts)
    budget = Budget("dlc", 10, clock=clock.watched(), known={JANUARY.name: 25})
    assert budget.remaining == 0
    assert spend(budget, 1) == 0


def test_writing_ahead_is_seldom_however_many_calls_there_are() -> None:
    writes: list[bool] = []
    clock = Clock(JANUARY.starts)
    budget = Budget("dlc", 1_000_000, clock=clock.watched(), known={JANUARY.name: 0})

    def save(at_once: bool) -> None:
        writes.append(at_once)
        budget.saved(budget.bounds)

    budget.saved_by(save)
    spend(budget, 5000)  # a first cycle over many jobs, at once
    assert len(writes) < 80
    writes.clear()
    for _ in range(6 * 60):  # six hours at what the budget allows, in bursts of a minute
        clock.pass_(60)
        spend(budget, 22)
    assert len(writes) <= 6 * 60 / 4
    assert writes.count(True) == 0  # but in good time, so that the loop does not wait for the disk
    assert budget.bounds[JANUARY.name] - budget.spent[JANUARY.name] <= 200  # nine minutes' calls
