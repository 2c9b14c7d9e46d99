"""Live jobs and the ends of jobs, by Search: whole descriptions of 100 jobs a call.

Cost of a poll: one call for each of the two live statuses and each further 100 jobs in it, one for what finished since
the last poll, and a few for jobs that are in neither. A job that has ended and keeps a warm pool is looked up.

Where the identity may not call Search, jobs come from ListTrainingJobs, and DescribeTrainingJob for each that changed.
A listed job without a description is shown as the list has it: failed is not empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from trainfleet_exporter.errors import AccessDenied, NotFound
from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.aws_sagemaker import payloads, translate, translate_history
from trainfleet_exporter.providers.aws_sagemaker.client import NAMES_AT_ONCE, Filter, search_time
from trainfleet_exporter.providers.aws_sagemaker.collectors.shared import SageMakerShared, lacks_permission
from trainfleet_exporter.providers.jobs.history import Records
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.reader import JobReader
from trainfleet_exporter.providers.values import amount

_ONE_BY_ONE = 10
"""Up to so many missing jobs are looked up by DescribeTrainingJob, which is exact; more of them by Search."""
_TRIED_AGAIN = 3600.0
"""Seconds after which Search is tried again that was refused: a policy may have been changed."""


class SageMakerJobReader(JobReader[SageMakerShared, payloads.Job]):
    """The jobs in one poll."""

    live_states = (*((status, word) for word, status in translate.PROGRESS.items()), (Status.STOPPING, "Stopping"))
    lists_ended = True

    def __init__(self, shared: SageMakerShared, part: Part) -> None:
        super().__init__(shared, part)
        self._names: set[str] = set()
        """Where Search is refused: the jobs that this poll has listed."""

    async def read_live(self) -> None:
        """One list for each live status."""
        for status in translate.LIVE_STATUSES:
            listing = await self._search([("TrainingJobStatus", "Equals", status)], self.part.deadline)
            if listing is None:
                listing = await self._describe_each(status, None, self.part.deadline)
            await self.take(listing)
            del listing  # before the next call

    async def read_ended(self, start: float, end: float, deadline: float) -> None:
        """What changed since `start` and is not in progress: one list."""
        filters = [
            ("LastModifiedTime", "GreaterThanOrEqualTo", search_time(start)),
            ("TrainingJobStatus", "NotEquals", translate.IN_PROGRESS),
        ]
        listing = await self._search(filters, deadline, breaker=" finished")
        if listing is not None:
            await self.take(listing, lambda job: job.status in FINISHED)
            return
        for status in translate.TERMINAL_STATUSES:
            await self.take(await self._describe_each(status, start, deadline), lambda job: job.status in FINISHED)

    def look_up_size(self, count: int) -> int:
        """One by one while they are few, or where Search is refused."""
        return NAMES_AT_ONCE if count > _ONE_BY_ONE and self._may_search() else 1

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        """A search for these names; DescribeTrainingJob for a single one, or where Search is refused."""
        if len(job_ids) > 1:
            listing = await self._search([("TrainingJobName", "In", ",".join(job_ids))], deadline)
            if listing is not None:
                return listing
        rows: dict[str, payloads.Job] = {}
        for name in job_ids:
            with suppress(NotFound):
                rows[name] = await self.shared.client.describe_job(name, deadline=deadline)
        return Listing(rows)

    def translate(self, row: payloads.Job) -> Job | None:
        """A row of Search or ListTrainingJobs, or an answer of DescribeTrainingJob."""
        return translate.job(row)

    def records(self, row: payloads.Job) -> Records | None:
        """Its secondary statuses."""
        return translate_history.records(row)

    def has_history_of(self, row: payloads.Job, before: payloads.Job) -> bool:
        """Whether the secondary statuses are the same."""
        return row.secondary_status_transitions == before.secondary_status_transitions

    def timed(self, row: payloads.Job) -> payloads.Job:
        """The row itself."""
        return row

    def duration(self, row: payloads.Job) -> float | None:
        """Seconds."""
        return amount(row.duration)

    def details(self, job: Job) -> Iterable[object]:
        """The instances of the job, without their states."""
        return translate.pods(job.job_id, job.nodes)

    def of_workspace(self) -> Iterable[object]:
        """The only workspace, which no call lists."""
        return (translate.WORKSPACE,)

    def settled(self) -> None:
        """Forget the descriptions of jobs that are not live any more."""
        known = self.shared.described
        kept = self._names | self.jobs.live.keys()
        self.shared.described = {name: known[name] for name in kept if name in known}

    def _may_search(self) -> bool:
        return asyncio.get_running_loop().time() >= self.shared.search_refused_until

    async def _search(
        self, filters: Sequence[Filter], deadline: float, breaker: str = ""
    ) -> Listing[payloads.Job] | None:
        """None where Search is refused."""
        if not self._may_search():
            return None
        try:
            return await self.shared.client.search_jobs(filters, deadline=deadline, breaker=breaker)
        except AccessDenied as error:
            if not lacks_permission(error):
                raise
            self.part.lacks("Search", error)
            self.shared.search_refused_until = asyncio.get_running_loop().time() + _TRIED_AGAIN
            return None

    async def _describe_each(self, status: str, since: float | None, deadline: float) -> Listing[payloads.Job]:
        client, known = self.shared.client, self.shared.described
        found: dict[str, payloads.Job] = {}
        for summary in await client.list_jobs(status, since=since, deadline=deadline):
            name, changed = summary.training_job_name or "", summary.last_modified_time
            before = known.get(name)
            if before is None or changed is None or before[0] != changed:
                try:
                    before = known[name] = changed, await client.describe_job(name, deadline=deadline)
                except NotFound as error:  # deleted since it was listed, unless the next poll lists it again
                    self.part.lacks("DescribeTrainingJob", error)
                    found[name] = summary
                    continue
            found[name] = before[1]
            self._names.add(name)
        return Listing(found)
