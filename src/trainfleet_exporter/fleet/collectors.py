"""Collectors that are async methods of a cloud's class: `@collector("pools")` on `async def pools(self, poll)`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import BulkCollector, Part, PerObjectCollector, Poll
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Callable[..., Awaitable[None]])
_MARK = "__collector__"


def collector(name: str) -> Callable[[T], T]:
    """Mark a method that takes a Poll as the collector of this name, which is also its key in the config."""

    def mark(method: T) -> T:
        setattr(method, _MARK, name)
        return method

    return mark


def collectors_of(topics: Iterable[object], chosen: Any, every: float) -> Iterator[BulkCollector]:
    """Yield the collectors of the topics of a cloud that the config section `chosen` enables.

    `every` is the default interval in seconds. A method NAME_expired of a topic gets the expired parts of NAME.
    """
    for topic in topics:
        for method in [getattr(topic, attribute) for attribute in vars(type(topic))]:
            name = getattr(method, _MARK, "")
            section = getattr(chosen, name or "-", None)  # workspaces have none: they are always listed
            if name and (section is None or section.enabled):
                expired = getattr(topic, f"{name}_expired", lambda key: None)
                interval = every if section is None else section.effective_interval(every)
                yield BulkCollector(name, interval, method, expired)


class EachJob(PerObjectCollector):
    """Reads live jobs one by one: all, or those that `sources` leave to this collector, and at most `max_jobs` of them.

    Jobs that hold resources come before those that wait, new before old. `calls` is how many calls one job takes.
    """

    def __init__(
        self,
        name: str,
        fleet: Workspaces,
        interval: float,
        read: Callable[[Part], Awaitable[None]],
        *,
        max_jobs: int,
        sources: JobSources | None = None,
        waits: bool = False,
        calls: Callable[[str], int] = lambda job_id: 1,
    ) -> None:
        """`waits`: each cycle begins after the first poll of the bulk source."""
        # However slow its calls are, other polls have a turn.
        super().__init__(name, interval, workers=max(1, fleet.at_once - 1))
        self._fleet, self._read, self._max_jobs, self._calls = fleet, read, max_jobs, calls
        self._sources, self._waits = sources, waits
        self._beyond = 0
        self._lives: dict[str, float | None] = {}
        """When the jobs of this cycle were created: an id that is used again waits for the next cycle."""

    async def begin(self, poll: Poll) -> None:
        """Wait for the live jobs, and for the bulk source."""
        await self._fleet.listed.wait(poll.deadline)
        if self._sources is not None and self._waits:
            await self._sources.polled.wait()

    def objects(self) -> Sequence[str]:
        """The ids of the jobs to ask for. The log says once when there begin to be too many."""
        wanted = filter(self._is_wanted, self._fleet.live_jobs())
        ordered = sorted(wanted, key=lambda job: (not job.holds_resources, -(job.created or 0.0)))
        before, self._beyond = self._beyond, max(0, len(ordered) - self._max_jobs)
        if self._beyond and not before:
            facts = fields(collector=self.name, jobs_left_out=self._beyond, max_jobs=self._max_jobs)
            log.warning("more jobs than max_jobs; some are not polled", extra=facts)
        if self._sources is not None:
            self._sources.left_out = self._beyond
        self._lives = {job.job_id: job.created for job in ordered[: self._max_jobs]}
        return list(self._lives)

    def is_current(self, object_id: str) -> bool:
        """Return whether the job still has the same life, and is to be polled."""
        job = self._fleet.live.get(object_id)
        return job is not None and len({self._lives.get(object_id), job.created} - {None}) < 2 and self._is_wanted(job)

    async def poll(self, part: Part) -> None:
        await self._read(part)

    def watch(self, callback: Callable[[], None]) -> None:
        self._fleet.watchers.append(callback)
        if self._sources is not None:
            self._sources.watchers.append(callback)

    def calls(self, object_id: str) -> int:
        return self._calls(object_id)

    def _is_wanted(self, job: Job) -> bool:
        return self._sources is None or self._sources.is_one_by_one(job)
