"""Measurements of a process at a quiet moment: tasks, files, pages, and memory by owner."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sys
import threading
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import trainfleet_exporter
import trainfleet_simulator
from tests.soak.site import Site
from trainfleet_exporter.exposition import Format

_OWN = os.path.dirname(trainfleet_exporter.__file__) + os.sep  # noqa: PTH120 - the beginning of file names, as texts
_SIMULATOR = os.path.dirname(trainfleet_simulator.__file__) + os.sep  # noqa: PTH120 - likewise
_TESTS = str(Path(__file__).parent.parent) + os.sep
_TABLE = sys.getsizeof({"": 0}) - sys.getsizeof({})
"""Bytes of the table of a small dict. CPython keeps the tables of deleted dicts for new dicts, and tracemalloc does not
see it. So a table that the exporter allocated for a request may later belong to a job of the simulator. A leak of
blocks of exactly this size could hide among them. They are counted, but not judged."""
_ONCE = (ModuleType, type, FunctionType, CodeType, asyncio.AbstractEventLoop)
_OTHERS = ("trainfleet_simulator", "tests.")
_FILES = Path("/proc/self/fd")
_STATUS = Path("/proc/self/status")


@dataclass(slots=True)
class Look:
    """The figures of one moment by name, with their files and classes."""

    figures: dict[str, float] = field(default_factory=dict)
    files: Counter[str] = field(default_factory=Counter)
    """Bytes by the exporter's file that allocated them."""
    classes: Counter[str] = field(default_factory=Counter)
    """Objects by class of the exporter."""


async def look(site: Site) -> Look:
    """Measure now. No request and no call may be in flight."""
    found = Look()
    await _look_at_pages(site, found.figures)
    _look_at_process(site, found)
    return found


def _look_at_process(site: Site, found: Look) -> None:
    gc.collect()
    gc.collect()
    figures = found.figures
    figures["tasks"] = len(asyncio.all_tasks())
    if _FILES.exists():
        figures["descriptors"] = len(list(_FILES.iterdir()))
    figures["threads"] = threading.active_count()
    objects = gc.get_objects()
    for one in objects:
        kind = type(one)
        module = str(kind.__module__)
        if module.startswith("trainfleet_exporter."):
            found.classes[f"{module.removeprefix('trainfleet_exporter.')}.{kind.__qualname__}"] += 1
    figures["own objects"] = found.classes.total()
    figures["all objects"] = len(objects)
    del objects
    if tracemalloc.is_tracing():
        _look_at_memory(found)
    figures["reachable"] = _reachable(site.daemon)
    figures["blocks"] = sys.getallocatedblocks()
    if _STATUS.exists() and (resident := re.search(r"VmRSS:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"))):
        figures["resident"] = int(resident[1]) * 1024


async def _look_at_pages(site: Site, figures: dict[str, float]) -> None:
    exporter = site.daemon.exporter
    exporter.page_store.build()
    page = exporter.page_store.page()
    own = exporter.telemetry.exposition(Format.TEXT)
    figures["series"] = sum(runner.state.series for runner in exporter.runners)
    figures["parts"] = sum(runner.state.parts for runner in exporter.runners)
    figures["own series"] = sum(not line.startswith(b"#") for line in own.splitlines())
    figures["text"] = page.body(Format.TEXT, b"", gzip=False).size
    figures["openmetrics"] = page.body(Format.OPENMETRICS, b"", gzip=False).size
    figures["deflated"] = page.body(Format.TEXT, b"", gzip=True).size


def _reachable(root: object) -> int:
    """Return the bytes of all objects that the daemon refers to, from any allocator.

    It does not follow objects that a process has once (modules, classes, functions, the loop). The clouds are not
    included, because the daemon reaches them only by sockets.
    """
    seen, found, size = {id(root)}, [root], 0
    while found:
        one = found.pop()
        size += sys.getsizeof(one, 0)
        for other in gc.get_referents(one):
            if (
                id(other) not in seen
                and not isinstance(other, _ONCE)
                and not type(other).__module__.startswith(_OTHERS)
            ):
                seen.add(id(other))
                found.append(other)
    return size


def _look_at_memory(found: Look) -> None:
    sums: Counter[str] = Counter()
    for trace in tracemalloc.take_snapshot().traces:
        name = trace.traceback[0].filename
        if name.startswith(_SIMULATOR):
            sums["simulator"] += trace.size
        elif name.startswith(_OWN):
            if trace.size == _TABLE:
                sums["tables"] += trace.size
            else:
                sums["own"] += trace.size
                found.files[name.removeprefix(_OWN)] += trace.size
        elif name.startswith(_TESTS) or name == tracemalloc.__file__:
            sums["soak"] += trace.size
        else:
            sums["libraries"] += trace.size
    for name in ("own", "tables", "libraries", "simulator"):
        found.figures[f"allocated: {name}"] = sums[name]
