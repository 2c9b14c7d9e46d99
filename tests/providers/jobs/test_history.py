"""Intervals of a job's history to seconds by phase: each second counts once, and only what lasts grows."""

from __future__ import annotations

import pytest

from trainfleet_exporter.model import Phase
from trainfleet_exporter.providers.jobs.history import Interval, code, elapsed, first_start

T = 1_760_000_000.0


def _intervals(*given: tuple[Phase, float, float | None]) -> list[Interval]:
    return [Interval(phase, T + start, None if end is None else T + end) for phase, start, end in given]


def _seconds(*given: tuple[Phase, float, float | None], now: float | None = None) -> dict[str, float]:
    found = elapsed(_intervals(*given)).until(None if now is None else T + now)
    return {entry.phase: entry.seconds for entry in found}


def test_intervals_one_after_the_other_add_up() -> None:
    given = _seconds(("queued", 0, 60), ("preparing", 60, 90), ("running", 90, 190), ("running", 200, 300))
    assert given == {"queued": 60, "preparing": 30, "running": 200}


def test_no_intervals_make_no_phases() -> None:
    assert _seconds() == {}
    assert elapsed([]).lasting is None


def test_last_phase_grows_with_time() -> None:
    history = elapsed(_intervals(("queued", 0, 60), ("running", 60, 100), ("recovering", 100, None)))
    assert history.lasting == "recovering"
    assert {found.phase: found.seconds for found in history.until(T + 130)} == {
        "queued": 60,
        "recovering": 30,
        "running": 40,
    }
    assert {found.phase: found.seconds for found in history.until(None)}["recovering"] == 0


def test_clock_behind_the_platform_takes_nothing_away() -> None:
    assert _seconds(("running", 100, None), now=90) == {"running": 0}


def test_phase_of_no_length_is_zero_and_not_absent() -> None:
    assert _seconds(("queued", 0, 0), ("running", 0, 10)) == {"queued": 0, "running": 10}


def test_recovery_within_a_run_is_not_counted_twice() -> None:
    assert _seconds(("running", 0, 100), ("recovering", 40, 55)) == {"running": 85, "recovering": 15}


def test_waiting_and_preparing_within_a_recovery_are_its_part() -> None:
    given = _seconds(("recovering", 0, 100), ("queued", 20, 50), ("preparing", 50, 60), ("checking", 60, 65))
    assert given == {"recovering": 55, "queued": 30, "preparing": 10, "checking": 5}


def test_overlapping_runs_count_once() -> None:
    assert _seconds(("running", 0, 100), ("running", 90, 200), ("running", 95, 99)) == {"running": 200}


def test_recovery_that_lasts_holds_up_a_run_that_lasts() -> None:
    assert _seconds(("running", 0, None), ("recovering", 40, None), now=100) == {"running": 40, "recovering": 60}
    assert _seconds(("running", 0, None), ("recovering", 40, 50), now=100) == {"running": 90, "recovering": 10}


def test_phases_add_up_to_the_time_they_span() -> None:
    given = _intervals(
        ("queued", 0, 37),
        ("preparing", 30, 61),
        ("running", 50, 400),
        ("recovering", 100, 150),
        ("recovering", 390, 420),
    )
    assert sum(found.seconds for found in elapsed(given).over) == 420


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_order_of_records_does_not_matter(order: tuple[int, ...]) -> None:
    given: list[tuple[Phase, float, float | None]] = [("queued", 0, 5), ("running", 5, 50), ("recovering", 20, 30)]
    assert _seconds(*(given[place] for place in order)) == {"queued": 5, "running": 35, "recovering": 10}


def test_first_start_ends_the_wait() -> None:
    start = first_start(
        _intervals(
            ("queued", 0, 60),
            ("preparing", 60, 80),
            ("queued", 80, 100),
            ("preparing", 100, 110),
            ("checking", 110, 125),
            ("running", 125, 200),
            ("queued", 200, 300),
            ("running", 300, None),
        )
    )
    assert start is not None
    assert (start.at - T, start.queued, start.prepared) == (125, 80, 45)


def test_start_without_a_queue_or_preparation_does_not_say_zero() -> None:
    start = first_start(_intervals(("running", 10, None)))
    assert start is not None
    assert (start.queued, start.prepared) == (None, None)


def test_job_that_waits_has_not_started() -> None:
    assert first_start(_intervals(("queued", 0, None))) is None


@pytest.mark.parametrize("word", ["node_fault", "XID-79", "OutOfMemory", "NCCL.Timeout", "a:b"])
def test_codes_are_kept(word: str) -> None:
    assert code(word) == word


@pytest.mark.parametrize(
    "text", [None, "", "worker 0 exited", "data/run.log", "token=abc", "x" * 65, "a\nb", "-x", "错误"]
)
def test_texts_are_not_codes(text: str | None) -> None:
    assert code(text) == ""
