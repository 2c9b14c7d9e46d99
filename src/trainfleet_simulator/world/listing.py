"""Sorted indexes of jobs, so that a page of a long list costs no more than a page of a short one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence

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

    def between(self, keys: Sequence[Key], start: float, end: float, *, by_finish: bool = False) -> JobSlice:
        """Return ids of the jobs under any of the keys with a time in `start..end` (both included), oldest first."""
        table = self._finished if by_finish else self._created
        found: list[tuple[list[tuple[int, str]], int, int]] = []
        for key in keys:
            rows = table.get(key, [])
            low, high = bisect_left(rows, (start, "")), bisect_right(rows, (end, "\U0010ffff"))
            if low < high:
                found.append((rows, low, high))
        if len(found) > 1:
            merged = sorted(row for rows, low, high in found for row in rows[low:high])
            found = [(merged, 0, len(merged))]
        return JobSlice(*found[0]) if found else JobSlice([], 0, 0)


class JobSlice:
    """A part of one sorted list. Only requested rows are read."""

    def __init__(self, rows: list[tuple[int, str]], low: int, high: int) -> None:
        self._rows, self._low, self._high = rows, low, high

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> JobSlice:
        """Return these jobs by creation time."""
        rows = sorted((job.created, job.job_id) for job in jobs)
        return cls(rows, 0, len(rows))

    def __len__(self) -> int:
        return self._high - self._low

    def page(self, offset: int, size: int, *, descending: bool) -> list[str]:
        """Return the job ids of one page."""
        if descending:
            high = max(self._high - offset, self._low)
            chosen = self._rows[max(high - size, self._low) : high][::-1]
        else:
            low = self._low + offset
            chosen = self._rows[low : min(low + size, self._high)]
        return [job_id for _, job_id in chosen]

    def ids(self) -> list[str]:
        """Return all its ids, oldest first."""
        return [job_id for _, job_id in self._rows[self._low : self._high]]
