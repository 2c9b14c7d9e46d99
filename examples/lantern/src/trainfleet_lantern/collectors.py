"""Lantern's collectors: what each poll reads and publishes."""

from __future__ import annotations

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.errors import CloudError, NotFound
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.workspaces import WorkspaceRead, Workspaces
from trainfleet_exporter.polling import BulkCollector, Part, Poll
from trainfleet_exporter.providers.collectors import PerWorkspaceCollector
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_lantern import translate
from trainfleet_lantern.client import LanternClient


class LanternShared(Workspaces):
    """What the collectors share: workspaces, jobs, and the client."""

    def __init__(self, config: ProviderConfig, context: BuildContext, client: LanternClient) -> None:
        super().__init__(config, context, translate.LIVE)
        self.client = client


class Jobs:
    """Workspaces and their jobs."""

    def __init__(self, shared: LanternShared) -> None:
        self._shared = shared

    @collector("workspaces")
    async def workspaces(self, poll: Poll) -> None:
        """Those that the token may see."""
        await self._shared.read_list(poll, self._shared.client.list_workspaces, translate.workspace)

    @collector("jobs")
    async def jobs(self, poll: Poll) -> None:
        """Live jobs, then those that are in the list no longer."""
        await self._shared.poll_jobs(poll, self._read_live, self._read_ends)

    def jobs_expired(self, key: str) -> None:
        """Forget a workspace."""
        self._shared.expired(key)

    async def _read_live(self, read: WorkspaceRead) -> None:
        listing = await self._shared.client.list_jobs(read.part.key, read.part.deadline)
        read.part.dropped("malformed", listing.malformed)
        for job_id, row in listing.rows.items():
            read.found[job_id] = translate.job(row, read.part.key), None

    async def _read_ends(self, read: WorkspaceRead) -> bool:
        for job_id in read.pending:
            try:
                row = await self._shared.client.get_job(job_id, read.until)
            except NotFound:
                continue  # deleted: how it ended is unknown
            except CloudError as error:
                read.part.failed(read.ends, error)
                read.lost.append(job_id)
            else:
                read.found[job_id] = translate.job(row, read.part.key), None
        return False  # there is no list of ended jobs


class JobCounts(PerWorkspaceCollector[LanternShared]):
    """Finished jobs by state."""

    async def read(self, part: Part) -> None:
        answer = await self._shared.client.count_jobs(part.key, part.deadline)
        await part.publish(translate.finished_counts(answer, part.key))


class Usage(PerWorkspaceCollector[LanternShared]):
    """The latest reading of each job."""

    async def poll(self, poll: Poll) -> None:
        await self._shared.listed.wait(poll.deadline)
        await super().poll(poll)

    async def read(self, part: Part) -> None:
        listing = await self._shared.client.list_usage(part.key, part.deadline)
        part.dropped("malformed", listing.malformed)
        mine = {job.job_id for job in self._shared.live_jobs() if job.workspace_id == part.key}
        part.dropped("unlisted", len(listing.rows.keys() - mine))
        await part.publish([translate.usage(row) for key, row in listing.rows.items() if key in mine])


class Pools(BulkCollector):
    """All pools of the account, from one list."""

    def __init__(self, shared: LanternShared, interval: float) -> None:
        super().__init__("pools", interval)
        self._client = shared.client

    async def poll(self, poll: Poll) -> None:
        async with poll.part("pools") as part:
            listing = await self._client.list_pools(part.deadline)
            part.dropped("malformed", listing.malformed)
            await part.publish([shown for row in listing.rows.values() for shown in translate.pool(row)])
