"""Memory: of the exporter and Pushgateway with the same page, over many polls, and of large responses."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers, rig
from benchmarks.report import Check, Found, Table, megabytes, number
from benchmarks.rig import DrivenExporter, Failed, Page, Scraper

_MIB = 1 << 20
_JOBS, _PODS = 10_000, 8
_CYCLES = 200
_SCRAPES = 3
"""Pairs of scrapes, plain and gzip, before memory is read."""
_FIRST = 10
_REPLACED = 0.1
_SHARE_LIMIT = 0.4
_GROWTH_LIMIT = 1.05

_BOMBS = ("many_lists", "many_objects", "many_nans", "many_surrogates", "padded")
"""The simulator's names of them. The last is just below the limit of values, so the exporter decodes it."""
_LIST = "ListTrainingJobs"
_CASES: Mapping[str, Mapping[str, str]] = {
    "GetJob": {"operation": "GetJob"},
    "all operations": {},
    _LIST: {"operation": _LIST},
}
"""The calls with such responses."""
_ROWS = 124_900
"""Rows of a page that is just below the limit of values. Each has two values."""
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


@dataclass(frozen=True, slots=True)
class _Held:
    """Memory of a process in MiB after the scrapes, and its peak until then."""

    resident: float
    peak: float


def fleet(*, short: bool) -> Iterator[Found]:
    """Yield tables of the exporter's memory next to Pushgateway's, and over many polls; and the promises."""
    jobs, cycles = (1_000, 20) if short else (_JOBS, _CYCLES)
    with rig.exporter(jobs, _PODS) as ours:
        held = _settle(ours)
        yield from _next_to_pushgateway(held, rig.page(ours.port), jobs)
        yield from _cycles(ours, cycles, jobs)


def _settle(ours: DrivenExporter) -> _Held:
    """Poll twice, so that all objects are known and rendered, and scrape."""
    ours.command("poll")
    ours.await_second()
    ours.command("sweep")
    _scrape(ours.port)
    return _Held(rig.resident([ours.pid]), rig.peak([ours.pid]))


def _scrape(port: int) -> int:
    """Scrape several times, plain and gzip; return the size of the last plain page."""
    with Scraper(port, gzip=False) as plain, Scraper(port, gzip=True) as gzip:
        for _ in range(_SCRAPES):
            size = plain.scrape().size
            gzip.scrape()
    return size


def _next_to_pushgateway(ours: _Held, page: Page, jobs: int) -> Iterator[Found]:
    table = Table(
        f"Resident memory with {page.series():,} series ({jobs:,} jobs with {_PODS} pods each)",
        ("program", "after scrapes", "at its peak"),
        [("the exporter, complete", f"{ours.resident:,.0f} MiB", f"{ours.peak:,.0f} MiB")],
        [
            (
                "Each program is a process. The exporter polls twice. Then the reader scrapes each program"
                f" {_SCRAPES} times, plain and gzip in turn."
            ),
            (
                "Pushgateway got the exporter's page by one PUT, without the exporter's own metrics:"
                f" {megabytes(len(page.of_clouds()))}."
            ),
        ],
    )
    promise = f"Resident memory of the exporter is at most {_SHARE_LIMIT} × Pushgateway's with the same series"
    if lacking := peers.missing(peers.PUSHGATEWAY):
        table.notes += peers.left_out(lacking)
        yield table
        yield Check(promise, f"{peers.PUSHGATEWAY} is missing", None)
        return
    with peers.pushgateway(page) as other:
        plain = _scrape(other.port)
        if plain < len(page.of_clouds()):
            raise Failed(f"{other.name} shows {plain} bytes of {len(page.of_clouds())}")
        theirs = _Held(rig.resident(other.pids), rig.peak(other.pids))
    shares = ours.resident / theirs.resident, ours.peak / theirs.peak
    table.rows.append((other.name, f"{theirs.resident:,.0f} MiB", f"{theirs.peak:,.0f} MiB"))
    table.rows.append(("the exporter / Pushgateway", *(f"{share:.2f}" for share in shares)))
    yield table
    measured = f"{number(shares[0])} × after scrapes, {number(shares[1])} × at the peaks"
    yield Check(promise, measured, max(shares) <= _SHARE_LIMIT)


def _cycles(ours: DrivenExporter, cycles: int, jobs: int) -> Iterator[Found]:
    after: list[float] = []
    peaks: list[float] = []
    for _ in range(cycles):
        rig.forget_peak([ours.pid])
        ours.change(jobs=_REPLACED, usage=True)
        ours.command("sweep")
        with Scraper(ours.port, gzip=True) as scraper:
            scraper.scrape()
        after.append(rig.resident([ours.pid]))
        peaks.append(rig.peak([ours.pid]))
    table = Table(
        f"Resident memory over {cycles} poll cycles, with a tenth of {jobs:,} jobs replaced in each",
        ("cycles", "least after a cycle", "most after a cycle", "peak"),
        notes=["Every reading changes in each cycle, and a gzip scrape follows. Peaks are within the cycles."],
    )
    # The first cycles, and the others in five parts.
    marks = [0, *(_FIRST + (cycles - _FIRST) * part // 5 for part in range(6))]
    for start, end in itertools.pairwise(marks):
        sizes = min(after[start:end]), max(after[start:end]), max(peaks[start:end])
        table.rows.append((f"{start + 1} to {end}", *(f"{size:,.0f} MiB" for size in sizes)))
    yield table
    growth = max(peaks[_FIRST:]) / max(peaks[:_FIRST])
    yield Check(
        f"After {cycles} poll cycles memory is no more than {_GROWTH_LIMIT - 1:.0%} above the first {_FIRST} cycles'"
        " peak",
        f"the later cycles' peak is {growth:.3f} × the first cycles' peak",
        growth <= _GROWTH_LIMIT,
    )


@dataclass(frozen=True, slots=True)
class _Bombed:
    """One daemon: the number of such responses, MiB when idle and above that at its peak, seconds of /-/healthy."""

    answers: int
    idle: float
    above: float
    slowest: float


def large_answers(*, short: bool) -> Iterator[Found]:
    """Yield a table of responses of 50 kB that inflate to just under 32 MiB of values, by kind, and the promises."""
    table = Table("Small responses with many values", _BOMB_COLUMNS, notes=[_BOMB_METHOD])
    found = []
    with tempfile.TemporaryDirectory() as folder, rig.child("simulator", 100, "pai", "modelarts") as clouds:
        config = Path(folder, "config.yaml")
        config.write_text(clouds.command("config")["config"], encoding="utf-8")
        for case, match in _CASES.items():
            for kind, fault in _faults(case):
                seconds = _SHORT_BOMB_SECONDS if short else _BOMB_SECONDS
                one = _bombed(clouds.url, config, {"match": match, **fault}, seconds)
                found.append(one)
                figures = map(number, (one.idle, one.above, one.slowest))
                table.rows.append((kind.replace("_", " "), case, str(one.answers), *figures))
    yield table
    most, slowest = max(one.above for one in found), max(one.slowest for one in found)
    yield Check(
        f"responses with many values take at most {_BOMB_LIMIT:.0f} MiB", f"{number(most)} MiB", most <= _BOMB_LIMIT
    )
    yield Check("`/-/healthy` next to them takes at most 1 s", f"{number(slowest)} s", slowest <= _HEALTHY_SECONDS)


def _faults(case: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the responses to the calls of a case, one after the other."""
    if case == _LIST:
        rows = ",".join(['{"a":1}'] * _ROWS)
        yield "rows, just below the limit", {"status": 200, "body": f'{{"total":{_ROWS},"items":[{rows}]}}'}
        return
    for kind in _BOMBS:
        yield kind, {"kind": kind}


def _bombed(url: str, config: Path, fault: Mapping[str, object], seconds: float) -> _Bombed:
    log = config.with_suffix(".log")
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "trainfleet_exporter", f"--config.file={config}"]
    with rig.running([*command, "--web.listen-address=127.0.0.1:0"], log=log) as daemon:
        port = _port(daemon, log)
        time.sleep(_FIRST_POLLS_SECONDS)
        idle = rig.resident([daemon.pid])
        since = int(_answers(url, 10**12)["seq"])
        rig.forget_peak([daemon.pid])
        _set_faults(url, [fault])
        slowest, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end and rig.resident([daemon.pid]) < _TOO_MUCH:
            began = time.monotonic()
            rig.get(f"http://127.0.0.1:{port}/-/healthy")
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(_LOOK_EVERY)
        _set_faults(url, [])
        above = rig.peak([daemon.pid]) - idle
        answers = sum(bool(answer.get("fault")) for answer in _answers(url, since)["answers"])
        return _Bombed(answers, idle, above, slowest)


def _port(daemon: subprocess.Popen[str], log: Path) -> int:
    """Wait until the daemon listens; return its port."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and daemon.poll() is None:
        if found := _STARTED.search(log.read_text(encoding="utf-8")):
            return int(found[1])
        time.sleep(_LOOK_EVERY)
    raise Failed("the daemon did not start")


def _set_faults(url: str, faults: Sequence[Mapping[str, object]]) -> None:
    rig.get(f"{url}/faults", json.dumps(faults).encode())


def _answers(url: str, since: int) -> dict[str, Any]:
    """Return the responses of the clouds after the first `since` ones."""
    found: dict[str, Any] = json.loads(rig.get(f"{url}/truth?since={since}"))
    return found
