"""Keys, and values of keys, that earlier versions had: what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

REMOVED = {
    ("global", "state_file"): "leave the key out; limits.monthly_calls sets a steady pace now and needs no file",
    ("providers", "*", "sharding"): (
        "leave the key out; one shard polls all of a provider, and two providers with disjoint workspaces and the same "
        "account divide a large account"
    ),
    ("providers", "*", "collectors", "usage", "source", "dlc_metrics"): (
        "job_metrics, which makes calls for each job without permissions for CloudMonitor, but has no power; or auto, "
        "or cloudmonitor"
    ),
}
"""By the path from the top of the file, with the value if only that is refused: what follows "allowed: "."""


def instead_of(path: Sequence[str | int], value: str | None = None) -> str:
    """Return what to do instead of a key at `path`, or of its `value`. Empty if nothing there was removed."""
    words = tuple("*" if isinstance(step, int) else step for step in path)
    return REMOVED.get(words) or REMOVED.get((*words, value or ""), "")
