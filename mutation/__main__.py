"""`make mutate`: a table by module, and the survivors that nobody has explained."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from mutation.explained import explained
from mutation.forked import Broken, compiled_once, file_of, judged, measure
from mutation.operators import mutants
from mutation.targets import TARGETS, Target


@dataclass(slots=True)
class _Found:
    """What became of the mutants of one module."""

    target: Target
    counts: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    """Survivors, with the line that each is in now."""
    stale: list[str] = field(default_factory=list)
    """Explanations of what did not survive, or is not there any more."""

    def row(self) -> str:
        whole, survived = self.counts.total(), self.counts["survived"]
        killed, late = self.counts["killed"], self.counts["timed out"]
        score = 100 * (whole - survived) / whole if whole else 100
        name = f"{self.target.subject}: `{self.target.module}`"
        return f"| {name} | {whole} | {killed} | {late} | {survived} | {score:.1f} % |"


def main() -> int:
    """Exit code 1 where a survivor is not explained, or what is explained did not survive."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="part of a module's path; all if there is none")
    parser.add_argument("--only", default="", metavar="PATTERN", help="mutants whose name this is found in")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many to run at a time")
    asked = parser.parse_args()
    reasons = explained()
    chosen = [one for one in TARGETS if not asked.modules or any(part in one.module for part in asked.modules)]
    try:
        with compiled_once():
            done = [_run(target, asked.only, asked.jobs, reasons.get(target.module, {})) for target in chosen]
    except Broken as error:
        print(error, file=sys.stderr)
        return 2
    print("\n| module | mutants | killed | timed out | survived | score |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for found in done:
        print(found.row())
    for found in done:
        _print_list(f"{found.target.module}: survivors that are not explained", found.unexplained)
    for found in done:
        _print_list(f"{found.target.module}: explained, but no survivors (any more)", found.stale)
    return 1 if any(found.unexplained or found.stale for found in done) else 0


def _run(target: Target, only: str, jobs: int, reasons: dict[str, str]) -> _Found:
    chosen = [one for one in mutants(file_of(target).read_text()) if re.search(only, one.name)]
    found = _Found(target)
    began = time.monotonic()
    sound = measure(target)
    survived = []
    for number, (mutant, fate) in enumerate(judged(target, chosen, sound, jobs), 1):
        found.counts[fate] += 1
        if fate == "survived":
            survived.append(mutant)
            if mutant.name not in reasons:
                _tell(f"{target.module}: survived: {mutant.name}\n")
        _tell(f"{target.module}: {number} of {len(chosen)}, {len(survived)} survived")
    _tell(f"{target.module}: {len(chosen)} in {time.monotonic() - began:.0f} s\n")
    survived.sort(key=lambda mutant: mutant.line)
    found.unexplained = [f"line {one.line}: {one.name}" for one in survived if one.name not in reasons]
    if not only:
        found.stale = sorted(reasons.keys() - {one.name for one in survived})
    return found


def _tell(progress: str) -> None:
    """How far it is: to people, the table is for others."""
    if sys.stderr.isatty() or progress.endswith("\n"):
        print(f"\r{progress}", end="", file=sys.stderr, flush=True)


def _print_list(title: str, lines: list[str]) -> None:
    if lines:
        print(f"\n{title}:\n")
        for line in lines:
            print(f"- {line}")


if __name__ == "__main__":
    sys.exit(main())
