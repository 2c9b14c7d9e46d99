"""Common code of the ModelArts operations: the call, and strict parsing of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.keys import Tokens
from trainfleet_simulator.modelarts.agency import Agency
from trainfleet_simulator.modelarts.aom_samples import Aom, Samples
from trainfleet_simulator.modelarts.catalog import DEFAULT, WORKSPACES
from trainfleet_simulator.modelarts.node_loads import NodeLoads
from trainfleet_simulator.modelarts.task_series import TaskSeries
from trainfleet_simulator.world.fleet import World


@dataclass(frozen=True, slots=True)
class Call:
    """One call: decoded query, ids in the path, decoded body, and the project."""

    query: Mapping[str, list[str]]
    ids: tuple[str, ...]
    body: Any
    world: World
    legacy: World
    """The jobs of the v1 API, which are separate."""
    series: TaskSeries
    tokens: Tokens
    now: float
    headers: Mapping[str, str]
    agency: Agency
    aom: Aom
    samples: Samples
    loads: NodeLoads
    instance: str
    """The Prometheus instance of a call to AOM."""

    def text(self, name: str, default: str = "") -> str:
        """Return a query parameter that is sent once."""
        return self.query.get(name, [default])[-1] or default


Handler = Callable[[Call], Answer]


def refused(number: str, message: str, status: int = 400) -> ApiError:
    """Return an error of ModelArts, by the number behind its dot."""
    return ApiError(status, f"ModelArts.{number}", message)


def int_of(call: Call, name: str, default: int, lowest: int, highest: int, *, code: str = "50004000") -> int:
    """Return a whole number of the query, within its bounds."""
    text = call.text(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and lowest <= int(text) <= highest):
        raise refused(code, f"The parameter {name} must be a whole number of {lowest} to {highest}.")
    return int(text)


def choice_of(call: Call, name: str, allowed: tuple[str, ...], default: str = "", *, code: str = "50004000") -> str:
    """Return one of the documented words, in their exact case."""
    text = call.text(name, default)
    if text and text not in allowed:
        raise refused(code, f"The parameter {name} must be one of: {', '.join(allowed)}.")
    return text


def precise_text(at: float) -> str:
    """Format Unix seconds as IAM and the metadata service do, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def workspace_of(world: World, given: Any) -> str:
    """Return a workspace's id. The default is the default workspace, never all of them."""
    known = [workspace.workspace_id for workspace in WORKSPACES]
    asked = DEFAULT if given in (None, "") else given
    if asked not in known or asked in world.hidden:
        raise refused("0112", "The workspace does not exist or may not be used.", 403)
    return str(asked)
