"""The body of a search for v2 training jobs, parsed as strictly as by the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainfleet_simulator.modelarts.common import refused, workspace_of
from trainfleet_simulator.modelarts.phases import PHASES
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import DAY

FACTS: dict[str, Callable[[Job], str]] = {"id": lambda job: job.job_id, "name": lambda job: job.draft.name}
_MOST_FILTERS, _MOST_VALUES, _LONGEST_SPAN = 20, 10, 31 * DAY


@dataclass(frozen=True, slots=True)
class Search:
    """A parsed search. `offset` counts pages. `phases` are all phases if the search has none."""

    workspace_id: str
    offset: int
    limit: int
    descending: bool
    phases: tuple[str, ...]
    created: tuple[float, float] | None
    wanted: tuple[Callable[[Job], bool], ...]


def read(body: Any, world: World) -> Search:
    """Parse a body. Raises ApiError with the code of the error."""
    if not isinstance(body, dict):
        raise refused("2764", "The request body must be a JSON object.")
    if body.get("sort_by") not in (None, "", "create_time"):
        raise refused("2790", "The parameter sort_by must be create_time.")
    if body.get("order") not in (None, "", "asc", "desc"):
        raise refused("2790", "The parameter order must be asc or desc.")
    filters = body.get("filters") or []
    if not isinstance(filters, list) or len(filters) > _MOST_FILTERS:
        raise refused("2789", f"The parameter filters must be an array of at most {_MOST_FILTERS}.")
    phases: tuple[str, ...] = PHASES
    created: tuple[float, float] | None = None
    wanted: list[Callable[[Job], bool]] = []
    for given in filters:
        key, operator, values = _filter(given)
        if not values:
            continue
        if key == "create_time":
            created = _span(values)
        elif key == "phase":
            phases = tuple(one for one in phases if one in values)
        else:
            wanted.append(_want(FACTS[key], operator, values))
    return Search(
        workspace_id=workspace_of(world, body.get("workspace_id")),
        offset=_whole(body, "offset", 0, 0, 1_000_000),
        limit=_whole(body, "limit", 10, 1, 50),
        descending=body.get("order") != "asc",
        phases=phases,
        created=created,
        wanted=tuple(wanted),
    )


def facts_of(body: Any) -> dict[str, str]:
    """Return the fields of a search for `/truth` and `/faults`: its plain fields, and each filter by its key."""
    if not isinstance(body, dict):
        return {}
    facts = {name: str(value) for name, value in body.items() if isinstance(value, str | int)}
    filters = body.get("filters")
    for one in filters if isinstance(filters, list) else []:
        if isinstance(one, dict) and isinstance(one.get("value"), list):
            facts[str(one.get("key"))] = ",".join(map(str, one["value"]))
    return facts


def _whole(body: dict[str, Any], name: str, default: int, lowest: int, highest: int) -> int:
    value = body.get(name, default)
    if type(value) is not int or not lowest <= value <= highest:
        raise refused("2764", f"The parameter {name} must be a whole number of {lowest} to {highest}.")
    return value


def _filter(given: Any) -> tuple[str, str, list[str]]:
    """Return a filter's parts. Without values (or with an empty one), it selects everything."""
    if not isinstance(given, dict):
        raise refused("2789", "A filter must be an object of key, operator and value.")
    key, operator, value = given.get("key"), given.get("operator"), given.get("value")
    if not isinstance(key, str) or key not in {*FACTS, "phase", "create_time"}:
        raise refused("2807", "The key of a filter is not supported.")
    fitting = ("between",) if key == "create_time" else ("in",) if key == "phase" else ("like", "in")
    if not isinstance(operator, str) or operator not in fitting:
        raise refused("2808", "The operator of a filter is not supported for its key.")
    if not isinstance(value, list) or len(value) > _MOST_VALUES or not all(isinstance(one, str) for one in value):
        raise refused("2809", f"The value of a filter must be an array of at most {_MOST_VALUES} texts.")
    values = [one for one in value if one]
    if key == "phase" and not set(values) <= set(PHASES):
        raise refused("2809", "The value of a filter is not a phase.")
    return key, operator, values


def _span(values: Sequence[str]) -> tuple[float, float]:
    try:
        start, end = (datetime.fromisoformat(value) for value in values)
        since, until = start.timestamp(), end.timestamp()
    except ValueError:
        raise refused("2809", "The value of create_time must be two RFC 3339 times.") from None
    if start.tzinfo is None or end.tzinfo is None or not since <= until <= since + _LONGEST_SPAN:
        raise refused("2809", "The value of create_time must be two RFC 3339 times at most 31 days apart.")
    return since, until


def _want(fact: Callable[[Job], str], operator: str, values: Sequence[str]) -> Callable[[Job], bool]:
    if operator == "in":
        return lambda job: fact(job) in values
    return lambda job: any(value in fact(job) for value in values)
