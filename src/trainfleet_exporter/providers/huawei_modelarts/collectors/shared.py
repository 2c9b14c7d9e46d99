"""The common state of the collectors of one ModelArts provider, and the workspaces: one call for each 1,000.

Calls without a workspace return only the default one.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainfleet_exporter.errors import NotFound, RequestRefused
from trainfleet_exporter.model import Accelerator
from trainfleet_exporter.polling import Topic
from trainfleet_exporter.providers.collectors import WorkspacesCollector
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate
from trainfleet_exporter.providers.huawei_modelarts.client import ModelArtsClient
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.translate import JobTasks
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.providers.registry import BuildContext

DEFAULT_WORKSPACE = "0"


class ModelArtsShared(Shared):
    """Kept as long as the provider."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext, client: ModelArtsClient) -> None:
        super().__init__(config, context)
        self.client = client
        self.pools: Topic[Mapping[str, frozenset[Accelerator]]] = Topic("pools", {})
        """Published by the collector of pools: the kinds of accelerators of each pool, by its id."""
        self.tasks: dict[str, Mapping[str, JobTasks]] = {}
        """Kept by the collectors of jobs: by workspace, the tasks of each live job by its latest row."""

    def tasks_of(self, job_id: str) -> tuple[str, ...]:
        """The task names of a live job."""
        return next((jobs[job_id].names for jobs in self.tasks.values() if job_id in jobs), ())


class ModelArtsWorkspacesCollector(WorkspacesCollector[payloads.Workspace]):
    """The workspaces that the identity may enter; the default one in a region that does not serve workspaces."""

    def __init__(self, shared: ModelArtsShared, interval: float) -> None:
        super().__init__(shared, interval, list_all=self._list, translate=translate.workspace)
        self._client = shared.client
        self._is_served = False

    async def _list(self, deadline: float) -> Listing[payloads.Workspace]:
        try:
            listing = await self._client.list_workspaces(deadline)
        except (RequestRefused, NotFound) as error:
            if error.status != 404 or self._is_served:
                raise
            return Listing({DEFAULT_WORKSPACE: payloads.Workspace(DEFAULT_WORKSPACE, "default")})
        self._is_served = True
        return listing
