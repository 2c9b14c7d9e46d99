"""Common code of PAI's services: times as text, strict parsing of parameters, and pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from trainfleet_simulator.exchange import Answer, Call, utc_text
from trainfleet_simulator.pai.catalog import WORKSPACES
from trainfleet_simulator.world.nouns import GIB

MEMBER = {workspace.workspace_id: workspace.name for workspace in WORKSPACES if workspace.member}
"""The names of the workspaces that the identity is a member of, by id."""


def iso(at: int | None) -> str | None:
    """Format Unix seconds as the services do; null for a time not reached."""
    return None if at is None else utc_text(at)


def memory_text(mib: int) -> str:
    """Format an amount of memory with the largest suffix that divides it."""
    return f"{mib // GIB}Gi" if mib % GIB == 0 else f"{mib}Mi"


def time_of(call: Call, name: str) -> float | None:
    """Parse a UTC time such as 2026-01-01T00:00:00Z into Unix seconds; None if it is missing."""
    text = call.text(name)
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise call.invalid(name, "UTC time as 2026-01-01T00:00:00Z") from None


def bool_of(call: Call, name: str) -> bool:
    """Parse true or false in any case, because the SDKs of different languages write it differently."""
    text = call.text(name).lower()
    if text not in {"", "true", "false"}:
        raise call.invalid(name, "true, false")
    return text == "true"


def list_of(call: Call, name: str) -> list[str]:
    """Return a comma-separated list; empty if it is missing."""
    return [part for part in call.text(name).split(",") if part]


def page_of(call: Call, default_size: int) -> tuple[int, int]:
    """Return offset and size of the requested page."""
    size = call.whole("PageSize", default_size, 1, 100)
    return (call.whole("PageNumber", 1, 1, 1_000_000) - 1) * size, size


def list_answer(call: Call, name: str, rows: list[dict[str, Any]], *, default_size: int = 10) -> Answer:
    """Return the requested page of a list."""
    offset, size = page_of(call, default_size)
    return Answer({"TotalCount": len(rows), name: rows[offset : offset + size]})
