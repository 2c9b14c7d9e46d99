"""Workspaces: what the jobs are looked for in (AIWorkSpace ListWorkspaces, one call a poll for each 100)."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.model import Workspace
from trainfleet_exporter.polling import Sweep
from trainfleet_exporter.providers.alibaba_pai import payloads, translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.sweeps import workspaces_sweep

# Nothing runs in these, and asking for their jobs is refused.
WITHOUT_JOBS = frozenset({"INITIALIZING", "FAILURE", "DISABLED"})


def workspaces(shared: Shared, *, configured: Sequence[str] | None, interval: float) -> Sweep:
    """The collector. `configured` are the ids that the config names; None for all that the identity can see."""

    def of_interest(row: payloads.Workspace) -> Workspace | None:
        return None if row.status in WITHOUT_JOBS else translate.workspace(row)

    return workspaces_sweep(
        shared,
        configured=configured,
        interval=interval,
        list_all=lambda deadline: shared.api.list_workspaces(deadline=deadline),
        translate=of_interest,
    )
