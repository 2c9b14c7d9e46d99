"""Keys, and values of keys, that earlier versions had: what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removed:
    """A key that is refused, or only its `value` if there is one."""

    path: tuple[str, ...]
    """From the top of the file; `*` stands for any key or list position."""
    instead: str
    """What to do instead, to follow "allowed: "."""
    value: str | None = None


REMOVED = (
    Removed(
        ("global", "state_file"),
        "leave the key out; limits.monthly_calls sets a steady pace now and needs no file",
    ),
    Removed(
        ("providers", "*", "sharding"),
        "leave the key out; one shard polls all of a provider, and two providers with disjoint workspaces and the same "
        "account divide a large account",
    ),
)


def instead_of(path: Sequence[str | int], value: str | None = None) -> str:
    """Return what to do instead of a key at `path`, or of its `value`. Empty if nothing there was removed."""
    for row in REMOVED:
        if len(path) != len(row.path) or row.value not in (None, value):
            continue
        if all(wanted in ("*", str(step)) for wanted, step in zip(row.path, path, strict=True)):
            return row.instead
    return ""
