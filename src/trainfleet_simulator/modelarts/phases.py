"""ModelArts' words for the world's states: phases of v2 jobs, statuses of workloads, numbers of v1."""

from __future__ import annotations

from trainfleet_simulator.modelarts.catalog import NODE_FAULT
from trainfleet_simulator.world.jobs import Job

PHASES = ("Creating", "Pending", "Running", "Failed", "Completed", "Terminating", "Terminated", "Abnormal")
WORKLOAD_STATUSES = (
    "Queue",
    "Pending",
    "Abnormal",
    "Terminating",
    "Creating",
    "Running",
    "Completed",
    "Terminated",
    "Failed",
)

_PHASE = {
    "Creating": "Creating",
    "Queuing": "Pending",
    "EnvPreparing": "Pending",
    "Running": "Running",
    "Stopping": "Terminating",
    "Succeeded": "Completed",
    "Failed": "Failed",
    "Stopped": "Terminated",
}
_V1_STATUS = {
    "Creating": 1,
    "Queuing": 7,
    "EnvPreparing": 4,
    "Running": 8,
    "Stopping": 9,
    "Succeeded": 10,
    "Failed": 11,
    "Stopped": 12,
}
STATUSES = {phase: tuple(status for status, word in _PHASE.items() if word == phase) for phase in PHASES} | {
    "Abnormal": ("Failed",)
}
"""The world's states of the jobs of a phase."""


def phase(job: Job) -> str:
    """Return the phase of a v2 job."""
    return "Abnormal" if _lost(job) else _PHASE[job.status]


def workload_status(job: Job) -> str:
    """Return the status of a job as a workload of its pool. A queued job has a different word there."""
    return "Queue" if job.status == "Queuing" else phase(job)


def v1_status(job: Job) -> int:
    """Return the v1 API's number of a state."""
    return 14 if _lost(job) else _V1_STATUS[job.status]


def _lost(job: Job) -> bool:
    return job.status == "Failed" and job.reason[0] == NODE_FAULT
