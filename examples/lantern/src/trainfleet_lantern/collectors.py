"""Lantern's collectors: what each poll reads and publishes."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import BulkCollector, Part, Poll
from trainfleet_exporter.providers.collectors import PerWorkspaceCollector
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.reader import JobReader
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_lantern import payloads, translate
from trainfleet_lantern.client import LanternClient


class LanternShared(Shared):
    """What the collectors share: workspaces, jobs, and the client."""

    def __init__(self, config: ProviderConfig, context: BuildContext, client: LanternClient) -> None:
        super().__init__(config, context)
        self.client = client


class LanternJobReader(JobReader[LanternShared, payloads.Job]):
    """The jobs of one workspace in one poll."""

    live_states = translate.LIVE

    async def read_live(self) -> None:
        await self.take(await self.shared.client.list_jobs(self.workspace_id, self.part.deadline))

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[payloads.Job]:
        (job_id,) = job_ids
        try:
            return Listing({job_id: await self.shared.client.get_job(job_id, deadline)})
        except NotFound:
            return Listing({})  # deleted: how it ended is unknown

    def translate(self, row: payloads.Job) -> Job | None:
        return translate.job(row, self.workspace_id)


class JobCounts(PerWorkspaceCollector[LanternShared]):
    """Finished jobs by state."""

    async def read(self, part: Part) -> None:
        answer = await self._shared.client.count_jobs(part.key, part.deadline)
        await part.publish(translate.finished_counts(answer, part.key))


class Usage(PerWorkspaceCollector[LanternShared]):
    """The latest reading of each job."""

    async def poll(self, poll: Poll) -> None:
        await self._shared.jobs.wait(poll.deadline)
        await super().poll(poll)

    async def read(self, part: Part) -> None:
        listing = await self._shared.client.list_usage(part.key, part.deadline)
        part.dropped("malformed", listing.malformed)
        mine = {job.job_id for job in self._shared.jobs.live_jobs() if job.workspace_id == part.key}
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
