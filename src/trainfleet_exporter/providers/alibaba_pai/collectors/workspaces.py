"""Workspaces (AIWorkSpace ListWorkspaces): one call a poll for each 100."""

from __future__ import annotations

from trainfleet_exporter.model import Workspace
from trainfleet_exporter.providers.alibaba_pai import payloads, translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.collectors import WorkspacesCollector

# Nothing runs in these, and asking for their jobs is refused.
WITHOUT_JOBS = frozenset({"INITIALIZING", "FAILURE", "DISABLED"})


class PaiWorkspacesCollector(WorkspacesCollector[payloads.Workspace]):
    """The workspaces that the identity is a member of."""

    def __init__(self, shared: PaiShared, interval: float) -> None:
        super().__init__(shared, interval, list_all=shared.client.list_workspaces, translate=_with_jobs)


def _with_jobs(row: payloads.Workspace) -> Workspace | None:
    return None if row.status in WITHOUT_JOBS else translate.workspace(row)
