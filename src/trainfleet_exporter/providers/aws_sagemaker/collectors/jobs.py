"""Live jobs and the ends of jobs by Search, which has complete descriptions of 100 jobs a call.

A poll makes one call for each of the two live statuses, and one for each further 100 jobs in it. It makes one call for
jobs that finished since the last poll, and a few calls for jobs in neither list. It looks up a job that has ended and
keeps a warm pool.

If a policy denies Search, jobs are from ListTrainingJobs, and from DescribeTrainingJob for each job that changed. A
listed job without a description has only the fields of the list: failed is not empty.
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
"""Up to this number, DescribeTrainingJob looks up missing jobs, which is exact. Search looks up more of them."""
_TRIED_AGAIN = 3600.0
"""Seconds after which a denied Search is tried again: the policy may have changed."""


class SageMakerJobReader(JobReader[SageMakerShared, payloads.Job]):
    """Reads the jobs in one poll."""

    live_states = (*((status, word) for word, status in translate.PROGRESS.items()), (Status.STOPPING, "Stopping"))
    lists_ended = True

    def __init__(self, shared: SageMakerShared, part: Part) -> None:
        super().__init__(shared, part)
        self._names: set[str] = set()
        """If Search is denied: the jobs that this poll has listed."""

    async def read_live(self) -> None:
        """Yield one list for each live status."""
        for status in translate.LIVE_STATUSES:
            listing = await self._search([("TrainingJobStatus", "Equals", status)], self.part.deadline)
            if listing is None:
                listing = await self._describe_each(status, None, self.part.deadline)
            await self.take(listing)
            del listing  # to free memory before the next call

    async def read_ended(self, start: float, end: float, deadline: float) -> None:
        """Yield one list: jobs that changed since `start` and are not in progress."""
        filters = [
            ("LastModifiedTime", "GreaterThanOrEqualTo", search_time(start)),
            ("TrainingJobStatus", "NotEquals", translate.IN_PROGRESS),
        ]
        listing = await self._search(filters, deadline, kind="finished")
        if listing is not None:
            await self.take(listing, lambda job: job.status in FINISHED)
            return
        for status in translate.TERMINAL_STATUSES:
            await self.take(await self._describe_each(status, start, deadline), lambda job: job.status in FINISHED)

    def look_up_size(self, count: int) -> int:
        """Return one while there are few jobs, or if Search is denied."""
        return NAMES_AT_ONCE if count > _ONE_BY_ONE and self._may_search() else 1

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        """Search for these names. Use DescribeTrainingJob for a single job, or if Search is denied."""
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
        """Translate a row of Search or ListTrainingJobs, or a response of DescribeTrainingJob."""
        return translate.job(row)

    def records(self, row: payloads.Job) -> Records | None:
        """Translate the secondary statuses."""
        return translate_history.records(row)

    def has_history_of(self, row: payloads.Job, before: payloads.Job) -> bool:
        """Return whether the secondary statuses are the same."""
        return row.secondary_status_transitions == before.secondary_status_transitions

    def timed(self, row: payloads.Job) -> payloads.Job:
        """Return the row itself."""
        return row

    def duration(self, row: payloads.Job) -> float | None:
        """Return the duration in seconds."""
        return amount(row.duration)

    def details(self, job: Job) -> Iterable[object]:
        """Return the instances of the job, without their states."""
        return translate.pods(job.job_id, job.nodes)

    def of_workspace(self) -> Iterable[object]:
        """Return the only workspace, which no call lists."""
        return (translate.WORKSPACE,)

    def settled(self) -> None:
        """Delete the descriptions of jobs that are no longer live."""
        known = self.shared.described
        kept = self._names | self.jobs.live.keys()
        self.shared.described = {name: known[name] for name in kept if name in known}

    def _may_search(self) -> bool:
        return asyncio.get_running_loop().time() >= self.shared.search_refused_until

    async def _search(self, filters: Sequence[Filter], deadline: float, kind: str = "") -> Listing[payloads.Job] | None:
        """Search; None if Search is denied."""
        if not self._may_search():
            return None
        try:
            return await self.shared.client.search_jobs(filters, deadline=deadline, kind=kind)
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
