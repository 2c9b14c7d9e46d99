"""Counters and histograms of histories: each fault, recovery and start counts once, if it is dated after our start."""

from __future__ import annotations

from typing import Any

from trainfleet_exporter.model import (
    FaultCount,
    Job,
    JobEnd,
    JobFaults,
    JobTime,
    NodeFaults,
    Phase,
    PodExit,
    PoolWaits,
    Status,
)
from trainfleet_exporter.providers.jobs.histories import BOUNDS, JobHistories
from trainfleet_exporter.providers.jobs.history import Interval, JobFault, Records, Recovery
from trainfleet_exporter.providers.judging import ServerClock

BEGAN = 1_760_000_000.0


def _job(job_id: str = "j", status: Status = Status.RUNNING, pool_id: str = "q") -> Job:
    return Job(job_id=job_id, status=status, pool_id=pool_id)


def _spans(*given: tuple[Phase, float, float | None]) -> tuple[Interval, ...]:
    return tuple(Interval(phase, BEGAN + start, None if end is None else BEGAN + end) for phase, start, end in given)


Shown = dict[type, Any]
"""What is shown of a job after a poll, by class; exit codes as a list."""


def _poll(histories: JobHistories, job: Job, records: Records | None, now: float, since: float = 0.0) -> Shown:
    """Poll a job."""
    if records is not None:
        histories.note(job.job_id, records)
    histories.count(job, since=BEGAN + since)
    found = list(histories.objects(job, BEGAN + now))
    shown: Shown = {type(each): each for each in found}
    shown[PodExit] = [each for each in found if isinstance(each, PodExit)]
    return shown


def _phases(shown: Shown) -> dict[str, float]:
    time = shown.get(JobTime)
    return {} if time is None else {entry.phase: entry.seconds for entry in time.phases}


def _fault(at: float, **given: Any) -> JobFault:
    return JobFault(BEGAN + at, given.pop("cause", "node"), given.pop("word", "node_fault"), **given)


def test_job_without_a_history_shows_nothing() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    assert _poll(histories, _job(), None, 10) == {PodExit: []}
    assert histories.fleet(BEGAN + 100) == []


def test_faults_of_before_our_start_are_not_counted() -> None:
    records = Records(faults=(_fault(-1), _fault(0), _fault(5)))
    shown = _poll(JobHistories(ServerClock(started=BEGAN)), _job(), records, 10)
    assert [(found.cause, found.platform_cause, found.count) for found in shown[JobFaults].faults] == [
        ("node", "node_fault", 2)
    ]


def test_same_fault_in_many_polls_counts_once() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    for now in range(10, 100, 10):  # each answer is a new object
        shown = _poll(histories, _job(), Records(faults=(_fault(5, nodes=(("n1", "node"),)),)), now)
    assert shown[JobFaults].faults[0].count == 1
    assert histories.fleet(BEGAN + 100) == [NodeFaults("q", "n1", (FaultCount("node", "", 1),))]


def test_counters_never_fall_when_the_platform_forgets() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    ended = Recovery(BEGAN + 5, "pod_reschedule", "success", 30.0)
    _poll(histories, _job(), Records(faults=(_fault(5),), recoveries=(ended,)), 10)
    shown = _poll(histories, _job(), Records(faults=()), 20)
    assert (shown[JobFaults].faults[0].count, shown[JobFaults].recovery_seconds) == (1, 30.0)


def test_history_without_faults_has_recovered_for_zero_seconds() -> None:
    shown = _poll(JobHistories(ServerClock(started=BEGAN)), _job(), Records(faults=()), 10)
    assert shown[JobFaults] == JobFaults(job_id="j")
    assert JobFaults not in _poll(JobHistories(ServerClock(started=BEGAN)), _job(), Records(intervals=()), 10)


def test_two_parts_that_break_in_one_second_are_two_faults() -> None:
    records = Records(faults=(_fault(5, part="worker-0"), _fault(5, part="worker-1")))
    assert _poll(JobHistories(ServerClock(started=BEGAN)), _job(), records, 10)[JobFaults].faults[0].count == 2


def test_phase_that_lasts_grows_while_the_job_is_in_it() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    records = Records(intervals=_spans(("queued", -50, 0), ("running", 0, None)))
    assert _phases(_poll(histories, _job(), records, 10)) == {"queued": 50, "running": 10}
    assert _phases(_poll(histories, _job(), records, 70)) == {"queued": 50, "running": 70}


def test_history_older_than_the_status_does_not_grow() -> None:
    """The detail of a job may be minutes older than its row."""
    histories = JobHistories(ServerClock(started=BEGAN))
    records = Records(intervals=_spans(("queued", 0, None)))
    assert _phases(_poll(histories, _job(status=Status.QUEUED), records, 60)) == {"queued": 60}
    assert _phases(_poll(histories, _job(status=Status.RUNNING), None, 120)) == {"queued": 60}
    late = Records(intervals=_spans(("queued", 0, 70), ("running", 70, None)))
    assert _phases(_poll(histories, _job(), late, 180)) == {"queued": 70, "running": 110}


def test_ended_job_keeps_what_was_seen_of_an_open_phase() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    records = Records(intervals=_spans(("running", 0, None)))
    _poll(histories, _job(), records, 60)
    assert _phases(_poll(histories, _job(status=Status.FAILED), None, 900)) == {"running": 60}


def test_open_phase_of_a_job_first_seen_ended_does_not_count() -> None:
    records = Records(intervals=_spans(("queued", -9, 0), ("running", 0, None)))
    assert _phases(_poll(JobHistories(ServerClock(started=BEGAN)), _job(status=Status.FAILED), records, 900)) == {
        "queued": 9,
        "running": 0,
    }


def test_detail_adds_recoveries_to_the_intervals_of_a_row() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    detail = Records(
        intervals=_spans(("running", 0, None)),
        faults=(_fault(10),),
        recovery_intervals=_spans(("recovering", 10, 40)),
    )
    histories.note_detail("j", detail)
    assert _phases(_poll(histories, _job(), None, 100)) == {"running": 70, "recovering": 30}
    newer = Records(intervals=_spans(("running", 0, 150), ("queued", 150, None)))
    assert _phases(_poll(histories, _job(status=Status.QUEUED), newer, 200)) == {
        "running": 120,
        "recovering": 30,
        "queued": 50,
    }


def _waits(histories: JobHistories) -> dict[str, PoolWaits]:
    return {found.pool_id: found for found in histories.fleet(BEGAN + 100) if isinstance(found, PoolWaits)}


def test_job_is_observed_once_when_it_starts() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    waiting = Records(intervals=_spans(("queued", 0, None)))
    _poll(histories, _job(status=Status.QUEUED), waiting, 60)
    assert _waits(histories) == {}
    for end in (900, 1000):
        started = Records(intervals=_spans(("queued", 0, 700), ("preparing", 700, 745), ("running", 745, end)))
        _poll(histories, _job(), started, end)
    queued, prepared = _waits(histories)["q"].queued, _waits(histories)["q"].prepared
    assert queued is not None
    assert prepared is not None
    assert dict(zip(queued.bounds, queued.counts, strict=True)) == {bound: int(bound >= 900) for bound in BOUNDS}
    assert (queued.count, queued.sum, prepared.count, prepared.sum) == (1, 700, 1, 45)
    assert dict(zip(prepared.bounds, prepared.counts, strict=True)) == {bound: int(bound >= 60) for bound in BOUNDS}


def test_job_that_ran_at_the_first_poll_is_not_observed() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    records = Records(intervals=_spans(("queued", 0, 5), ("running", 5, None)))
    _poll(histories, _job(), records, 10, since=10)
    assert _waits(histories) == {}
    _poll(histories, _job(), Records(intervals=_spans(("queued", 0, 5), ("running", 5, 20))), 30, since=10)
    assert _waits(histories) == {}


def test_preparation_that_is_reported_late_is_observed() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    _poll(histories, _job(), Records(intervals=_spans(("queued", 0, 50), ("running", 50, None))), 60)
    late = Records(intervals=_spans(("queued", 0, 50), ("preparing", 50, 170), ("running", 170, None)))
    _poll(histories, _job(), late, 200)
    queued, prepared = _waits(histories)["q"].queued, _waits(histories)["q"].prepared
    assert queued is not None
    assert prepared is not None
    assert (queued.count, queued.sum, prepared.count, prepared.sum) == (1, 50, 1, 120)


def test_wait_beyond_all_bounds_is_in_the_last_bucket_only() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    week = 8 * 86400.0
    _poll(histories, _job(), Records(intervals=_spans(("queued", 0, week), ("running", week, None))), week)
    queued = _waits(histories)["q"].queued
    assert queued is not None
    assert (set(queued.counts), queued.count, queued.sum) == ({0}, 1, week)


def test_nodes_are_counted_over_jobs_and_outlive_them() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    for number in range(3):
        blamed = Records(faults=(_fault(number, nodes=(("n1", "accelerator"),)),))
        _poll(histories, _job(f"j{number}"), blamed, 10)
    histories.keep_only({"j0"}, BEGAN + 20)
    three = [NodeFaults("q", "n1", (FaultCount("accelerator", "", 3),))]
    assert histories.fleet(BEGAN + 100) == three
    _poll(histories, _job("j1"), Records(faults=(_fault(1, nodes=(("n1", "accelerator"),)),)), 30)
    assert histories.fleet(BEGAN + 100) == three


def test_exit_codes_are_shown() -> None:
    records = Records(faults=(), exit_codes=(("worker-0", 137), ("worker-1", 0)))
    shown = _poll(JobHistories(ServerClock(started=BEGAN)), _job(status=Status.FAILED), records, 10)
    assert shown[PodExit] == [PodExit("j", "worker-0", 137), PodExit("j", "worker-1", 0)]


def test_end_has_the_faults_of_the_whole_life() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    spans = _spans(("queued", -900, -600), ("preparing", -600, -500), ("running", -500, 300))
    faults = (_fault(-400), _fault(100, cause="hang"))
    recovered = (Recovery(BEGAN - 400, "restart", "success", 30.0), Recovery(BEGAN + 100, "restart", "failed", None))
    recovering = _spans(("recovering", -400, -370))
    job = Job(job_id="j", status=Status.FAILED, finished=BEGAN + 360)
    shown = _poll(histories, job, Records(spans, faults, recovered, recovering), 400)
    assert shown[JobFaults].faults == (FaultCount("hang", "node_fault", 1),)  # the metric counts from our start on
    end = histories.end(job, BEGAN + 400)
    assert {entry.phase: entry.seconds for entry in end.phases or ()} == {
        "queued": 300,
        "preparing": 100,
        "running": 770,
        "recovering": 30,
    }
    assert end.held == 100 + 800 + 60  # from the queue to the end, in which it stopped
    assert set(end.faults or ()) == {FaultCount("node", "node_fault", 1), FaultCount("hang", "node_fault", 1)}
    assert (end.recoveries, end.recovery_seconds) == (2, 30)


def test_end_of_a_job_without_a_history_is_mostly_unknown() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    job = Job(job_id="j", status=Status.STOPPED, started=BEGAN, finished=BEGAN + 60)
    assert histories.end(job, BEGAN + 90) == JobEnd(job=job, seen=BEGAN + 90, held=60)
    never = Job(job_id="k", status=Status.STOPPED)
    assert histories.end(never, BEGAN + 90) == JobEnd(job=never, seen=BEGAN + 90)


def test_end_in_the_queue_keeps_the_wait_that_was_seen() -> None:
    """A cloud's record of a job that never ran may not say any more that it waited."""
    histories = JobHistories(ServerClock(started=BEGAN))
    _poll(histories, _job(status=Status.QUEUED), Records(_spans(("queued", 0, None))), 100)
    ended = _job(status=Status.STOPPED)
    assert _phases(_poll(histories, ended, Records(), 200)) == {"queued": 100}
    end = histories.end(ended, BEGAN + 200)
    assert [(entry.phase, entry.seconds) for entry in end.phases or ()] == [("queued", 100)]
    assert end.held == 0
