"""`make bench`: run the benchmarks, print the results, and write docs/evidence/benchmarks.md."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import detection, memory, peers, polls, report
from benchmarks.report import Found, Table, markdown, notes

_DOCUMENT = Path(__file__).parent.parent / "docs" / "evidence" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class _Part:
    """One benchmark: its name on the command line, its heading, and the function that runs it, whole or short."""

    name: str
    title: str
    run: Callable[[bool, Path | None], Iterator[Found]]


_PARTS = (
    _Part(
        "polls",
        "Polls",
        lambda short, old: polls.cost(polls.SIZES[: 2 if short else 3], 3 if short else polls.ROUNDS, old),
    ),
    _Part("calls", "Calls of a cloud's API", lambda short, _: peers.lists(short=short)),
    _Part("scrapes", "Scrapes, compared with other servers", peers.scrapes),
    _Part("while-polling", "Scrapes while polls run", polls.busy),
    _Part("large-answers", "Responses with many values", lambda short, _: memory.large_answers(short=short)),
    _Part("memory", "Memory", lambda short, _: memory.fleet(short=short)),
)


def main() -> int:
    """Run the chosen benchmarks. The exit code is 1 if one of them could not measure anything."""
    if sys.argv[1:2] == ["detection"]:  # it measures rules, not speed
        return detection.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"benchmarks to run (default: all): {', '.join(part.name for part in _PARTS)}",
    )
    parser.add_argument(
        "--short", action="store_true", help="use smaller sizes and fewer rounds, to check that everything works"
    )
    parser.add_argument(
        "--write", action="store_true", help="write docs/evidence/benchmarks.md, also after a short or partial run"
    )
    parser.add_argument("--old", type=Path, help="another checkout, which some benchmarks measure in turn")
    asked = parser.parse_args()
    unknown = set(asked.names) - {part.name for part in _PARTS}
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends all child processes
    print(f"{report.machine()}\n{report.versions()}", flush=True)
    sections: dict[str, list[Found]] = {}
    failed = False
    for part in _PARTS:
        if asked.names and part.name not in asked.names:
            continue
        print(f"\n## {part.title}", flush=True)
        found = sections[part.title] = []
        try:
            for one in part.run(asked.short, asked.old):
                found.append(one)
                print(f"\n{markdown(one)}", flush=True)
        except Exception as error:  # noqa: BLE001 - a failed part must not lose what others measured in an hour
            failed = True
            found.append(Table(f"{part.name}: not measured to its end", ("why",), rows=[(f"{error!r}",)]))
            traceback.print_exc()
        print(notes(found), flush=True)
    if asked.write or not (asked.names or asked.short):
        _DOCUMENT.write_text(report.document(sections), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
