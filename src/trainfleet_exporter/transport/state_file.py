"""The form of the state file: what is on record of spent calls, by holder, API and month."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfleet_exporter.transport.calendar import Month

log = logging.getLogger(__name__)

_VERSION = 1
_LARGEST = 1_000_000
"""Bytes of a state file that are read at most."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose budget it is: an account's, or a provider's that belongs to no account."""

    kind: str
    name: str


Spent = dict[tuple[Holder, str], dict[Month, int]]


def state_page(spent: Spent, *, since: float, part: str = "") -> bytes:
    """The text of a file with what was spent in months that ended after `since` (Unix seconds).

    `part` says of which part of the accounts it tells, where several exporters share them.
    """
    rows = [
        {holder.kind: holder.name, "api": api, "month": str(month), "calls": calls}
        for (holder, api), months in spent.items()
        for month, calls in months.items()
        if month.ends > since
    ]
    page = {"version": _VERSION} | ({"part": part} if part else {}) | {"spent": rows}
    return (json.dumps(page, indent=1) + "\n").encode()


def read_state(path: Path, *, part: str = "") -> Spent:
    """What the file says was spent; nothing, with a warning, where it says nothing that can be relied on.

    What it says of another part of the accounts is not set against this one: neither was spent of it.
    """
    try:
        page = _page(path)
        if _part(page) == part:
            return _spent(page)
        reason = f"it tells of {_in_words(_part(page))}, and this is {_in_words(part)}"
    except FileNotFoundError:
        return {}
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except (ValueError, RecursionError):  # all kinds of text that is no JSON, too
        reason = "it is not what the exporter wrote"
    log.warning(
        "the state file cannot be used; the month's elapsed share of each budget counts as spent: %s",
        reason,
        extra={"fields": {"file": str(path)}},
    )
    return {}


def tells_of_another_part(path: Path, *, part: str = "") -> bool:
    """Whether the file is one that somebody else keeps, for another part of the accounts."""
    try:
        return _part(_page(path)) != part
    except (OSError, ValueError, RecursionError):
        return False


def _page(path: Path) -> Any:
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError("it is too large")
    return json.loads(data)


def _part(page: Any) -> str:
    part = page.get("part", "") if isinstance(page, dict) else ""
    return part if isinstance(part, str) else ""


def _in_words(part: str) -> str:
    return f"shard {part}" if part else "an exporter that is alone"


def _spent(page: Any) -> Spent:
    """The rows of a file; ValueError if any is not as it should be."""
    if not isinstance(page, dict) or page.get("version") != _VERSION or not isinstance(page.get("spent"), list):
        raise ValueError("not a state file")
    found: Spent = {}
    for row in page["spent"]:
        holder, api, month, calls = _row(row)
        found.setdefault((holder, api), {})[month] = calls
    return found


def _row(row: Any) -> tuple[Holder, str, Month, int]:
    if not isinstance(row, Mapping):
        raise ValueError("not a row")
    (kind,) = row.keys() & {"account", "provider"} or ("",)
    api, month, calls = row.get("api"), row.get("month"), row.get("calls")
    name = row.get(kind)
    if not isinstance(name, str) or not isinstance(api, str) or not isinstance(month, str):
        raise ValueError("not a row")
    if not isinstance(calls, int) or isinstance(calls, bool) or calls < 0:
        raise ValueError("not a number of calls")
    return Holder(kind, name), api, Month.parse(month), calls
