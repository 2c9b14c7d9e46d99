"""Workspaces: what jobs and pools are looked for in. Leaving one out of a call means the default one only."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import NotFound, RequestRefused
from trainfleet_exporter.polling import Sweep
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import DEFAULT_WORKSPACE, Shared
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.sweeps import workspaces_sweep


def workspaces(shared: Shared, *, configured: Sequence[str] | None, interval: float) -> Sweep:
    """The collector. `configured` are the ids that the config names; None for all that the identity may enter."""
    served = False

    async def list_all(deadline: float) -> Listing[payloads.Workspace]:
        nonlocal served
        try:
            listing = await shared.api.list_workspaces(deadline=deadline)
        except (RequestRefused, NotFound) as error:
            if error.status != 404 or served:
                raise
            # A region that does not serve workspaces has the default one.
            return Listing({DEFAULT_WORKSPACE: payloads.Workspace(DEFAULT_WORKSPACE, "default")})
        served = True
        return listing

    return workspaces_sweep(
        shared, configured=configured, interval=interval, list_all=list_all, translate=translate.workspace
    )
