"""Lists that change while a client reads them, do not end or are incomplete."""

from __future__ import annotations

import copy
import secrets
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from trainfleet_simulator.exchange import Call
from trainfleet_simulator.rows import Rows, rows_of

_FAR_OFF = 1_000_000_000
_KEPT = 512
_SIZES = ("PageSize", "limit", "per_page")
_TOKENS = frozenset({"NextToken", "continue"})
_OWN_IDS = (
    *(("TrainingJob", "TrainingJobName"), ("TrainingJobName",), ("ClusterArn",), ("InstanceId",), ("TrainingPlanArn",)),
    *(("WorkloadId",), ("JobId",), ("QuotaId",), ("NodeName",), ("InstanceType",), ("MetricName",), ("WorkspaceId",)),
    *(("pod",), ("jobId",), ("nodeId",), ("quotaId",), ("job_id",), ("version_id",), ("metadata", "id")),
    *(("uid",), ("metadata", "name"), ("id",), ("Id",), ("UserId",)),
)
"""Fields of a row's own id. The first existing one counts."""


class Paging:
    """Changes lists, and remembers the rows that were read."""

    def __init__(self) -> None:
        self._readings: OrderedDict[Hashable, dict[str, list[Any]]] = OrderedDict()
        """By list, the true rows of the pages that were read, by numbers, offsets or tokens."""
        self._templates: OrderedDict[Hashable, Any] = OrderedDict()
        self._made = 0

    def warp(self, kind: str, call: Call, body: Any) -> bool:
        """Change a decoded response as the kind says; return False if it has no such rows or pages."""
        found = rows_of(body)
        if found is None:
            return False
        match kind:
            case "endless_pages":
                return self._go_on(call, found)
            case "moving_rows":
                return self._move(call, found)
            case "no_list":
                del found.holder[found.key]
                return True
            case _ if not found.all:
                return False
            case "duplicate_rows":
                found.replace([row for row in found.all for _ in range(2)])
                return True
            case _:  # half_list; without a total, a client could not notice it
                if found.total is None:
                    return False
                found.replace(found.all[: len(found.all) // 2])
                return True

    def rest(self, call: Call) -> Any:
        """Return the true body for a call with a token of ours; None for other calls."""
        by = call.paged_by
        body = self._templates.get(("token", call.facts.get(by, ""))) if by in _TOKENS else None
        return None if body is None else copy.deepcopy(body)

    def _go_on(self, call: Call, found: Rows) -> bool:
        by, question = call.paged_by, _question(call)
        if not by:
            return False
        if not found.all and question not in self._templates:
            return False
        if by in _TOKENS:
            body = copy.deepcopy(found.body)
            token = secrets.token_hex(16)
            _keep(self._templates, ("token", token), body)
            if by == "NextToken":
                found.body["NextToken"] = token
            else:
                found.body["metadata"] = {"continue": token, "remainingItemCount": _FAR_OFF}
            rows, size = found.all, len(found.all)
        else:
            rows = found.all or self._templates[question]
            _keep(self._templates, question, rows)
            size = _size(call, len(rows))
            found.say_total(_FAR_OFF)
        found.replace([self._another(rows[place % len(rows)]) for place in range(size)])
        return True

    def _another(self, row: Any) -> Any:
        """Return a row like this one with a new id."""
        self._made += 1
        made = copy.deepcopy(row)
        for path in _OWN_IDS:
            owner = made
            for name in path[:-1]:
                owner = owner.get(name) if isinstance(owner, dict) else None
            if isinstance(owner, dict) and path[-1] in owner:
                old = owner[path[-1]]
                owner[path[-1]] = old + self._made * 10_000_000 if isinstance(old, int) else f"{old}-{self._made}"
                break
        return made

    def _move(self, call: Call, found: Rows) -> bool:
        by, question = call.paged_by, _question(call)
        if not by:
            return False
        place = call.facts.get(by, "")
        if place in {"", "0"} or (place == "1" and by in {"PageNumber", "page"}):
            place = ""
            _keep(self._readings, question, {})
        pages = self._readings.get(question)
        if pages is None:
            return False
        pages[place] = list(found.all)
        moved = list(pages).index(place)
        before = list(pages.values())[:moved]
        if by in _TOKENS:
            if not moved or not before[-1]:
                return False
            found.replace([before[-1][-1], *found.all])
            return True
        size = _size(call, len(before[0]) if before else 0)
        if not moved or size < 2:  # pages of one row would never get past the first one
            return False
        rows = [row for page in (*before, found.all) for row in page]
        start = moved * (size - 1)
        found.replace(rows[start : start + size])
        if found.total is not None:
            found.say_total(found.total + moved)
        return True


def _question(call: Call) -> Hashable:
    about = {name: value for name, value in call.facts.items() if name not in {call.paged_by, "Offset"}}
    return call.api, call.name, tuple(sorted(about.items()))


def _size(call: Call, default: int) -> int:
    given = next((call.facts[name] for name in _SIZES if call.facts.get(name)), "")
    return int(given) if given.isdigit() and int(given) else default


def _keep(table: OrderedDict[Hashable, Any], key: Hashable, value: Any) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > _KEPT:
        table.popitem(last=False)
