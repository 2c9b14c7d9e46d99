"""Which month it is, to the second, by two clocks that may disagree."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clock import START, run_stepped
from tests.transport.test_budget import DAY, HOUR, JANUARY, Clock
from trainfleet_exporter.transport.calendar import Calendar, Moment, Month, elapsed

FEBRUARY = Month(2026, 2)


class Watched:
    """A calendar that was looked at once, at some seconds of January."""

    def __init__(self, seconds: float) -> None:
        self.clock = Clock(JANUARY.starts + seconds)
        self.clock.steady = 5000.0  # which began with the machine
        self.calendar = self.clock.calendar()
        assert self.months() == [JANUARY]

    def months(self) -> list[Month]:
        return [moment.month for moment in self.calendar.now()]

    def after(self, seconds: float, *, set_by: float = 0.0) -> list[Month]:
        """The months that it may be when so much time has passed and the wall clock was set."""
        self.clock.pass_(seconds)
        self.clock.wall += set_by
        return self.months()


LATE = JANUARY.seconds - 30
EARLIER = JANUARY.seconds - 6 * DAY
AHEAD = 10 * DAY
BOTH = [FEBRUARY, JANUARY]


def test_a_wall_clock_that_moves_by_a_minute_was_not_set() -> None:
    assert Watched(LATE).after(0, set_by=60) == [FEBRUARY]
    assert Watched(LATE).after(0, set_by=60.5) == BOTH
    assert Watched(LATE).after(40, set_by=-60) == [JANUARY]
    assert Watched(LATE).after(40, set_by=-60.5) == [JANUARY, FEBRUARY]


def test_in_doubt_the_second_moment_is_the_steady_clock_s() -> None:
    watched = Watched(EARLIER)
    before = watched.clock.wall
    watched.after(7, set_by=AHEAD)
    assert watched.calendar.now() == (Moment(before + 7 + AHEAD, FEBRUARY), Moment(before + 7, JANUARY))


def test_doubt_takes_a_day_to_the_second() -> None:
    watched = Watched(EARLIER)
    assert watched.after(100, set_by=AHEAD) == BOTH
    assert watched.after(DAY - 0.5) == BOTH
    assert watched.after(0.5) == [FEBRUARY]
    assert watched.after(30, set_by=-60) == [FEBRUARY]  # and it is what small steps are measured by from then on
    assert watched.after(0, set_by=-AHEAD) == [JANUARY, FEBRUARY]
    assert watched.calendar.now()[1] == Moment(watched.clock.wall + AHEAD, FEBRUARY)


@pytest.mark.parametrize("again", [60.5, -60.5])
def test_doubt_begins_anew_when_the_clock_is_set_again(again: float) -> None:
    watched = Watched(EARLIER)
    assert watched.after(0, set_by=AHEAD) == BOTH
    assert watched.after(23 * HOUR, set_by=again) == BOTH
    assert watched.after(2 * HOUR) == BOTH
    assert watched.after(22 * HOUR) == [FEBRUARY]


@pytest.mark.parametrize("step", [20.0, -20.0, 60.0])
def test_a_clock_that_goes_wrong_slowly_in_doubt_was_not_set_again(step: float) -> None:
    watched = Watched(EARLIER)
    watched.after(0, set_by=AHEAD)
    for _ in range(23):
        assert watched.after(HOUR, set_by=step) == BOTH
    assert watched.after(HOUR, set_by=step) == [FEBRUARY]


def test_a_clock_that_is_set_right_again_is_believed_at_once_and_doubted_anew_the_next_time() -> None:
    watched = Watched(EARLIER)
    assert watched.after(0, set_by=AHEAD) == BOTH
    assert watched.after(12 * HOUR, set_by=-AHEAD) == [JANUARY]
    assert watched.after(HOUR, set_by=AHEAD) == BOTH
    assert watched.after(23 * HOUR) == BOTH
    assert watched.after(HOUR) == [FEBRUARY]


def test_months_follow_the_wall_clock_over_their_ends_both_ways() -> None:
    watched = Watched(LATE)
    assert watched.after(29.5) == [JANUARY]
    assert watched.after(0.5) == [FEBRUARY]
    assert watched.after(0, set_by=-0.5) == [JANUARY]


def test_it_is_young_for_the_first_day_that_the_steady_clock_was_watched() -> None:
    clock = Clock(JANUARY.starts)
    clock.steady = 5000.0
    calendar = clock.calendar()
    assert calendar.young
    clock.pass_(3 * DAY)
    assert calendar.young  # nobody has looked yet
    calendar.now()
    clock.pass_(DAY - 0.5)
    assert calendar.young
    clock.pass_(0.5)
    assert not calendar.young


def test_the_steady_clock_is_the_loop_s_and_outside_of_one_there_is_none() -> None:
    calendar = Calendar(wall=lambda: JANUARY.starts)
    assert calendar.now() == (Moment(JANUARY.starts, JANUARY),)
    assert calendar.young

    async def main() -> Calendar:
        calendar = Calendar()
        assert calendar.now() == (Moment(START, JANUARY),)
        await asyncio.sleep(DAY)
        assert not calendar.young
        return calendar

    assert run_stepped(main).young  # so far as can be told when the loop has ended


def test_something_is_always_left_of_a_month() -> None:
    assert Moment(JANUARY.ends - 7, JANUARY).left == 7
    assert 0 < Moment(JANUARY.ends, JANUARY).left < 0.01


def test_the_elapsed_share_is_rounded_up_and_not_more_than_all() -> None:
    shares = [(0.0, 0), (1.0, 1), (JANUARY.seconds / 4, 25), (JANUARY.seconds / 4 + 1, 26), (40 * DAY, 100)]
    for seconds, calls in shares:
        assert elapsed(100, Moment(JANUARY.starts + seconds, JANUARY)) == calls
