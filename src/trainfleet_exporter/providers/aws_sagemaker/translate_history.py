"""From the secondary statuses of a training job to its history: what its time was spent on, and its faults.

    Starting ──preparing──► Training ──running──► Interrupted ──recovering──► Starting ──preparing──► Training

An interruption of spot instances is a preemption; another restart is one whose cause SageMaker does not report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainfleet_exporter.model import Cause, Phase
from trainfleet_exporter.providers.aws_sagemaker import payloads
from trainfleet_exporter.providers.jobs.history import Interval, JobFault, Records, Recovery, readable
from trainfleet_exporter.providers.values import unix_time
from trainfleet_exporter.transport.json_fields import unusable

PHASES: Mapping[str, Phase] = {
    "Starting": "preparing",
    "Pending": "queued",
    "LaunchingMLInstances": "preparing",
    "PreparingTrainingStack": "preparing",
    "Downloading": "preparing",
    "DownloadingTrainingImage": "preparing",
    "Training": "running",
    "Uploading": "running",
    "Updating": "running",
    "Interrupted": "recovering",
    "Restarting": "recovering",
}
"""Phases by secondary status. A job that stops or has ended is in no phase."""
CAUSES: Mapping[str, Cause] = {"Interrupted": "preempted", "Restarting": "other"}
"""Causes by the secondary status that follows a fault. A restart after an interruption belongs to the same fault."""

_ENDED = ("Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded")
Stage = tuple[str, float, float | None]
"""A secondary status, its beginning and its end."""


def records(row: payloads.Job) -> Records | None:
    """Return the history of a job; None if the response has none."""
    if row.secondary_status_transitions is None:
        return None
    stages = list(_stages(row.secondary_status_transitions))
    return Records(
        intervals=tuple(_intervals(stages)) or None,
        faults=tuple(_faults(stages)),
        recoveries=tuple(_recoveries(stages)),
    )


def _stages(given: Sequence[payloads.Transition | None]) -> Iterator[Stage]:
    """Sort the stages. A status without an end lasts until the next one, and the last one until now."""
    found = [
        (item.status or "", start, unix_time(item.end_time))
        for item in readable(given)
        if (start := unix_time(item.start_time)) is not None
    ]
    found.sort(key=lambda stage: stage[1])
    starts: list[float | None] = [start for _, start, _ in found]
    for (status, start, end), following in zip(found, [*starts, None][1:], strict=True):
        if end is not None and end < start:
            unusable(end, "out_of_range")
        else:
            yield status, start, following if end is None else end


def _intervals(stages: Sequence[Stage]) -> Iterator[Interval]:
    for status, start, end in stages:
        if status in PHASES:
            yield Interval(PHASES[status], start, end)


def _faults(stages: Sequence[Stage]) -> Iterator[JobFault]:
    before = ""
    for status, start, _ in stages:
        if status in CAUSES and before not in CAUSES:
            yield JobFault(start, CAUSES[status], status)
        before = status


def _recoveries(stages: Sequence[Stage]) -> Iterator[Recovery]:
    """Return the times from each fault until training begins again, or until the job ends."""
    began: float | None = None
    for status, start, _ in stages:
        if status in CAUSES:
            began = start if began is None else began
        elif began is not None and (status == "Training" or status in _ENDED):
            yield Recovery(began, "restart", "success" if status == "Training" else "failed", start - began)
            began = None
