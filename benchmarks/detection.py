"""`python -m benchmarks detection`: score the shipped alerts on weeks by the author of the rules, or by another author.

Thresholds are chosen on weeks 1 to 99 of the first generator. Reports are of other weeks, and of the second generator.
Each week writes its result into a folder, so that an interrupted run continues. docs/detection.md has the reports.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
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

_WORLDS = {"first": detection_world.simulate, "second": detection_second_world.simulate}
_LOOKS = {"first": detection_signals.Shape, "second": samples.Shape}


def run_week(kind: str, slots: int, kept: Path, seed: int) -> Result:
    """Simulate and score the week of a seed, with so many slots for jobs of each source."""
    file = kept / f"{kind}-{slots}-{seed}"
    if not file.exists():
        world = _WORLDS[kind](seed, slots)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            samples.write(world, folder / "week.om", _LOOKS[kind])
            end = samples.START + (MINUTES - 1) * 60
            found = firings(folder / "week.om", rules.alerts(), folder, samples.START, end)
        file.write_bytes(pickle.dumps(scores.score(world, found)))
    result: Result = pickle.loads(file.read_bytes())  # noqa: S301 - ours
    return result


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks detection", description=__doc__)
    parser.add_argument("kind", choices=list(_WORLDS), help="the generator")
    parser.add_argument("--weeks", type=int, default=4, help="how many weeks to simulate (default: 4)")
    parser.add_argument("--first", type=int, default=101, help="the first seed (default: 101)")
    parser.add_argument("--slots", type=int, default=3, help="slots for jobs of each source (default: 3)")
    parser.add_argument("--kept", type=Path, default=None, help="folder of the results of weeks")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, multiprocessing.Pool(2) as workers:
        kept = asked.kept or Path(name)
        kept.mkdir(parents=True, exist_ok=True)
        result, seeds = Result(), range(asked.first, asked.first + asked.weeks)
        for week in workers.imap_unordered(partial(run_week, asked.kind, asked.slots, kept), seeds):
            result.add(week)
    print("\n".join(scores.report(result)))
    return 0
