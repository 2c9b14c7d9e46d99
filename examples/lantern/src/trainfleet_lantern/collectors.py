"""Lantern's collectors: what each poll reads and publishes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trainfleet_exporter.errors import CloudError, NotFound
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.workspaces import WorkspaceRead, Workspaces
from trainfleet_exporter.polling import FairQueue, Part, Poll
from trainfleet_lantern import translate
from trainfleet_lantern.client import LanternClient


class Jobs:
    """Workspaces and their jobs."""

    def __init__(self, fleet: Workspaces, client: LanternClient) -> None:
        self._fleet, self._client = fleet, client

    @collector("workspaces")
    async def workspaces(self, poll: Poll) -> None:
        """Those that the token may see."""
        await self._fleet.read_list(poll, self._client.list_workspaces, translate.workspace)

    @collector("jobs")
    async def jobs(self, poll: Poll) -> None:
        """Live jobs, then those that are in the list no longer."""
        await self._fleet.poll_jobs(poll, self._read_live, self._read_ends)

    def jobs_expired(self, key: str) -> None:
        """Forget a workspace."""
        self._fleet.expired(key)

    async def _read_live(self, read: WorkspaceRead) -> None:
        listing = await self._client.list_jobs(read.part.key, read.part.deadline)
        read.part.dropped("malformed", listing.malformed)
        for job_id, row in listing.rows.items():
            read.found[job_id] = translate.job(row, read.part.key), None

    async def _read_ends(self, read: WorkspaceRead) -> None:
        for job_id in read.pending:
            try:
                row = await self._client.get_job(job_id, read.until)
            except NotFound:
                continue  # deleted: how it ended is unknown
            except CloudError as error:
                read.part.failed(read.ends, error)
                read.lost.append(job_id)
            else:
                read.found[job_id] = translate.job(row, read.part.key), None


class Usage:
    """The latest reading of each job, and finished jobs by state: a part for each workspace."""

    def __init__(self, fleet: Workspaces, client: LanternClient) -> None:
        self._fleet, self._client = fleet, client
        self._turns = {"job_counts": FairQueue(), "usage": FairQueue()}

    @collector("job_counts")
    async def job_counts(self, poll: Poll) -> None:
        """Finished jobs by state."""
        await self._read_each(poll, "job_counts", self._read_counts)

    @collector("usage")
    async def usage(self, poll: Poll) -> None:
        """The latest readings."""
        await self._fleet.listed.wait(poll.deadline)
        await self._read_each(poll, "usage", self._read_usage)

    async def _read_each(self, poll: Poll, name: str, read: Callable[[Part], Awaitable[None]]) -> None:
        workspaces = await self._fleet.ids.get()
        poll.keep_only(workspaces)
        await self._turns[name].read_each(poll, workspaces, read, at_once=self._fleet.at_once)

    async def _read_counts(self, part: Part) -> None:
        answer = await self._client.count_jobs(part.key, part.deadline)
        await part.publish(translate.finished_counts(answer, part.key))

    async def _read_usage(self, part: Part) -> None:
        listing = await self._client.list_usage(part.key, part.deadline)
        part.dropped("malformed", listing.malformed)
        mine = {job.job_id for job in self._fleet.live_jobs() if job.workspace_id == part.key}
        part.dropped("unlisted", len(listing.rows.keys() - mine))
        await part.publish([translate.usage(row) for key, row in listing.rows.items() if key in mine])


class Pools:
    """All pools of the account, from one list."""

    def __init__(self, client: LanternClient) -> None:
        self._client = client

    @collector("pools")
    async def pools(self, poll: Poll) -> None:
        """One part."""
        async with poll.part("pools") as part:
            listing = await self._client.list_pools(part.deadline)
            part.dropped("malformed", listing.malformed)
            await part.publish([shown for row in listing.rows.values() for shown in translate.pool(row)])
