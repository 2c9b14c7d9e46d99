"""Live jobs and the ends of jobs by Search, which has complete descriptions of 100 jobs a call.

A poll makes one call for each of the two live statuses, and one for each further 100 jobs in it. It makes one call for
jobs that finished since the last poll, and a few calls for jobs in neither list. It looks up a job that has ended and
keeps a warm pool.

Only Search has the tags of jobs, and the whole history in a list. If a policy denies Search, the poll fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.providers.aws_sagemaker import payloads, translate, translate_history
from trainfleet_exporter.providers.aws_sagemaker.client import NAMES_AT_ONCE, search_time
from trainfleet_exporter.providers.aws_sagemaker.collectors.shared import SageMakerShared
from trainfleet_exporter.providers.jobs.history import Records
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.reader import JobReader
from trainfleet_exporter.providers.values import amount

_ONE_BY_ONE = 10
"""Up to this number, DescribeTrainingJob looks up missing jobs, which is exact. Search looks up more of them."""


class SageMakerJobReader(JobReader[SageMakerShared, payloads.Job]):
    """Reads the jobs in one poll."""

    live_states = (*((status, word) for word, status in translate.PROGRESS.items()), (Status.STOPPING, "Stopping"))
    lists_ended = True

    async def read_live(self) -> None:
        """Yield one list for each live status."""
        for status in translate.LIVE_STATUSES:
            filters = [("TrainingJobStatus", "Equals", status)]
            await self.take(await self.shared.client.search_jobs(filters, deadline=self.part.deadline))

    async def read_ended(self, start: float, end: float, deadline: float) -> None:
        """Yield one list: jobs that changed since `start` and are not in progress."""
        filters = [
            ("LastModifiedTime", "GreaterThanOrEqualTo", search_time(start)),
            ("TrainingJobStatus", "NotEquals", translate.IN_PROGRESS),
        ]
        listing = await self.shared.client.search_jobs(filters, deadline=deadline, kind="finished")
        await self.take(listing, lambda job: job.status in FINISHED)

    def look_up_size(self, count: int) -> int:
        """Return one while there are few jobs."""
        return NAMES_AT_ONCE if count > _ONE_BY_ONE else 1

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        """Search for these names. Use DescribeTrainingJob for a single job."""
        if len(job_ids) > 1:
            names = ("TrainingJobName", "In", ",".join(job_ids))
            return await self.shared.client.search_jobs([names], deadline=deadline)
        rows: dict[str, payloads.Job] = {}
        for name in job_ids:
            with suppress(NotFound):
                rows[name] = await self.shared.client.describe_job(name, deadline=deadline)
        return Listing(rows)

    def translate(self, row: payloads.Job) -> Job | None:
        """Translate a row of Search, or a response of DescribeTrainingJob."""
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
