"""Which time it is while the wall clock is set: one time, or two for a day."""

from __future__ import annotations

import asyncio

import pytest

from tests.budgets.rig import DAY, HOUR, JANUARY, Clock, month
from tests.support.clock import START, run_stepped
from trainfleet_exporter.budgets import BillingPeriod, BudgetClock
from trainfleet_exporter.budgets.clock import Look

FEBRUARY = month("2026-02").name


class Watched:
    """A clock that was looked at once, at some seconds of January."""

    def __init__(self, seconds: float) -> None:
        self.clock = Clock(JANUARY.starts + seconds)
        self.clock.steady = 5000.0  # which began with the machine
        self.watched = self.clock.watched()
        assert self.months() == [JANUARY.name]

    def months(self) -> list[str]:
        return [BillingPeriod().month(time).name for time in self.watched.look().times]

    def after(self, seconds: float, *, set_by: float = 0.0) -> list[str]:
        """The months that it may be when so much time has passed and the wall clock was set."""
        self.clock.pass_(seconds)
        self.clock.wall += set_by
        return self.months()


LATE = JANUARY.seconds - 30
EARLIER = JANUARY.seconds - 6 * DAY
AHEAD = 10 * DAY
BOTH = [FEBRUARY, JANUARY.name]


def test_a_wall_clock_that_moves_by_a_minute_was_not_set() -> None:
    assert Watched(LATE).after(0, set_by=60) == [FEBRUARY]
    assert Watched(LATE).after(0, set_by=60.5) == BOTH
    assert Watched(LATE).after(40, set_by=-60) == [JANUARY.name]
    assert Watched(LATE).after(40, set_by=-60.5) == [JANUARY.name, FEBRUARY]


def test_uncertain_clock_continues_the_time_before() -> None:
    watched = Watched(EARLIER)
    before = watched.clock.wall
    watched.after(7, set_by=AHEAD)
    assert watched.watched.look().times == (before + 7 + AHEAD, before + 7)


@pytest.mark.parametrize("step", [-AHEAD, AHEAD])
def test_earlier_time_is_certain_for_the_first_day_only(step: float) -> None:
    young, old = Watched(EARLIER), Watched(EARLIER)
    young.after(DAY - 1, set_by=step)
    old.after(DAY, set_by=step)
    assert young.watched.look().certain == min(young.watched.look().times)
    assert old.watched.look().certain == old.watched.look().times[1] == JANUARY.starts + EARLIER + DAY
    old.after(DAY)
    assert old.watched.look() == Look((old.clock.wall,), old.clock.wall)  # it is believed


def test_doubt_takes_a_day_to_the_second() -> None:
    watched = Watched(EARLIER)
    assert watched.after(100, set_by=AHEAD) == BOTH
    assert watched.after(DAY - 0.5) == BOTH
    assert watched.after(0.5) == [FEBRUARY]
    assert watched.after(30, set_by=-60) == [FEBRUARY]  # and it is what small steps are measured by from then on
    assert watched.after(0, set_by=-AHEAD) == [JANUARY.name, FEBRUARY]
    assert watched.watched.look().times[1] == watched.clock.wall + AHEAD


@pytest.mark.parametrize("again", [60.5, -60.5])
def test_doubt_restarts_when_the_clock_is_set_again(again: float) -> None:
    watched = Watched(EARLIER)
    assert watched.after(0, set_by=AHEAD) == BOTH
    assert watched.after(23 * HOUR, set_by=again) == BOTH
    assert watched.after(2 * HOUR) == BOTH
    assert watched.after(22 * HOUR) == [FEBRUARY]


@pytest.mark.parametrize("step", [20.0, -20.0, 60.0])
def test_slow_drift_of_an_uncertain_clock_is_no_new_setting(step: float) -> None:
    watched = Watched(EARLIER)
    watched.after(0, set_by=AHEAD)
    for _ in range(23):
        assert watched.after(HOUR, set_by=step) == BOTH
    assert watched.after(HOUR, set_by=step) == [FEBRUARY]


def test_corrected_clock_is_trusted_until_it_is_set_again() -> None:
    watched = Watched(EARLIER)
    assert watched.after(0, set_by=AHEAD) == BOTH
    assert watched.after(12 * HOUR, set_by=-AHEAD) == [JANUARY.name]
    assert watched.after(HOUR, set_by=AHEAD) == BOTH
    assert watched.after(23 * HOUR) == BOTH
    assert watched.after(HOUR) == [FEBRUARY]


def test_months_follow_the_wall_clock_over_their_ends_both_ways() -> None:
    watched = Watched(LATE)
    assert watched.after(29.5) == [JANUARY.name]
    assert watched.after(0.5) == [FEBRUARY]
    assert watched.after(0, set_by=-0.5) == [JANUARY.name]


def test_loop_clock_is_used_only_inside_a_loop() -> None:
    clock = BudgetClock(wall=lambda: JANUARY.starts)
    assert clock.look() == Look((JANUARY.starts,), JANUARY.starts)

    async def main() -> None:
        wall = START
        clock = BudgetClock(wall=lambda: wall)
        assert clock.look().times == (START,)
        await asyncio.sleep(DAY)
        assert clock.look().times == (START, START + DAY)  # the loop's clock went on, and the wall clock did not

    run_stepped(main)
