"""`python -m benchmarks.compare OLD NEW`: compare two folders of pages (see benchmarks.hour) line by line.

Lines about the process and Python are left out. The exporter's own times and durations may differ by a millisecond,
because floats are summed in another order. The exit code is 1 if pages differ.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

_UNEQUAL = re.compile(r"(?:# \w+ )?(process_|python_)")
"""Ignored lines, which depend on the machine and the moment."""
_TIME = re.compile(r"(trainfleet_exporter_\w+_seconds(?:_sum|_created)?(?:\{.*\})?) (\S+)")
_TOLERANCE = 0.001
"""Seconds."""
_NAME = re.compile(r"(?:# \w+ )?(\w+)(?:\{.*?provider=\"([^\"]*)\")?")
_SHOWN = 60
"""Kinds of differing lines that are listed."""


def difference(old: Path, new: Path) -> str:
    """Return what differs between two folders of pages; empty if nothing does."""
    before, after = ({path.name for path in folder.glob("*m*s.*")} for folder in (old, new))
    found = [f"only in one folder: {name}" for name in sorted(before ^ after)]
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for name in sorted(before & after):
        lines, others = _lines(old / name), _lines(new / name)
        lines = [b if _same_time(a, b) else a for a, b in zip(lines, others, strict=False)] + lines[len(others) :]
        if lines == others:
            continue
        differing = Counter(others)
        differing.subtract(lines)
        found.append(f"{name} differs" if any(differing.values()) else f"{name} differs in the order of its lines")
        for line, count in differing.items():
            if count:
                place = _NAME.match(line)
                key = " ".join(("+" if count > 0 else "-", *filter(None, place.groups() if place else (line[:60],))))
                counts[key] += abs(count)
                examples.setdefault(key, f"{name}: {line}")
    if not before & after:
        return "no page is in both folders"
    head = [f"{len(found)} of {len(before | after)} pages differ, first:", *found[:8]] if found else []
    return "\n".join([*head, *(f"  {each:6,} × {key}: {examples[key]}" for key, each in counts.most_common(_SHOWN))])


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_bytes().decode().split("\n") if not _UNEQUAL.match(line)]


def _same_time(one: str, other: str) -> bool:
    """Return whether two lines differ only in the rounding of a time."""
    old, new = _TIME.fullmatch(one), _TIME.fullmatch(other)
    return bool(old and new and old[1] == new[1] and abs(float(old[2]) - float(new[2])) < _TOLERANCE)


def main() -> int:
    """Compare and print; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    asked = parser.parse_args()
    found = difference(asked.old, asked.new)
    print(found or "all pages are equal")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
