"""The cost of a poll from the first call until the page is ready, its growth with the fleet, and the effect of polls on
scrapes. Both can compare this checkout with an older one, whose exporter takes turns with ours."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import rig
from benchmarks.report import Check, Found, Table, milliseconds, number, quantile, spread
from benchmarks.rig import DrivenExporter, Scraper

SIZES = (100, 1_000, 10_000)
ROUNDS = 7
_PODS = 8
_REPEATED = 4
"""The maximum number of polls of a small fleet in a turn. A long poll averages fast and slow moments of the machine, a
short one does not."""
_NOISE = 1.05
"""Growth above linear by less than this is noise: medians of the same poll differ by this factor between runs."""
_AT_MOST = 1.7
"""Allowed cost of a poll, as a ratio to the older checkout's."""

_BUSY_JOBS = (80, 800, 8_000)
"""Jobs of about 10,000, 100,000 and a million series."""
_WINDOWS, _SHORT_WINDOWS = 8, 2
_SCRAPES = 75
"""Scrapes of each encoding in each window. Of 600 scrapes of a kind, six are above the 99th percentile."""
_PAUSES = (0.005, 0.025)
"""Seconds between scrapes, at random, so that scrapes occur at any moment of a poll."""
_CHANGE_EVERY = 1.0
_AT_REST = 0.02
_LOOK_EVERY = 0.5
_BUSY_COLUMNS = ("version", "while", "encoding", "scrapes", "p50, ms", "p90, ms", "p99, ms", "longest, ms")
_BUSY_METHOD = (
    f"Jobs with {_PODS} pods each and 12 readings for each pod. Windows with polls and idle windows take "
    "turns. In windows with polls, the bulk collectors poll without a pause. In each second, all readings and a "
    "fiftieth of the jobs change. Plain and gzip scrapes take turns, with pauses of 5 to 25 ms."
)
_CORES = (
    "On two cores, the exporters have one. The generated cloud and the reader share the other, and the reader has "
    "priority."
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of poll: the changes before it (benchmarks.cloud), and the command that polls (benchmarks.driven)."""

    title: str
    command: str
    jobs: float = 0.0
    usage: bool = False


_ALL = "all bulk collectors"
_KINDS = (
    _Kind(f"{_ALL}: every job and every reading is new", "sweep", jobs=1.0, usage=True),
    _Kind(f"{_ALL}: every reading and duration changed", "sweep", usage=True),
    _Kind(f"{_ALL}: only durations changed", "sweep"),
    _Kind("jobs alone: every job is new", "sweep jobs", jobs=1.0),
    _Kind("jobs alone: only durations changed", "sweep jobs"),
)
_Turns = Sequence[Sequence[float]]
"""In every turn: the CPU seconds of a poll of this checkout, and of the older one if there is one."""


def cost(sizes: Sequence[int], rounds: int, old: Path | None = None, new: Path = rig.ROOT) -> Iterator[Found]:
    """Yield a table of the CPU time of a poll by the number of jobs, and the promises: its growth or, with `old`, its
    ratio to the older one."""
    found = _measured(sizes, rounds, [new, *([old] if old else [])])
    table = Table(
        f"CPU milliseconds a poll, of jobs with {_PODS} pods each and 12 families of every pod",
        ("what the exporter polls, and what has changed", "jobs", "now", *(("before", "now / before") if old else ())),
        notes=[
            (
                f"Medians of {rounds} rounds (10th to 90th percentile), after a first round that does not count. All"
                " kinds, sizes and versions take turns in a round, and ratios are those of one round. A round has one"
                f" poll of the largest size, or {_REPEATED} polls of a smaller size, of which the mean counts."
            ),
            (
                "CPU time covers the exporter's process and its threads, from the first call until the page is ready"
                " in both formats, plain and gzip. It excludes collectors with one call per job (pods)."
            ),
            "The exporters share one CPU core. The clouds (bare loopback servers) share the other.",
        ],
    )
    for (kind, size), turns in found.items():
        cells = [milliseconds(seconds) for seconds in zip(*turns, strict=True)]
        ratio = [spread([now / before for now, before in turns])] if old else []
        table.rows.append((kind.title, f"{size:,}", *cells, *ratio))
    yield table
    yield _worst_ratio(found) if old else _growth(found)


def _measured(sizes: Sequence[int], rounds: int, checkouts: Sequence[Path]) -> dict[tuple[_Kind, int], _Turns]:
    """Run exporters of all sizes at the same time, so that a slower machine affects all of them.

    The exporters of all checkouts poll the same fleet, one after the other; which is first alternates.
    """
    costs: dict[tuple[_Kind, int], list[Sequence[float]]] = {each: [] for each in itertools.product(_KINDS, sizes)}
    with ExitStack() as stack:
        groups = {size: stack.enter_context(rig.exporters(size, _PODS, checkouts)) for size in sizes}
        for turn, (kind, size) in itertools.product(range(-1, rounds), costs):
            repeated = min(_REPEATED, max(1, max(sizes) // size)) if turn >= 0 else 1
            polls = [_poll(groups[size], kind, first=turn + number) for number in range(repeated)]
            if turn >= 0:
                costs[kind, size].append([statistics.fmean(each) for each in zip(*polls, strict=True)])
    return dict(costs)


def _poll(group: Sequence[DrivenExporter], kind: _Kind, *, first: int) -> list[float]:
    """Change the fleet once, then let each exporter poll it; return the CPU seconds of each."""
    group[0].change(jobs=kind.jobs, usage=kind.usage, still=True)
    found = [0.0] * len(group)
    for turn in range(len(group)):
        place = (first + turn) % len(group)
        group[place].await_second()
        found[place] = group[place].command(kind.command)
    return found


def _growth(found: dict[tuple[_Kind, int], _Turns]) -> Check:
    *_, small, large = sorted({size for _, size in found})
    growth = {
        kind.title: statistics.median(
            more / less for (less,), (more,) in zip(found[kind, small], found[kind, large], strict=True)
        )
        for kind in _KINDS
        if kind.command == "sweep"
    }
    worst = max(growth, key=growth.__getitem__)
    limit = large / small
    return Check(
        f"CPU of a poll grows no faster than linearly from {small:,} to {large:,} jobs"
        f" (at most {limit:.0f} ×; up to {_NOISE - 1:.0%} more count as noise)",
        f"{growth[worst]:.2f} × ({worst}, the worst of three)",
        growth[worst] <= limit * _NOISE,
    )


def _worst_ratio(found: dict[tuple[_Kind, int], _Turns]) -> Check:
    ratios = {
        f"{kind.title}, {size:,} jobs": statistics.median(now / before for now, before in turns)
        for (kind, size), turns in found.items()
    }
    worst = max(ratios, key=ratios.__getitem__)
    measured = f"{number(ratios[worst])} × ({worst}, the worst)"
    return Check(
        f"CPU of a poll is at most {_AT_MOST} × that of the older checkout", measured, ratios[worst] <= _AT_MOST
    )


def busy(short: bool, old: Path | None = None) -> Iterator[Found]:
    """Yield percentiles of scrapes with and without polls for each size, and the promises."""
    for jobs in _BUSY_JOBS[1:2] if short else _BUSY_JOBS:
        yield from _busy(jobs, _SHORT_WINDOWS if short else _WINDOWS, old)


def _busy(jobs: int, windows: int, old: Path | None) -> Iterator[Found]:
    checkouts = {"this": rig.ROOT, **({"before": old} if old else {})}
    seconds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    with (
        rig.exporters(jobs, _PODS, list(checkouts.values())) as exporters,
        _on_the_other_core(exporters[0]),
    ):
        for each in exporters:
            each.command("sweep")
        series = rig.page(exporters[0].port).series()
        for turn in range(windows):
            for which, each in zip(checkouts, exporters, strict=True):
                _wait_for_rest(each)
                for state in ("idle", "polling"):
                    if state == "polling":
                        each.command("on")
                    for encoding, found in _window(each, turn, is_polled=state == "polling").items():
                        seconds[which, state, encoding] += found
                each.command("off")
    table = Table(f"Scrapes during polls: {series:,} series", _BUSY_COLUMNS, notes=[_BUSY_METHOD, _CORES])
    for key, found in sorted(seconds.items()):
        cells = [number(quantile(found, share) * 1e3) for share in (0.5, 0.9, 0.99, 1.0)]
        table.rows.append((*key, str(len(found)), *cells))
    yield table
    for encoding in ("plain", "gzip"):
        idle, polling = (quantile(seconds["this", state, encoding], 0.99) for state in ("idle", "polling"))
        yield Check(
            f"p99 of {encoding} scrapes while polling <= 2 x the idle p99 at {series:,} series",
            f"{number(polling / idle)} x ({number(polling * 1e3)} ms, idle {number(idle * 1e3)} ms)",
            polling <= 2 * idle,
        )


@contextmanager
def _on_the_other_core(ours: DrivenExporter) -> Iterator[None]:
    """Give the exporter its own core, if there are two, and let the cloud yield to us on the other."""
    cores = os.sched_getaffinity(0)
    os.sched_setscheduler(ours.cloud.pid, os.SCHED_IDLE, os.sched_param(0))
    _, others = rig.two_cores()
    os.sched_setaffinity(0, cores if others is None else {others})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _window(ours: DrivenExporter, turn: int, *, is_polled: bool) -> dict[str, list[float]]:
    """Return the seconds of the scrapes of one window by encoding."""
    pauses = random.Random(turn)
    found: dict[str, list[float]] = {"plain": [], "gzip": []}
    with Scraper(ours.port, gzip=False) as plain, Scraper(ours.port, gzip=True) as zipped:
        scrapers = {"plain": plain, "gzip": zipped}
        for scraper in scrapers.values():
            scraper.scrape()
        changed = time.monotonic()
        for _ in range(_SCRAPES):
            for encoding, scraper in scrapers.items():
                time.sleep(pauses.uniform(*_PAUSES))
                found[encoding].append(scraper.scrape().whole)
            if is_polled and time.monotonic() - changed >= _CHANGE_EVERY:
                ours.change(jobs=0.02, usage=True)
                changed = time.monotonic()
    return found


def _wait_for_rest(ours: DrivenExporter) -> None:
    """Wait until the exporter is idle."""
    used = rig.cpu_seconds([ours.pid])
    while True:
        time.sleep(_LOOK_EVERY)
        before, used = used, rig.cpu_seconds([ours.pid])
        if used - before <= _AT_REST:
            return
