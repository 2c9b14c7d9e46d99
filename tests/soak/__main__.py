"""Run a simulated week and print a table of what grows. The exit code is 1 if something leaks or a check fails."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.soak.report import failures, growing, table
from tests.soak.week import Setting, Week, run
from trainfleet_exporter.process import logs
from trainfleet_exporter.process.resources import tune_memory


def main() -> int:
    """Run the soak and return the exit code."""
    setting = Setting()
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--days", type=int, default=setting.days, help="number of simulated days; default: %(default)s")
    parser.add_argument("--seed", type=int, default=setting.seed, help="seed of the clouds and of the events")
    parser.add_argument("--interval", type=int, default=setting.often, help="seconds between polls of jobs and usage")
    parser.add_argument("--scrape", type=float, default=setting.scrape, help="seconds between scrapes")
    parser.add_argument(
        "--untraced", action="store_true", help="do not trace allocations, which takes three quarters of the time"
    )
    asked = parser.parse_args()
    if asked.days < 2:
        parser.error("--days: 2 or more are needed to compare")
    given = Setting(days=asked.days, seed=asked.seed, often=asked.interval, scrape=asked.scrape)
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        logs.set_up_logs("info", "logfmt", nowhere)  # formats log records, as always
        if not asked.untraced:
            tracemalloc.start()
        tune_memory()  # as the daemon does
        week = run(given, Path(folder), lambda line: print(line, file=sys.stderr, flush=True))
    print(_report(given, week))
    return int(bool(_verdict(week)))


def _verdict(week: Week) -> list[str]:
    grown = failures([look.figures for look in week.looks])
    return [*grown, *(f"{count} × {text}" for text, count in sorted(week.complaints.items()))]


def _report(setting: Setting, week: Week) -> str:
    first, last = week.looks[0], week.looks[-1]
    faults = _verdict(week)
    parts = [
        f"# {setting.days} days on the stepped clock",
        (
            f"Python {platform.python_version()}, {week.wall / 60:.1f} min in all. Jobs and usage are polled every"
            f" {setting.often} s, workspaces every {setting.often // 6} s, the rest every {setting.often * 3} s;"
            f" a scrape every {setting.scrape:.0f} s."
        ),
        table([look.figures for look in week.looks]),
        "\n".join(["**Not flat:**", "", *(f"- {fault}" for fault in faults)]) if faults else "**Flat.**",
        "What happened:\n\n" + _list((f"{count:,} × {what}") for what, count in sorted(week.done.items())),
        "What was logged above info:\n\n"
        + _list(f"{count:,} × {level} {words}" for (level, _, words), count in _sorted(week.warnings)),
        growing("Objects of which there are more, by class", first.classes, last.classes),
    ]
    if first.files:
        parts.append(growing("Bytes allocated by files that hold more", first.files, last.files))
    return "\n\n".join(parts)


def _sorted(counts: Counter[tuple[str, str, str]]) -> list[tuple[tuple[str, str, str], int]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "- nothing"


if __name__ == "__main__":
    sys.exit(main())
