"""StatusHistory and RestartRecord of a DLC job: what its time was spent on, its faults and recoveries.

ListJobs has StatusHistory at most; GetJob has both. The words of RestartRecord (RestartStatus, RestartLevelType,
ErrorCode, ErrorSource) are documented nowhere: causes and results are recognized by parts of the words, and all others
stay codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

from msgspec import field

from trainfleet_exporter.fleet.histories import Interval, JobFault, Records, Recovery
from trainfleet_exporter.model import Cause, Phase, Status
from trainfleet_exporter.providers.alibaba_pai.api import Row
from trainfleet_exporter.providers.values import amount, code, readable, utc_time
from trainfleet_exporter.transport.json_fields import unusable


class StatusTransition(Row):
    status: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    reason_code: str | None = None


class RestartError(Row):
    error_code: str | None = None
    error_source: str | None = None
    node: str | None = None
    pod: str | None = None
    trigger_restart: bool | None = None


class RestartRecord(Row):
    """A restart of a job, at the time of its cause."""

    occur_time: str | None = None
    reason: str | None = None
    restart_duration_in_sec: float | None = None
    restart_fail_reason: str | None = None
    restart_level_type: str | None = None
    restart_status: str | None = None
    trigger_id: str | None = field(name="TriggerID", default=None)
    detail_error_info_list: list[RestartError | None] | None = None


Transitions: TypeAlias = Sequence[StatusTransition | None] | None
Restarts: TypeAlias = Sequence[RestartRecord | None] | None
WORDS: Mapping[str, tuple[Status, Phase | None]] = {
    "Created": (Status.CREATING, "queued"),
    "Creating": (Status.CREATING, "queued"),
    "Queuing": (Status.QUEUED, "queued"),
    "Bidding": (Status.QUEUED, "queued"),
    "Dequeued": (Status.STARTING, "preparing"),
    "EnvPreparing": (Status.STARTING, "preparing"),
    "SanityChecking": (Status.STARTING, "checking"),
    "Running": (Status.RUNNING, "running"),
    "Restarting": (Status.RESTARTING, "recovering"),
    "Stopping": (Status.STOPPING, None),
    "SucceededReserving": (Status.SUCCEEDED, None),
    "FailedReserving": (Status.FAILED, None),
    "Succeeded": (Status.SUCCEEDED, None),
    "Failed": (Status.FAILED, None),
    "Stopped": (Status.STOPPED, None),
}
"""By job status, in the order of a job's life: the common word, and what its time is spent on. A job that stops or has
ended spends its time on nothing."""
RESERVING = ("SucceededReserving", "FailedReserving")
PHASES = {word: phase for word, (_, phase) in WORDS.items() if phase is not None}
CAUSES: Sequence[tuple[re.Pattern[str], Cause]] = (
    (re.compile("preempt|evict"), "preempted"),
    (re.compile("(?<!c)hang"), "hang"),  # not a change
    (re.compile("slow|straggler"), "degraded"),
    (re.compile("gpu|xid|(?<!sp)ecc|nvlink"), "accelerator"),  # not a "SpecC..."
    (re.compile("node|machine|hardware"), "node"),
    (re.compile("process|exit|oom|outofmemory"), "process"),
)
"""Parts of codes in lower case, and causes: the first part that a code has decides. Without any it is `other`."""


def records_of(history: Transitions) -> Records | None:
    """The history of a row of ListJobs: StatusHistory, if the row has it."""
    statuses = dated(history, "start_time") if history else None
    return Records(intervals=tuple(_intervals(statuses)), released=_released(statuses)) if statuses else None


def details_of(history: Transitions, restarts: Restarts, *, is_restarting: bool = False) -> Records:
    """The history of an answer of GetJob. While the job restarts in place, its last record without a result lasts."""
    statuses, records = dated(history, "start_time"), dated(restarts, "occur_time")
    times = [Interval("recovering", at, at + took) for record, at in records if (took := _seconds(record))]
    last_run = max([at for item, at in statuses if item.status == "Running"], default=0.0)
    if is_restarting and records and records[-1][1] >= last_run and _recovery(*records[-1]) is None:
        times.append(Interval("recovering", records[-1][1], None))
    return Records(
        intervals=tuple(_intervals(statuses)) if statuses else None,
        faults=(*(_fault(record, at) for record, at in records), *_unrecorded(statuses, records)),
        recoveries=tuple(found for record, at in records if (found := _recovery(record, at)) is not None),
        recovery_intervals=tuple(times),
        released=_released(statuses),
    )


def cause(*words: str | None) -> Cause:
    """The cause that codes name: the first word that names one decides."""
    for word in words:
        lower = code(word).lower()
        for pattern, found in CAUSES if lower else ():
            if pattern.search(lower):
                return found
    return "other"


def dated(items: Sequence[Any] | None, name: str) -> list[tuple[Any, float]]:
    """Return the readable items that have this time, in its order and with it. Of one second, what lasts is last."""
    found = [(item, at) for item in readable(items) if (at := utc_time(getattr(item, name))) is not None]
    return sorted(found, key=lambda pair: (pair[1], not getattr(pair[0], "end_time", None)))


def _intervals(statuses: Sequence[tuple[StatusTransition, float]]) -> Iterator[Interval]:
    """A status without an end lasts until the next one, the last one until now."""
    following: list[float | None] = [*(at for _, at in statuses[1:]), None]
    for (item, start), after in zip(statuses, following, strict=True):
        end = utc_time(item.end_time)
        if end is not None and end < start:
            unusable(end, "out_of_range")
        elif (phase := PHASES.get(item.status or "")) is not None:
            yield Interval(phase, start, after if end is None else end)


def _released(statuses: Sequence[tuple[StatusTransition, float]]) -> float | None:
    """When the last reservation of accelerators was over."""
    pairs = zip_longest(statuses, [at for _, at in statuses[1:]])
    ends = [utc_time(item.end_time) or after for (item, _), after in pairs if item.status in RESERVING]
    return max(filter(None, ends), default=None)


def _fault(record: RestartRecord, at: float) -> JobFault:
    errors = readable(record.detail_error_info_list)
    # The one that triggered the restart; others are listed next to it.
    main = next((error for error in errors if error.trigger_restart), errors[0] if errors else RestartError())
    nodes: dict[str, Cause] = {}
    for error in errors:
        if error.node and error.trigger_restart is not False:
            nodes.setdefault(error.node, cause(error.error_code, error.error_source, record.reason))
    return JobFault(
        at,
        cause(main.error_code, main.error_source, record.reason),
        code(main.error_code) or code(record.reason),
        record.trigger_id or "",  # not what details say, which may come later than the record
        tuple(nodes.items()),
    )


def _unrecorded(
    statuses: Sequence[tuple[StatusTransition, float]], restarts: Sequence[tuple[RestartRecord, float]]
) -> Iterator[JobFault]:
    """Runs that ended and were followed by another run, without a RestartRecord: a preemption, among others.

    They count when the next run has started: by then its record would be there.
    """
    began = ended = None
    words: list[str] = []
    for item, at in statuses:
        phase = PHASES.get(item.status or "")
        if phase == "running":
            if began is not None and ended is not None:
                why, last = cause(*words), ended
                if not any(began <= start < at and _explains(record, start, why, last) for record, start in restarts):
                    yield JobFault(ended, why, next(iter(words), ""))
            began, ended, words = (at if began is None or ended is not None else began), None, []
        elif phase is not None and began is not None:
            ended = at if ended is None else ended
            if word := code(item.reason_code):
                words.append(word)


def _explains(record: RestartRecord, at: float, why: Cause, ended: float) -> bool:
    """Return whether a run ended because of a restart. A preemption is no restart that was over before it."""
    seconds = _seconds(record)
    return why != "preempted" or seconds is None or at + seconds >= ended


def _seconds(record: RestartRecord) -> float | None:
    return amount(record.restart_duration_in_sec) or None  # 0 while it is in progress


def _recovery(record: RestartRecord, at: float) -> Recovery | None:
    """A restart that has ended: its status names a result, or it has a duration or a reason of its failure."""
    status, seconds = code(record.restart_status), _seconds(record)
    is_failed = record.restart_fail_reason or "fail" in status.lower()
    result = "success" if "succ" in status.lower() and not record.restart_fail_reason else "failed" if is_failed else ""
    if not result and (seconds is None or status.lower().endswith("ing")):
        return None
    strategy = code(record.restart_level_type) or "other"
    return Recovery(at, strategy, result or status or "other", seconds, record.trigger_id or "")
