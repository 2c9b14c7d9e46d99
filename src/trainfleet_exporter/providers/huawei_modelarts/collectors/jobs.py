"""Workspaces; live jobs and the ends of jobs (v2 training-job-searches): one call for each 50 live jobs of a workspace.

How a job ended is looked up by its id when it is no longer among the live ones: a search has no filter for the time of
an end. A job that began and ended between two polls is therefore seen in the counts of finished jobs only.

ListWorkspaces: one call for each 1,000. Calls without a workspace return only the default one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainfleet_exporter.errors import CloudError, NotFound, RequestRefused
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.workspaces import WorkspaceRead
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate, translate_history
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import DEFAULT_WORKSPACE, ModelArtsShared
from trainfleet_exporter.providers.jobs.listing import Listing

_BY_ID_AT_ONCE = 10
"""The number of values in one filter."""


class Jobs:
    """The collectors of workspaces and jobs."""

    def __init__(self, shared: ModelArtsShared) -> None:
        self._shared = shared
        self._has_workspaces = False

    @collector("workspaces")
    async def workspaces(self, poll: Poll) -> None:
        """Those that the identity may enter; the default one in a region that does not serve workspaces."""
        await self._shared.read_list(poll, self._list, translate.workspace)

    @collector("jobs")
    async def jobs(self, poll: Poll) -> None:
        """One search for all live phases; then those that are in it no longer."""
        await self._shared.poll_jobs(poll, self._read_live, self._read_ends, self._details)

    def jobs_expired(self, key: str) -> None:
        """Forget a workspace."""
        self._shared.expired(key)

    async def _list(self, deadline: float) -> Listing[payloads.Workspace]:
        try:
            listing = await self._shared.client.list_workspaces(deadline)
        except (RequestRefused, NotFound) as error:
            if error.status != 404 or self._has_workspaces:
                raise
            return Listing({DEFAULT_WORKSPACE: payloads.Workspace(DEFAULT_WORKSPACE, "default")})
        self._has_workspaces = True
        return listing

    async def _read_live(self, read: WorkspaceRead) -> None:
        await self._search(read, "phase", translate.LIVE_PHASES, read.part.deadline)

    async def _read_ends(self, read: WorkspaceRead) -> bool:
        for start in range(0, len(read.pending), _BY_ID_AT_ONCE):
            asked = read.pending[start : start + _BY_ID_AT_ONCE]
            try:
                await self._search(read, "id", asked, read.until)
            except CloudError as error:
                read.part.failed(read.ends, error)
                read.lost += asked
        return False

    async def _search(self, read: WorkspaceRead, key: str, values: Sequence[str], deadline: float) -> None:
        listing = await self._shared.client.search_jobs(read.part.key, [(key, "in", values)], deadline=deadline)
        read.part.dropped("malformed", listing.malformed)
        for job_id, row in listing.rows.items():
            job = translate.job(row, read.part.key) if key != "id" or job_id in values else None
            if job is not None:
                self._shared.tasks[job_id] = translate.tasks(row)
                read.found[job_id] = job, translate_history.records(row)

    def _details(self, job: Job) -> Iterable[object]:
        """The pods that the job's tasks are, without their state."""
        tasks = self._shared.tasks.get(job.job_id)
        return () if tasks is None else translate.details(job.job_id, tasks)
