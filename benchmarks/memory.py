"""Memory of the exporter over many polls, and while clouds send small responses with many values."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import rig
from benchmarks.report import Check, Found, Table, number
from benchmarks.rig import Failed, Scraper

_JOBS, _PODS = 10_000, 8
_CYCLES = 200
_FIRST = 10
_REPLACED = 0.1
_GROWTH_LIMIT = 1.05

_BOMBS = ("many_lists", "many_objects", "many_nans", "many_surrogates", "padded")
"""The simulator's names of them. The last is just below the limit of values, so the exporter decodes it."""
_ROWS = 124_900
"""Rows of a page that is just below the limit of values. Each has two values."""
_PAGE = {"status": 200, "body": json.dumps({"total": _ROWS, "items": [{"a": 1}] * _ROWS}, separators=(",", ":"))}
_FAULTS: tuple[tuple[str, str, Mapping[str, object]], ...] = (
    *((kind, "GetJob", {"match": {"operation": "GetJob"}, "kind": kind}) for kind in _BOMBS),
    *((kind, "all operations", {"match": {}, "kind": kind}) for kind in _BOMBS),
    ("rows, just below the limit", "ListTrainingJobs", {"match": {"operation": "ListTrainingJobs"}, **_PAGE}),
)
"""The name of a response, the calls that get it, and the simulator's fault."""
_BOMB_SECONDS, _SHORT_BOMB_SECONDS = 60.0, 10.0
_FIRST_POLLS_SECONDS = 12.0
_LOOK_EVERY = 0.05
_START_SECONDS = 120.0
_TOO_MUCH = 4096.0
"""MiB at which a case is stopped, to protect the machine."""
_BOMB_LIMIT = 400.0
"""MiB above idle."""
_HEALTHY_SECONDS = 1.0
_STARTED = re.compile(r"msg=started .*address=\S+:(\d+)")
_BOMB_COLUMNS = ("responses", "of", "number", "idle, MiB", "peak above idle, MiB", "slowest /-/healthy, s")
_BOMB_METHOD = (
    "Each row has a new daemon with two simulated clouds and concurrency 8. After its first polls, the clouds send "
    f"such responses for {_BOMB_SECONDS:.0f} s. The benchmark requests `/-/healthy` 20 times a second. The peak is the "
    "kernel's."
)


def fleet(*, short: bool) -> Iterator[Found]:
    """Yield a table of the exporter's memory over many polls, and the promise about its growth."""
    jobs, cycles = (1_000, 20) if short else (_JOBS, _CYCLES)
    after: list[float] = []
    peaks: list[float] = []
    with rig.exporters(jobs, _PODS) as (ours,):
        ours.command("poll")
        for _ in range(cycles):
            rig.forget_peak(ours.pid)
            ours.change(jobs=_REPLACED, usage=True)
            ours.command("sweep")
            with Scraper(ours.port, gzip=True) as scraper:
                scraper.scrape()
            after.append(rig.resident([ours.pid]))
            peaks.append(rig.peak(ours.pid))
        series = rig.page(ours.port).series()
    table = Table(
        f"Resident memory over {cycles} poll cycles, with a tenth of {jobs:,} jobs replaced in each",
        ("cycles", "least after a cycle", "most after a cycle", "peak"),
        notes=[
            f"Jobs have {_PODS} pods each: {series:,} series. Every reading changes in each cycle.",
            "A gzip scrape follows each cycle. Peaks are within the cycles.",
        ],
    )
    # The first cycles, and the others in five parts.
    marks = [0, *(_FIRST + (cycles - _FIRST) * part // 5 for part in range(6))]
    for start, end in itertools.pairwise(marks):
        sizes = min(after[start:end]), max(after[start:end]), max(peaks[start:end])
        table.rows.append((f"{start + 1} to {end}", *(f"{size:,.0f} MiB" for size in sizes)))
    yield table
    growth = max(peaks[_FIRST:]) / max(peaks[:_FIRST])
    yield Check(
        f"after {cycles} poll cycles, memory is at most {_GROWTH_LIMIT - 1:.0%} above the first {_FIRST} cycles' peak",
        f"the later cycles' peak is {growth:.3f} × the first cycles' peak",
        growth <= _GROWTH_LIMIT,
    )


def large_answers(*, short: bool) -> Iterator[Found]:
    """Yield a table of responses of 50 kB that inflate to just under 32 MiB of values, by kind, and the promises."""
    table = Table("Small responses with many values", _BOMB_COLUMNS, notes=[_BOMB_METHOD])
    most = slowest = 0.0
    with tempfile.TemporaryDirectory() as folder, rig.child("simulator") as clouds:
        config = Path(folder, "config.yaml")
        config.write_text(clouds.facts["config"], encoding="utf-8")
        for kind, case, fault in _FAULTS:
            seconds = _SHORT_BOMB_SECONDS if short else _BOMB_SECONDS
            answers, idle, above, healthy = _bombed(clouds.url, config, fault, seconds)
            most, slowest = max(most, above), max(slowest, healthy)
            figures = map(number, (idle, above, healthy))
            table.rows.append((kind.replace("_", " "), case, str(answers), *figures))
    yield table
    yield Check(
        f"responses with many values take at most {_BOMB_LIMIT:.0f} MiB", f"{number(most)} MiB", most <= _BOMB_LIMIT
    )
    yield Check("`/-/healthy` next to them takes at most 1 s", f"{number(slowest)} s", slowest <= _HEALTHY_SECONDS)


def _bombed(url: str, config: Path, fault: Mapping[str, object], seconds: float) -> tuple[int, float, float, float]:
    """Run one daemon; return the number of such responses, MiB when idle and above that at its peak, and the longest
    time of /-/healthy."""
    log = config.with_suffix(".log")
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "trainfleet_exporter", f"--config.file={config}"]
    with rig.running([*command, "--web.listen-address=127.0.0.1:0"], log=log) as daemon:
        port = _port(daemon, log)
        time.sleep(_FIRST_POLLS_SECONDS)
        idle = rig.resident([daemon.pid])
        since = int(_answers(url, 10**12)["seq"])
        rig.forget_peak(daemon.pid)
        rig.get(f"{url}/faults", json.dumps([fault]).encode())
        slowest, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end and rig.resident([daemon.pid]) < _TOO_MUCH:
            began = time.monotonic()
            rig.get(f"http://127.0.0.1:{port}/-/healthy")
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(_LOOK_EVERY)
        rig.get(f"{url}/faults", b"[]")
        above = rig.peak(daemon.pid) - idle
        answers = sum(bool(answer.get("fault")) for answer in _answers(url, since)["answers"])
        return answers, idle, above, slowest


def _port(daemon: subprocess.Popen[str], log: Path) -> int:
    """Wait until the daemon listens; return its port."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and daemon.poll() is None:
        if found := _STARTED.search(log.read_text(encoding="utf-8")):
            return int(found[1])
        time.sleep(_LOOK_EVERY)
    raise Failed("the daemon did not start")


def _answers(url: str, since: int) -> dict[str, Any]:
    """Return the responses of the clouds after the first `since` ones."""
    found: dict[str, Any] = json.loads(rig.get(f"{url}/truth?since={since}"))
    return found
