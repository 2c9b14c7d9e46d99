from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.rig import TopJitter
from trainfleet_exporter.transport.retry import RetryBudget, backoff, wait_hint


def test_a_retry_is_earned_by_exactly_ten_calls() -> None:
    budget = RetryBudget()
    for _ in range(9):
        budget.earn()
    assert not budget.spend()
    budget.earn()
    assert budget.spend()
    assert not budget.spend()


def test_no_more_than_ten_retries_are_saved_up() -> None:
    budget = RetryBudget()
    for _ in range(1000):
        budget.earn()
    assert [budget.spend() for _ in range(11)] == [True] * 10 + [False]


@given(st.lists(st.booleans()))
def test_retries_never_exceed_a_tenth_of_the_calls(steps: list[bool]) -> None:
    budget = RetryBudget()
    calls = retries = 0
    for is_call in steps * 10:
        if is_call:
            budget.earn()
            calls += 1
        else:
            retries += budget.spend()
        assert retries * 10 <= calls


def test_backoff_doubles_from_a_fifth_of_a_second_to_ten() -> None:
    longest = [backoff(failures, TopJitter()) for failures in (1, 2, 3, 6, 7, 100)]
    assert longest == [0.2, 0.4, 0.8, 6.4, 10.0, 10.0]


def test_backoff_is_spread_over_the_whole_span() -> None:
    seeded = random.Random(7)
    waits = [backoff(3, seeded) for _ in range(1000)]
    assert min(waits) < 0.02
    assert 0.78 < max(waits) <= 0.8


@pytest.mark.parametrize("hint", [None, 0.0, -1.0, math.nan, math.inf])
def test_what_is_no_hint_is_not_obeyed(hint: float | None) -> None:
    assert wait_hint(hint) is None


def test_a_hint_is_obeyed_exactly_up_to_an_hour() -> None:
    assert wait_hint(12.25) == 12.25
    assert wait_hint(1e12) == 3600
