"""Which source serves the usage of a job, so that the page never shows it twice: one rule for all clouds.

A source that reads all jobs at once serves those that it may have. A source with calls for each job serves the rest,
and what the first one was not found to have in two polls:

    the new answer in bulk has a job   ► hold: the other source lets go of it at once  ► the parts are published
    the new answer in bulk lacks a job ► the parts are published without it, and hold  ► the other one may have it

What the parts in bulk show counts, not what was asked: a part that failed shows its last good answer for a while, and
the jobs in it stay its own for as long. If the first source refuses, the other one takes over when these have expired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.polling import Topic

_POLLS_WAITED = 2
"""Polls in which a job is waited for in bulk, where readings are late: a new job needs no call of its own."""


class JobSources:
    """`in_bulk` returns whether the bulk source may have a job: None, it has to be found out. A job keeps the first
    answer, whatever a later row lacks. `measured` are the states in which jobs use something. `interval` is that of
    the bulk source, in seconds."""

    def __init__(
        self, fleet: Workspaces, *, in_bulk: Callable[[Job], bool | None], measured: Collection[Status], interval: float
    ) -> None:
        self.polled: Topic[None] = Topic("usage", None)
        """Published after each poll of a bulk source whose jobs have to be found out."""
        self.left_out = 0
        """How many jobs the other source leaves out because of its limit."""
        self.is_refused = False
        """Whether the bulk source has nothing for any job."""
        self._fleet, self._in_bulk, self._measured, self._interval = fleet, in_bulk, measured, interval
        self._known: dict[tuple[str, float | None], bool | None] = {}
        """By job and its creation, what `in_bulk` said first."""
        self.held: frozenset[str] = frozenset()
        """The jobs that parts in bulk show, or are about to."""
        self._missed: dict[str, int] = {}
        """How many polls in bulk did not find a job."""
        self._answered: dict[str, bool | None] = {}
        """Whether the other source answered for a job with any usage; None: no longer held, and no answer since."""
        self.watchers: list[Callable[[], None]] = []
        """Called whenever the bulk source takes jobs over."""
        fleet.watchers.append(self._forget)

    def may_be_in_bulk(self, job: Job) -> bool:
        """Return whether the bulk source is to show the job if it has it."""
        answer = self._first_answer(job)  # also of a job that waits: a later row may lack what decides
        return job.status in self._measured and answer is not False

    def is_one_by_one(self, job: Job) -> bool:
        """Return whether the job is the other source's."""
        answer = self._first_answer(job)
        is_free = answer is None and job.job_id not in self.held and self.is_missed(job)
        return job.status in self._measured and (answer is False or is_free)

    def is_missed(self, job: Job) -> bool:
        """Return whether the job has been waited for long enough."""
        polls = self._missed.get(job.job_id, 0)
        ran = 0.0 if job.started is None else self._fleet.clock.now() - job.started
        return self.is_refused or polls >= _POLLS_WAITED or (polls > 0 and ran >= _POLLS_WAITED * self._interval)

    def hold(self, job_ids: Collection[str]) -> None:
        """Note the jobs that parts in bulk show, or are about to: from here on no other source shows them."""
        before, self.held = self.held, frozenset(job_ids)
        answers = dict.fromkeys(before) | self._answered
        self._answered = {job_id: used for job_id, used in answers.items() if job_id not in self.held}
        if not self.held <= before:
            for callback in self.watchers:
                callback()

    def end_poll(self, running: Mapping[str, Job], found: Collection[str], *, is_refused: bool) -> None:
        """Note the end of a poll in bulk, good or bad, and what it found of the `running` jobs."""
        self.is_refused = is_refused
        self._missed = {job_id: self._missed.get(job_id, 0) + 1 for job_id in running if job_id not in found}
        self._answered = {job_id: used for job_id, used in self._answered.items() if job_id in running}
        self.polled.publish(None)

    def answered(self, job_id: str, *, with_usage: bool) -> None:
        if job_id not in self.held:
            self._answered[job_id] = with_usage

    async def wait_until_replaced(self, running: Collection[str], *, with_usage: bool, until: float) -> bool:
        """Return whether the other source serves the running jobs: it answered for all that are no longer held, and
        `with_usage` if need be. Waits for that until a loop time, unless it cannot be."""
        while not self.left_out and self.held.isdisjoint(running):
            answers = [used for job_id, used in self._answered.items() if job_id in running]
            if None not in answers and any(used or not with_usage for used in answers):
                return True
            if asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(1)
        return False

    def _first_answer(self, job: Job) -> bool | None:
        return self._known.setdefault((job.job_id, job.created), self._in_bulk(job))

    def _forget(self) -> None:
        self._known = {key: answer for key, answer in self._known.items() if key[0] in self._fleet.live}
        self._answered = {job_id: used for job_id, used in self._answered.items() if job_id in self._fleet.live}
