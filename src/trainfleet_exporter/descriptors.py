"""Whether the system lets us open enough files and connections to begin with."""

from __future__ import annotations

import logging
import os
import resource
from contextlib import suppress

from trainfleet_exporter.errors import StartError

log = logging.getLogger(__name__)

LEAST = 32
"""File descriptors that have to be free: the event loop, sockets to listen on, some scrapes, some calls to clouds."""

_FOR_OTHERS = 128
"""File descriptors that scrapers' connections must leave: for calls to clouds, for files, to listen on."""


def affordable(connections: int) -> int:
    """So many connections of scrapers, or fewer where the system does not let so many be open: where it refuses them by
    itself, nobody makes room for who comes. Fewer are told."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY or limit - _FOR_OTHERS >= connections:
        return connections
    fewer = max(2, limit - _FOR_OTHERS)
    log.warning(
        "%d connections at a time instead of %d: only %d file descriptors may be open (ulimit -n)",
        fewer,
        connections,
        limit,
    )
    return fewer


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
