"""Writes docs/evidence/faults.md from the results of the matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.faults.columns import COLUMNS, ENDS, GROUPS, Column
from tests.faults.matrix import RowResult
from tests.faults.operations import ROWS
from tests.faults.row import Row

DOCUMENT = Path(__file__).parents[2] / "docs" / "evidence" / "faults.md"
_SIGNS = {"kept": "K", "same": "=", "reported": "!", "less": "−", "other": "~", "void": "·"}
_EXCLUDED = "_"
_NEXT = "/"
_JOINED: Mapping[str, Sequence[str]] = {
    f"*credentials of {cloud}*": [row.title for row in ROWS if row.used_by and row.cloud == name]
    for cloud, name in (("Alibaba", "pai"), ("AWS", "sagemaker"), ("Huawei", "modelarts"))
}
"""Names that stand for several operations."""
_HEAD = """\
# Every operation under every fault

`make faults` writes this page, and the tests check it. In each cell, an operation of a simulated cloud fails in one
way. An exporter polls two providers over loopback HTTP on a stepped clock.
"""
_OF_CREDENTIALS = """\
*Credentials* of a cloud are its operations that get keys: those of `sts` and `metadata`, and of `iam` with a password.
"""
_CHECKS = """\
The test checks the following in each cell, except in those of [Exceptions](#exceptions):

- `/metrics` responds with 200 and is well-formed in both formats. All other pages respond as before.
- Collectors that do not need the operation, and the other provider, keep polling.
- Nothing on the page is false: no zero for a missing value, no duplicate, no partial list shown as a whole.
- Values on the page are the last good ones. Only families that [the operation feeds](../metrics.md) are missing.
- The exporter counts the calls with the outcome of the fault. The log has a few lines, not one for each poll.
- The last good values stay for `keep_last_good_polls` intervals. Then their series disappear.
- One interval after the fault, everything is as before, except in [Slower to recover](#slower-to-recover).
- No task, connection or open file is left over.
- No planted secret is in any page or log line: keys, tokens, passwords and private data in jobs.
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
    parts += ["## Faults\n", f"The signs of an operation are in this order. `{_NEXT}` begins the next list.\n"]
    for group in GROUPS:
        columns = [column for column in COLUMNS if column.group == group]
        parts += [f"**{group}**\n"]
        parts += [f"{at}. {column.name}{_counted(column)}: {column.meaning}" for at, column in enumerate(columns, 1)]
        parts += [""]
    parts += [
        "## Operations\n",
        _OF_CREDENTIALS,
        "```text",
        *(row_line(row, results[row.name]) for row in ROWS),
        "```\n",
    ]
    parts += ["## Exceptions\n", *_unlike(), ""]
    parts += ["## Slower to recover\n", *_slow(), ""]
    parts += ["## Excluded\n", *_exclusions(), ""]
    return "\n".join(parts)


def words() -> list[str]:
    """The parts of the page that do not depend on the results of the cells."""
    return [_HEAD, _CHECKS, *_unlike(), *_slow(), *_exclusions()]


def row_line(row: Row, result: RowResult) -> str:
    """The line of an operation: for each group, one sign for each fault."""
    signs = {name: _SIGNS[cell.end] for name, cell in result.cells.items()}
    found = [
        "".join(signs.get(column.name, _EXCLUDED) for column in COLUMNS if column.group == group) for group in GROUPS
    ]
    return f"{_NEXT.join(found)} {row.title}"


def _counted(column: Column) -> str:
    return f" (`{column.outcomes[0]}`)" if column.ends == ("kept",) else ""


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
    return "<br>".join(_short(names))


def _short(names: Iterable[str]) -> list[str]:
    """Replace all names of a group by the name of the group."""
    found = list(names)
    for name, group in _JOINED.items():
        if set(group) <= set(found):
            found = [name, *(each for each in found if each not in group)]
    return found
