"""Which source serves which job, so that the page never shows the usage of a job twice, not even between two parts.

A bulk source serves all that it has, and a source that costs calls for each job serves the rest:

    the new answer in bulk has a job   ► claim: the other source lets go of it at once  ► the parts are published
    the new answer in bulk lacks a job ► the parts are published without it             ► release: the other may have it

What the parts of the bulk source show counts, not what was asked: a part that failed shows its last good answer for a
while, and the jobs in it stay its own for as long. Where the bulk source refuses, the other takes over when these have
expired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.judging import ServerClock

_POLLS_WAITED = 2
"""Number of polls to wait for a job in bulk readings, which are late: a new job does not need a separate call."""
_REMEMBERED = 6 * 3600.0
"""Seconds for which the source of a deleted job is remembered."""
_MEASURED = frozenset({Status.RUNNING, Status.RESTARTING, Status.STOPPING})


class SourceArbitration:
    """Kept by the bulk source (polled at that `interval`), asked by the one that asks job by job."""

    def __init__(self, *, interval: float, clock: ServerClock) -> None:
        self.polled: Topic[None] = Topic("usage", None)
        self.left_out = 0
        """How many jobs the other source leaves out because of its limit."""
        self._interval = interval
        self._clock = clock
        self._shown: dict[str, frozenset[str]] = {}
        """By part, the jobs that it shows."""
        self._claimed: frozenset[str] = frozenset()
        self._owned: frozenset[str] = frozenset()
        self._missed: dict[str, int] = {}
        """How many polls did not find a job that runs."""
        self._closed = False
        self._answered: dict[str, bool] = {}
        """The jobs that the other source answered for, and whether with any usage."""
        self._lost: set[str] = set()
        """The jobs that the parts have stopped showing, and that the other source has not answered for since."""
        self._news = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever the bulk source took jobs over."""
        self._watchers.append(callback)

    def shows(self, part: str) -> frozenset[str]:
        """The jobs that a part shows now."""
        return self._shown.get(part, frozenset())

    def owns(self, job_id: str) -> bool:
        """Return whether the parts show the job, or are about to."""
        return job_id in self._owned

    def missed(self, job: Job) -> bool:
        """Return whether the job has waited long enough for the bulk source."""
        polls = self._missed.get(job.job_id, 0)
        ran = 0.0 if job.started is None else self._clock.now() - job.started
        return self._closed or polls >= _POLLS_WAITED or (polls > 0 and ran >= _POLLS_WAITED * self._interval)

    def left(self, job: Job) -> bool:
        """Return whether the job is the other source's."""
        return not self.owns(job.job_id) and self.missed(job)

    def answered(self, job_id: str, *, with_usage: bool) -> None:
        """The other source answered for a job."""
        if not self.owns(job_id):
            self._answered[job_id] = with_usage
            self._lost.discard(job_id)
            self._news.set()

    async def wait_until_taken_over(self, running: Mapping[str, Job], *, with_usage: bool, deadline: float) -> None:
        """Wait for the other source to take over, until `deadline` (loop time), unless something prevents it."""
        try:
            async with asyncio.timeout_at(deadline):
                while self._is_free(running) and not self.taken_over(running, with_usage=with_usage):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass

    def taken_over(self, running: Mapping[str, Job], *, with_usage: bool) -> bool:
        """Return whether the other source serves the running jobs: it answered, `with_usage` if need be, and leaves
        none out."""
        answered = [self._answered[job_id] for job_id in running if job_id in self._answered]
        has_begun = any(answered) if with_usage else bool(answered)
        return has_begun and self._is_free(running) and self._lost.isdisjoint(running)

    def _is_free(self, running: Mapping[str, Job]) -> bool:
        """Return whether the parts show no running job any more, and the other source is asked for all of them."""
        return not self.left_out and not any(map(self.owns, running))

    def keep_only(self, parts: Collection[str]) -> None:
        """Other parts are no longer on the page."""
        self._shown = {part: job_ids for part, job_ids in self._shown.items() if part in parts}
        self._count()

    def expired(self, part: str) -> None:
        """A part is no longer on the page: its last good answer was kept long enough (BulkCollector.expired)."""
        self._shown.pop(part, None)
        self._count()

    def claim(self, job_ids: Collection[str]) -> None:
        """Claim these jobs, which the parts are about to show: from here on no other source shows them."""
        self._claimed = frozenset(job_ids)
        self._answered = {job_id: used for job_id, used in self._answered.items() if job_id not in self._claimed}
        self._count()
        for callback in self._watchers:
            callback()

    def show(self, part: str, job_ids: Collection[str]) -> None:
        """A part was published, and shows these jobs."""
        self._shown[part] = frozenset(job_ids)

    def release(self, running: Mapping[str, Job] | None, held: Collection[str], *, closed: bool) -> None:
        """The poll is over, well or badly. `held` are the running jobs that it found; `closed` says that the bulk
        source has nothing for any; without `running`, it was not known which jobs to look for."""
        self._claimed = frozenset()
        if running is not None:
            self._closed = closed
            self._missed = {job_id: self._missed.get(job_id, 0) + 1 for job_id in running if job_id not in held}
            self._answered = {job_id: used for job_id, used in self._answered.items() if job_id in running}
            self._lost.intersection_update(running)
        self._count()
        self.polled.publish(None)

    def _count(self) -> None:
        before, self._owned = self._owned, all_of([self._claimed, *self._shown.values()])
        self._lost = (self._lost | before) - self._owned


def all_of(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """The union. Most parts show the same jobs as one object, which is read once."""
    return frozenset().union(*{id(one): one for one in sets}.values())
