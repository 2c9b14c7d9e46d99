"""Which source serves which job, so that the usage of none stands on the page twice, not even between two parts.

    AOM's new answer has a job   ► claim: task metrics let go of it at once  ► AOM's parts are published
    AOM's new answer lacks a job ► AOM's parts are published without it      ► release: task metrics may have it

What AOM's parts show counts, not what was asked: a part that failed shows its last good answer for a while, and the
jobs in it stay AOM's for as long. Where AOM refuses, task metrics take over when these have expired.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Topic

_PATIENCE = 2
"""How many sweeps a job is waited for: AOM's samples are late, and a new job is not worth a call of its own each."""


class Handover:
    """Kept by the sweep over AOM (of that `interval`), asked by the cycle over task metrics."""

    def __init__(self, *, interval: float) -> None:
        self.polled: Topic[None] = Topic("usage", None)
        self.left_out = 0
        """How many jobs task metrics are not asked for, because there are more than `max_jobs`."""
        self._interval = interval
        self._shown: dict[str, frozenset[str]] = {}
        """By part, the jobs that it shows."""
        self._claimed: frozenset[str] = frozenset()
        self._owned: frozenset[str] = frozenset()
        self._missed: dict[str, int] = {}
        """How many sweeps did not find a job that runs."""
        self._closed = False
        self._answered: dict[str, bool] = {}
        """The jobs that task metrics answered for, and whether with any usage."""
        self._lost: set[str] = set()
        """The jobs that AOM's parts have stopped showing, and that task metrics have not answered for since."""
        self._news = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever AOM took jobs over."""
        self._watchers.append(callback)

    def shows(self, part: str) -> frozenset[str]:
        """The jobs that a part of AOM's shows now."""
        return self._shown.get(part, frozenset())

    def owns(self, job_id: str) -> bool:
        """Whether AOM's parts show the job, or are about to."""
        return job_id in self._owned

    def missed(self, job: Job) -> bool:
        """Whether AOM was waited for long enough, for this job."""
        sweeps = self._missed.get(job.job_id, 0)
        ran = 0.0 if job.started is None else time.time() - job.started
        return self._closed or sweeps >= _PATIENCE or (sweeps > 0 and ran >= _PATIENCE * self._interval)

    def left(self, job: Job) -> bool:
        """Whether the job is to be had from task metrics."""
        return not self.owns(job.job_id) and self.missed(job)

    def answered(self, job_id: str, *, with_usage: bool) -> None:
        """Task metrics answered for a job."""
        if not self.owns(job_id):
            self._answered[job_id] = with_usage
            self._lost.discard(job_id)
            self._news.set()

    async def wait_until_taken_over(self, running: Mapping[str, Job], *, with_usage: bool, deadline: float) -> None:
        """Wait for task metrics to take over, until `deadline` (loop time), unless something stands in their way."""
        try:
            async with asyncio.timeout_at(deadline):
                while self._is_free(running) and not self.taken_over(running, with_usage=with_usage):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass

    def taken_over(self, running: Mapping[str, Job], *, with_usage: bool) -> bool:
        """Whether task metrics serve the running jobs: they answered, `with_usage` if need be, and leave none out."""
        answered = [self._answered[job_id] for job_id in running if job_id in self._answered]
        has_begun = any(answered) if with_usage else bool(answered)
        return has_begun and self._is_free(running) and self._lost.isdisjoint(running)

    def _is_free(self, running: Mapping[str, Job]) -> bool:
        """Whether AOM's parts show no running job any more, and task metrics are asked for all of them."""
        return not self.left_out and not any(map(self.owns, running))

    def keep_only(self, parts: Collection[str]) -> None:
        """Other parts are on the page no more."""
        self._shown = {part: job_ids for part, job_ids in self._shown.items() if part in parts}
        self._count()

    def expired(self, part: str) -> None:
        """A part is on the page no more: its last good answer was kept long enough (polling.BulkCollector.expired)."""
        self._shown.pop(part, None)
        self._count()

    def claim(self, job_ids: Collection[str]) -> None:
        """AOM's parts are about to show these jobs: from here on nobody else does."""
        self._claimed = frozenset(job_ids)
        self._answered = {job_id: used for job_id, used in self._answered.items() if job_id not in self._claimed}
        self._count()
        for callback in self._watchers:
            callback()

    def show(self, part: str, job_ids: Collection[str]) -> None:
        """A part was published, and shows these jobs."""
        self._shown[part] = frozenset(job_ids)

    def release(self, running: Mapping[str, Job] | None, held: Collection[str], *, closed: bool) -> None:
        """The sweep is over, well or badly. `held` are the running jobs that it found; `closed` says that AOM has
        nothing for anybody; without `running`, nobody knew which jobs to look for."""
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
    """All that is in any of them. Most parts show the same jobs, as one object: it is looked at once."""
    return frozenset().union(*{id(one): one for one in sets}.values())
