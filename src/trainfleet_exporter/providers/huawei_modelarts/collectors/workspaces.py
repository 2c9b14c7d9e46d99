"""Workspaces: one call a poll for each 1,000. Calls without a workspace are about the default one only."""

from __future__ import annotations

from trainfleet_exporter.errors import NotFound, RequestRefused
from trainfleet_exporter.providers.collectors import WorkspacesCollector
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import DEFAULT_WORKSPACE, ModelArtsShared
from trainfleet_exporter.providers.jobs.listing import Listing


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
