"""Usage by AOM: one query a metric for all jobs of the project (and the metrics' names once a day).

The collector makes no calls if no running job has series, or for families that are not exposed.

Each reading is a separate part. All are read before any is shown, so that task metrics first give up the jobs that AOM
serves now (see `arbitration`). If AOM rejects the calls, the poll fails until task metrics serve the jobs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from trainfleet_exporter.errors import AccessDenied, CloudError, NotReady, TrainfleetError
from trainfleet_exporter.model import Job, Status, UsageSource
from trainfleet_exporter.polling import BulkCollector, FairQueue, Part, Poll
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import AomSource, Collected, JobNames, is_refusal
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import ACCELERATORS, Plan
from trainfleet_exporter.providers.usage.arbitration import SourceArbitration, all_of
from trainfleet_exporter.providers.usage.columns import kept_of
from trainfleet_exporter.providers.usage.entities import Entities

SOURCE = "aom"
_SOURCES = "sources"
_LONGEST = 600.0
"""Seconds back in which a query looks for a sample. Samples are a minute apart, and some are minutes late."""
_READING = 0.9
"""The share of a poll's time in which answers are read; the rest is for showing them."""

log = logging.getLogger(__name__)
Answers: TypeAlias = dict[str, Collected | CloudError]


class AomCollector(BulkCollector):
    """The running jobs of the project. `alone`: there are no task metrics to turn to."""

    def __init__(
        self,
        shared: ModelArtsShared,
        interval: float,
        aom: AomSource,
        arbitration: SourceArbitration,
        *,
        alone: bool,
    ) -> None:
        super().__init__("usage", interval)
        self._shared = shared
        self._aom = aom
        self._arbitration = arbitration
        self._alone = alone
        self._max_data_age = shared.max_data_age
        self._at_once = shared.at_once
        self._turns = FairQueue()
        self._seen: dict[str, float] = {}
        """The jobs that lived lately, with the loop time when: AOM reports them for a while after their end."""
        self._entities = Entities()
        self._names: dict[str, JobNames] = {}
        """The jobs that run."""
        self._sources: dict[str, UsageSource] = {}
        """The jobs that are shown."""
        self._closed = False
        """Whether AOM refused at its latest poll, or had no metric of training jobs."""
        self._is_replaced = False
        """Whether the log says that task metrics have taken over."""

    def expired(self, key: str) -> None:
        """A part's last good answer was kept long enough (polling.BulkCollector)."""
        self._arbitration.expired(key)

    async def poll(self, poll: Poll) -> None:
        """Read all metrics."""
        was_closed = self._closed
        refused = await self._sweep(poll)
        if refused is None:
            return
        running, error = refused
        # An API that is not served here leaves usage to task metrics; one that denies it, to those that have some.
        with_usage = isinstance(error, AccessDenied)
        if not was_closed:
            await self._arbitration.wait_until_taken_over(running, with_usage=with_usage, deadline=_read_by(poll))
        if not self._arbitration.taken_over(running, with_usage=with_usage):
            raise error
        poll.lacks("AOM", error)
        self._report_replaced(poll, error)

    async def _sweep(self, poll: Poll) -> tuple[Mapping[str, Job], CloudError] | None:
        """Read AOM and show its answer. If AOM as such refuses: the running jobs, and the error."""
        running: dict[str, Job] | None = None
        held: Collection[str] = ()
        closed = False
        try:
            await self._shared.listed.wait(poll.deadline)
            running = {job.job_id: job for job in self._shared.live_jobs() if job.status is Status.RUNNING}
            if not running or not self._aom.everything:
                poll.keep_only(())
                self._arbitration.keep_only(())
                held, closed = running, self._closed  # task metrics of these are not worth a call either
                return None
            names = self._names = self._consist_of(running)
            self._entities.keep_if(names.__contains__)
            deadline = _read_by(poll)
            try:
                wanted = await self._aom.plans(poll, deadline=deadline)
                answers = await self._read(poll, wanted, names, deadline)
            except TrainfleetError as error:
                self._closed = closed = isinstance(error, NotReady) or (
                    isinstance(error, CloudError) and is_refusal(error)
                )
                if self._alone or not closed:
                    raise
                if isinstance(error, CloudError):
                    return running, error
                self._report_replaced(poll, error)
                return None
            self._closed = False
            self._report_served()
            withheld, held = self._sort_out(answers, running)
            await self._show(poll, wanted, answers, withheld)
            return None
        finally:
            self._arbitration.release(running, held, closed=closed)

    def _consist_of(self, running: Mapping[str, Job]) -> dict[str, JobNames]:
        tasks, names = self._shared.tasks_of, self._names
        return {job_id: JobNames.of(job, tasks(job_id), names.get(job_id)) for job_id, job in running.items()}

    async def _read(self, poll: Poll, wanted: list[Plan], names: Mapping[str, JobNames], deadline: float) -> Answers:
        """The answers to all that is wanted, or why there is none. Raises what closes AOM as such."""
        now = asyncio.get_running_loop().time()
        self._seen |= dict.fromkeys(self._shared.live, now)
        self._seen = {job_id: when for job_id, when in self._seen.items() if now - when <= 2 * _LONGEST}
        window = min(_LONGEST, max(self._max_data_age, 2 * poll.interval))
        slots = asyncio.Semaphore(self._at_once)
        answers: Answers = {}
        same: dict[frozenset[str], frozenset[str]] = {}
        """Most metrics have the same jobs: they are one object, so that they are not compared one by one."""

        async def read(plan: Plan) -> None:
            collected = Collected(plan, names, self._seen, self._entities)
            async with slots:
                try:
                    await self._aom.read(plan, collected, window=window, deadline=deadline)
                    collected.job_ids = same.setdefault(collected.job_ids, collected.job_ids)
                    answers[plan.key] = collected
                except CloudError as error:
                    answers[plan.key] = error.with_traceback(None)  # which holds the answer

        by_key = {plan.key: plan for plan in wanted}
        ordered = [by_key[key] for key in self._turns.order(by_key)]
        await read(ordered[0])  # it shows whether AOM answers at all
        first = answers[ordered[0].key]
        if isinstance(first, CloudError) and is_refusal(first):
            raise first
        async with asyncio.TaskGroup() as group:
            for plan in ordered[1:]:
                group.create_task(read(plan))
        self._turns.was_read(key for key, answer in answers.items() if isinstance(answer, Collected))
        return answers

    def _sort_out(self, answers: Answers, running: Mapping[str, Job]) -> tuple[frozenset[str], frozenset[str]]:
        """The jobs that are better served by task metrics, and those that AOM holds.

        A job whose accelerators AOM does not know is one to leave, though not before AOM was waited for.
        """
        found = all_of(answer.job_ids for answer in answers.values() if isinstance(answer, Collected))
        if self._alone:
            return frozenset(), found
        answer = answers.get(ACCELERATORS)
        if isinstance(answer, Collected):
            with_accelerators: Collection[str] = answer.job_ids
        elif ACCELERATORS not in {plan.key for plan in self._aom.everything}:
            with_accelerators = found  # it is not exposed, and not asked for
        elif answer is None:
            with_accelerators = ()
        else:  # unknown this time: keep the earlier answer
            with_accelerators = {job_id for job_id in found if self._arbitration.owns(job_id)}
        lacking = {job_id for job_id in found if self._names[job_id].makeup.cards and job_id not in with_accelerators}
        return frozenset(job_id for job_id in lacking if self._arbitration.missed(running[job_id])), found - lacking

    async def _show(self, poll: Poll, wanted: list[Plan], answers: Answers, withheld: frozenset[str]) -> None:
        keys = [plan.key for plan in wanted]
        poll.keep_only([*keys, _SOURCES])
        self._arbitration.keep_only([*keys, _SOURCES])
        good = {
            key: answer.job_ids - withheld if withheld else answer.job_ids
            for key, answer in answers.items()
            if isinstance(answer, Collected)
        }
        self._arbitration.claim(all_of(good.values()))
        for key in keys:
            async with poll.part(key) as part:
                answer = answers[key]
                if isinstance(answer, CloudError):
                    raise answer
                for reason, count in answer.dropped.items():
                    part.dropped(reason, count)
                await self._publish(part, answer, good[key])
                self._arbitration.show(key, good[key])
        shown = sorted(all_of(self._arbitration.shows(key) for key in keys))
        known = self._sources
        self._sources = {job_id: known.get(job_id) or UsageSource(job_id, SOURCE, None) for job_id in shown}
        async with poll.part(_SOURCES) as part:
            await self._publish_sources(part, self._sources)
            self._arbitration.show(_SOURCES, shown)

    async def _publish(self, part: Part, answer: Collected, job_ids: Collection[str]) -> None:
        """Show what is of these jobs and still listed; if AOM fails from now on, that is looked at again."""
        columns = kept_of(answer.columns, owners=job_ids)

        async def still_listed(_: float) -> tuple[Sequence[object], float | None]:
            kept = kept_of(columns, owners=self._shared.live)
            return [column.readings for column in kept], None

        objects, _ = await still_listed(time.time())
        await part.publish(objects, rebuild=still_listed)

    async def _publish_sources(self, part: Part, sources: Mapping[str, UsageSource]) -> None:
        async def still_listed(_: float) -> tuple[Sequence[object], float | None]:
            listed = self._shared.live
            return [source for job_id, source in sources.items() if job_id in listed], None

        objects, _ = await still_listed(time.time())
        await part.publish(objects, rebuild=still_listed)

    def _report_replaced(self, poll: Poll, error: Exception) -> None:
        if not self._is_replaced:
            poll.warn("AOM is not available; usage comes from task metrics", error=error)
        self._is_replaced = True

    def _report_served(self) -> None:
        if self._is_replaced:
            log.info("usage comes from AOM again")
        self._is_replaced = False


def _read_by(poll: Poll) -> float:
    """The loop time until which answers are read."""
    now = asyncio.get_running_loop().time()
    return now + _READING * (poll.deadline - now)
