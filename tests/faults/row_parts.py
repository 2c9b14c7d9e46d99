"""What rows of several clouds have in common: families, ends and reasons."""

from __future__ import annotations

from tests.faults.columns import KEPT, VOID
from tests.faults.row import Unlike
from trainfleet_simulator import Simulator


def short_lived(simulator: Simulator) -> None:
    """Keys that are renewed for each poll and do not last until the one after the next."""
    simulator.sts.lifetime = 100.0
    simulator.agency.lifetime = 100.0
    simulator.tokens.lifetime = 100.0
    simulator.aws_sts.lifetime = 100.0


USAGE = (
    "device_*",
    "job_usage_*",
    *(
        f"{level}_{family}"
        for level in ("job", "pod")
        for family in ("*_ratio", "*_per_second", "*_usage_*", "*_watts", "accelerator_memory_capacity_bytes")
    ),
)
"""Families of usage: of jobs, pods and cards."""
POOL_USAGE = ("pool_*_ratio", "pool_*_watts", "pool_*_usage_*", "pool_*_per_second", "pool_disk_*")
"""Families of the usage of pools."""
NUMBERS = ("negative", "nan", "infinite")
"""Faults of numbers."""
LOCKED = 6
"""Polls after which rejected credentials are used again."""
LEFT_ALONE = "the exporter does not use rejected credentials for five minutes, because wrong passwords lock an account"
GONE = {
    "not found": Unlike(
        KEPT,
        "the object disappears at once; if a list still has it, the next poll fails",
        ("while it should be kept",),
    )
}
"""The end of `not found` where an object was listed and is then asked for."""
_TEXT = "the response is plain text, not JSON"
XML = dict.fromkeys(
    ("truncated", "wrong top", "null", "deep", "wrong types"), Unlike(VOID, "the response is XML, not JSON")
)
PLAIN_TEXT = dict.fromkeys(("truncated", "wrong top", "null", "deep", "wrong types"), Unlike(VOID, _TEXT))
