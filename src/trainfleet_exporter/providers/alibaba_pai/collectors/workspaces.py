"""Workspaces: what the jobs are looked for in (AIWorkSpace ListWorkspaces, one call a poll for each 100)."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import Poll, Sweep
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.quantities import text

# Nothing runs in these, and asking for their jobs is refused.
_WITHOUT_JOBS = frozenset({"INITIALIZING", "FAILURE", "DISABLED"})


def workspaces(shared: Shared, *, configured: Sequence[str] | None, interval: float) -> Sweep:
    """The collector. `configured` are the ids that the config names; None for all that the identity can see."""

    async def run(poll: Poll) -> None:
        known = False
        try:
            async with poll.part("workspaces") as part:
                try:
                    listing = await shared.api.list_workspaces(deadline=poll.deadline)
                except CloudError:
                    if configured is not None:  # ids are enough to poll jobs by
                        shared.workspace_ids = tuple(configured)
                    raise
                part.dropped("malformed", listing.malformed)
                found: dict[str, Workspace] = {}
                for row in listing.rows.values():
                    workspace = translate.workspace(row)
                    if workspace is not None and text(row, "Status") not in _WITHOUT_JOBS:
                        found[workspace.workspace_id] = workspace
                # A configured id that the list lacks is polled and shown all the same, without its name.
                wanted = tuple(found) if configured is None else tuple(configured)
                shared.workspace_ids = wanted
                known = True
                await part.publish([found.get(key, Workspace(key, "")) for key in wanted])
        finally:
            shared.workspaces_known = known
            shared.workspaces_polled.done()

    return Sweep(name="workspaces", interval=interval, run=run)
