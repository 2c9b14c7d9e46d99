"""What is advised, by what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainfleet_exporter.diagnose.advice import advise
from trainfleet_exporter.diagnose.report import CallsReport, CollectorReport, EndpointReport, Failure, MissingRight

FINE = CollectorReport(
    collector="jobs",
    success=True,
    interval=60.0,
    per_object=False,
    units=0,
    tried=0,
    needs=6.0,
    has=50.0,
    slow_cloud=False,
    parts_failed=0,
    series=10,
    calls={"dlc": 30},
)
ANSWERED = EndpointReport("dlc", "https://pai-dlc.test", {"ok": 30}, 0.1)
CHEAP = CallsReport(
    api="cloudmonitor",
    minute=1.0,
    minute_of_account=1.0,
    minute_limit=300.0,
    month=43_200.0,
    of_account=43_200.0,
    budget=None,
    free=1_000_000,
    at_least=False,
)


def advised(**facts: object) -> list[str]:
    given = {
        "origin": "environment",
        "endpoints": [ANSWERED],
        "missing": [],
        "problems": [],
        "collectors": [FINE],
        "calls": [CHEAP],
        "rate": 5.0,
        "workspaces": 1,
    } | facts
    return list(advise(**given))  # type: ignore[arg-type]  # a mixed bag on purpose


def problem(reason: str, message: str, operation: str = "ListJobs") -> Failure:
    return Failure(reason, operation, message, ("jobs",), 3)


def test_nothing_where_all_is_well() -> None:
    assert advised() == []


def test_a_right_is_named_once_however_many_operations_want_it() -> None:
    missing = [MissingRight(name, "paidlc:ListJobs", "403") for name in ("ListJobs", "GetJob")]
    problems = [problem("auth", "403 NoPermission"), problem("auth", "403 NoPermission", "GetJob")]
    assert advised(missing=missing, problems=problems) == ["grant the identity paidlc:ListJobs"]


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (problem("auth", "wrong secret"), "fix the credentials (from environment): wrong secret"),
        (
            problem("auth", "401 the clock of this machine is off by 16 minutes"),
            "set the clock: 401 the clock of this machine is off by 16 minutes",
        ),
        (problem("bad_answer", "not JSON"), "check jobs: not JSON"),
        (problem("server", "HTTP 503"), "check jobs: HTTP 503"),
        (problem("internal", "internal error: KeyError"), "check jobs: internal error"),
        (problem("deadline", "did not end in its time"), "check jobs: did not end in its time"),
        (problem("not_ready", "the list of jobs could not be read"), "check jobs: the list of jobs"),
        (problem("network", "one reset"), "check jobs: one reset"),
    ],
    ids=lambda value: value.reason if isinstance(value, Failure) else "",
)
def test_whatever_went_wrong_is_never_nothing(found: Failure, reported: str) -> None:
    (line,) = advised(problems=[found])
    assert line.startswith(reported)


def test_same_refusal_of_several_operations_is_shown_once() -> None:
    problems = [problem("auth", f"{name}: wrong secret", name) for name in ("ListJobs", "ListQuotas")]
    assert advised(problems=problems) == ["fix the credentials (from environment): wrong secret"]


def test_what_only_follows_from_something_else_is_left_out() -> None:
    problems = [problem("auth", "wrong secret"), problem("not_ready", "the list of workspaces could not be read")]
    assert advised(problems=problems) == ["fix the credentials (from environment): wrong secret"]


@pytest.mark.parametrize(("needs", "reported"), [(25.0, False), (25.1, True)])
def test_a_sweep_that_cannot_end_in_half_its_time(needs: float, *, reported: bool) -> None:
    found = advised(collectors=[replace(FINE, needs=needs)])
    assert bool(found) is reported
    assert all(line.startswith("jobs needs about 25 s") and "global.poll_timeout" in line for line in found)


def test_slow_cloud_is_not_fixed_by_a_higher_rate() -> None:
    (line,) = advised(collectors=[replace(FINE, needs=40.0, slow_cloud=True)])
    assert "because the cloud responds slowly" in line
    assert "requests_per_second" not in line


@pytest.mark.parametrize(("needs", "reported"), [(300.0, False), (301.0, True)])
def test_a_cycle_may_take_its_whole_interval(needs: float, *, reported: bool) -> None:
    pods = replace(FINE, collector="pods", per_object=True, interval=300.0, has=300.0, needs=needs)
    found = advised(collectors=[pods])
    assert bool(found) is reported
    assert all(line.startswith("pods needs about 301 s for a cycle of 300 s") for line in found)


@pytest.mark.parametrize(("minute", "reported"), [(240.0, False), (241.0, True)])
def test_an_api_that_is_asked_at_nearly_its_whole_rate(minute: float, *, reported: bool) -> None:
    found = advised(calls=[replace(CHEAP, minute_of_account=minute)])
    assert bool(found) is reported
    assert all("needs 241 of the 300 calls a minute" in line for line in found)


@pytest.mark.parametrize(
    ("month", "budget", "reported"),
    [
        (499_000.0, None, []),
        (501_000.0, None, ["set limits.monthly_calls: {cloudmonitor: N}"]),
        (400_000.0, 400_000, []),
        (
            800_000.0,
            400_000,
            ["limits.monthly_calls is 400,000", "about 2.0 times", "with the other providers of the account"],
        ),
    ],
)
def test_monthly_calls_of_an_account_against_free_and_allowed(
    month: float, budget: int | None, reported: list[str]
) -> None:
    found = "".join(advised(calls=[replace(CHEAP, of_account=month, budget=budget)]))
    assert all(part in found for part in reported)
    assert bool(found) is bool(reported)


def test_unreachable_api_differs_from_an_unreliable_one() -> None:
    dead = replace(ANSWERED, outcomes={"network": 3, "timeout": 1})
    assert advised(endpoints=[dead], problems=[problem("network", "refused")]) == [
        "cannot reach dlc at https://pai-dlc.test: check endpoints.dlc, http.proxy_url and the network"
    ]
    assert advised(endpoints=[replace(dead, outcomes={"network": 3, "ok": 1})]) == []


def test_throttling_is_reported() -> None:
    (line,) = advised(
        endpoints=[replace(ANSWERED, outcomes={"ok": 5, "throttled": 1})], problems=[problem("throttled", "429")]
    )
    assert line.startswith("dlc throttles: lower limits.requests_per_second")


def test_no_workspace_means_no_membership_unless_a_call_failed() -> None:
    (line,) = advised(workspaces=0)
    assert line.startswith("no workspace is visible")
    assert len(advised(workspaces=0, problems=[problem("server", "HTTP 503")])) == 1
