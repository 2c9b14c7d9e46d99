"""The rows of a response of any operation, and JSON that contains JSON as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

_ROWS = (
    *("Jobs", "Quotas", "Workloads", "Nodes", "EcsSpecs", "Workspaces", "Resource", "QuotaUserUsages"),
    *("Datapoints", "PodMetrics", "Pods"),
    *("Results", "TrainingJobSummaries", "ClusterSummaries", "ClusterNodeSummaries", "TrainingPlanSummaries"),
    *("InstanceGroups", "MetricDataResults"),
    *("items", "workspaces", "jobs", "versions", "projects", "quotas", "metrics", "log_file_list", "result", "data"),
    "events",
)
"""The operations' names of their lists."""
_HOLDERS = ("Resources", "statistics", "statics", "data")
"""The objects that contain some of the lists."""
_TOTALS = ("TotalCount", "total", "total_count", "job_total_count", "version_count")
_HITS = ("TotalHits", "Value")
"""The field with the number of results of a search of AWS."""
_COUNT = "count"
"""The number of rows on this page; for events, the total number."""
_COUNTED = "events"
TEXTS = frozenset({"Datapoints"})
"""Fields that hold JSON as text."""
ENDLESS_NUMBER = "@1e400@"
"""A placeholder for a number beyond every float, which the encoder cannot write."""


@dataclass(slots=True)
class Rows:
    """The rows of a response: the field `key` of `holder`."""

    body: dict[str, Any]
    holder: dict[str, Any]
    key: str

    @property
    def all(self) -> list[Any]:
        found: list[Any] = self.holder[self.key]
        return found

    def replace(self, rows: list[Any]) -> None:
        """Replace the rows, in the same form, and the page's number of rows, if there is one."""
        self.holder[self.key] = rows
        if self.key != _COUNTED and type(self.holder.get(_COUNT)) is int:
            self.holder[_COUNT] = len(rows)

    @property
    def total(self) -> int | None:
        """Return the total number of rows in the response; None if it has none."""
        place = self._total()
        text = "" if place is None else str(place[0][place[1]])
        return int(text) if text.isdigit() else None

    def say_total(self, total: int) -> None:
        """Replace the total in the response, if there is one (as text if it was a text)."""
        if place := self._total():
            holder, name = place
            holder[name] = type(holder[name])(total)

    def _total(self) -> tuple[dict[str, Any], str] | None:
        places = [(self.holder, name) for name in ((_COUNT,) if self.key == _COUNTED else _TOTALS)]
        places += [*((self.body, name) for name in _TOTALS), (self.body.get(_HITS[0], {}), _HITS[1])]
        return next(((holder, name) for holder, name in places if name in holder), None)


def rows_of(body: Any) -> Rows | None:
    """Return the rows of a decoded response; None if it cannot have any."""
    if not isinstance(body, dict):
        return None
    holders = [body, *(body[name] for name in _HOLDERS if isinstance(body.get(name), dict))]
    for holder in holders:
        for key in _ROWS:
            if isinstance(holder.get(key), list):
                return Rows(body, holder, key)
    return None


def read(answer: Response) -> Any:
    """Decode the body of a response, including texts with JSON. Raises ValueError if it is not JSON."""
    body = json.loads(bytes(answer.body))
    if not isinstance(body, dict | list):
        raise ValueError("a text, not JSON")
    _unfold(body)
    return body


def written(body: Any, answer: Response) -> Response:
    """Return the response with another body."""
    return with_content(dumps(body).encode(), answer)


def with_content(content: bytes, answer: Response) -> Response:
    """Return the response with another content; with status 200 if it had none (204)."""
    made = Response(content, 200 if answer.status_code == 204 else answer.status_code)
    for name, value in answer.headers.items():
        made.headers.setdefault(name, value)
    return made


def dumps(body: Any) -> str:
    """Write JSON as Python does: with NaN, and with escapes for all non-ASCII characters, including halves of surrogate
    pairs."""
    text = json.dumps(_folded(body), separators=(",", ":"))
    return text.replace(f'"{ENDLESS_NUMBER}"', "1e400")


def _unfold(value: Any) -> None:
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        if key in TEXTS and isinstance(inner, str):
            value[key] = json.loads(inner)
        elif isinstance(inner, dict | list):
            _unfold(inner)


def _folded(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        value = {key: _folded(inner, key) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [_folded(inner) for inner in value]
    else:
        return value
    return dumps(value) if name in TEXTS else value


Change = Callable[[dict[str, Any], str, Any], Any]
"""Returns the new value for: the object around a value, the name of its field, and the value."""


def change_each(
    value: Any, change: Change, *, passing: frozenset[str] = frozenset(), owner: Any = None, name: str = ""
) -> int:
    """Change every value, the inner ones first, except in fields of the names `passing`; return the number of changes.

    A value in a list has the name of the list, `name`, and the object around it, `owner`.
    """
    changed = 0
    is_object = isinstance(value, dict)
    for key, inner in list(value.items() if is_object else enumerate(value)):
        around, field = (value, key) if is_object else (owner or {}, name)
        if field in passing:
            continue
        if isinstance(inner, dict | list):
            changed += change_each(inner, change, passing=passing, owner=around, name=field)
        new = change(around, field, inner)
        if new is not inner:
            value[key] = new
            changed += 1
    return changed
