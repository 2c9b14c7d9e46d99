"""What is advised, by what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainfleet_exporter.diagnose.advice import advise
from trainfleet_exporter.diagnose.report import CallsReport, CollectorReport, EndpointReport, MissingRight

FINE = CollectorReport(
    collector="jobs",
    success=True,
    seconds=2.0,
    interval=60.0,
    rolls=False,
    needs=6.0,
    has=50.0,
    parts=1,
    parts_failed=0,
    series=10,
    calls={"dlc": 30},
    problems=(),
)
ANSWERED = EndpointReport("dlc", "https://pai-dlc.test", {"ok": 30}, "")
CHEAP = CallsReport("cloudmonitor", 1.0, 300.0, 43_200.0, None, 1_000_000)


def advised(**facts: object) -> list[str]:
    given = {
        "endpoints": [ANSWERED],
        "missing": [],
        "collectors": [FINE],
        "calls": [CHEAP],
        "rate": 5.0,
        "workspaces": 1,
    } | facts
    return list(advise(**given))  # type: ignore[arg-type]  # a mixed bag on purpose


def test_nothing_where_all_is_well() -> None:
    assert advised() == []


def test_a_right_is_named_once_however_many_operations_want_it() -> None:
    missing = [MissingRight(name, "paidlc:ListJobs", "403") for name in ("ListJobs", "GetJob")]
    assert advised(missing=missing) == ["grant the identity paidlc:ListJobs"]


@pytest.mark.parametrize(("seconds", "needs", "told"), [(2.0, 25.0, False), (2.0, 25.1, True), (26.0, 1.0, True)])
def test_a_sweep_that_cannot_end_in_half_its_time(seconds: float, needs: float, *, told: bool) -> None:
    found = advised(collectors=[replace(FINE, seconds=seconds, needs=needs)])
    assert bool(found) is told
    assert all(line.startswith("jobs needs about 2") and "global.poll_timeout" in line for line in found)


@pytest.mark.parametrize(("needs", "told"), [(300.0, False), (301.0, True)])
def test_a_cycle_may_take_its_whole_interval(needs: float, *, told: bool) -> None:
    pods = replace(FINE, collector="pods", rolls=True, interval=300.0, has=300.0, needs=needs)
    found = advised(collectors=[pods])
    assert bool(found) is told
    assert all(line.startswith("pods needs about 301 s for a cycle of 300 s") for line in found)


@pytest.mark.parametrize(
    ("month", "budget", "told"),
    [
        (499_000.0, None, []),
        (501_000.0, None, ["set limits.monthly_calls: {cloudmonitor: N}"]),
        (400_000.0, 400_000, []),
        (800_000.0, 400_000, ["a budget of 400,000", "about 2.0 times"]),
    ],
)
def test_a_month_s_calls_against_what_is_free_and_what_is_allowed(
    month: float, budget: int | None, told: list[str]
) -> None:
    found = "".join(advised(calls=[replace(CHEAP, month=month, budget=budget)]))
    assert all(part in found for part in told)
    assert bool(found) is bool(told)


def test_an_api_that_cannot_be_reached_is_not_one_that_answers_now_and_then() -> None:
    dead = replace(ANSWERED, outcomes={"network": 3, "timeout": 1})
    assert advised(endpoints=[dead]) == [
        "dlc cannot be reached at https://pai-dlc.test: check endpoints.dlc, http.proxy_url and the way there"
    ]
    assert advised(endpoints=[replace(dead, outcomes={"network": 3, "ok": 1})]) == []


def test_throttling_is_told() -> None:
    (line,) = advised(endpoints=[replace(ANSWERED, outcomes={"ok": 5, "throttled": 1})])
    assert line.startswith("dlc throttles: set limits.requests_per_second lower")


def test_no_workspace_at_all_is_lacking_membership_unless_something_failed() -> None:
    (line,) = advised(workspaces=0)
    assert line.startswith("no workspace is visible")
    assert advised(workspaces=0, collectors=[replace(FINE, success=False)]) == []
