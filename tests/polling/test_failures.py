"""Failures of polls: what is counted, kept for people, and logged, once each time."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from tests.support.logs import line_of
from trainfleet_exporter.errors import AccessDenied, CloudError, ServerTrouble, Throttled, Unreachable
from trainfleet_exporter.polling.poll import Failures
from trainfleet_exporter.telemetry import CollectorState, Telemetry

WHO = {"provider": "p", "collector": "jobs"}


class Watched:
    """Failures of one collector, and the log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "trainfleet_exporter")
        self.state = CollectorState("p", "jobs", 60.0)
        self.failures = Failures(self.state, Telemetry())
        self._caplog = caplog

    def poll(self, *errors: Exception, lost: Mapping[str, int] | None = None, failed: bool = True) -> list[str]:
        """One poll in which this goes wrong; returns what was logged."""
        self._caplog.clear()
        self.failures.begin()
        for error in errors:
            if failed:
                self.failures.add("w1", error)
            else:
                self.failures.note("w1", error)
        for reason, readings in (lost or {}).items():
            self.failures.lose(reason, readings)
        self.failures.end()
        for record in self._caplog.records:
            assert getattr(record, "fields", {}).items() >= WHO.items()
        return [f"{record.levelname}: {line_of(record, without=(*WHO, 'part'))}" for record in self._caplog.records]

    @property
    def last(self) -> str:
        """The words of the last error."""
        assert self.failures.state.error is not None
        return self.failures.state.error.text


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


DOWN, SLOW = ServerTrouble("down"), Throttled("slow down")
DOWN_LINE = "WARNING: poll failed reason=server error=down"
SLOW_LINE = 'WARNING: poll failed reason=throttled error="slow down"'
LOST = "WARNING: dropped unusable readings "
FOUND = "INFO: no more unusable readings"


def test_each_reason_is_logged_when_it_begins_and_ends(watched: Watched) -> None:
    assert watched.poll(DOWN) == [DOWN_LINE]
    assert watched.poll(DOWN, SLOW) == [SLOW_LINE]
    assert watched.poll(SLOW) == []  # while polls fail, none is over
    assert watched.poll() == ["INFO: poll recovered reasons=server,throttled"]
    assert watched.poll() == []
    assert watched.poll(DOWN) == [DOWN_LINE]


def test_what_is_done_without_on_and_on_is_not_over(watched: Watched) -> None:
    assert watched.poll(DOWN) == [DOWN_LINE]
    assert watched.poll(SLOW, failed=False) == [SLOW_LINE, "INFO: poll recovered reasons=server"]
    assert watched.poll(SLOW, failed=False) == []
    assert watched.poll() == ["INFO: poll recovered reasons=throttled"]


def test_failure_is_logged_with_its_part_and_reason(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.failures.begin()
    watched.failures.add("w1", DOWN)
    watched.failures.add("w2", KeyError("of ours"))
    fields = [getattr(record, "fields", None) for record in caplog.records]
    assert fields == [WHO | {"part": "w1", "error": DOWN}, WHO | {"part": "w2", "reason": "internal"}]


def test_facts_of_a_call_are_fields(watched: Watched) -> None:
    refused = AccessDenied("no right", operation="ListJobs", status=403, code="Forbidden", request_id="r-1")
    facts = 'operation=ListJobs status=403 code=Forbidden request_id=r-1 error="no right"'
    assert watched.poll(refused) == [f"WARNING: poll failed reason=auth {facts}"]


def test_only_a_part_that_failed_makes_a_poll_fail(watched: Watched) -> None:
    watched.poll(DOWN, failed=False)
    assert (watched.state.success, watched.failures.count) == (None, 0)  # whether it succeeds is open as yet
    watched.poll(DOWN, SLOW)
    assert (watched.state.success, watched.failures.count) == (False, 2)


def test_errors_of_the_latest_poll_are_kept_up_to_a_limit(watched: Watched) -> None:
    watched.poll(DOWN, SLOW)
    assert watched.failures.latest == [DOWN, SLOW]
    watched.poll(*[DOWN] * 60)
    assert watched.failures.latest == [DOWN] * 50
    watched.poll()
    assert watched.failures.latest == []


def test_an_error_that_is_kept_holds_nothing_that_was_in_use(watched: Watched) -> None:
    def raised() -> CloudError:
        try:
            try:
                raise KeyError
            except KeyError:
                raise Unreachable("no route") from None
        except Unreachable as error:
            return error

    error = raised()
    inner = error.__context__
    assert inner is not None
    watched.poll(error)
    assert (error.__traceback__, error.__context__, inner.__traceback__) == (None, None, None)


def test_last_minor_error_is_replaced_by_the_next_minor_one(watched: Watched) -> None:
    watched.poll(DOWN, failed=False)
    watched.poll(SLOW, failed=False)
    assert watched.last == "slow down"


def test_first_failed_part_is_the_last_error(watched: Watched) -> None:
    watched.poll(DOWN, SLOW)
    assert watched.last == "down"
    watched.poll(SLOW, failed=False)
    assert watched.last == "down"  # what is done without says less than what failed in the poll before


def test_last_error_does_not_quote_an_internal_error(watched: Watched) -> None:
    watched.poll(ValueError("token=hunter2"))
    assert watched.last == "internal error (ValueError); see the log"


@pytest.mark.parametrize("reason", ["malformed", "out_of_range"])
def test_unusable_readings_are_logged_when_they_begin_and_end(watched: Watched, reason: str) -> None:
    assert watched.poll(lost={reason: 2}) == [f"{LOST}{reason}=2"]
    assert watched.poll(lost={reason: 3}) == []
    assert watched.poll(DOWN) == [DOWN_LINE]  # it read less
    assert watched.poll() == [FOUND, "INFO: poll recovered reasons=server"]
    assert watched.poll() == []
    assert watched.poll(DOWN, lost={reason: 1}) == [DOWN_LINE, f"{LOST}{reason}=1"]


def test_lost_readings_are_logged_by_reason(watched: Watched) -> None:
    assert watched.poll(lost={"stale": 9, "malformed": 0}) == []  # too old is no trouble of the answer
    assert watched.poll(lost={"out_of_range": 1, "stale": 9, "malformed": 2}) == [f"{LOST}out_of_range=1 malformed=2"]
