"""Writes docs/evidence/faults.md from the results of the matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.faults.columns import COLUMNS, ENDS, GROUPS, Column
from tests.faults.matrix import RowResult
from tests.faults.operations import ROWS
from tests.faults.row import Row

DOCUMENT = Path(__file__).parents[2] / "docs" / "evidence" / "faults.md"
_SIGNS = {"kept": "K", "same": "=", "reported": "!", "less": "−", "other": "~", "void": "·"}
_EXCLUDED = "_"
_HEAD = """\
# Every operation under every fault

`make faults` writes this page, and the tests check it. In each cell, one operation of a simulated cloud fails in one
way. An exporter polls two providers over loopback HTTP on a stepped clock. The test reads all pages before the fault,
twice during the fault, and after it.
"""
_CHECKS = """\
The test checks the following in each cell. [Exceptions](#exceptions) lists the cells in which it skips a check.

- `/metrics` responds with 200 and is well-formed in both formats. All other pages respond as before.
- Every collector that does not need the operation keeps polling. The other provider is not affected.
- Nothing on the page is false: no zero for a missing value, no duplicate, no partial list shown as a whole.
- Values on the page during the fault are the last good ones. Only families that the operation feeds are missing.
- The exporter counts the calls with the outcome of the fault. The log has a few lines, not one for each poll.
- The last good values stay for `keep_last_good_polls` intervals. Then their series disappear.
- One interval after the fault, everything is as before, with the same number of parts.
  [Slower to recover](#slower-to-recover) lists the exceptions.
- Only running collectors and kept connections use tasks and open files. After the exporter stops, no task and no open
  file is left.
- No planted secret is in any page or log line. Secrets are keys, tokens, passwords and private data in jobs.
"""


_SPARED = {
    "calls": "the fault's own outcome",
    "lines": "the number of log lines",
    "while it lasts": "that the values stay the same",
    "while it should be kept": "that the last good values stay",
    "kept for ever": "that the values disappear in time",
    "recovery line": "that the log reports the recovery",
}
"""The meaning of each check of cell.py that a cell may skip."""


def document(results: Mapping[str, RowResult], seconds: float, cores: int) -> str:
    """The whole page. `results` are by the rows' names."""
    cells = [cell for result in results.values() for cell in result.cells.values()]
    ends = Counter(cell.end for cell in cells)
    held = sum(not cell.complaints for cell in cells)
    excluded = sum(row.excludes(column) is not None for row in ROWS for column in COLUMNS)
    assert len(cells) == len(ROWS) * len(COLUMNS) - excluded, "a cell is missing without a reason"
    searched = sum(result.searched for result in results.values())
    size = sum(result.size for result in results.values())
    lines = max(cell.lines for cell in cells)
    summary = (
        f"**{held:,} of {len(cells):,} cells passed**, of {len(ROWS)} operations and {len(COLUMNS)} faults. {excluded} "
        f"cells are [excluded](#excluded). {searched:,} pages and logs of {size / 1e6:,.0f} MB contain no secret. "
        f"A cell of three minutes has at most {lines} log lines. The run took {seconds:.0f} s on {cores} cores.\n"
    )
    parts = [
        _HEAD,
        summary,
        _CHECKS,
        "## Signs in the tables\n",
        *(f"- `{_SIGNS[end]}` ({ends[end]:,} cells): {meaning}" for end, meaning in ENDS.items()),
        f"- `{_EXCLUDED}` ({excluded}): excluded\n",
    ]
    parts += ["## Faults\n", "The signs of an operation are in the order of these lists.\n"]
    for group in GROUPS:
        columns = [column for column in COLUMNS if column.group == group]
        parts += [f"**{group}**\n"]
        parts += [
            f"{at}. {column.name}: {column.meaning}{_counted(column)}" for at, column in enumerate(columns, 1)
        ] + [""]
    parts += ["## Operations\n", f"| operation | {' | '.join(GROUPS)} |\n|---|{'---|' * len(GROUPS)}"]
    parts += [*(row_line(row, results[row.name]) for row in ROWS), ""]
    parts += ["## What is missing while an operation fails\n", *_losses(), ""]
    parts += ["## Exceptions\n", *_unlike(), ""]
    parts += ["## Slower to recover\n", *_slow(), ""]
    parts += ["## Excluded\n", *_exclusions(), ""]
    return "\n".join(parts)


def words() -> list[str]:
    """The parts of the page that do not depend on the results of the cells."""
    return [_HEAD, _CHECKS, *_losses(), *_unlike(), *_slow(), *_exclusions()]


def row_line(row: Row, result: RowResult) -> str:
    """The row of an operation: for each group, one sign for each fault."""
    signs = {name: _SIGNS[cell.end] for name, cell in result.cells.items()}
    found = [
        "".join(signs.get(column.name, _EXCLUDED) for column in COLUMNS if column.group == group) for group in GROUPS
    ]
    return f"| {row.title} | {' | '.join(f'`{text}`' for text in found)} |"


def _counted(column: Column) -> str:
    return f" (counted as `{column.outcomes[0]}`)" if column.ends == ("kept",) else ""


def _losses() -> list[str]:
    """The families and collectors that fail without an operation, with all operations for which they are the same."""
    titles: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        families = ", ".join(f"`{family}`" for family in row.loses) or "none"
        titles.setdefault((families, ", ".join(f"`{name}`" for name in row.fails) or "none"), []).append(row.title)
    lines = ["| operations | families (without `trainfleet_`) | collectors that fail |", "|---|---|---|"]
    return lines + [f"| {_listed(found)} | {families} | {fails} |" for (families, fails), found in titles.items()]


def _unlike() -> list[str]:
    """Cells that differ from the others of their column, by reason."""
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in ROWS:
        for fault, unlike in row.unlike.items():
            spared = " and ".join(_SPARED[check] for check in unlike.excused)
            cell = f"{fault} (`{_SIGNS[unlike.end]}`)"
            reasons.setdefault((unlike.why, spared), {}).setdefault(cell, []).append(row.title)
    lines = ["| faults | operations | reason | not checked |", "|---|---|---|---|"]
    for (why, spared), cells in reasons.items():
        titles = dict.fromkeys(title for found in cells.values() for title in found)
        lines.append(f"| {_listed(cells)} | {_listed(titles)} | {why} | {spared} |")
    return lines + [f"| every fault | {row.title} | {row.copes} | |" for row in ROWS if row.copes]


def _slow() -> list[str]:
    """Recoveries that take more than one interval."""
    reasons: dict[str, list[str]] = {}
    for row in ROWS:
        if row.slow:
            reasons.setdefault(row.slow, []).append(row.title)
    lines = ["| what | recovers |", "|---|---|"]
    lines += [
        f"| {column.name}, every operation | after {column.recovers} polls |"
        for column in COLUMNS
        if column.recovers > 1
    ]
    return lines + [f"| {_listed(titles)} | later: {reason} |" for reason, titles in reasons.items()]


def _exclusions() -> list[str]:
    """Faults that only some operations can have, with these operations."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for column in COLUMNS:
        rows = [row for row in ROWS if not row.only]
        for reason in dict.fromkeys(found for row in rows if (found := row.excludes(column)) is not None):
            reasons[column.name, reason] = [row.title for row in rows if row.excludes(column) is None]
    lines = ["| fault | operations | why not the others |", "|---|---|---|"]
    lines += [f"| {name} | {_listed(titles)} | {reason} |" for (name, reason), titles in reasons.items()]
    return lines + [
        f"| all except {' and '.join(row.only)} | {row.title} | the row without `source: auto` has all |"
        for row in ROWS
        if row.only
    ]


def _listed(names: Iterable[str]) -> str:
    return "<br>".join(names)
