"""The last error in words: it outlives its poll, and shows no secret."""

from __future__ import annotations

import pytest

from tests.support.clock import START, run_stepped
from trainfleet_exporter.errors import Throttled, Unreachable
from trainfleet_exporter.polling.poll import Failures
from trainfleet_exporter.telemetry import CollectorState, LastError, Telemetry


@pytest.fixture
def failures() -> Failures:
    return Failures(CollectorState("p", "jobs", 60.0), Telemetry())


def test_the_first_error_stays_until_another_poll_fails(failures: Failures) -> None:
    async def main() -> None:
        failures.begin()
        failures.add("w1", Throttled("slow down", status=429, operation="ListJobs"))
        failures.add("w2", Unreachable("no route"))
        failures.end()
        reported = LastError(START, "w1", "ListJobs: HTTP 429 slow down")
        assert failures.state.error == reported
        failures.begin()  # the next poll is under way, and may be for minutes
        assert failures.state.error == reported
        failures.end()
        assert failures.state.error == reported
        failures.begin()
        failures.add("", Unreachable("no route"))
        assert failures.state.error == LastError(START, "", "no route")

    run_stepped(main)


def test_that_a_part_failed_says_more_than_what_was_done_without(failures: Failures) -> None:
    failures.begin()
    failures.note("machine types", Throttled("slow down"))
    failures.add("w1", Unreachable("no route"))
    failures.note("resource types", Throttled("slow down"))
    assert failures.state.error is not None
    assert (failures.state.error.part, failures.state.error.text) == ("w1", "no route")


def test_the_text_of_an_internal_error_is_not_shown(failures: Failures) -> None:
    failures.begin()
    failures.add("w1", ValueError("token=hunter2"))
    assert failures.state.error is not None
    assert failures.state.error.text == "internal error (ValueError); see the log"


def test_what_a_poll_did_without_is_shown(failures: Failures) -> None:
    failures.begin()
    failures.note("machine types", Throttled("slow down"))
    assert failures.count == 0
    assert failures.state.error is not None
    assert failures.state.error.part == "machine types"
