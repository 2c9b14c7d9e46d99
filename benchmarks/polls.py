"""The cost of a poll from the first call until the page is ready, its growth with the fleet, and the effect of polls on
scrapes."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import rig
from benchmarks.report import Check, Found, Table, milliseconds, number, percentiles, quantile, spread
from benchmarks.rig import DrivenExporter, Scraper

_SIZES = (100, 1_000, 10_000)
PODS = 8
ROUNDS = 7
REPEATED = 4
"""The maximum number of polls of a small fleet in a turn. A long poll averages fast and slow moments of the machine, a
short one does not."""

_NOISE = 1.05
"""Growth above linear by less than this is noise: medians of the same poll differ by this factor between runs."""

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
    f"Jobs with {PODS} pods each and 12 readings for each pod. Windows with polls and idle windows take "
    "turns. In windows with polls, the bulk collectors poll without a pause. In each second, all readings and a "
    "fiftieth of the jobs change. Plain and gzip scrapes take turns, with pauses of 5 to 25 ms."
)
_CORES = (
    "On two cores, the exporters have one. The generated cloud and the reader share the other, and the reader has "
    "priority."
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of poll: the changes before it (benchmarks.cloud), and the command that polls (benchmarks.driven)."""

    title: str
    command: str
    jobs: float = 0.0
    usage: bool = False


ALL = Kind("all bulk collectors: every job and every reading is new", "sweep", jobs=1.0, usage=True)
READINGS = Kind("all bulk collectors: every reading and duration changed", "sweep", usage=True)
DURATIONS = Kind("all bulk collectors: only durations changed", "sweep")
JOBS = Kind("jobs alone: every job is new", "sweep jobs", jobs=1.0)
JOBS_DURATIONS = Kind("jobs alone: only durations changed", "sweep jobs")
KINDS = (ALL, READINGS, DURATIONS, JOBS, JOBS_DURATIONS)

Costs = Mapping[int, Mapping[Kind, Sequence[Sequence[float]]]]
"""By number of jobs and kind, in every turn: the CPU seconds of a poll of each checkout."""
_Costs = Mapping[Kind, Sequence[float]]
"""The same of one checkout and one number of jobs."""


def cost(*, short: bool) -> Iterator[Found]:
    """Yield a table of CPU time of a poll by the number of jobs, and the promises about its growth."""
    sizes, rounds = (_SIZES[:2], 3) if short else (_SIZES, ROUNDS)
    found = {
        size: {kind: [of_ours for (of_ours,) in turns] for kind, turns in costs.items()}
        for size, costs in measure(sizes, rounds).items()
    }
    yield _table(found, rounds)
    yield _growth(found)


def measure(sizes: Sequence[int], rounds: int, checkouts: Sequence[Path] = (rig.ROOT,)) -> Costs:
    """Run exporters of all sizes at the same time, so that a slower machine affects all of them.

    The exporters of all checkouts poll the same fleet, one after the other; which is first alternates.
    """
    costs: dict[int, defaultdict[Kind, list[Sequence[float]]]] = {size: defaultdict(list) for size in sizes}
    with ExitStack() as stack:
        groups = {size: stack.enter_context(rig.exporters(size, PODS, checkouts)) for size in sizes}
        for size, kind in itertools.product(sizes, KINDS):
            _poll(groups[size], kind, first=0)
        for turn, kind, size in itertools.product(range(rounds), KINDS, sizes):
            repeated = min(REPEATED, max(1, max(sizes) // size))
            polls = [_poll(groups[size], kind, first=turn + number) for number in range(repeated)]
            costs[size][kind].append([statistics.fmean(each) for each in zip(*polls, strict=True)])
    return costs


def _poll(group: Sequence[DrivenExporter], kind: Kind, *, first: int) -> list[float]:
    """Change the fleet once, then let each exporter poll it; return the CPU seconds of each."""
    group[0].change(jobs=kind.jobs, usage=kind.usage, still=True)
    found = [0.0] * len(group)
    for turn in range(len(group)):
        place = (first + turn) % len(group)
        group[place].await_second()
        found[place] = group[place].command(kind.command)
    return found


def _table(found: Mapping[int, _Costs], rounds: int) -> Table:
    table = Table(
        f"CPU milliseconds a poll, of jobs with {PODS} pods each and 12 families of every pod",
        (
            "what the exporter polls, and what has changed since the previous poll",
            *(f"{size:,} jobs" for size in found),
            "a job, at the largest size",
            *(f"{small:,} → {large:,} jobs costs" for small, large in _steps(found)),
        ),
    )
    for kind in KINDS:
        medians = {size: statistics.median(costs[kind]) for size, costs in found.items()}
        most = max(medians)
        table.rows.append(
            (
                kind.title,
                *(milliseconds(costs[kind]) for costs in found.values()),
                f"{medians[most] / most * 1e6:,.0f} µs",
                *(f"{spread(_grown(found, kind, small, large))} ×" for small, large in _steps(found)),
            )
        )
    table.notes += [
        (
            f"Cells show medians of {rounds} rounds (10th to 90th percentile), after a first round that does not count."
            " In a round, the kinds of poll take turns. Within each kind, the exporters of all sizes take turns."
        ),
        (
            f"A round has one poll of the largest size, or {REPEATED} polls of a smaller size, of which the mean"
            " counts. A ratio compares the polls of one round."
        ),
        (
            "CPU time covers the exporter's process and its threads, from the first call until the page is ready in"
            " both formats, plain and gzip. It excludes collectors with one call per job (pods)."
        ),
        "The exporters share one CPU core. The clouds (bare loopback servers) share the other.",
        "If only durations changed, the times of readings did not change either.",
        "If every reading changed, its time changed in the first poll of a minute.",
    ]
    return table


def _steps(found: Mapping[int, _Costs]) -> Iterator[tuple[int, int]]:
    sizes = sorted(found)
    return itertools.pairwise(sizes)


def _growth(found: Mapping[int, _Costs]) -> Check:
    *_, small, large = sorted(found)
    growth = {kind: statistics.median(_grown(found, kind, small, large)) for kind in (ALL, READINGS, DURATIONS)}
    worst = max(growth, key=growth.__getitem__)
    limit = large / small
    return Check(
        f"CPU of a poll grows no faster than linearly from {small:,} to {large:,} jobs"
        f" (at most {limit:.0f} ×; up to {_NOISE - 1:.0%} more count as noise)",
        f"{growth[worst]:.2f} × ({worst.title}, the worst of three)",
        growth[worst] <= limit * _NOISE,
    )


def _grown(found: Mapping[int, _Costs], kind: Kind, small: int, large: int) -> list[float]:
    return [more / less for less, more in zip(found[small][kind], found[large][kind], strict=True)]


def busy(short: bool, old: Path | None = None) -> Iterator[Found]:
    """Yield percentiles of scrapes with and without polls for each size, and the promises. Exporters take turns if
    there is an `old` checkout."""
    for jobs in _BUSY_JOBS[1:2] if short else _BUSY_JOBS:
        yield from _busy(jobs, _SHORT_WINDOWS if short else _WINDOWS, old)


def _busy(jobs: int, windows: int, old: Path | None) -> Iterator[Found]:
    checkouts = {"this": rig.ROOT, **({"before": old} if old else {})}
    seconds: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    with (
        rig.exporters(jobs, PODS, list(checkouts.values())) as exporters,
        _on_the_other_core(exporters[0]),
    ):
        for each in exporters:
            each.command("sweep")
        series = rig.page(exporters[0].port).series()
        for _ in range(windows):
            for which, each in zip(checkouts, exporters, strict=True):
                _wait_for_rest(each)
                _window(each, seconds, (which, "idle"))
                each.command("on")
                _window(each, seconds, (which, "polling"))
                each.command("off")
    table = Table(f"Scrapes during polls: {series:,} series", _BUSY_COLUMNS)
    table.notes = [_BUSY_METHOD, _CORES]
    for (which, state, gzip), found in sorted(seconds.items()):
        cells = percentiles(found, 0.5, 0.9, 0.99, 1.0)
        table.rows.append((which, state, "gzip" if gzip else "plain", str(len(found)), *cells))
    yield table
    for gzip in (False, True):
        idle, polling = (quantile(seconds["this", state, gzip], 0.99) for state in ("idle", "polling"))
        yield Check(
            f"p99 of {'gzip' if gzip else 'plain'} scrapes while polling <= 2 x the idle p99 at {series:,} series",
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


def _window(ours: DrivenExporter, seconds: dict[tuple[str, str, bool], list[float]], state: tuple[str, str]) -> None:
    pauses = random.Random(len(seconds[*state, False]))
    with Scraper(ours.port, gzip=False) as plain, Scraper(ours.port, gzip=True) as zipped:
        for scraper in (plain, zipped):
            scraper.scrape()
        changed = time.monotonic()
        for _ in range(_SCRAPES):
            for gzip, scraper in ((False, plain), (True, zipped)):
                time.sleep(pauses.uniform(*_PAUSES))
                seconds[*state, gzip].append(scraper.scrape().whole)
            if state[1] == "polling" and time.monotonic() - changed >= _CHANGE_EVERY:
                ours.change(jobs=0.02, usage=True)
                changed = time.monotonic()


def _wait_for_rest(ours: DrivenExporter) -> None:
    """Wait until the exporter is idle."""
    used = rig.cpu_seconds([ours.pid])
    while True:
        time.sleep(_LOOK_EVERY)
        before, used = used, rig.cpu_seconds([ours.pid])
        if used - before <= _AT_REST:
            return
