"""From StatusHistory and RestartRecord of a DLC job to its history: what its time was spent on, faults, recoveries.

ListJobs has StatusHistory at most; GetJob has both. The words of RestartRecord (RestartStatus, RestartLevelType,
ErrorCode, ErrorSource) are documented nowhere: causes and results are recognized by parts of the words, and all others
stay codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trainfleet_exporter.model import Cause, Phase
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.jobs.history import Interval, JobFault, Records, Recovery, code, readable
from trainfleet_exporter.providers.values import amount, utc_time
from trainfleet_exporter.transport.json_fields import unusable

PHASES: Mapping[str, Phase] = {
    "Created": "queued",
    "Creating": "queued",
    "Queuing": "queued",
    "Bidding": "queued",
    "Dequeued": "preparing",
    "EnvPreparing": "preparing",
    "SanityChecking": "checking",
    "Running": "running",
    "Restarting": "recovering",
}
"""By job status, what the time in it is spent on. A job that stops or has ended spends its time on nothing."""
CAUSES: Sequence[tuple[str, Cause]] = (
    ("preempt", "preempted"),
    ("evict", "preempted"),
    ("(?<!c)hang", "hang"),  # not a change
    ("slow", "degraded"),
    ("straggler", "degraded"),
    ("gpu", "accelerator"),
    ("xid", "accelerator"),
    ("(?<!sp)ecc", "accelerator"),  # not a "SpecC..."
    ("nvlink", "accelerator"),
    ("node", "node"),
    ("machine", "node"),
    ("hardware", "node"),
    ("process", "process"),
    ("exit", "process"),
    ("oom", "process"),
    ("outofmemory", "process"),
)
"""Parts of codes in lower case (regular expressions), and causes: the first part that a code has decides.

Without any it is `other`.
"""
RESULTS: Sequence[tuple[str, str]] = (("succ", "success"), ("fail", "failed"))
"""Parts of RestartStatus in lower case, and results."""
_UNDER_WAY = "ing"
"""The end of a RestartStatus while the restart is in progress, such as Restarting."""
_OTHER: Cause = "other"


Status = tuple[payloads.StatusTransition, float]
"""A status that a job had, and when it began."""
Restart = tuple[payloads.RestartRecord, float]
"""A restart record, and when its cause occurred."""


def row_records(row: payloads.Job) -> Records | None:
    """The history of a row of ListJobs: StatusHistory, if the row has it."""
    intervals = _intervals(_statuses(row.status_history))
    return None if intervals is None else Records(intervals=intervals)


def detail_records(row: payloads.JobRecords | payloads.JobDetail) -> Records:
    """The history of an answer of GetJob."""
    statuses = _statuses(row.status_history)
    dated = [(record, at) for record in readable(row.restart_record) if (at := utc_time(record.occur_time)) is not None]
    restarts = sorted(dated, key=lambda found: found[1])
    return Records(
        intervals=_intervals(statuses),
        faults=(*(_fault(record, at) for record, at in restarts), *_unrecorded(statuses, restarts)),
        recoveries=tuple(found for record, at in restarts if (found := _recovery(record, at)) is not None),
        recovery_intervals=tuple(
            Interval("recovering", at, at + seconds) for record, at in restarts if (seconds := _seconds(record))
        ),
    )


def cause(*words: str | None) -> Cause:
    """The cause that codes name: the first word that names one decides."""
    for word in words:
        lower = code(word).lower()
        for part, found in CAUSES if lower else ():
            if re.search(part, lower):
                return found
    return _OTHER


def _statuses(given: Sequence[payloads.StatusTransition | None] | None) -> list[Status]:
    """The statuses that have a start, in their order."""
    found = [(item, at) for item in readable(given) if (at := utc_time(item.start_time)) is not None]
    return sorted(found, key=lambda status: status[1])


def _intervals(statuses: Sequence[Status]) -> tuple[Interval, ...] | None:
    """A status without an end lasts until the next one, the last one until now."""
    if not statuses:
        return None
    found = []
    starts = [at for _, at in statuses]
    for (item, start), following in zip(statuses, [*starts[1:], None], strict=True):
        end = utc_time(item.end_time)
        if end is not None and end < start:
            unusable(end, "out_of_range")
        elif (phase := PHASES.get(item.status or "")) is not None:
            found.append(Interval(phase, start, following if end is None else end))
    return tuple(found)


def _fault(record: payloads.RestartRecord, at: float) -> JobFault:
    errors = readable(record.detail_error_info_list)
    # The one that triggered the restart; others are listed next to it.
    main = next((error for error in errors if error.trigger_restart), errors[0] if errors else payloads.RestartError())
    nodes: dict[str, Cause] = {}
    for error in errors:
        if error.node and error.trigger_restart is not False:
            nodes.setdefault(error.node, cause(error.error_code, error.error_source, record.reason))
    return JobFault(
        at,
        cause(main.error_code, main.error_source, record.reason),
        code(main.error_code) or code(record.reason),
        record.trigger_id or main.pod or main.node or "",  # details may come later than the record
        tuple(nodes.items()),
    )


def _unrecorded(statuses: Sequence[Status], restarts: Sequence[Restart]) -> Iterator[JobFault]:
    """Runs that ended and were followed by another run, without a RestartRecord: a preemption, among others.

    They count when the next run has started: by then its record would be there.
    """
    began: float | None = None
    ended: float | None = None
    words: list[str] = []
    for item, at in statuses:
        phase = PHASES.get(item.status or "")
        if phase == "running":
            if began is not None and ended is not None:
                why = cause(*words)
                if not any(began <= found < at and _explains(record, found, why, ended) for record, found in restarts):
                    yield JobFault(ended, why, next(iter(words), ""))
            began, ended, words = (at if began is None or ended is not None else began), None, []
        elif phase is not None and began is not None:
            ended = at if ended is None else ended
            if word := code(item.reason_code):
                words.append(word)


def _explains(record: payloads.RestartRecord, at: float, why: Cause, ended: float) -> bool:
    """Return whether a run ended because of a restart in its time. A preemption is no restart that was over before
    it."""
    seconds = _seconds(record)
    return why != "preempted" or seconds is None or at + seconds >= ended


def _seconds(record: payloads.RestartRecord) -> float | None:
    """Return the seconds of a restart; 0 if it is in progress."""
    return amount(record.restart_duration_in_sec) or None


def _recovery(record: payloads.RestartRecord, at: float) -> Recovery | None:
    """A restart that has ended: its status names a result, or it has a duration or a reason of its failure."""
    status = code(record.restart_status)
    result = next((result for part, result in RESULTS if part in status.lower()), "")
    if record.restart_fail_reason:
        result = "failed"
    seconds = _seconds(record)
    if not result and (seconds is None or status.lower().endswith(_UNDER_WAY)):
        return None
    strategy = code(record.restart_level_type) or "other"
    return Recovery(at, strategy, result or status or "other", seconds, record.trigger_id or "")
