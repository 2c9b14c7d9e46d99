"""`python -m benchmarks detection`: score the shipped alerts on weeks by the author of the rules, or by another author.

Thresholds are chosen on weeks 1 to 99 of the first generator. docs/detection.md has reports of other weeks, and of the
second generator.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from deploy.generator import rules

from benchmarks import detection_second as scores
from benchmarks import detection_second_samples as samples
from benchmarks import detection_second_world, detection_signals, detection_world
from benchmarks.detection_rules import firings
from benchmarks.detection_second import Result
from benchmarks.detection_second_world import MINUTES

_GENERATORS = {
    "first": (detection_world.simulate, detection_signals.Shape),
    "second": (detection_second_world.simulate, samples.Shape),
}


def run_week(kind: str, slots: int, seed: int) -> Result:
    """Simulate and score the week of a seed, with so many slots for jobs of each source."""
    simulate, shape = _GENERATORS[kind]
    world = simulate(seed, slots)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples.write(world, folder / "week.om", shape)
        end = samples.START + (MINUTES - 1) * 60
        return scores.score(world, firings(folder / "week.om", rules.alerts(), folder, samples.START, end))


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks detection", description=__doc__)
    parser.add_argument("kind", choices=list(_GENERATORS), help="the generator")
    parser.add_argument("--weeks", type=int, default=4, help="how many weeks to simulate (default: 4)")
    parser.add_argument("--first", type=int, default=101, help="the first seed (default: 101)")
    parser.add_argument("--slots", type=int, default=3, help="slots for jobs of each source (default: 3)")
    asked = parser.parse_args(arguments)
    result, seeds = Result(), range(asked.first, asked.first + asked.weeks)
    with multiprocessing.Pool(2) as workers:
        for week in workers.imap_unordered(partial(run_week, asked.kind, asked.slots), seeds):
            result.add(week)
    print("\n".join(scores.report(result)))
    return 0
