"""Workspaces: what jobs and pools are looked for in. Leaving one out of a call means the default one only."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import CloudError, RequestRefused
from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import Poll, Sweep
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import DEFAULT_WORKSPACE, Shared
from trainfleet_exporter.providers.listing import Listing


def workspaces(shared: Shared, *, configured: Sequence[str] | None, interval: float) -> Sweep:
    """The collector. `configured` are the ids that the config names; None for all that the identity may enter."""

    async def listing(deadline: float) -> Listing:
        try:
            return await shared.api.list_workspaces(deadline=deadline)
        except RequestRefused as error:
            if error.status != 404:
                raise
            # A region that does not serve workspaces has the default one.
            return Listing({DEFAULT_WORKSPACE: {"id": DEFAULT_WORKSPACE, "name": "default"}})

    async def run(poll: Poll) -> None:
        known = False
        try:
            async with poll.part("workspaces") as part:
                try:
                    found = await listing(poll.deadline)
                except CloudError:
                    if configured is not None:  # ids are enough to poll by
                        shared.workspace_ids = tuple(configured)
                    raise
                part.dropped("malformed", found.malformed)
                rows = {key: translate.workspace(row) for key, row in found.rows.items()}
                wanted = tuple(rows) if configured is None else tuple(configured)
                shared.workspace_ids = wanted
                known = True
                await part.publish([rows.get(key) or Workspace(key, "") for key in wanted])
        finally:
            shared.workspaces_known = known
            shared.workspaces_polled.done()

    return Sweep(name="workspaces", interval=interval, run=run)
