"""Changes decoded responses of unknown shape: rows are the objects in lists, all other values are leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from starlette.responses import Response

from trainfleet_conformance.gateway import Answer, Arrival, Spoil
from trainfleet_simulator import rows

Leaf = Callable[[str, Any], Any]
"""Makes another value for a field of that name; REMOVED removes the field."""
REMOVED = object()
_TOTAL = re.compile(r"total|count$", re.IGNORECASE)
_ID = re.compile(r"^(id|uid|uuid|key|name)$|_id$|Id$|ID$|_name$|Name$")


def dumps(value: Any) -> bytes:
    """Write JSON, with NaN, and with 1e400 for ENDLESS_NUMBER."""
    return rows.dumps(value).encode()


def is_identity(name: str) -> bool:
    """Return whether a field of that name identifies or describes its object, instead of counting something."""
    return _ID.search(name) is not None


def change_leaves(value: Any, change: Leaf, name: str = "") -> Any:
    """Return the value with each text, number, boolean and null in it changed."""
    if isinstance(value, dict):
        changed = {key: change_leaves(inner, change, key) for key, inner in value.items()}
        return {key: inner for key, inner in changed.items() if inner is not REMOVED}
    if isinstance(value, list):
        return [inner for inner in (change_leaves(each, change, name) for each in value) if inner is not REMOVED]
    return change(name, value)


def lists(value: Any) -> Iterator[list[Any]]:
    """The outermost lists of objects."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from lists(inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield value


def holds(value: Any, wanted: object) -> bool:
    """Return whether one of its leaves is `wanted`."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return bool(value == wanted) if inner is None else any(holds(each, wanted) for each in inner)


def has_total(payload: Any) -> bool:
    """Return whether a response has a list of several rows and their total number."""
    if not isinstance(payload, dict) or not any(len(found) > 1 for found in lists(payload)):
        return False
    return any(_TOTAL.search(key) and isinstance(value, int | str) for key, value in payload.items())


def change_rows(payload: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    """Return a response with its lists changed; None if it has no list."""
    found = list(lists(payload))
    for each in found:
        each[:] = change(list(each))
    return payload if found else None


def spoiling(change: Callable[[Any], Any]) -> Spoil:
    """Change the payloads of responses. `change` returns another payload, or None to keep the response."""

    def spoil(arrival: Arrival, answer: Answer) -> Response | None:
        payload = answer.payload
        changed = None if payload is None else change(payload)
        return None if changed is None else answer.response(dumps(changed))

    return spoil


def spoiling_leaves(change: Leaf) -> Spoil:
    """Change all leaves of responses."""
    return spoiling(lambda payload: change_leaves(payload, change))


def spoiling_rows(change: Leaf) -> Spoil:
    """Change the leaves of rows in responses with lists."""
    return spoiling(lambda payload: change_rows(payload, lambda rows: [change_leaves(row, change) for row in rows]))


def only(operation: str, spoil: Spoil) -> Spoil:
    """Change responses of one operation only."""
    return lambda arrival, answer: spoil(arrival, answer) if arrival.operation == operation else None
