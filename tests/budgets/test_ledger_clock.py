"""The state file while the wall clock is wrong: it keeps what was counted, and nothing that a wrong date assumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.budgets.rig import DAY, HOUR, MAIN, Clock, file, month, opened, spend
from trainfleet_exporter.budgets import Budget

CALLS = 1_000_000
NOVEMBER, DECEMBER = month("2026-11"), month("2026-12")
NOW = NOVEMBER.starts + 22 * DAY
AHEAD = 32 * DAY
BEFORE = 200_000
"""Calls of November that the file knows of."""


class Site:
    """One state file, and the process that keeps it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.json"
        self.path.write_text(
            json.dumps(
                {
                    "version": 1,
                    "spent": [{"account": "main", "api": "dlc", "month": NOVEMBER.name, "calls": BEFORE}],
                }
            )
        )

    def start(self, wall: float) -> None:
        """Begin a process when the wall clock says so. One that ran until now has crashed, unless it was stopped."""
        self.clock = Clock(wall)
        self.ledger = opened(self.path, self.clock)
        self.budget: Budget = self.ledger.budget(MAIN, "dlc", CALLS)

    def poll(self, seconds: float) -> None:
        """Make a call every second."""
        for _ in range(round(seconds)):
            assert spend(self.budget, 1) == 1
            self.clock.pass_(1)

    @property
    def recorded(self) -> dict[str, int]:
        """What the file says, by month."""
        return {row["month"]: row["calls"] for row in json.loads(self.path.read_text())["spent"]}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("end", ["stop", "crash"])
@pytest.mark.parametrize("visit", ["of a running process", "of a new process", "of both"])
def test_a_visit_to_the_next_month_leaves_it_whole(site: Site, end: str, visit: str) -> None:
    site.start(NOW)
    site.poll(60)
    site.clock.wall += AHEAD
    if visit != "of a new process":
        site.poll(25)
    if end == "stop":
        site.ledger.close()
    if visit != "of a running process":
        site.start(site.clock.wall)
        site.poll(25)
    site.clock.wall -= AHEAD
    site.poll(60)
    if end == "stop":
        site.ledger.close()
    assert site.recorded[NOVEMBER.name] >= BEFORE + 60 + 25 + 60
    site.start(DECEMBER.starts + HOUR)
    # All but the calls of the visit, what a crash wastes, and an hour's share.
    assert site.budget.remaining >= 0.998 * CALLS
    assert site.budget.rate >= 0.998 * site.budget.whole_rate


def test_while_the_clock_is_ahead_both_months_are_recorded(site: Site) -> None:
    site.start(NOW)
    site.poll(60)
    site.clock.wall += AHEAD
    site.poll(25)
    site.ledger.close()
    assert site.recorded == {NOVEMBER.name: BEFORE + 85, DECEMBER.name: 25}
    assert site.budget.remaining < CALLS - BEFORE - 85  # of December, in case that the clock is right


def test_a_later_clock_that_is_right_is_recorded_after_a_day(site: Site) -> None:
    site.start(NOW)
    site.poll(60)
    site.clock.wall += AHEAD  # the machine was suspended
    share = CALLS - site.budget.remaining
    assert share > 700_000
    site.poll(25)
    site.clock.pass_(DAY)
    site.poll(60)
    site.ledger.close()
    assert site.recorded == {DECEMBER.name: share + 85}


def test_a_clock_that_is_set_back_keeps_the_month_s_record(site: Site) -> None:
    site.start(DECEMBER.starts + 2 * DAY)
    share = CALLS - site.budget.remaining
    site.poll(60)
    site.clock.pass_(2 * DAY)
    site.clock.wall -= AHEAD
    site.poll(60)
    site.ledger.close()
    assert site.recorded == {NOVEMBER.name: BEFORE + 60, DECEMBER.name: share + 120}


def test_calls_of_others_are_added_while_the_clock_is_ahead(site: Site) -> None:
    site.start(NOW)
    site.clock.wall += AHEAD
    site.poll(25)
    left = site.budget.remaining
    site.ledger.add(MAIN, "dlc", {NOVEMBER.name: 5, DECEMBER.name: 7})
    site.ledger.move(file(site.path), {(MAIN, "dlc"): {DECEMBER.name: 31}})
    site.ledger.close()
    assert site.recorded == {NOVEMBER.name: BEFORE + 30, DECEMBER.name: 32}
    assert site.budget.remaining == left - 7


def test_the_page_is_not_written_for_each_call_while_in_doubt(site: Site) -> None:
    site.start(NOW)
    site.poll(60)
    site.clock.wall += AHEAD
    site.poll(120)
    before = site.path.stat().st_mtime_ns
    site.poll(3)
    assert site.path.stat().st_mtime_ns == before
