"""Sorted indexes of jobs by workspace and status, so that a list does not read all jobs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Sequence

from trainfleet_simulator.world.jobs import Job

Key = tuple[str, str]
"""Workspace and status."""


class JobIndex:
    """Jobs per workspace and status, by creation time and (once they have finished) by finish time."""

    def __init__(self) -> None:
        self._created: defaultdict[Key, list[tuple[int, str]]] = defaultdict(list)
        self._finished: defaultdict[Key, list[tuple[int, str]]] = defaultdict(list)

    def add(self, job: Job) -> None:
        """Add the job under its present status."""
        key = (job.draft.workspace_id, job.status)
        insort(self._created[key], (job.created, job.job_id))
        if job.finished is not None:
            insort(self._finished[key], (job.finished, job.job_id))

    def remove(self, job: Job) -> None:
        """Remove the job from its present status. Only live jobs change their status."""
        rows = self._created[job.draft.workspace_id, job.status]
        del rows[bisect_left(rows, (job.created, job.job_id))]

    def between(self, keys: Sequence[Key], start: float, end: float, *, by_finish: bool = False) -> list[str]:
        """Return ids of the jobs under any of the keys with a time in `start..end` (both included), oldest first."""
        table = self._finished if by_finish else self._created
        found: list[tuple[int, str]] = []
        for key in keys:
            rows = table.get(key, [])
            found += rows[bisect_left(rows, (start, "")) : bisect_right(rows, (end, "\U0010ffff"))]
        return [job_id for _, job_id in sorted(found)]
