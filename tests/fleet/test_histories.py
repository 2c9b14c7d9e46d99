"""Jobs and their histories, where no simulated cloud shows the corner: what counts once, lasts, or is held."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trainfleet_exporter.fleet.histories import BOUNDS, Interval, JobFault, JobHistories, Records, Recovery
from trainfleet_exporter.fleet.jobs import JobTracker
from trainfleet_exporter.model import (
    Accelerators,
    FaultCount,
    Job,
    JobFaults,
    JobTime,
    NodeFaults,
    Phase,
    PhaseTime,
    PoolWaits,
    Status,
)
from trainfleet_exporter.providers.judging import ServerClock

BEGAN = 1_760_000_400.0
"""A full hour."""
HOUR = 3600
Span = tuple[Phase, float, float | None]


def _job(status: Status = Status.RUNNING, *, job_id: str = "j", pool_id: str = "q", cards: float = 8) -> Job:
    return Job(job_id=job_id, status=status, pool_id=pool_id, accelerators=(Accelerators("gpu", "A100", cards),))


def _spans(*given: Span) -> tuple[Interval, ...]:
    return tuple(Interval(phase, BEGAN + start, None if end is None else BEGAN + end) for phase, start, end in given)


def _fault(at: float, cause: str = "node", *nodes: str, part: str = "") -> JobFault:
    blamed = tuple((node, cause) for node in nodes)
    return JobFault(BEGAN + at, cause, "node_fault", part, blamed)  # type: ignore[arg-type]  # one of the causes


def _poll(histories: JobHistories, job: Job, records: Records | None, now: float) -> dict[type, object]:
    """Poll a job; what is shown of it, by class."""
    histories.count(job, records, since=BEGAN)
    return {type(each): each for each in histories.objects(job, BEGAN + now)}


def test_job_whose_end_is_never_read_is_shown_for_one_poll() -> None:
    tracker, shown = JobTracker("w", ServerClock(started=BEGAN), retention=3600.0), list[bool]()
    tracker.update({"j": _job()}, BEGAN)
    for now in (60, 120):
        tracker.update({}, BEGAN + now, pending=tracker.missing(()))
        shown.append("j" in tracker.live)
    assert (shown, tracker.missing(())) == ([True, False], ["j"])  # it is looked up all the same


def test_phase_that_lasts_grows_with_its_status_only() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))

    def phases(status: Status, records: Records | None, now: float) -> dict[str, float]:
        shown = _poll(histories, _job(status), records, now)[JobTime]
        assert isinstance(shown, JobTime)
        return {entry.phase: entry.seconds for entry in shown.phases}

    waiting = Records(_spans(("queued", 0, None)))
    assert phases(Status.QUEUED, waiting, -5) == {"queued": 0}  # a clock behind that of the platform
    assert phases(Status.QUEUED, None, 60) == {"queued": 60}
    assert phases(Status.RUNNING, None, 120) == {"queued": 60}  # the detail is older than the row
    later = Records(_spans(("queued", 0, 70), ("running", 70, None)))
    assert phases(Status.RUNNING, later, 180) == {"queued": 70, "running": 110}
    assert phases(Status.FAILED, None, 900) == {"queued": 70, "running": 110}


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_history_that_was_not_read_again_says_nothing_of_the_end(is_seen: bool) -> None:
    """As of many jobs that fail together: the details of all but some are from before they ran."""
    histories = JobHistories(ServerClock(started=BEGAN))
    _poll(histories, _job(Status.QUEUED), Records(_spans(("queued", 0, None))), 60)
    if is_seen:
        _poll(histories, _job(), None, 120)
    failed = replace(_job(Status.FAILED), started=BEGAN + 100, finished=BEGAN + 300)
    assert _poll(histories, failed, None, 360)[JobTime] == JobTime("j", (PhaseTime("queued", 60),))
    end = histories.end(failed, BEGAN + 360)
    assert (end.phases, end.held, end.lost) == (None, 200, None)
    stopped = replace(_job(Status.STOPPED, job_id="k"), finished=BEGAN + 300)  # it never ran
    _poll(histories, replace(stopped, status=Status.STOPPING), Records(_spans(("queued", 0, None))), 290)
    _poll(histories, stopped, None, 360)
    assert histories.end(stopped, BEGAN + 360).phases == (PhaseTime("queued", 300),)


def test_faults_count_once_and_never_fall() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    faults = (_fault(-1), _fault(5, "node", "n1"), _fault(5, "node", "n1", part="worker-1"))
    recovered = (Recovery(BEGAN + 5, "pod_reschedule", "success", 30.0),)
    for now in range(10, 100, 10):  # each answer is a new object
        _poll(histories, _job(), Records(faults=(*faults,), recoveries=recovered), now)
    shown = _poll(histories, _job(), Records(faults=()), 100)[JobFaults]
    assert isinstance(shown, JobFaults)
    assert (shown.faults, shown.recovery_seconds) == ((FaultCount("node", "node_fault", 2),), 30.0)
    nodes = [NodeFaults("q", "n1", (FaultCount("node", "", 1),))]
    assert histories.fleet() == nodes
    histories.keep_only(set(), BEGAN + 120)
    _poll(histories, replace(_job(), created=BEGAN), Records(faults=faults), 130)  # it comes back
    another = _poll(histories, replace(_job(), created=BEGAN + 135), Records(faults=()), 140)
    assert another[JobFaults] == JobFaults(job_id="j", faults=(), recoveries=(), recovery_seconds=0.0)
    _poll(histories, _job(job_id="k", pool_id=""), Records(faults=(_fault(5, "node", "n2"),)), 140)
    assert NodeFaults("", "n2", (FaultCount("node", "", 1),)) in histories.fleet()
    histories.keep_only(set(), BEGAN + 365 * 24 * HOUR)  # a machine of no pool may never be used again
    assert histories.fleet() == nodes


def test_job_is_observed_once_when_it_starts() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    _poll(histories, _job(Status.QUEUED), Records(_spans(("queued", 0, None))), 60)
    spans = _spans(("queued", 0, 700), ("running", 700, None)), _spans(("queued", 0, 700), ("preparing", 700, 745))
    for records in (Records(spans[0]), Records((*spans[1], *_spans(("running", 745, None))))):
        _poll(histories, _job(), records, 900)  # the preparation is reported late
    (found,) = [each for each in histories.fleet() if isinstance(each, PoolWaits)]
    for waits, seconds in ((found.queued, 700), (found.prepared, 45)):
        assert waits is not None
        assert (waits.count, waits.sum) == (1, seconds)
        assert dict(zip(waits.bounds, waits.counts, strict=True)) == {bound: int(bound >= seconds) for bound in BOUNDS}


def test_end_has_the_whole_life() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    spans = _spans(("queued", -900, -600), ("preparing", -600, -500), ("running", -500, 300))
    recovered = (Recovery(BEGAN - 400, "restart", "success", 30.0), Recovery(BEGAN + 100, "restart", "failed", None))
    recovering = _spans(("recovering", -400, -370))
    job = Job(job_id="j", status=Status.FAILED, finished=BEGAN + 360)
    unnamed = JobFault(BEGAN + 100, "other")
    shown = _poll(histories, job, Records(spans, (_fault(-400), unnamed), recovered, recovering), 300)[JobFaults]
    for faults in ((_fault(100, "hang"),), (unnamed,)):  # its cause comes late; the platform forgets the other fault
        assert _poll(histories, job, Records(spans, faults, recovered, recovering), 400)[JobFaults] == shown
    end = histories.end(job, BEGAN + 400)
    phases = {entry.phase: entry.seconds for entry in end.phases or ()}
    assert phases == {"queued": 300, "preparing": 100, "running": 770, "recovering": 30}
    assert end.held == 100 + 800 + 60  # from the queue to the end, in which it stopped
    assert set(end.faults or ()) == {FaultCount("node", "node_fault", 1), FaultCount("hang", "node_fault", 1)}
    assert (end.recoveries, end.recovery_seconds) == (2, 30)


def test_time_without_accelerators_is_not_held() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    waits = Interval("queued", BEGAN - 900, BEGAN - 60, holds=False)
    launch = Interval("preparing", BEGAN - 60, BEGAN, holds=False)
    # It was preempted, and stopped while it waited again.
    preempted = replace(_job(Status.STOPPED, job_id="k"), finished=BEGAN + 360)
    records = Records((waits, launch, *_spans(("running", 0, 100), ("queued", 100, 300))))
    phases = PhaseTime("preparing", 60), PhaseTime("queued", 1040), PhaseTime("running", 100)
    assert _poll(histories, preempted, records, 400)[JobTime] == JobTime("k", phases, 60)
    end = histories.end(preempted, BEGAN + 400)
    assert (end.held, end.lost) == (100, 0)
    stopped = replace(preempted, job_id="s", finished=BEGAN + 660)
    _poll(histories, stopped, Records(_spans(("checking", 0, 60), ("queued", 60, 60), ("preparing", 60, 60))), 700)
    assert histories.end(stopped, BEGAN + 700).held == 660  # it prepared last, if only for a moment
