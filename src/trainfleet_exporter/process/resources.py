"""Limits of file descriptors, and settings of the garbage collector and the C library."""

from __future__ import annotations

import ctypes
import gc
import logging
import resource
from contextlib import suppress

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

_LEAST_DESCRIPTORS = 32
"""For any command: the event loops, listening sockets, some scrapes, some calls to clouds."""
_DESCRIPTORS_FOR_OTHERS = 128
"""File descriptors that connections must leave free: for calls to clouds, for files, for listening sockets."""
_YOUNG_OBJECTS = 10_000
"""New objects between two runs of the collector, each of which takes 5 ms. By default it would run 1,400 times for a
million objects, take a quarter of a call's time, and delay scrapes by up to 50 ms."""
_MALLOPT = {-1: 8 * 1024 * 1024, -3: 192 * 1024}
"""glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD (malloc.h). By default it keeps less free memory than one answer needs,
and raises the second limit: then texts of a page fragment the heap, which costs a quarter more memory."""


def check_descriptors() -> None:
    """Raise StartError if the limit of file descriptors is too low for any command."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= limit < _LEAST_DESCRIPTORS:
        raise StartError(f"{limit} file descriptors are too few; set `ulimit -n` to {_LEAST_DESCRIPTORS} or more")


def affordable_connections(wanted: int) -> int:
    """Return the number of connections, or fewer if the limit of file descriptors requires it; then log a warning.

    At the system's own limit new connections would be refused, and none of the old ones closed for them.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    fewer = max(2, limit - _DESCRIPTORS_FOR_OTHERS)
    if limit == resource.RLIM_INFINITY or fewer >= wanted:
        return wanted
    facts = fields(connections=fewer, wanted=wanted, descriptors=limit)
    log.warning("connection limit lowered: too few file descriptors (ulimit -n)", extra=facts)
    return fewer


def tune_memory() -> None:
    """Exempt all existing objects from garbage collection, collect less often, and return freed memory to the system.

    Call it once, after all imports and before the first poll.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
    with suppress(OSError, AttributeError):  # a C library without mallopt
        for number, size in _MALLOPT.items():
            ctypes.CDLL(None).mallopt(number, size)
