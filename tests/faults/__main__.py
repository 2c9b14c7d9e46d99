"""Runs the matrix, prints what does not hold, and writes docs/evidence/faults.md. Names of operations narrow it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.faults.matrix import RowResult, run_row
from tests.faults.operations import ROWS
from tests.faults.report import DOCUMENT, document


def _run(place: int) -> RowResult:
    with tempfile.TemporaryDirectory() as folder:
        return run_row(ROWS[place], Path(folder))


def main(wanted: list[str]) -> int:
    """The exit code: 1 where something does not hold."""
    places = [place for place, row in enumerate(ROWS) if not wanted or row.operation in wanted]
    started, cores = time.monotonic(), os.cpu_count() or 1
    with ProcessPoolExecutor(cores) as pool:
        results = dict(zip((ROWS[place].name for place in places), pool.map(_run, places), strict=True))
    complaints = [f"{name}: {text}" for name, result in results.items() for text in result.complaints]
    print("\n".join(complaints))
    if not complaints and not wanted:
        DOCUMENT.write_text(document(results, time.monotonic() - started, cores), encoding="utf-8")
    if wanted:
        for name, result in results.items():
            print(name, {fault: f"{cell.end} {cell.outcomes}" for fault, cell in result.cells.items()})
    cells = sum(len(result.cells) for result in results.values())
    print(f"{cells} cells, {len(complaints)} complaints, {time.monotonic() - started:.0f} s")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
