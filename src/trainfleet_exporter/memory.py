"""How Python and the C library manage memory in a daemon that decodes much, keeps little, and holds pages in pieces.

Left to itself, the collector of cyclic garbage looks at what was just made 1,400 times for a million objects, and now
and then at all there is: a quarter of the time of a call, and 50 ms by which a scrape is held up. And the C library,
once a piece of 1 MB was freed, makes further ones of a heap that it cannot give back: a quarter of a large exporter's
memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

_YOUNG = 10_000
"""Objects that are made before the collector looks at them, which takes some 5 ms: two pages of jobs, most of which are
gone by then."""
_M_MMAP_THRESHOLD = -3
"""glibc's number for it (malloc.h)."""
_M_TRIM_THRESHOLD = -1
_SPARE = 8 * 1024 * 1024
"""Bytes that may be free at the end of the heap before they are given back. Left to itself, that is a little less than
an answer of a cloud takes: the pages are given back and cleared anew with every one."""
_ON_ITS_OWN = 256 * 1024
"""Bytes from which on a block of memory is the system's own, and goes back to it when it is freed."""


def settle() -> None:
    """What there is by now stays to the end, and is not looked at any more; what comes is looked at more seldom.

    To be called once, when everything has been imported and built, before anything is polled or answered.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    with contextlib.suppress(OSError, AttributeError):  # a C library that has no such thing
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _ON_ITS_OWN)
        library.mallopt(_M_TRIM_THRESHOLD, _SPARE)
