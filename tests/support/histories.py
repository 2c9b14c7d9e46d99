"""The figures of a job's history that the exporter shows after a poll."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainfleet_exporter.fleet.histories import JobHistories, Records
from trainfleet_exporter.model import Job, JobFaults, JobTime, NodeFaults, PodExit, PoolWaits


@dataclass
class Shown:
    """Figures of a job, its nodes and its pool."""

    phases: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By cause and platform cause."""
    recoveries: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By strategy and result."""
    recovery_seconds: float | None = None
    nodes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By node and cause."""
    exits: Mapping[str, int] = field(default_factory=dict)
    queued: float | None = None
    """The sum of all observed waits in queues, in seconds."""
    prepared: float | None = None


def shown(histories: JobHistories, job: Job, row: Records | None, now: float, *, since: float = 0.0) -> Shown:
    """Count the new events of a job and return all shown figures."""
    histories.count(job, row, since=since)
    found = Shown()
    for each in histories.objects(job, now):
        if isinstance(each, JobTime):
            found.phases = {entry.phase: entry.seconds for entry in each.phases}
        elif isinstance(each, JobFaults):
            found.faults = {(entry.cause, entry.platform_cause): entry.count for entry in each.faults}
            found.recoveries = {(entry.strategy, entry.result): entry.count for entry in each.recoveries}
            found.recovery_seconds = each.recovery_seconds
        elif isinstance(each, PodExit):
            found.exits = {**found.exits, each.pod_id: each.exit_code}
    for each in histories.fleet():
        if isinstance(each, NodeFaults):
            found.nodes = {**found.nodes, **{(each.node_name, entry.cause): entry.count for entry in each.faults}}
        elif isinstance(each, PoolWaits):
            found.queued = None if each.queued is None else each.queued.sum
            found.prepared = None if each.prepared is None else each.prepared.sum
    return found
