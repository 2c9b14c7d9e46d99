"""Live jobs and the ends of jobs (v2 training-job-searches): one call for each 50 live jobs of a workspace.

How a job ended is looked up by its id when it is no longer among the live ones: a search has no filter for the time of
an end. A job that began and ended between two polls is therefore seen in the counts of finished jobs only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate, translate_history
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.jobs.history import Records
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.reader import JobReader

_BY_ID_AT_ONCE = 10
"""The number of values in one filter."""


def _history(row: payloads.Job) -> tuple[object, ...]:
    created = None if row.metadata is None else row.metadata.create_time
    state = row.status
    if state is None:
        return (created,)
    return created, state.phase, state.start_time, state.running_records, state.task_statuses


class ModelArtsJobReader(JobReader[ModelArtsShared, payloads.Job]):
    """The jobs of one workspace in one poll."""

    live_states = tuple((translate.job_status(phase), phase) for phase in translate.LIVE_PHASES)

    def __init__(self, shared: ModelArtsShared, part: Part) -> None:
        super().__init__(shared, part)
        self._tasks = dict(shared.tasks.get(part.key, {}))
        """By job, as its latest row names them."""

    async def read_live(self) -> None:
        """One search for all live phases."""
        await self.take(await self._search("phase", translate.LIVE_PHASES, self.part.deadline))

    def look_up_size(self, count: int) -> int:
        """As many as one filter takes."""
        return _BY_ID_AT_ONCE

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        """A search for these ids."""
        return await self._search("id", job_ids, deadline)

    async def take(self, listing: Listing[payloads.Job], wanted: Callable[[Job], bool] | None = None) -> None:
        """Add the jobs, and note the tasks that their rows name."""
        self._tasks |= {job_id: translate.tasks(row) for job_id, row in listing.rows.items()}
        await super().take(listing, wanted)

    def translate(self, row: payloads.Job) -> Job | None:
        """A row of a search."""
        return translate.job(row, self.workspace_id)

    def records(self, row: payloads.Job) -> Records:
        """Its running records and the exit codes of its tasks."""
        return translate_history.records(row)

    def has_history_of(self, row: payloads.Job, before: payloads.Job) -> bool:
        """Return whether all that the history is made of is the same."""
        return _history(row) == _history(before)

    def timed(self, row: payloads.Job) -> payloads.JobStatus | None:
        """Return the part of the row that has the duration."""
        return row.status

    def duration(self, row: payloads.Job) -> float | None:
        """Seconds."""
        return None if row.status is None else translate.duration(row.status)

    def details(self, job: Job) -> Iterable[object]:
        """The pods that the job's tasks are, without their state."""
        tasks = self._tasks.get(job.job_id)
        return () if tasks is None else translate.details(job.job_id, tasks)

    def settled(self) -> None:
        """Share the tasks of the live jobs."""
        known = self.shared.tasks
        known[self.workspace_id] = {key: self._tasks[key] for key in self.jobs.live if key in self._tasks}
        for gone in known.keys() - self.shared.workspaces.value:
            del known[gone]

    async def _search(self, key: str, values: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        return await self.shared.client.search_jobs(self.workspace_id, [(key, "in", values)], deadline=deadline)
