"""The running records of a ModelArts job: what its time was spent on, its faults and recoveries.

    created ──queued──► start_at ──preparing──► xpu_start_at ──running──► end_at ──recovering, queued──► next start_at

Within a run, an attempt to recover is `recovering` from its start to its end. A job without records has waited since it
was created. All times of records are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from trainfleet_exporter.fleet.histories import Interval, JobFault, Records, Recovery
from trainfleet_exporter.model import FINISHED, Cause, Status
from trainfleet_exporter.providers.values import code, readable, unix_time
from trainfleet_exporter.transport.json_fields import unusable


class RecoverRecord(Struct, gc=False):
    """One attempt to recover from a fault. It starts when the fault occurs."""

    recover_start_at: float | None = None
    recover_end_at: float | None = None
    recover: str | None = None
    fault_scenario: str | None = None
    recover_result: str | None = None
    related_task: str | None = None


class RunningRecord(Struct, gc=False):
    """One run of a job. `end_recover` is the strategy that followed its end."""

    start_at: float | None = None
    xpu_start_at: float | None = None
    end_at: float | None = None
    end_reason: str | None = None
    end_related_task: str | None = None
    end_recover: str | None = None
    recover_records: list[RecoverRecord | None] | None = None


class TaskStatus(Struct, gc=False):
    """The end of a task."""

    task: str | None = None
    exit_code: float | None = None


class TaskIp(Struct, gc=False):
    """Where a task runs: its address, and its node's. Only searches by nodes have it."""

    task: str | None = None
    ip: str | None = None
    host_ip: str | None = None


class JobStatus(Struct, gc=False):
    """The state of a job. `phase` is a status, no `model.Phase`. Times count milliseconds. `tasks` are names.

    A number among `tasks` is not a name.
    """

    phase: str | None = None
    start_time: float | None = None
    duration: float | None = None
    tasks: list[str | float | None] | None = None
    running_records: list[RunningRecord | None] | None = None
    task_statuses: list[TaskStatus | None] | None = None
    task_ips: list[TaskIp | None] | None = None


CAUSES: Mapping[str, Cause] = {
    "chip_fault": "accelerator",
    "node_fault": "node",
    "job_failed": "process",
    "job_hanged": "hang",
    "job_subhealth": "degraded",
    "error_in_log": "other",
}
"""By fault_scenario. A word that is not here is `other`."""
UNDER_WAY = "recovering"
"""The recover_result of an attempt in progress."""
DOWNGRADED = "downgrade"
"""The recover_result of an attempt that another strategy follows, for the same fault."""
RESCHEDULED = ("job_reschedule", "job_reschedule_with_taint")
"""The strategies that schedule all tasks of a job again. `pod_reschedule` leaves the other tasks on their nodes."""
WAITING = (Status.CREATING, Status.QUEUED)
Run: TypeAlias = tuple[RunningRecord, float]
"""A record, and when the run started."""


def records(state: JobStatus, status: Status, created: float | None) -> Records:
    """The history of a job that has a status, and was created at a Unix time."""
    given = readable(state.running_records)
    runs = [(record, start) for record in given if (start := unix_time(record.start_at)) is not None]
    runs.sort(key=lambda run: (run[1], not run[0].end_at))
    attempts = [(run, attempt) for run, record in enumerate(given) for attempt in readable(record.recover_records)]
    faults, recoveries, times = _recoveries(attempts, runs)
    return Records(
        intervals=_spans(state, status, created, runs),
        faults=None if state.running_records is None else tuple(faults),
        recoveries=tuple(recoveries),
        recovery_intervals=tuple(times),
        exit_codes=tuple(_exit_codes(state, status)),
    )


def _spans(state: JobStatus, status: Status, created: float | None, runs: Sequence[Run]) -> tuple[Interval, ...] | None:
    if not runs:
        has_started = unix_time(state.start_time, per_second=1000) is not None
        if created is None or has_started or status not in WAITING:
            return None
        return (Interval("queued", created, None),)
    found: list[Interval] = []
    if created is not None and not _lacks_first_run(state):  # in milliseconds, where starts are in whole seconds
        found.append(Interval("queued", min(created, runs[0][1]), runs[0][1]))
    for (record, start), following in zip(runs, [*(start for _, start in runs[1:]), None], strict=True):
        end = unix_time(record.end_at)
        if end is not None and end < start:
            unusable(end, "out_of_range")
            continue
        found += _run(record, start, following if end is None else end)
        if end is None:
            continue
        if end < following if following is not None else status in (*WAITING, Status.RUNNING):
            found += _gap(record, end, following, status)
    return tuple(found)


def _lacks_first_run(state: JobStatus) -> bool:
    """Return whether the first run is not known: its record has no start, or could not be read."""
    first = next(iter(state.running_records or ()), None)
    return first is None or (unix_time(first.start_at) is None and unix_time(first.end_at) is not None)


def _run(record: RunningRecord, start: float, end: float | None) -> Iterator[Interval]:
    """One run: its accelerators may start later than the run does."""
    ready = unix_time(record.xpu_start_at)
    if ready is not None and ready < start:
        unusable(ready, "out_of_range")
    elif ready is not None:
        start, before = ready if end is None else min(ready, end), start
        yield Interval("preparing", before, start)
        if end is not None and ready > end:
            return
    yield Interval("running", start, end)


def _gap(record: RunningRecord, end: float, following: float | None, status: Status) -> Iterator[Interval]:
    """The time after a run: recovery until the last attempt ends, then a wait for capacity if the job has to be
    scheduled again. Without an attempt, it was preempted. What restarts in place recovers until the next run."""
    given = [attempt for attempt in record.recover_records or () if attempt is not None]
    attempts = [each for each in given if (unix_time(each.recover_end_at) or end) >= end]  # others ended within the run
    moved = [unix_time(each.recover_start_at) or end for each in attempts if each.recover in RESCHEDULED]
    waits = bool(moved) or (not attempts and (record.end_recover or "") in ("", *RESCHEDULED))
    if following is None:
        waits = status in WAITING
    ends = [at for each in attempts if (at := unix_time(each.recover_end_at)) is not None]
    lost_nodes = waits or moved or any(each.recover == "pod_reschedule" for each in attempts)
    queued = min(moved, default=end) if waits else following
    is_over = waits or following is not None or all(each.recover_result != UNDER_WAY for each in attempts)
    if ends and lost_nodes and is_over and (following is None or max(ends) < following - 2):
        queued = max(ends)
    if queued is None or queued > end:
        yield Interval("recovering", end, queued)
    if queued is not None and (following is None or queued < following):
        yield Interval("queued", max(end, queued), following)


def _recoveries(
    attempts: Sequence[tuple[int, RecoverRecord]], runs: Sequence[Run]
) -> tuple[list[JobFault], list[Recovery], list[Interval]]:
    """The faults, the attempts to recover that have ended, and the times of all. One in progress lasts at most until
    the next run starts. Each attempt is of the run with this number."""
    faults, ended, times = list[JobFault](), list[Recovery](), list[Interval]()
    downgraded = set[tuple[int, str]]()
    """Runs and tasks whose latest attempt was downgraded: the next one, or one for all tasks, is for the same fault."""
    dated = [(*each, at) for each in attempts if (at := unix_time(each[1].recover_start_at)) is not None]
    for run, attempt, start in sorted(dated, key=itemgetter(2)):
        end, result, task = unix_time(attempt.recover_end_at), attempt.recover_result, attempt.related_task or ""
        same = {each for each in downgraded if each[0] == run and (not task or each[1] in (task, ""))}
        if not same:
            scenario = code(attempt.fault_scenario)
            faults.append(JobFault(start, CAUSES.get(scenario, "other"), scenario, task))
        downgraded -= same
        if result == DOWNGRADED:
            downgraded.add((run, task))
        seconds = None if end is None or end < start else end - start
        if seconds is not None:
            times.append(Interval("recovering", start, end))
        elif end is not None:
            unusable(end, "out_of_range")
        elif result == UNDER_WAY:
            times.append(Interval("recovering", start, next((later for _, later in runs if later > start), None)))
        if result and result != UNDER_WAY:
            ended.append(Recovery(start, code(attempt.recover) or "other", code(result) or "other", seconds, task))
    for record, _ in runs[:-1]:  # of a service that reports no attempts
        end = unix_time(record.end_at)
        if end is not None and record.end_recover and not record.recover_records:
            faults.append(JobFault(end, "other", "", record.end_related_task or ""))
    return faults, ended, times


def _exit_codes(state: JobStatus, status: Status) -> Iterator[tuple[str, int]]:
    """The first exit code of each task. 0 means a code that is not set, until the job has ended."""
    seen = set[str]()
    for found in readable(state.task_statuses):
        if not found.task or found.exit_code is None or found.task in seen:
            continue
        if not found.exit_code.is_integer():
            unusable(found.exit_code, "malformed")
            continue
        seen.add(found.task)
        if found.exit_code or status in FINISHED:
            yield found.task, int(found.exit_code)
