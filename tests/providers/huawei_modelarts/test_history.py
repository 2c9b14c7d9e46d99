"""Histories of ModelArts jobs, computed by hand: each figure to the second. Times of a case are seconds after T."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.histories import Shown, shown
from tests.support.payloads import payload
from trainfleet_exporter.fleet.histories import JobHistories
from trainfleet_exporter.providers.huawei_modelarts import history, jobs
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.transport.json_fields import counting_unusable

T = 1_760_000_000


def _run(start: float | None, end: float | None = None, xpu: float | None = None, **more: Any) -> dict[str, Any]:
    """A running record; 0 where a time is not set, as the vendor's integers have it."""
    times = {"start_at": start, "end_at": end, "xpu_start_at": xpu}
    return {key: 0 if at is None else T + at for key, at in times.items()} | more


def _attempt(start: float, end: float | None, *words: str) -> dict[str, Any]:
    """An attempt: its strategy, the fault, the result, the task."""
    recover, scenario, result, task = words
    return {
        "recover_start_at": T + start,
        "recover_end_at": 0 if end is None else T + end,
        "recover": recover,
        "fault_scenario": scenario,
        "recover_result": result,
        "related_task": task,
        "reason": "token=secret was refused",
    }


def _row(phase: str, *records: Any, **status: Any) -> jobs.JobRow:
    return payload(
        {
            "metadata": {"id": "j", "create_time": T * 1000},
            "status": {"phase": phase, "running_records": list(records), **status},
            "spec": {"resource": {"pool_id": "pool"}},
        },
        jobs.JobRow,
    )


def _poll(row: jobs.JobRow, now: float, *, began: float = 0.0, histories: JobHistories | None = None) -> Shown:
    histories = histories or JobHistories(ServerClock(started=T + began))
    job = jobs.job(row)
    assert job is not None
    records = history.records(row.status or history.JobStatus(), job.status, job.created)
    return shown(histories, job, records, T + now, since=T + began)


RETRY = _attempt(500, 512, "npu_step_retry", "chip_fault", "success", "worker-0")
HANG = _attempt(400, None, "proc_restart", "job_hanged", "recovering", "worker-1")
FAILED = _attempt(300, 390, "job_reschedule", "job_failed", "failed", "worker-0")
LOG = _attempt(100, 110, "proc_restart", "error_in_log", "success", "worker-0")
SPENT = _attempt(200, 205, "proc_restart", "job_subhealth", "quotaExceeded", "worker-1")
IN_PLACE = _attempt(300, 320, "npu_proc_restart", "chip_fault", "downgrade", "worker-2")
MOVED = _attempt(320, 500, "job_reschedule_with_taint", "chip_fault", "downgrade", "")
AGAIN = _attempt(550, 560, "npu_step_retry", "node_fault", "success", "worker-2")
UNDATED = _attempt(-T, None, "proc_restart", "job_failed", "success", "worker-0")
CASES: dict[str, tuple[Any, ...]] = {
    "ran once": (_row("Completed", _run(90, 690, xpu=150)), 1000, {"queued": 90, "preparing": 60, "running": 540}, {}),
    "a step is computed again while the run goes on": (
        *(_row("Running", _run(100, recover_records=[RETRY])), 700),
        *({"queued": 100, "running": 588, "recovering": 12}, {("accelerator", "chip_fault"): 1}),
    ),
    "a hang in place": (
        *(_row("Running", _run(60, xpu=80, recover_records=[HANG])), 430),
        *({"queued": 60, "preparing": 20, "running": 320, "recovering": 30}, {("hang", "job_hanged"): 1}),
    ),
    "a failed recovery ends the job": (
        *(_row("Failed", _run(60, 300, xpu=60, recover_records=[FAILED])), 1000),
        *({"queued": 60, "preparing": 0, "running": 240, "recovering": 90}, {("process", "job_failed"): 1}),
    ),
    "two faults, the second beyond the quota": (
        *(_row("Failed", _run(0, 200, recover_records=[LOG, SPENT])), 600),
        {"queued": 0, "running": 190, "recovering": 15},
        {("other", "error_in_log"): 1, ("degraded", "job_subhealth"): 1},
    ),
    "a downgrade is one fault, the next in its task another; all tasks are scheduled again": (
        *(_row("Running", _run(0, 300, recover_records=[IN_PLACE, MOVED]), _run(500, recover_records=[AGAIN])), 600),
        {"queued": 180, "running": 390, "recovering": 30},
        {("accelerator", "chip_fault"): 1, ("node", "node_fault"): 1},
    ),
    "preempted, some time after a step was computed again": (
        *(_row("Running", _run(0, 600, recover_records=[RETRY]), _run(700)), 800),
        *({"queued": 100, "running": 688, "recovering": 12}, {("accelerator", "chip_fault"): 1}),
    ),
    "only end_recover reports how the job went on": (
        *(_row("Running", _run(0, 100, end_recover="pod_reschedule"), _run(130)), 200),
        *({"queued": 0, "running": 170, "recovering": 30}, {("other", ""): 1}),
    ),
    "times of 0 are not set": (
        *(_row("Running", _run(50, recover_records=[UNDATED])), 100, {"queued": 50, "running": 50}, {}),
    ),
    "started without records": (_row("Running", start_time=T * 1000), 100, {}, {}),
    "ended without records": (_row("Terminated"), 100, {}, {}),
    "without an end, a run lasts until the next": (
        *(_row("Running", _run(0), _run(100, 150), _run(160)), 200, {"queued": 10, "running": 190}, {}),
    ),
    "overlapping runs count once": (
        *(_row("Completed", _run(0, 100), _run(90, 200, xpu=95)), 300),
        *({"queued": 0, "running": 195, "preparing": 5}, {}),
    ),
    "an ended job without an end does not grow": (*(_row("Failed", _run(50)), 900, {"queued": 50, "running": 0}, {}),),
    "accelerators that never started": (
        *(_row("Failed", _run(50, 80, xpu=200)), 900, {"queued": 50, "preparing": 30}, {}),
    ),
    "a record without times stands for the next run": (
        *(_row("Pending", _run(50, 200), _run(None)), 300, {"queued": 150, "running": 150}, {}),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_phases_and_faults(name: str) -> None:
    row, now, phases, faults = CASES[name]
    found = _poll(row, now)
    assert (found.phases, found.faults) == (phases, faults)


@pytest.mark.parametrize(("recovered", "recovering"), [(None, 0), (240, 40)])
def test_job_that_waits_for_its_next_run(recovered: float | None, recovering: float) -> None:
    """It holds nothing: waiting for capacity is `queued`, also after a fault."""
    moved = _attempt(200, recovered, "job_reschedule", "node_fault", "success", "worker-0")
    waiting = _poll(_row("Pending", _run(50, 200, end_recover="job_reschedule", recover_records=[moved])), 300)
    assert waiting.phases == {"queued": 50 + 100 - recovering, "running": 150} | (
        {"recovering": recovering} if recovered else {}
    )
    later = _poll(_row("Running", _run(50, 200, recover_records=[moved]), _run(300)), 310)
    assert later.phases["queued"] == waiting.phases["queued"]


def test_recovery_under_way_is_counted_when_it_has_ended() -> None:
    histories = JobHistories(ServerClock(started=T))
    going_on = _attempt(210, None, "pod_reschedule", "node_fault", "recovering", "worker-0")
    before = _attempt(200, 210, "proc_restart", "node_fault", "downgrade", "worker-0")
    found = _poll(_row("Running", _run(50, 200, recover_records=[before, going_on])), 320, histories=histories)
    assert found.phases == {"queued": 50, "running": 150, "recovering": 120}
    assert (found.faults, found.recovery_seconds) == ({("node", "node_fault"): 1}, 10)
    assert _poll(_row("Pending", _run(50, 200, recover_records=[before, going_on])), 320).phases["queued"] == 160
    ended = _run(50, 200, recover_records=[before, going_on | {"recover_end_at": T + 350, "recover_result": "success"}])
    found = _poll(_row("Running", ended, _run(350)), 400, histories=histories)
    assert found.phases == {"queued": 50, "running": 200, "recovering": 150}
    assert (found.faults, found.recovery_seconds) == ({("node", "node_fault"): 1}, 150)
    assert found.recoveries == {("proc_restart", "downgrade"): 1, ("pod_reschedule", "success"): 1}


def test_running_across_the_exporter_s_restart() -> None:
    """Phases are the platform's; counters begin anew, and what began before is not counted."""
    attempts = [
        _attempt(100, 130, "proc_restart", "job_failed", "success", "worker-0"),
        _attempt(500, 540, "pod_reschedule", "node_fault", "success", "worker-1"),
    ]
    row = _row("Running", _run(10, 100, recover_records=attempts[:1]), _run(130, 500, recover_records=attempts[1:]))
    row.status.running_records.append(payload(_run(540), history.RunningRecord))  # type: ignore[union-attr]
    found = _poll(row, 600, began=300)
    assert found.phases == {"queued": 10, "running": 90 + 370 + 60, "recovering": 70}
    assert found.faults == {("node", "node_fault"): 1}
    assert (found.recoveries, found.recovery_seconds) == ({("pod_reschedule", "success"): 1}, 40)
    assert (found.queued, found.prepared) == (None, None)


def test_queue_grows_until_the_first_run() -> None:
    histories = JobHistories(ServerClock(started=T))
    row = _row("Pending", start_time=0)
    assert _poll(row, 3600, histories=histories) == Shown({"queued": 3600}, recovery_seconds=0)
    assert _poll(_row("Creating", _run(None)), 10).phases == {"queued": 10}
    found = _poll(_row("Running", _run(4000, xpu=4000)), 4600, histories=histories)
    assert found.phases == {"queued": 4000, "preparing": 0, "running": 600}
    assert (found.queued, found.prepared) == (4000, 0)


def test_bad_record_loses_only_itself_and_is_counted() -> None:
    late = _attempt(90, 70, "proc_restart", "job_failed", "success", "worker-0")
    with counting_unusable() as lost:
        found = _poll(_row("Completed", _run(0, 50), _run(90, 60), 7, _run(100, 160, recover_records=[late])), 200)
    assert found.phases == {"queued": 40, "running": 110}
    assert (found.faults, found.recovery_seconds) == ({("process", "job_failed"): 1}, 0)
    assert lost == {"out_of_range": 2, "malformed": 1}


def test_queue_time_is_unknown_if_the_first_run_is_unreadable() -> None:
    for unreadable in (7, _run(None, 300, end_recover="pod_reschedule")):
        found = _poll(_row("Running", unreadable, _run(400)), 500)
        assert (found.phases, found.queued) == ({"running": 100}, None)


def test_end_of_a_recovery_may_come_late() -> None:
    histories = JobHistories(ServerClock(started=T))
    for end, seconds in ((None, 0), (440, 40), (None, 40)):
        attempt = _attempt(400, end, "proc_restart", "job_failed", "success", "worker-1")
        found = _poll(_row("Running", _run(60, None, recover_records=[attempt])), 500, histories=histories)
        assert (found.recoveries, found.recovery_seconds) == ({("proc_restart", "success"): 1}, seconds)


def test_unknown_words_are_shown_as_codes_only() -> None:
    attempts = [
        _attempt(10, 20, "warm_swap", "cosmic_ray", "partial", "worker-0"),
        _attempt(30, 40, "restart it now", "disk of worker is full", "went well", "worker-0"),
    ]
    found = _poll(_row("Running", _run(0, None, recover_records=attempts)), 100)
    assert found.faults == {("other", "cosmic_ray"): 1, ("other", ""): 1}
    assert found.recoveries == {("warm_swap", "partial"): 1, ("other", "other"): 1}


def test_exit_codes_of_tasks() -> None:
    statuses = [
        {"task": "worker-0", "exit_code": 137, "message": "out of memory"},
        {"task": "worker-1", "exit_code": 0},
        {"task": "worker-2", "exit_code": -9},
        {"task": "worker-2", "exit_code": 1},
        {"task": "", "exit_code": 1},
        {"task": "worker-3"},
    ]
    found = _poll(_row("Failed", _run(0, 10), task_statuses=statuses), 20)
    assert found.exits == {"worker-0": 137, "worker-1": 0, "worker-2": -9}
    found = _poll(_row("Running", _run(0), task_statuses=statuses), 20)
    assert found.exits == {"worker-0": 137, "worker-2": -9}  # 0 of a job that goes on is not set
