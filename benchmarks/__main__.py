"""`make bench`: measure everything, print it as it goes, and write docs/evidence/benchmarks.md. `--help` says how to do less."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import (
    attacked,
    bombs,
    busy,
    calls,
    churn,
    crowd,
    decompressors,
    door,
    first,
    machine,
    polls,
    prometheus,
    scrape,
)
from benchmarks.report import Found, Table, document, markdown, notes

_DOCUMENT = Path(__file__).parent.parent / "docs" / "evidence" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class _Part:
    """One benchmark: its name on the command line, its heading, and what runs it, whole or short."""

    name: str
    title: str
    run: Callable[[bool], Iterator[Found]]


_PARTS = (
    _Part("polls", "Polls", lambda short: polls.run((100, 1_000), 3) if short else polls.run()),
    _Part("calls", "Calls of a cloud's API", lambda short: calls.run(3) if short else calls.run()),
    _Part("scrape", "Scrapes, side by side", lambda short: scrape.run(short=short)),
    _Part("first", "The first scrape after a poll", lambda short: first.run(short=short)),
    _Part("busy", "Scrapes while polls run", lambda short: busy.run(short=short)),
    _Part("crowd", "Many scrapers, and slow ones", lambda short: crowd.run(short=short)),
    _Part("door", "Slow and idle clients", lambda short: door.run(short=short)),
    _Part("attacked", "Scrapes during attacks", lambda short: attacked.run(short=short)),
    _Part("bombs", "Answers of many values", lambda short: bombs.run(short=short)),
    _Part("prometheus", "A real Prometheus", lambda short: prometheus.run(short=short)),
    _Part("decompressors", "Who can read it", lambda short: decompressors.run(short=short)),
    _Part("churn", "Memory", lambda short: churn.run(1_000, 20) if short else churn.run()),
)


def main() -> int:
    """Run what was asked for. The exit code is 1 where something could not be measured at all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(part.name for part in _PARTS)}")
    parser.add_argument("--short", action="store_true", help="smaller sizes and fewer rounds, to see that all works")
    parser.add_argument("--write", action="store_true", help="write docs/evidence/benchmarks.md even so")
    asked = parser.parse_args()
    unknown = set(asked.names) - {part.name for part in _PARTS}
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    chosen = [part for part in _PARTS if not asked.names or part.name in asked.names]
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # which ends all that was started
    print(f"{machine.machine()}\n{machine.versions()}", flush=True)
    sections: dict[str, list[Found]] = {}
    failed = False
    for part in chosen:
        print(f"\n## {part.title}", flush=True)
        found = sections[part.title] = []
        try:
            for one in part.run(asked.short):
                found.append(one)
                print(f"\n{markdown(one)}", flush=True)
        except Exception as error:  # noqa: BLE001 - one's trouble must not cost what others took an hour to measure
            failed = True
            found.append(Table(f"{part.name}: not measured to its end", ("why",), rows=[(f"{error!r}",)]))
            traceback.print_exc()
        print(notes(found), flush=True)
    if asked.write or not (asked.names or asked.short):
        text = document(sections, machine=machine.machine(), versions=machine.versions())
        _DOCUMENT.write_text(text, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
