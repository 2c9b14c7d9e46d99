"""Whether the system lets us open enough files and connections to begin with."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from trainfleet_exporter.errors import StartError

LEAST = 32
"""File descriptors that have to be free: the event loop, sockets to listen on, some scrapes, some calls to clouds."""


def check_descriptors() -> None:
    """StartError in one clear line where fewer than `LEAST` file descriptors are free."""
    opened: list[int] = []
    try:
        with suppress(OSError):
            while len(opened) < LEAST:
                opened += os.pipe()
    finally:
        for descriptor in opened:
            os.close(descriptor)
    if len(opened) < LEAST:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        raise StartError(
            f"only {len(opened)} file descriptors are free and {LEAST} are the least to run with: "
            f"raise the limit, which is {limit} (ulimit -n)"
        )
