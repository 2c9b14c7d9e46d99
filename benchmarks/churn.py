"""Memory: of the whole exporter with a large fleet, beside Pushgateway with the same page, and as jobs come and go.

`python -m benchmarks churn --short` is a quick run.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import megabytes, number
from benchmarks.peers import Page, missing, page, pushgateway
from benchmarks.polls_stage import Stage, stage
from benchmarks.processes import Failed, forget_peak, peak, resident
from benchmarks.reader import Reader
from benchmarks.report import Check, Found, Table

JOBS = 10_000
PODS = 8
CYCLES = 200

_PUSHGATEWAY = "prometheus-pushgateway"
_SCRAPES = 3
"""Pairs of scrapes, plain and gzip, before memory is looked at."""
_FIRST = 10
_REPLACED = 0.1
_SHARE = 0.4
_MORE = 1.05
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Held:
    """Memory of a process in MiB after it was scraped, and at its peak till then; sizes of its page in bytes."""

    resident: float
    peak: float
    plain: int = 0
    gzip: int = 0


def run(jobs: int = JOBS, cycles: int = CYCLES) -> Iterator[Found]:
    """Tables of memory, of what a pod takes, and of how memory goes on; and what was promised of the first and last."""
    with stage(jobs, PODS) as there:
        ours = _settle(there)
        yield from _beside_pushgateway(ours, page(there.port), jobs)
        yield _a_pod(ours, jobs)
        yield from _cycles(there, cycles, jobs)


def _settle(there: Stage) -> _Held:
    """Poll twice, so that all is known and rendered, and scrape."""
    there.order("poll")
    there.await_second()
    there.order("sweep")
    plain, gzip = _scrape(there.port)
    return _Held(resident([there.pid]), peak([there.pid]), plain, gzip)


def _scrape(port: int) -> tuple[int, int]:
    """Sizes of the page, plain and gzip, as the last of some scrapes have it."""
    with Reader(port, gzip=False) as plain, Reader(port, gzip=True) as gzip:
        for _ in range(_SCRAPES):
            sizes = plain.scrape().size, gzip.scrape().size
    return sizes


def _beside_pushgateway(ours: _Held, shown: Page, jobs: int) -> Iterator[Found]:
    table = Table(
        f"Resident memory with {shown.series():,} series ({jobs:,} jobs with {PODS} pods each)",
        ("program", "after scrapes", "at its peak"),
        [("the exporter, complete", f"{ours.resident:,.0f} MiB", f"{ours.peak:,.0f} MiB")],
        [
            (
                f"Each is a process. The exporter has polled twice, then each is scraped {_SCRAPES} times, plain and"
                f" gzip in turn. Pushgateway got the exporter's page by one PUT, without the exporter's own metrics:"
                f" {megabytes(len(shown.of_clouds()))}."
            )
        ],
    )
    promise = f"Resident memory of the whole daemon is at most {_SHARE} × Pushgateway's with the same series"
    if missing(_PUSHGATEWAY):
        table.notes.append(f"Skipped: {_PUSHGATEWAY} is not installed.")
        yield table
        yield Check(promise, f"{_PUSHGATEWAY} is not installed", None)
        return
    with tempfile.TemporaryDirectory() as folder, pushgateway(shown, Path(folder)) as there:
        plain, _ = _scrape(there.port)
        if plain < len(shown.of_clouds()):
            raise Failed(f"{there.name} shows {plain} bytes of {len(shown.of_clouds())}")
        theirs = _Held(resident(there.pids), peak(there.pids))
    shares = ours.resident / theirs.resident, ours.peak / theirs.peak
    table.rows.append((there.name, f"{theirs.resident:,.0f} MiB", f"{theirs.peak:,.0f} MiB"))
    table.rows.append(("the exporter's share of Pushgateway's", *(f"{share:.2f}" for share in shares)))
    yield table
    yield Check(
        promise, f"{number(shares[0])} × after scrapes, {number(shares[1])} × at the peaks", max(shares) <= _SHARE
    )


def _a_pod(ours: _Held, jobs: int) -> Table:
    with stage(jobs, 1) as small:
        one = _settle(small)
    pods = jobs * (PODS - 1)
    whole = (ours.resident - one.resident) * _MIB / pods
    plain, gzip = (ours.plain - one.plain) / pods, (ours.gzip - one.gzip) / pods
    return Table(
        "Memory of a live pod, with twelve families",
        ("all", "its lines on the page", "the same, deflated", "outside the page"),
        [[f"{size:,.0f} bytes" for size in (whole, plain, gzip, whole - plain - gzip)]],
        [
            (
                f"The difference of two exporters, of {jobs:,} jobs with {PODS} pods each and with one:"
                f" {ours.resident:,.0f} and {one.resident:,.0f} MiB."
            )
        ],
    )


def _cycles(there: Stage, cycles: int, jobs: int) -> Iterator[Found]:
    after: list[float] = []
    peaks: list[float] = []
    for _ in range(cycles):
        forget_peak([there.pid])
        there.change(jobs=_REPLACED, usage=True)
        there.order("sweep")
        with Reader(there.port, gzip=True) as reader:
            reader.scrape()
        after.append(resident([there.pid]))
        peaks.append(peak([there.pid]))
    table = Table(
        f"Resident memory over {cycles} poll cycles, with a tenth of {jobs:,} jobs replaced in each",
        ("cycles", "least after a cycle", "most after a cycle", "peak"),
        notes=["Every reading changes in each cycle, and a gzip scrape follows. Peaks are within the cycles."],
    )
    for start, end in _groups(cycles):
        some = after[start:end]
        table.rows.append(
            (
                f"{start + 1} to {end}",
                *(f"{size:,.0f} MiB" for size in (min(some), max(some), max(peaks[start:end]))),
            )
        )
    yield table
    promise = f"After {cycles} poll cycles memory is no more than {_MORE - 1:.0%} above the first {_FIRST} cycles' peak"
    if cycles <= _FIRST:
        yield Check(promise, f"there were only {cycles}", None)
        return
    growth = max(peaks[_FIRST:]) / max(peaks[:_FIRST])
    yield Check(promise, f"the later cycles' peak is {growth:.3f} × theirs", growth <= _MORE)


def _groups(cycles: int) -> Sequence[tuple[int, int]]:
    """The first cycles, and the rest in five parts."""
    first = min(_FIRST, cycles)
    marks = [first, *(first + (cycles - first) * part // 5 for part in range(1, 6))]
    return [(0, first), *((start, end) for start, end in itertools.pairwise(marks) if end > start)]
