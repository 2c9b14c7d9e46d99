"""Live jobs and the ends of jobs (DLC ListJobs): every live status in each workspace.

Cost of a poll and workspace: one call for each of the ten live statuses and each further 100 jobs in it, one for what
finished since the last poll, and a few for the jobs that are in neither. And GetJob once for each job that ended, for
the end of its history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from trainfleet_exporter.errors import CloudError, NotFound
from trainfleet_exporter.model import FINISHED, Job, Status
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai import payloads, translate, translate_history
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import EVER, PaiShared
from trainfleet_exporter.providers.jobs.history import Records
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.reader import JobReader
from trainfleet_exporter.providers.values import amount
from trainfleet_exporter.transport.json_fields import iso_time

_BY_ID_ONE_BY_ONE = 10
"""Up to so many missing jobs are looked up by GetJob, which is exact; more of them in lists by id."""
_BY_ID_AT_ONCE = 50


class PaiJobReader(JobReader[PaiShared, payloads.Job]):
    """The jobs of one workspace in one poll."""

    live_states = (
        *((translate.job_status(word), word) for word in ("Created", "Dequeued", *translate.LIVE_STATUSES)),
        (Status.RESTARTING, "Running"),
    )
    lists_ended = True

    def __init__(self, shared: PaiShared, part: Part) -> None:
        super().__init__(shared, part)
        self._pool_models: Mapping[str, str] = {}

    async def read_live(self) -> None:
        """One list for each live status."""
        for status in translate.LIVE_STATUSES:
            listing = await self._list({"Status": status, "StartTime": EVER}, self.part.deadline)
            for row in listing.rows.values():
                row.status = row.status or status  # rows may lack the status that they were listed by
            await self.take(listing)
            del listing  # before the next call

    async def read_ended(self, start: float, end: float, deadline: float) -> None:
        """One list by the time of the end."""
        times = {"TimeRangeField": "GmtFinishTime", "StartTime": iso_time(start), "EndTime": iso_time(end)}
        # If the service takes the time range for that of creation, the list has other jobs as well.
        await self.take(await self._list(times, deadline, kind="finished"), lambda job: job.status in FINISHED)

    def look_up_size(self, count: int) -> int:
        """One by one while they are few."""
        return 1 if count <= _BY_ID_ONE_BY_ONE else _BY_ID_AT_ONCE

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        """A list of these ids, or GetJob for a single one."""
        if len(job_ids) > 1:
            return await self._list({"JobIds": ",".join(job_ids), "StartTime": EVER}, deadline)
        (job_id,) = job_ids
        row: payloads.Job
        try:
            row = await self.shared.client.get_job(job_id, payloads.JobDetail, deadline=deadline)
        except NotFound:
            return Listing({})
        was = self.jobs.last_known(job_id)
        if was is not None and row.username is None:
            row = replace(row, username=was.user_name)  # only lists name the user
        return Listing({job_id: row})

    async def take(self, listing: Listing[payloads.Job], wanted: Callable[[Job], bool] | None = None) -> None:
        """Have the machine types that rows need, then add the jobs."""
        if any(map(translate.needs_ecs_specs, listing.rows.values())):
            await self.shared.ecs_specs.have(self.part)
        self._pool_models = {quota_id: quota.accelerator_model for quota_id, quota in self.shared.pools.value.items()}
        await super().take(listing, wanted)

    def translate(self, row: payloads.Job) -> Job | None:
        """A row of ListJobs or GetJob."""
        return translate.job(
            row,
            workspace_id=self.workspace_id,
            pool_models=self._pool_models,
            ecs_specs=self.shared.ecs_specs.known,
        )

    def records(self, row: payloads.Job) -> Records | None:
        """StatusHistory; of an answer of GetJob its restarts, too."""
        if isinstance(row, payloads.JobDetail):
            return translate_history.detail_records(row)
        return translate_history.row_records(row)

    def wants_last(self, job: Job) -> bool:
        """Return whether the details of jobs are polled, and this one was not looked up just now."""
        records = self.history_of(job.job_id)
        is_read = records is not None and records.faults is not None
        return self.shared.reads_details and not is_read and self.shared.jobs.wanted(job)

    async def read_last(self, job_ids: Sequence[str], deadline: float) -> None:
        """GetJob. One that fails is not tried again."""
        client = self.shared.client
        for job_id in job_ids:
            try:
                answer = await client.get_job(job_id, payloads.JobRecords, deadline=deadline)
            except NotFound:
                continue
            except CloudError as error:
                self.part.lacks(self.ends, error)
                return
            self.shared.histories.note_detail(job_id, translate_history.detail_records(answer))

    def context(self) -> object:
        """The models of quotas and the table of machine types."""
        return self._pool_models, self.shared.ecs_specs.known

    def timed(self, row: payloads.Job) -> payloads.Job:
        """The row itself."""
        return row

    def duration(self, row: payloads.Job) -> float | None:
        """Seconds."""
        return amount(row.duration)

    async def _list(self, query: dict[str, str], deadline: float, *, kind: str = "") -> Listing[payloads.Job]:
        query = {"WorkspaceId": self.workspace_id, **query}
        return await self.shared.client.list_jobs(query, deadline=deadline, kind=kind)
