"""What the ModelArts operations share: errors, and the workspace of a request."""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.exchange import ApiError
from trainfleet_simulator.modelarts.catalog import DEFAULT, WORKSPACES
from trainfleet_simulator.world.fleet import World


def refused(number: str, message: str, status: int = 400) -> ApiError:
    """Return an error of ModelArts, by the number behind its dot."""
    return ApiError(status, f"ModelArts.{number}", message)


def workspace_of(world: World, given: Any) -> str:
    """Return a workspace's id. The default is the default workspace, never all of them."""
    known = [workspace.workspace_id for workspace in WORKSPACES]
    asked = DEFAULT if given in (None, "") else given
    if asked not in known or asked in world.hidden:
        raise refused("0112", "The workspace does not exist or may not be used.", 403)
    return str(asked)
