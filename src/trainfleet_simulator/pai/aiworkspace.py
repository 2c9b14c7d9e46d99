"""The simulated AIWorkSpace service (version 2021-02-04): the workspaces that the identity is a member of."""

from __future__ import annotations

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.parameters import Call, iso, list_answer, page_of
from trainfleet_simulator.world.nouns import DAY


def list_workspaces(call: Call) -> Answer:
    """GET /api/v1/workspaces."""
    offset, size = page_of(call.query, 20)
    found = [
        {
            "WorkspaceId": workspace.workspace_id,
            "WorkspaceName": workspace.name,
            "DisplayName": workspace.name,
            "Description": "",
            "Status": "ENABLED",
            "IsDefault": workspace.is_default,
            "Creator": catalog.ACCOUNT_ID,
            "EnvTypes": ["prod"],
            "GmtCreateTime": iso(call.world.started - 400 * DAY),
            "GmtModifiedTime": iso(call.world.started - 90 * DAY),
        }
        for workspace in catalog.WORKSPACES
        if workspace.member and workspace.workspace_id not in call.world.hidden
    ]
    return list_answer("Workspaces", found[offset : offset + size], len(found), ("WorkspaceId", "WorkspaceName"))
