"""Compare this checkout with an older one, for a change without visible effect: pages and CPU of polls.

`pages OLD NEW` compares two folders of pages (see benchmarks.hour) line by line. Lines about the process and Python are
left out. The exporter's own times and durations may differ by a millisecond, because floats are summed in another
order. The exit code is 1 if pages differ.

`versions --old PATH` compares the CPU of a poll: in turns, in one run, with the same cloud. Each checkout runs its own
`benchmarks.driven`, which must know the commands `sweep` and `sweep jobs`. The exit code is 1 above a limit.
"""

from __future__ import annotations

import argparse
import itertools
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.polls import KINDS, PODS, REPEATED, ROUNDS, Costs, measure
from benchmarks.report import Table, markdown, milliseconds, notes, spread
from benchmarks.rig import ROOT

_UNEQUAL = re.compile(r"(?:# \w+ )?(process_|python_)")
"""Ignored lines, which depend on the machine and the moment."""
_TIME = re.compile(r"(trainfleet_exporter_\w+_seconds(?:_sum|_created)?(?:\{.*\})?) (\S+)")
_TOLERANCE = 0.001
"""Seconds."""
_NAME = re.compile(r"(?:# \w+ )?(\w+)")
_LABEL = re.compile(r'provider="([^"]*)"')

_SIZES = (1_000, 10_000)
_AT_MOST = 1.7
"""Allowed cost of a poll of the new checkout, as a ratio to the old one."""


@dataclass(slots=True)
class Difference:
    """The differences of two folders. Lines are counted on all pages."""

    pages: int = 0
    lines: int = 0
    left_out: int = 0
    times: int = 0
    """Lines that differ only in the exporter's own time or duration, by less than a millisecond."""
    unequal: list[str] = field(default_factory=list)
    """Names of pages with other lines, except for HELP lines if those are ignored."""
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


def compare_pages(old: Path, new: Path, *, ignore_help: bool) -> Difference:
    """Compare the pages of two folders by name."""
    names = [{path.name for path in folder.glob("*m*s.*")} for folder in (old, new)]
    found = Difference(missing=sorted(names[0] ^ names[1]))
    for name in sorted(names[0] & names[1]):
        pages = [(folder / name).read_bytes().decode().split("\n") for folder in (old, new)]
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
    """Return the pages with the names of families in place of their HELP lines."""
    texts = [{_family(line): line for line in page if line.startswith("# HELP ")} for page in (before, after)]
    for family in texts[0].keys() & texts[1].keys():
        changed[family] += texts[0][family] != texts[1][family]
    return _cut(before), _cut(after)


def _with_times_of(before: list[str], after: list[str], found: Difference) -> list[str]:
    """Return the page before. Lines that differ only in the rounding of a time are those of the page after."""
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
    """Return the differences as text lines."""
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


def _polls_table(costs: Costs, rounds: int) -> Table:
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
    for kind, size in itertools.product(KINDS, costs):
        pairs = costs[size][kind]
        olds, news = zip(*pairs, strict=True)
        shares = [new / old for old, new in pairs]
        kept = "kept" if statistics.median(shares) <= _AT_MOST else "**not kept**"
        cells = milliseconds(olds), milliseconds(news), spread(shares)
        table.rows.append((kind.title, f"{size:,}", *cells, str(_AT_MOST), kept))
    return table


def main() -> int:
    """Compare and print; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    pages = commands.add_parser("pages", help="compare two folders of pages")
    pages.add_argument("old", type=Path)
    pages.add_argument("new", type=Path)
    pages.add_argument("--ignore-help", action="store_true", help="count HELP lines that differ, and do not fail")
    pages.add_argument("--ignore-order", action="store_true", help="do not fail if only the order of lines differs")
    pages.set_defaults(run=_pages)
    versions = commands.add_parser("versions", help="compare the CPU of a poll")
    versions.add_argument("--old", type=Path, required=True, help="checkout to compare with")
    versions.add_argument("--new", type=Path, default=ROOT, help="checkout to measure (default: this one)")
    versions.add_argument("--sizes", type=int, nargs="+", default=_SIZES, metavar="JOBS")
    versions.add_argument("--rounds", type=int, default=ROUNDS)
    versions.set_defaults(run=_versions)
    asked = parser.parse_args()
    code: int = asked.run(asked)
    return code


def _pages(asked: argparse.Namespace) -> int:
    found = compare_pages(asked.old, asked.new, ignore_help=asked.ignore_help)
    print("\n".join(report(found)))
    return int(bool(found.unequal or found.missing or (found.order_only and not asked.ignore_order)))


def _versions(asked: argparse.Namespace) -> int:
    costs = measure(asked.sizes, asked.rounds, [asked.old.resolve(), asked.new.resolve()])
    table = _polls_table(costs, asked.rounds)
    print(markdown(table), notes([table]), sep="\n")
    turns = [pairs for kinds in costs.values() for pairs in kinds.values()]
    return int(any(statistics.median(new / old for old, new in pairs) > _AT_MOST for pairs in turns))


if __name__ == "__main__":
    sys.exit(main())
