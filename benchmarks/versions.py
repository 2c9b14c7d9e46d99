"""Compares what a poll costs in two checkouts: paired, in one run, against the same made-up cloud.

`python -m benchmarks.versions --old PATH --new PATH`; add `--sizes 1000 --rounds 2` for a quick look. Each checkout
runs its own `benchmarks.driven`, which must know the orders `sweep` and `sweep jobs`. The exit code is 1 above a limit.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.figures import milliseconds, ratios
from benchmarks.polls import ALL, DURATIONS, JOBS, JOBS_DURATIONS, PODS, READINGS, REPEATED, ROUNDS, Kind
from benchmarks.polls_stage import Stage, stages
from benchmarks.processes import ROOT
from benchmarks.report import Table, markdown, notes

SIZES = (1_000, 10_000)
LIMITS: Mapping[Kind, float] = {READINGS: 0.65, JOBS: 0.5, ALL: 0.65, DURATIONS: 1.0, JOBS_DURATIONS: 1.0}
"""What a poll of the new checkout may cost at most, in polls of the old one."""

_Pair = tuple[float, float]
"""CPU seconds of a poll in one turn, old and new."""


def compare(old: Path, new: Path, sizes: Sequence[int], rounds: int) -> Mapping[tuple[Kind, int], Sequence[_Pair]]:
    """CPU seconds of a poll by kind and number of jobs, turn by turn, after a round that is not counted."""
    costs: defaultdict[tuple[Kind, int], list[_Pair]] = defaultdict(list)
    with ExitStack() as stack:
        pairs = {size: stack.enter_context(stages(size, PODS, [old, new])) for size in sizes}
        for kind, size in itertools.product(LIMITS, sizes):
            _poll(pairs[size], kind)
        for turn, (kind, size) in itertools.product(range(rounds), itertools.product(LIMITS, sizes)):
            repeated = min(REPEATED, max(1, max(SIZES) // size))
            polls = [_poll(pairs[size], kind, new_first=bool((turn + number) % 2)) for number in range(repeated)]
            olds, news = zip(*polls, strict=True)
            costs[kind, size].append((statistics.fmean(olds), statistics.fmean(news)))
    return costs


def _poll(pair: Sequence[Stage], kind: Kind, *, new_first: bool = False) -> _Pair:
    """Change the fleet once, then let both exporters poll it, one after the other."""
    pair[0].change(jobs=kind.jobs, usage=kind.usage, still=True)
    found = [0.0, 0.0]
    for place in (1, 0) if new_first else (0, 1):
        pair[place].await_second()
        found[place] = pair[place].order(kind.order)
    return found[0], found[1]


def _table(costs: Mapping[tuple[Kind, int], Sequence[_Pair]], rounds: int) -> Table:
    table = Table(
        f"CPU milliseconds a poll, old and new, of jobs with {PODS} pods each and 12 families of every pod",
        ("what is polled, and what has changed", "jobs", "old", "new", "new / old", "at most", ""),
        notes=[
            (
                f"Medians of {rounds} turns (10th to 90th percentile). Both exporters poll the same fleet in turn, on"
                f" one core; which is first alternates. A turn has up to {REPEATED} polls, of which the mean is taken."
                " Ratios are those of one turn."
            )
        ],
    )
    for (kind, size), pairs in costs.items():
        olds, news = zip(*pairs, strict=True)
        shares = [new / old for old, new in pairs]
        kept = "kept" if statistics.median(shares) <= LIMITS[kind] else "**not kept**"
        cells = milliseconds(olds), milliseconds(news), ratios(shares)
        table.rows.append((kind.title, f"{size:,}", *cells, str(LIMITS[kind]), kept))
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("--old", type=Path, required=True, help="checkout to compare with")
    parser.add_argument("--new", type=Path, default=ROOT, help="checkout to judge (default: this one)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="JOBS")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    costs = compare(asked.old.resolve(), asked.new.resolve(), asked.sizes, asked.rounds)
    table = _table(costs, asked.rounds)
    print(markdown(table), notes([table]), sep="\n")
    exceeded = [
        kind for (kind, _), pairs in costs.items() if statistics.median(new / old for old, new in pairs) > LIMITS[kind]
    ]
    return int(bool(exceeded))


if __name__ == "__main__":
    sys.exit(main())
