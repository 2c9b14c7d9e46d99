"""Compares two folders of pages line by line: `python -m benchmarks.pages OLD NEW`, see `benchmarks.hour`.

Lines about the process and Python are left out. The exporter's own times and durations may differ by a millisecond, as
sums of floats are rounded in another order. With `--ignore-help` HELP lines are compared apart: they are counted and do
not fail. Parts that come in one moment may change places between runs: with `--ignore-order` that does not fail.
`--families` lists which documented families had samples. The exit code is 1 if pages differ.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_DOCUMENT = Path(__file__).parent.parent / "docs" / "metrics.md"
_UNEQUAL = re.compile(r"(?:# \w+ )?(process_|python_)")
"""Lines that are left out: they depend on the machine and the moment."""
_TIME = re.compile(r"(trainfleet_exporter_\w+_seconds(?:_sum|_created)?(?:\{.*\})?) (\S+)")
_TOLERANCE = 0.001
"""Seconds."""
_NAME = re.compile(r"(?:# \w+ )?(\w+)")
_DOCUMENTED = re.compile(r"\| `(trainfleet_\w+)`")
_LABEL = re.compile(r'provider="([^"]*)"')


@dataclass(slots=True)
class Difference:
    """What differs between two folders. Lines are counted on all pages."""

    pages: int = 0
    lines: int = 0
    left_out: int = 0
    times: int = 0
    """Lines of which only the exporter's own time or duration differs, by less than a millisecond."""
    unequal: list[str] = field(default_factory=list)
    """Names of pages with other lines, but for their HELP lines where those are ignored."""
    missing: list[str] = field(default_factory=list)
    """Names of pages that only one folder has."""
    order_only: dict[str, str] = field(default_factory=dict)
    """Pages that have the same lines in another order, each with the first line that moved."""
    families: Counter[str] = field(default_factory=Counter)
    """Differing lines by sign (- old, + new) and family."""
    examples: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The first page and line for each of `families`."""
    help_lines: Counter[str] = field(default_factory=Counter)
    """Families whose HELP differs, by the number of pages."""


def compare(old: Path, new: Path, *, ignore_help: bool) -> Difference:
    """Compare the pages of two folders by name."""
    names = [{path.name for path in folder.glob("*m*s.*")} for folder in (old, new)]
    found = Difference(missing=sorted(names[0] ^ names[1]))
    for name in sorted(names[0] & names[1]):
        pages = [(folder / name).read_text(encoding="utf-8").split("\n") for folder in (old, new)]
        found.pages += 1
        found.lines += len(pages[0])
        found.left_out += sum(1 for line in pages[0] if _UNEQUAL.match(line))
        before, after = ([line for line in page if not _UNEQUAL.match(line)] for page in pages)
        if ignore_help:
            before, after = _without_help(before, after, found.help_lines)
        before = _with_times_of(before, after, found)
        if before != after:
            _note(name, before, after, found)
    return found


def _without_help(before: list[str], after: list[str], changed: Counter[str]) -> tuple[list[str], list[str]]:
    """The pages with the names of families instead of their HELP lines."""
    texts = [{_family(line): line for line in page if line.startswith("# HELP ")} for page in (before, after)]
    for family in texts[0].keys() & texts[1].keys():
        changed[family] += texts[0][family] != texts[1][family]
    return _cut(before), _cut(after)


def _with_times_of(before: list[str], after: list[str], found: Difference) -> list[str]:
    """The page before, but lines that differ in the rounding of a time are those of the page after."""
    lines = list(before)
    for place, (one, other) in enumerate(zip(before, after, strict=False)):
        old, new = _TIME.fullmatch(one), _TIME.fullmatch(other)
        if old and new and one != other and old[1] == new[1] and abs(float(old[2]) - float(new[2])) < _TOLERANCE:
            lines[place] = other
            found.times += 1
    return lines


def _cut(page: list[str]) -> list[str]:
    return [f"# HELP {_family(line)}" if line.startswith("# HELP ") else line for line in page]


def _note(name: str, before: list[str], after: list[str], found: Difference) -> None:
    if sorted(before) == sorted(after):
        found.order_only[name] = next(one for one, other in zip(before, after, strict=True) if one != other)
        return
    found.unequal.append(name)
    counts = Counter(after)
    counts.subtract(before)
    for line, count in counts.items():
        if count:
            key = f"{'+' if count > 0 else '-'} {_family(line)} {_provider(line)}"
            found.families[key] += abs(count)
            found.examples.setdefault(key, (name, line))


def _family(line: str) -> str:
    name = _NAME.match(line)
    return name[1] if name else line[:60]


def _provider(line: str) -> str:
    label = _LABEL.search(line)
    return label[1] if label else ""


def report(found: Difference) -> Iterator[str]:
    """Lines for a reader."""
    yield (
        f"{found.pages} pages, {found.lines:,} lines ({found.left_out:,} left out: process_*, python_*;"
        f" {found.times:,} equal but for rounded times)"
    )
    yield (
        f"{len(found.unequal)} pages differ, {len(found.order_only)} more in the order of their lines only;"
        f" {len(found.missing)} pages are in one folder only"
    )
    if differing := {family: count for family, count in found.help_lines.items() if count}:
        yield f"HELP differs in {len(differing)} families: {', '.join(sorted(differing))}"
    if found.unequal:
        yield f"first pages that differ: {', '.join(found.unequal[:8])}"
    for name, line in list(found.order_only.items())[:8]:
        yield f"  moved on {name}: {line}"
    for key, count in found.families.most_common(60):
        yield f"  {count:6,} × {key}: {': '.join(found.examples[key])}"


def with_samples(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """The documented families that have samples on some page of a folder, and those that have none."""
    documented = list(dict.fromkeys(_DOCUMENTED.findall(_DOCUMENT.read_text(encoding="utf-8"))))
    shown = set()
    for path in folder.glob("*.text.identity"):
        shown |= {_family(line) for line in path.read_text(encoding="utf-8").split("\n") if line and line[0] != "#"}
    shown |= {name.removesuffix(suffix) for name in shown for suffix in ("_bucket", "_sum", "_count")}
    return [name for name in documented if name in shown], [name for name in documented if name not in shown]


def main() -> int:
    """Compare and print; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--ignore-help", action="store_true", help="count HELP lines that differ, and do not fail")
    parser.add_argument("--ignore-order", action="store_true", help="do not fail where lines only changed places")
    parser.add_argument("--families", action="store_true", help="list families with and without samples in NEW")
    parser.add_argument("--diff", metavar="PAGE", help="print the unified diff of one page")
    asked = parser.parse_args()
    if asked.diff:
        before, after = ((one / asked.diff).read_text(encoding="utf-8").split("\n") for one in (asked.old, asked.new))
        print("\n".join(difflib.unified_diff(before, after, str(asked.old), str(asked.new), lineterm="", n=0)))
    found = compare(asked.old, asked.new, ignore_help=asked.ignore_help)
    print("\n".join(report(found)))
    if asked.families:
        shown, absent = with_samples(asked.new)
        print(f"{len(shown)} documented families have samples: {', '.join(shown)}")
        print(f"{len(absent)} have none: {', '.join(absent) or '-'}")
    return int(bool(found.unequal or found.missing or (found.order_only and not asked.ignore_order)))


if __name__ == "__main__":
    sys.exit(main())
