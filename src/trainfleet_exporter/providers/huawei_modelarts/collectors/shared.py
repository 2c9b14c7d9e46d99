"""What the collectors of one ModelArts provider share: the API, the workspaces, jobs with their tasks, and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfleet_exporter.errors import NotReady
from trainfleet_exporter.model import Accelerator
from trainfleet_exporter.providers.division import Division
from trainfleet_exporter.providers.huawei_modelarts.api import ModelArtsApi
from trainfleet_exporter.providers.huawei_modelarts.translate import JobTasks
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.knowledge import Groundwork, Knowledge

DEFAULT_WORKSPACE = "0"


class Shared(Knowledge):
    """The provider's knowledge that outlives a poll."""

    def __init__(self, api: ModelArtsApi, book: JobRegistry, division: Division | None = None) -> None:
        super().__init__(book, division)
        self.api = api
        self.tasks: dict[str, Mapping[str, JobTasks]] = {}
        """By workspace, the tasks of each job, by its latest row; those of every live job are there."""
        self.pool_ids: tuple[str, ...] = ()
        """By the last lists that could be read."""
        self.pools_known = False
        """Whether the latest poll of pools could read those of some workspace (or there is none)."""
        self.pools_polled = Groundwork()
        self.accelerators: dict[str, frozenset[Accelerator]] = {}
        """By pool, the kinds of accelerators that it has, by the last answer that could be read."""

    async def pools(self) -> tuple[str, ...]:
        """The ids of the pools to poll. Raises NotReady where none is known for want of an answer."""
        if not self.pool_ids:
            await self.pools_polled.wait()
        if not self.pool_ids and not self.pools_known:
            raise NotReady("the list of pools could not be read")
        return self.pool_ids

    async def own_pools(self) -> Sequence[str]:
        """The ids of the pools that are asked about here, one by one. Raises NotReady as `pools` does."""
        return self.division.pools(await self.pools())

    def tasks_of(self, job_id: str) -> tuple[str, ...]:
        """The task names of a live job."""
        return next((jobs[job_id].names for jobs in self.tasks.values() if job_id in jobs), ())
