"""Usage that is asked for job by job, of at most so many jobs, the newest first."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part, Poll, Rolling

log = logging.getLogger(__name__)


class Cap:
    """Lets the first `max_jobs` through, and logs once when there begin to be more. `message` has their number and the
    limit."""

    def __init__(self, message: str, max_jobs: int) -> None:
        self._message = message
        self._max_jobs = max_jobs
        self.beyond = 0
        """How many jobs were left out last."""

    def ids(self, ordered: Sequence[Job]) -> list[str]:
        """The ids of the jobs to ask for; they come in the order of need."""
        before, self.beyond = self.beyond, max(0, len(ordered) - self._max_jobs)
        if self.beyond and not before:
            log.warning(self._message, self.beyond, self._max_jobs)
        return [job.job_id for job in ordered[: self._max_jobs]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """How a collector knows of jobs."""

    first: Callable[[Poll], Awaitable[None]]
    """Waits until there is a list of them."""
    listed: Callable[[], Collection[Job]]
    """The live jobs. Raises NotReady where the latest poll of jobs read none."""
    known: Callable[[], Mapping[str, Job]]
    """The live jobs by id, as far as they are known."""
    watchable: Sequence[Callable[[Callable[[], None]], None]]
    """What calls back when jobs change, or the source of some."""


@dataclass(slots=True, kw_only=True)
class PerJob:
    """A collector with a part for each job that `serves` says is this source's; `read` reads one."""

    name: str
    interval: float
    workers: int
    jobs: Jobs
    serves: Callable[[Job], bool]
    read: Callable[[Part, Job], Awaitable[None]]
    calls: Callable[[str], int]
    cap: Cap
    counted: Callable[[int], None] = field(default=lambda beyond: None)
    """Is given the number of jobs that were left out, each cycle."""

    def collector(self) -> Rolling:
        """The collector."""
        return Rolling(
            name=self.name,
            interval=self.interval,
            units=self._units,
            read=self._read,
            begin=self.jobs.first,
            alive=self._alive,
            watch=self._watch,
            workers=self.workers,
            calls=self.calls,
        )

    def _units(self) -> list[str]:
        found = self.cap.ids(sorted(filter(self.serves, self.jobs.listed()), key=lambda job: -(job.created or 0.0)))
        self.counted(self.cap.beyond)
        return found

    async def _read(self, part: Part) -> None:
        await self.read(part, self.jobs.known()[part.key])

    def _alive(self, job_id: str) -> bool:
        job = self.jobs.known().get(job_id)
        return job is not None and self.serves(job)

    def _watch(self, callback: Callable[[], None]) -> None:
        for watch in self.jobs.watchable:
            watch(callback)
