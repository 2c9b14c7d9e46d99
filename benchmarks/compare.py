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


class Difference:
    """The differences of two folders of pages, compared by name."""

    def __init__(self, old: Path, new: Path) -> None:
        before, after = ({path.name for path in folder.glob("*m*s.*")} for folder in (old, new))
        self.missing = sorted(before ^ after)
        """Names of pages that only one folder has."""
        self.pages = sorted(before & after)
        self.unequal: list[str] = []
        """Pages with other lines."""
        self.moved: list[str] = []
        """Pages that have the same lines in another order."""
        self.lines: Counter[str] = Counter()
        """Differing lines on all pages, by sign (- old, + new), family and provider."""
        self.examples: dict[str, str] = {}
        """The first page and line for each of `lines`."""
        for name in self.pages:
            self._compare(name, _lines(old / name), _lines(new / name))

    def _compare(self, name: str, before: list[str], after: list[str]) -> None:
        before = [other if _same_time(one, other) else one for one, other in zip(before, after, strict=False)] + (
            before[len(after) :]
        )
        if before == after:
            return
        counts = Counter(after)
        counts.subtract(before)
        (self.unequal if any(counts.values()) else self.moved).append(name)
        for line, count in counts.items():
            if count:
                found = _NAME.match(line)
                place = " ".join(filter(None, found.groups())) if found else line[:60]
                key = f"{'+' if count > 0 else '-'} {place}"
                self.lines[key] += abs(count)
                self.examples.setdefault(key, f"{name}: {line}")

    def __str__(self) -> str:
        found = [
            f"{len(self.pages)} pages; {len(self.unequal)} pages differ",
            f"{len(self.moved)} more differ in the order of their lines only",
            f"{len(self.missing)} pages are in one folder only",
        ]
        if first := (self.unequal or self.moved)[:8]:
            found.append(f"first pages that differ: {', '.join(first)}")
        found += [f"  {count:6,} × {key}: {self.examples[key]}" for key, count in self.lines.most_common(_SHOWN)]
        return "\n".join(found)


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
    found = Difference(asked.old, asked.new)
    print(found)
    return int(bool(found.unequal or found.missing or found.moved or not found.pages))


if __name__ == "__main__":
    sys.exit(main())
