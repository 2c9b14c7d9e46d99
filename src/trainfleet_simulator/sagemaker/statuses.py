"""SageMaker's words for the world's states: the status, the secondary status, and its history.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html
"""

from __future__ import annotations

from dataclasses import dataclass

from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.drafts import SPOT
from trainfleet_simulator.world.jobs import Job

STATUS = {
    "Creating": "InProgress",
    "Queuing": "InProgress",
    "EnvPreparing": "InProgress",
    "Running": "InProgress",
    "Restarting": "InProgress",
    "SucceededReserving": "InProgress",
    "Stopping": "Stopping",
    "Succeeded": "Completed",
    "Failed": "Failed",
    "Stopped": "Stopped",
}
_SECONDARY = {
    "Creating": "Starting",
    "Queuing": "Pending",
    "EnvPreparing": "Downloading",
    "Running": "Training",
    "Restarting": "Restarting",
    "SucceededReserving": "Uploading",
    "Stopping": "Stopping",
    "Succeeded": "Completed",
    "Failed": "Failed",
    "Stopped": "Stopped",
}
_MESSAGES = {
    "Starting": "Preparing the instances for training",
    "Pending": "Insufficient capacity error from EC2 while launching instances, retrying!",
    "Downloading": "Downloading input data",
    "Training": "Training in-progress",
    "Interrupted": "Spot instances were interrupted",
    "Restarting": "Launched instance was unhealthy, replacing it!",
    "Uploading": "Uploading generated training model",
    "Stopping": "Stopping the training job",
    "Stopped": "Training job stopped",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job wait time exceeded MaxWaitTimeInSeconds provided",
    "Completed": "Training job completed",
    "Failed": "Training job failed",
}
_INTERRUPTED_FOR = 12  # seconds until new spot instances are launched


@dataclass(frozen=True, slots=True)
class Transition:
    """One secondary status, with its start and its end (None while it lasts), in Unix seconds."""

    status: str
    start: int
    end: int | None

    @property
    def message(self) -> str:
        """Return SageMaker's message about it."""
        return _MESSAGES[self.status]


def transitions(job: Job, now: int) -> list[Transition]:
    """Return every secondary status of a job up to now, oldest first."""
    starts: list[tuple[str, int]] = []
    ends = [since for _, since in job.statuses[1:]]
    for (status, since), end in zip(job.statuses, [*ends, now], strict=True):
        if status == "Restarting" and job.draft.payment == SPOT:
            starts.append(("Interrupted", since))
            if since + _INTERRUPTED_FOR <= end:
                starts.append(("Restarting", since + _INTERRUPTED_FOR))
        else:
            starts.append((_stopped(job) if status == "Stopped" else _SECONDARY[status], since))
    final = job.finished
    return [
        Transition(status, start, end)
        for (status, start), end in zip(starts, [*(start for _, start in starts[1:]), final], strict=True)
    ]


def secondary_status(job: Job, now: int) -> str:
    """Return the latest secondary status."""
    if job.status == "Restarting":
        return transitions(job, now)[-1].status
    return _stopped(job) if job.status == "Stopped" else _SECONDARY[job.status]


def modified(job: Job, now: int) -> int:
    """Return the Unix time of the last change of its secondary status, or of anything else about it."""
    return max(job.modified, transitions(job, now)[-1].start if job.status == "Restarting" else job.statuses[-1][1])


def _stopped(job: Job) -> str:
    """Return the word for a stopped job. Jobs that SageMaker itself stopped have a separate word."""
    return job.reason[0] if job.reason in (catalog.MAX_RUNTIME, catalog.MAX_WAIT) else "Stopped"
