"""What a poll costs, from the first signature to the page that is ready to be sent, and how that grows with the fleet.

`python -m benchmarks polls --short` is a quick run.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.figures import milliseconds, ratios
from benchmarks.polls_stage import Stage, stage
from benchmarks.report import Check, Found, Table

SIZES = (100, 1_000, 10_000)
PODS = 8
ROUNDS = 7
REPEATED = 4
"""How often a small fleet is polled in a turn, at most: a poll of a large one takes the mean of the machine's quick and
slow moments, one of a small one falls into either."""

_NOISE = 1.05
"""What growth may be over linear before it is called that: medians of the same poll differ by so much between runs."""
_FOR_DURATIONS = 0.4


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of poll: what is changed before it, and what is then polled."""

    title: str
    order: str
    jobs: float = 0.0
    usage: bool = False


ALL = Kind("all sweeps: every job is another one, every reading too", "sweep", jobs=1.0, usage=True)
READINGS = Kind("all sweeps: every reading and duration is another one", "sweep", usage=True)
DURATIONS = Kind("all sweeps: only durations are", "sweep")
JOBS = Kind("jobs alone: every job is another one", "sweep jobs", jobs=1.0)
JOBS_DURATIONS = Kind("jobs alone: only durations are", "sweep jobs")
KINDS = (ALL, READINGS, DURATIONS, JOBS, JOBS_DURATIONS)

_Costs = Mapping[Kind, Sequence[float]]
"""CPU seconds of a poll of a kind, in every turn."""


def run(sizes: Sequence[int] = SIZES, rounds: int = ROUNDS) -> Iterator[Found]:
    """A table of CPU seconds a poll by the number of jobs, and what was promised of how they grow.

    The two largest of `sizes` are those whose growth is checked.
    """
    found = _measure(sizes, rounds)
    yield _table(found, rounds)
    if len(found) > 1:
        yield _growth(found)
    largest = found[max(found)]
    yield _durations("a jobs poll", largest, JOBS_DURATIONS, JOBS)
    yield _durations("a poll of all sweeps", largest, DURATIONS, ALL)


def _measure(sizes: Sequence[int], rounds: int) -> Mapping[int, _Costs]:
    """An exporter of each size, all at once, so that a machine that becomes slower does so for all."""
    costs: dict[int, defaultdict[Kind, list[float]]] = {size: defaultdict(list) for size in sizes}
    with ExitStack() as stages:
        there = {size: stages.enter_context(stage(size, PODS)) for size in sizes}
        for size, kind in itertools.product(sizes, KINDS):
            _poll(there[size], kind)
        for _, kind, size in itertools.product(range(rounds), KINDS, sizes):
            polls = [_poll(there[size], kind) for _ in range(min(REPEATED, max(sizes) // size))]
            costs[size][kind].append(statistics.fmean(polls))
    return costs


def _poll(there: Stage, kind: Kind) -> float:
    there.change(jobs=kind.jobs, usage=kind.usage, still=True)
    there.await_second()
    return there.order(kind.order)


def _table(found: Mapping[int, _Costs], rounds: int) -> Table:
    table = Table(
        f"CPU milliseconds a poll, of jobs with {PODS} pods each and 12 families of every pod",
        (
            "what is polled, and what has changed since the poll before",
            *(f"{size:,} jobs" for size in found),
            "a job, at the most jobs",
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
                *(f"{ratios(_grown(found, kind, small, large))} ×" for small, large in _steps(found)),
            )
        )
    table.notes += [
        (
            f"Medians of {rounds} turns (10th to 90th percentile), after a round that does not count. The kinds take"
            " turns, and within each the exporters of all sizes. A turn has one poll of the most jobs and the mean of"
            f" {REPEATED} polls of fewer. A ratio compares the polls of one turn."
        ),
        (
            "CPU of the exporter's process with its threads, from the first call until the page is ready: both formats,"
            " plain and gzip. The exporters have one processor core, the clouds (bare loopback servers) another. Cycles"
            " with one call per job (pods) are left out."
        ),
        (
            "If only durations changed, the times of readings did not change either. If every reading changed, its time"
            " also changed in the first poll of a minute."
        ),
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
        f"CPU a poll grows no faster than linearly from {small:,} to {large:,} jobs"
        f" (at most {limit:.0f} ×; {_NOISE - 1:.0%} more are taken for noise)",
        f"{growth[worst]:.2f} × ({worst.title}, the worst of three)",
        growth[worst] <= limit * _NOISE,
    )


def _grown(found: Mapping[int, _Costs], kind: Kind, small: int, large: int) -> list[float]:
    return [more / less for less, more in zip(found[small][kind], found[large][kind], strict=True)]


def _durations(what: str, costs: _Costs, some: Kind, everything: Kind) -> Check:
    shares = [few / all_of_it for few, all_of_it in zip(costs[some], costs[everything], strict=True)]
    ratio = statistics.median(shares)
    return Check(
        f"{what} in which only durations changed costs at most {_FOR_DURATIONS} × one in which everything did",
        f"{ratios(shares)} ×",
        ratio <= _FOR_DURATIONS,
    )
