"""Scrapes while polls run at full rate, beside scrapes while nothing does: 100,000 series."""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks import cloud, peers, processes
from benchmarks.figures import number, quantile
from benchmarks.processes import Ordered
from benchmarks.reader import Reader
from benchmarks.report import Check, Found, Table

_JOBS = 800
_WINDOWS = 8
_SCRAPES = 75
"""Of each encoding in each window: 600 of a kind make a 99th percentile of six that were slower."""
_SHORT_WINDOWS = 2
_PAUSES = (0.005, 0.025)
"""Seconds between scrapes, at random, so that they come at any moment of a poll."""
_CHANGE_EVERY = 1.0
_AT_REST = 0.02
_LOOK_EVERY = 0.5
_CALLS = re.compile(rb"^trainfleet_exporter_api_requests_total\{.*\} (\S+)$", re.MULTILINE)
_COLUMNS = ("while", "encoding", "scrapes", "p50, ms", "p90, ms", "p99, ms", "longest, ms")
_METHOD = (
    f"{_JOBS} jobs with 8 pods each, 12 readings a pod. Windows with polls at full rate and idle windows take turns. In "
    "the former, sweeps run without a pause, and each second all readings and a fiftieth of the jobs change. Plain and "
    "gzip scrapes take turns, with pauses of 5 to 25 ms."
)
_PINNED = (
    "The exporter and its compressing thread have one processor core. The generated cloud and the reader share another, "
    "and the reader goes first."
)
_FREE = "All share one processor core, so the generated cloud and the reader slow the exporter."


def run(*, short: bool = False) -> Iterator[Found]:
    """A table of percentiles, and what was promised."""
    windows = _SHORT_WINDOWS if short else _WINDOWS
    seconds: dict[tuple[str, bool], list[float]] = {
        (state, gzip): [] for state in ("idle", "polling") for gzip in (False, True)
    }
    with _cores() as (own, others), tempfile.TemporaryDirectory() as folder, _cloud(others) as url:
        config = Path(folder, "config.yaml")
        config.write_text(cloud.config(url), encoding="utf-8")
        with processes.ordered("benchmarks.driven", str(config), core=own) as ours:
            ours.order("sweep")
            page = peers.page(ours.port)
            before = _calls(ours)
            for _ in range(windows):
                _wait_for_rest(ours)
                _window(ours, seconds, "idle", url)
                ours.order("on")
                _window(ours, seconds, "polling", url)
                ours.order("off")
            calls = _calls(ours) - before
    table = Table(f"Scrapes during polls: {page.series():,} series", _COLUMNS)
    table.notes = [f"{_METHOD} {_FREE if own is None else _PINNED} {calls:,} calls were made meanwhile."]
    for (state, gzip), found in seconds.items():
        shares = [number(quantile(found, share) * 1e3) for share in (0.5, 0.9, 0.99, 1.0)]
        table.rows.append((state, "gzip" if gzip else "plain", str(len(found)), *shares))
    yield table
    for gzip in (False, True):
        yield _promise(seconds, gzip=gzip)


def _cloud(core: int | None) -> AbstractContextManager[str]:
    """The made-up cloud, which leaves the reader the core that they share: it is not the reader that is measured."""
    return processes.cloud(_JOBS, core=core, idle=True)


def _promise(seconds: Mapping[tuple[str, bool], list[float]], *, gzip: bool) -> Check:
    idle, polling = (quantile(seconds[state, gzip], 0.99) for state in ("idle", "polling"))
    return Check(
        f"p99 of {'gzip' if gzip else 'plain'} scrapes while polling <= 2 x the idle p99 at 100 k series",
        f"{number(polling / idle)} x ({number(polling * 1e3)} ms, idle {number(idle * 1e3)} ms)",
        polling <= 2 * idle,
    )


@contextmanager
def _cores() -> Iterator[tuple[int | None, int | None]]:
    """A core for the exporter and one for everybody else, us included until the block ends; None where there is one."""
    ours = os.sched_getaffinity(0)
    own, others = processes.two_cores()
    if others is None:
        yield None, None
        return
    os.sched_setaffinity(0, {others})
    try:
        yield own, others
    finally:
        os.sched_setaffinity(0, ours)


def _window(ours: Ordered, seconds: Mapping[tuple[str, bool], list[float]], state: str, url: str) -> None:
    pauses = random.Random(len(seconds[state, False]))  # noqa: S311 - repeatable, not secret
    with Reader(ours.port, gzip=False) as plain, Reader(ours.port, gzip=True) as zipped:
        for reader in (plain, zipped):
            reader.scrape()
        changed = time.monotonic()
        for _ in range(_SCRAPES):
            for gzip, reader in ((False, plain), (True, zipped)):
                time.sleep(pauses.uniform(*_PAUSES))
                seconds[state, gzip].append(reader.scrape().whole)
            if state == "polling" and time.monotonic() - changed >= _CHANGE_EVERY:
                urllib.request.urlopen(f"{url}/-/change?usage=1&jobs=0.02").close()  # noqa: S310 - http
                changed = time.monotonic()


def _wait_for_rest(ours: Ordered) -> None:
    """Until the exporter has nothing more to do of what it was told."""
    used = processes.cpu_seconds([ours.pid])
    while True:
        time.sleep(_LOOK_EVERY)
        before, used = used, processes.cpu_seconds([ours.pid])
        if used - before <= _AT_REST:
            return


def _calls(ours: Ordered) -> int:
    """How many calls the exporter has made, by its own count."""
    return sum(int(float(found)) for found in _CALLS.findall(peers.fetch(ours.port, gzip=False)))
