"""Histories of DLC jobs, computed by hand: each figure to the second. A case begins at T, times are seconds from it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.histories import Shown, shown
from tests.support.payloads import payload
from trainfleet_exporter.fleet.histories import JobHistories
from trainfleet_exporter.providers.alibaba_pai import jobs
from trainfleet_exporter.providers.alibaba_pai.history import PHASES, cause, details_of, records_of
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.values import utc_time
from trainfleet_exporter.transport.json_fields import UNUSABLE, iso_time

T = utc_time("2026-03-01T08:00:00Z") or 0.0
HOUR, MINUTE = 3600, 60


def _at(seconds: float | None) -> str | None:
    return None if seconds is None else iso_time(T + seconds)


def _status(word: str, start: float | None, end: float | None = None, code: str = "") -> dict[str, Any]:
    return {
        "Status": word,
        "StartTime": _at(start),
        "EndTime": _at(end),
        "ReasonCode": code,
        "ReasonMessage": "token=secret was refused",
    }


def _restart(at: float | None, seconds: float | None, status: str = "Success", **more: Any) -> dict[str, Any]:
    return {
        "OccurTime": _at(at),
        "RestartDurationInSec": seconds,
        "RestartStatus": status,
        "RestartLevelType": "PodLevel",
        **more,
    }


def _error(
    code: str, node: str = "", pod: str = "", *, triggers: bool | None = True, source: str = ""
) -> dict[str, Any]:
    return {
        "ErrorCode": code,
        "ErrorSource": source,
        "ErrorMsg": "token=secret was refused",
        "Node": node,
        "Pod": pod,
        "TriggerRestart": triggers,
    }


def _poll(
    status: str,
    history: list[Any],
    now: float,
    *,
    restarts: list[Any] | None = None,
    began: float = 0.0,
    histories: JobHistories | None = None,
    detail: bool = True,
) -> Shown:
    histories = histories or JobHistories(ServerClock(started=T + began))
    given = {"JobId": "j", "ResourceId": "quota", "Status": status, "StatusHistory": history}
    row = payload(given, jobs.JobRow)
    job = jobs.job(row)
    assert job is not None
    if detail:
        answer = payload({**given, "RestartRecord": restarts}, jobs.JobRow)
        details = details_of(answer.status_history, answer.restart_record)
        histories.note_detail("j", details, PHASES.get(status), T + now)
    records = None if detail else records_of(row.status_history)
    return shown(histories, job, records, T + now, since=T + began)


WAITED = [
    _status("Creating", 0, 5),
    _status("Queuing", 5, 65),
    _status("EnvPreparing", 65, 95),
]


def test_job_that_ran_once() -> None:
    history = [*WAITED, _status("Running", 95, 695), _status("Stopping", 695, 700), _status("Stopped", 700)]
    found = _poll("Stopped", history, 900)
    assert found == Shown({"queued": 65, "preparing": 30, "running": 600}, recovery_seconds=0, queued=65, prepared=30)


@pytest.mark.parametrize("step", [1, -1])
def test_of_two_states_of_one_second_the_present_one_lasts(step: int) -> None:
    history = [*WAITED, _status("SanityChecking", 95, 95), _status("Running", 95)]
    assert _poll("Running", history[::step], 155).phases["running"] == 60


def test_node_fault_of_the_issue() -> None:
    """2 h queue, 2 x 10 min preparation, one node fault with 30 min recovery, within 20 h."""
    fault = 10 * HOUR
    history = [
        _status("Queuing", 0, 2 * HOUR),
        _status("EnvPreparing", 2 * HOUR, 2 * HOUR + 10 * MINUTE),
        _status("Running", 2 * HOUR + 10 * MINUTE, fault),
        _status("Restarting", fault, fault + 30 * MINUTE),
        _status("EnvPreparing", fault + 30 * MINUTE, fault + 40 * MINUTE),
        _status("Running", fault + 40 * MINUTE, 20 * HOUR),
        _status("Succeeded", 20 * HOUR),
    ]
    error = _error("NodeNotReady", "lingjun-7", "j-worker-3")
    restart = _restart(fault, 40 * MINUTE, DetailErrorInfoList=[error])
    found = _poll("Succeeded", history, 21 * HOUR, restarts=[restart])
    assert found.phases == {
        "queued": 2 * HOUR,
        "preparing": 20 * MINUTE,
        "recovering": 30 * MINUTE,
        "running": 20 * HOUR - 2 * HOUR - 50 * MINUTE,
    }
    assert found.faults == {("node", "NodeNotReady"): 1}
    assert found.recoveries == {("PodLevel", "success"): 1}
    assert (found.recovery_seconds, found.nodes) == (40 * MINUTE, {("lingjun-7", "node"): 1})
    assert (found.queued, found.prepared) == (2 * HOUR, 10 * MINUTE)


def test_restart_in_place_while_the_job_says_that_it_runs() -> None:
    """The status stays Running, with SubStatus Restarting."""
    history = [*WAITED, _status("Running", 95)]
    hang = _restart(200, 45, DetailErrorInfoList=[_error("JobHang", pod="j-worker-0", triggers=None)])
    found = _poll("Running", history, 400, restarts=[hang])
    assert found.phases == {"queued": 65, "preparing": 30, "running": 260, "recovering": 45}
    assert (found.faults, found.recovery_seconds) == ({("hang", "JobHang"): 1}, 45)


def test_failed_recovery() -> None:
    history = [
        *WAITED,
        _status("Running", 95, 300),
        _status("Restarting", 300, 390),
        _status("Failed", 390, code="RestartFailed"),
    ]
    failed = _restart(
        300, 90, "Failed", RestartFailReason="no node is left", DetailErrorInfoList=[_error("GPUXidError", "n1")]
    )
    found = _poll("Failed", history, 500, restarts=[failed])
    assert found.phases == {"queued": 65, "preparing": 30, "running": 205, "recovering": 90}
    assert found.faults == {("accelerator", "GPUXidError"): 1}
    assert (found.recoveries, found.recovery_seconds) == ({("PodLevel", "failed"): 1}, 90)
    assert found.nodes == {("n1", "accelerator"): 1}


def test_preemption_by_reason_code() -> None:
    """Back to the queue, without a restart record. It counts when the job runs again."""
    histories = JobHistories(ServerClock(started=T))
    history = [*WAITED, _status("Running", 95, 300), _status("Queuing", 300, None, "JobPreempted")]
    found = _poll("Queuing", history, 360, histories=histories)
    assert found.phases == {"queued": 125, "preparing": 30, "running": 205}
    assert found.faults == {}
    history[-1:] = [
        _status("Queuing", 300, 500, "JobPreempted"),
        _status("EnvPreparing", 500, 520),
        _status("Running", 520),
    ]
    found = _poll("Running", history, 600, histories=histories)
    assert found.phases == {"queued": 265, "preparing": 50, "running": 285}
    assert found.faults == {("preempted", "JobPreempted"): 1}
    assert (found.queued, found.prepared) == (65, 30)


def test_preemption_after_a_restart_in_place_is_another_fault() -> None:
    """The record is of a restart that was over when the run ended, so it does not explain the end."""
    history = [
        *WAITED,
        _status("Running", 95, 500),
        _status("Queuing", 500, 560, "JobPreempted"),
        _status("EnvPreparing", 560, 580),
        _status("Running", 580),
    ]
    hang = _restart(200, 45, DetailErrorInfoList=[_error("JobHang", pod="j-worker-0")])
    found = _poll("Running", history, 600, restarts=[hang])
    assert found.faults == {("hang", "JobHang"): 1, ("preempted", "JobPreempted"): 1}
    assert found.phases == {"queued": 125, "preparing": 50, "running": 405 - 45 + 20, "recovering": 45}


def test_preemption_with_a_record_is_one_fault() -> None:
    history = [
        *WAITED,
        _status("Running", 95, 500),
        _status("Queuing", 500, 560, "JobPreempted"),
        _status("Running", 560),
    ]
    for record in (_restart(499, 1, Reason="PodEvicted"), _restart(450, None, "Success"), _restart(450, 110)):
        assert sum(_poll("Running", history, 600, restarts=[record]).faults.values()) == 1


@pytest.mark.parametrize("trigger", ["trigger-1", None])
def test_details_of_a_fault_that_come_late_make_no_second_fault(trigger: str | None) -> None:
    histories = JobHistories(ServerClock(started=T))
    history = [*WAITED, _status("Running", 95)]
    record = _restart(200, None, "Restarting", TriggerID=trigger, JobRestartCount=1)
    _poll("Running", history, 210, restarts=[record], histories=histories)
    detailed = record | {"DetailErrorInfoList": [_error("NodeNotReady", "lingjun-7", "j-worker-3")]}
    found = _poll("Running", history, 220, restarts=[detailed], histories=histories)
    assert sum(found.faults.values()) == 1
    assert found.nodes == {("lingjun-7", "node"): 1}


def test_restart_under_way_is_not_over_when_it_has_a_duration() -> None:
    histories = JobHistories(ServerClock(started=T))
    history = [*WAITED, _status("Running", 95)]
    for seconds, status, counted in ((10, "Restarting", {}), (25, "Success", {("PodLevel", "success"): 1})):
        found = _poll("Running", history, 230, restarts=[_restart(200, seconds, status)], histories=histories)
        assert found.recoveries == counted
    assert found.recovery_seconds == 25


def test_duration_of_a_recovery_may_come_late() -> None:
    histories = JobHistories(ServerClock(started=T))
    history = [*WAITED, _status("Running", 95)]
    for seconds, expected in ((None, 0), (40, 40), (None, 40)):
        found = _poll("Running", history, 300, restarts=[_restart(200, seconds)], histories=histories)
        assert (found.recoveries, found.recovery_seconds) == ({("PodLevel", "success"): 1}, expected)


def test_last_detail_of_an_ended_job_takes_the_place_of_its_row() -> None:
    """ListJobs had its history while it ran; its end is in GetJob only."""
    histories = JobHistories(ServerClock(started=T))
    _poll("Running", [*WAITED, _status("Running", 95)], 400, histories=histories, detail=False)
    history = [*WAITED, _status("Running", 95, 430), _status("FailedReserving", 430), _status("Failed", 530)]
    found = _poll("Failed", history, 560, histories=histories)
    assert found.phases == {"queued": 65, "preparing": 30, "running": 335}
    job = jobs.job(payload({"JobId": "j", "Status": "Failed", "GmtFinishTime": _at(430)}, jobs.JobRow))
    assert job is not None
    end = histories.end(job, T + 560)
    assert (end.job.finished, end.held) == (T + 530, 465)  # with what the platform reserved after the work


def test_restart_that_has_a_record_is_one_fault() -> None:
    history = [
        *WAITED,
        _status("Running", 95, 303),
        _status("Restarting", 303, 340, "PodFailed"),
        _status("Running", 340, 500),
        _status("Restarting", 500, 520, "Unknown"),
        _status("Running", 520),
    ]
    restarts = [_restart(301, 39, DetailErrorInfoList=[_error("ProcessExit", "n1", "j-worker-0")])]
    found = _poll("Running", history, 600, restarts=restarts)
    assert found.faults == {("process", "ProcessExit"): 1, ("other", "Unknown"): 1}
    assert found.phases == {"queued": 65, "preparing": 30, "running": 206 + 160 + 80, "recovering": 59}


def test_restart_within_a_run_hides_no_later_preemption() -> None:
    """The first restart has a record and the status stays Running; the second has a status and no record."""
    history = [
        *WAITED,
        _status("Running", 95, 300),
        _status("Restarting", 300, 340, "PodPreempted"),
        _status("Running", 340),
    ]
    restarts = [_restart(200, 30, DetailErrorInfoList=[_error("SlowNode", "n1")])]
    found = _poll("Running", history, 600, restarts=restarts)
    assert found.faults == {("degraded", "SlowNode"): 1, ("preempted", "PodPreempted"): 1}


def test_restart_during_queueing() -> None:
    """A job that is restarted before it ever ran has waited in both queues, and broke down in none."""
    history = [
        _status("Creating", 0, 5),
        _status("Queuing", 5, 100),
        _status("Restarting", 100, 110),
        _status("Queuing", 110, 200),
        _status("EnvPreparing", 200, 230),
        _status("Running", 230),
    ]
    found = _poll("Running", history, 300)
    assert found.phases == {"queued": 190, "recovering": 10, "preparing": 30, "running": 70}
    assert (found.faults, found.queued, found.prepared) == ({}, 190, 30)


def test_status_without_an_end_lasts_until_the_next_one() -> None:
    history = [_status("Queuing", 0), _status("Running", 100), _status("Restarting", 160, 170), _status("Running", 165)]
    found = _poll("Running", history, 200)
    assert found.phases == {"queued": 100, "running": 90, "recovering": 10}


def test_what_lasts_in_a_detail_has_lasted_until_it() -> None:
    """Lists have no histories, and the next one says that the job has moved on."""
    histories = JobHistories(ServerClock(started=T))
    _poll("Running", [_status("Running", 0)], 180, histories=histories)
    waits = payload({"StatusHistory": [_status("Running", 0, 182), _status("Queuing", 182)]}, jobs.JobRow)
    histories.note_detail("j", details_of(waits.status_history, None), "queued", T + 525)
    found = _poll("Running", [], 540, histories=histories, detail=False)
    assert found.phases == {"running": 182, "queued": 343}


def test_restart_under_way_is_counted_when_it_has_ended() -> None:
    histories = JobHistories(ServerClock(started=T))
    history = [*WAITED, _status("Running", 95, 200), _status("Restarting", 200)]
    going_on = _restart(198, None, "Restarting", Reason="NodeLost")
    found = _poll("Restarting", history, 260, restarts=[going_on], histories=histories)
    assert found.phases == {"queued": 65, "preparing": 30, "running": 105, "recovering": 60}
    assert (found.faults, found.recoveries) == ({("node", "NodeLost"): 1}, {})
    history[-1:] = [_status("Restarting", 200, 290), _status("Running", 290)]
    found = _poll("Running", history, 300, restarts=[_restart(198, 92, Reason="NodeLost")], histories=histories)
    assert found.phases == {"queued": 65, "preparing": 30, "running": 103 + 10, "recovering": 92}
    assert (found.faults, found.recoveries) == ({("node", "NodeLost"): 1}, {("PodLevel", "success"): 1})


def test_bad_record_loses_only_itself_and_is_counted() -> None:
    lost: Counter[str] = Counter()
    token = UNUSABLE.set(lost)
    try:
        bad = {"Status": "EnvPreparing", "StartTime": "soon", "EndTime": None}
        history: list[Any] = [*WAITED, bad, 7, _status("Running", 300, 200), _status("Running", 310, 350)]
        found = _poll("Succeeded", history, 400, restarts=[_restart(320, 5, Reason="Hang"), "none", 3])
    finally:
        UNUSABLE.reset(token)
    assert found.phases == {"queued": 65, "preparing": 30, "running": 35, "recovering": 5}
    assert found.faults == {("hang", "Hang"): 1}
    assert lost == {"out_of_range": 1, "malformed": 4}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("GPU_ECC_ERROR",), "accelerator"),
        (("XidError",), "accelerator"),
        (("NodeNotReady",), "node"),
        (("JobHang",), "hang"),
        (("SlowNode",), "degraded"),
        (("SpotPreempted",), "preempted"),
        (("PodEvicted",), "preempted"),
        (("OOMKilled",), "process"),
        (("E1001", "Node"), "node"),
        (("E1001", None), "other"),
        (("QuotaChanged",), "other"),
        (("SpecConflict",), "other"),
        (("NodeExchange",), "node"),
        (("the node is gone",), "other"),
        ((None,), "other"),
    ],
)
def test_causes_by_parts_of_codes(words: tuple[str | None, ...], expected: str) -> None:
    assert cause(*words) == expected


def test_several_nodes_of_one_fault_are_all_counted() -> None:
    errors = [
        _error("NcclTimeout", "n1", "p1", triggers=None),
        _error("GPULost", "n2", "p2"),
        _error("SlowDisk", "n3", triggers=False),
    ]
    found = _poll("Running", [_status("Running", 0)], 100, restarts=[_restart(10, 5, DetailErrorInfoList=errors)])
    assert found.faults == {("accelerator", "GPULost"): 1}
    assert found.nodes == {("n1", "other"): 1, ("n2", "accelerator"): 1}
