"""`make bench`: measure everything in docs/evidence/benchmarks.md. Each section is written as soon as it is ready.

It needs an idle machine.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import detection, polls, report, rig, scrapes
from benchmarks.report import Section

_PARTS: dict[str, Callable[[bool, Path | None], Section]] = {"scrapes": scrapes.run, "polls": polls.run}
"""By name, functions that measure a section. They know `short` and `old`."""


def main() -> int:
    """Run the chosen parts, or the detection; return the exit code."""
    if sys.argv[1:2] == ["detection"]:  # it measures rules, not speed
        return detection.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"parts to run (default: all): {', '.join(_PARTS)}; or detection"
    )
    parser.add_argument("--old", type=Path, help="another checkout, which takes turns with this one")
    parser.add_argument("--short", action="store_true", help="measure small sizes, to see that everything works")
    parser.add_argument("--write", action="store_true", help="write the page also after a short or partial run")
    asked = parser.parse_args()
    unknown = set(asked.names) - set(_PARTS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends all child processes
    is_written = asked.write or not (asked.names or asked.short)
    for name in asked.names or _PARTS:
        rig.progress(f"{name} begins")
        section = _PARTS[name](asked.short, asked.old.resolve() if asked.old else None)
        if is_written:
            report.write(section)
        print(f"\n## {section.title}\n\n{section}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
