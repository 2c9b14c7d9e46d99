"""Common code of PAI's services: times as text, and strict parsing of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError, utc_text
from trainfleet_simulator.world.fleet import World

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: decoded query, ids in the path, the world, and the Unix time."""

    query: Query
    ids: tuple[str, ...]
    world: World
    now: float


Handler = Callable[[Call], Answer]


def iso(at: int | None) -> str | None:
    """Format Unix seconds as the services do; null for a time not reached."""
    return None if at is None else utc_text(at)


def invalid(name: str, found: str, allowed: str) -> ApiError:
    """Return the error 400 InvalidParameter."""
    return ApiError(400, "InvalidParameter", f"The parameter {name} is invalid: {found!r}; allowed: {allowed}.")


def time_of(query: Query, name: str) -> float | None:
    """Parse a UTC time such as 2026-01-01T00:00:00Z into Unix seconds; None if it is missing."""
    text = query.get(name)
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise invalid(name, text, "UTC time as 2026-01-01T00:00:00Z") from None


def int_of(query: Query, name: str, default: int, highest: int) -> int:
    """Return a whole number from 1 to `highest`."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= highest):
        raise invalid(name, text, f"1 to {highest}")
    return int(text)


def bool_of(query: Query, name: str) -> bool:
    """Parse true or false in any case, because the SDKs of different languages write it differently."""
    text = query.get(name, "").lower()
    if text not in {"", "true", "false"}:
        raise invalid(name, text, "true, false")
    return text == "true"


def choice_of(query: Query, name: str, allowed: tuple[str, ...], default: str = "") -> str:
    """Return one of the documented words, in their exact case."""
    text = query.get(name, "")
    if text and text not in allowed:
        raise invalid(name, text, ", ".join(allowed))
    return text or default


def list_of(query: Query, name: str) -> list[str] | None:
    """Return a comma-separated list; None if it is missing."""
    text = query.get(name)
    return None if not text else [part for part in text.split(",") if part]


def refuse_hidden(call: Call, workspace_id: str) -> None:
    """Raise 403 for a workspace that has vanished."""
    if workspace_id in call.world.hidden:
        raise ApiError(403, "NoPermission", f"The workspace {workspace_id} does not exist or you are no member.")


def list_answer(name: str, rows: list[dict[str, Any]], total: int, noted: tuple[str, ...]) -> Answer:
    """Return one page of a list. The log of responses has the `noted` fields of each row."""
    return Answer(
        {"TotalCount": total, name: rows}, total=total, rows=[[row.get(field) for field in noted] for row in rows]
    )


def page_of(query: Query, default_size: int) -> tuple[int, int]:
    """Return offset and size of the requested page."""
    size = int_of(query, "PageSize", default_size, 100)
    return (int_of(query, "PageNumber", 1, 1_000_000) - 1) * size, size
