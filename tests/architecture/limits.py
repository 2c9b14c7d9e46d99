"""The size of each component, and the most that it may have: `python -m tests.architecture.limits` prints the table.

To lower a limit, edit the fourth column of ROWS. Limits are never raised. Lines are those of all files under `src`, of
the modules elsewhere and of the data of `deploy/generator`, with comments, docstrings and blank lines. In other files
than modules, a line counts once for each 120 characters: code gains nothing by moving into data. Words are counted in
docs. Statements are those of the syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.architecture.source import ROOT

_LINE = 120
"""Characters; the line length of ruff."""
LEAST_SHARE = 0.9
"""Of the lines for each statement that a component had at first."""


class Row(NamedTuple):
    """A component. `first` is its size when the table was made, `spacing` its lines for each statement then."""

    name: str
    first: int
    spacing: float
    limit: int
    goal: int
    paths: tuple[str, ...]
    """Folders and modules, without endings. A longer path takes files from a shorter one of another row."""


def _in(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{package}/{name}" for name in names)


def _cloud(name: str) -> tuple[str, ...]:
    return _in(_EXPORTER, f"providers/{name}", f"clouds/{name}")


_EXPORTER = "src/trainfleet_exporter"
_ENGINES = (
    *("canonical", "collectors", "credentials", "past", "jobs", "judging", "key_search", "keys", "registry"),
    *("transport_factory", "usage", "values"),
)
_REST = ("__init__", "model", "errors", "registry", "testing", "py.typed", "clouds/__init__")
EXPORTER_GOAL = 24_000
# fmt: off
ROWS = (
    Row("Alibaba PAI", 5_125, 1.652, 2_889, 2_900, _cloud("alibaba_pai")),
    Row("Huawei ModelArts", 5_411, 1.587, 3_532, 2_700, _cloud("huawei_modelarts")),
    Row("AWS SageMaker", 2_531, 1.644, 1_923, 1_250, _cloud("aws_sagemaker")),
    Row("engines of clouds", 5_903, 1.465, 3_030, 2_900,
        _in(_EXPORTER, "fleet", *(f"providers/{name}" for name in ("__init__", *_ENGINES)))),
    Row("transport", 2_505, 1.576, 1_905, 1_950, _in(_EXPORTER, "transport")),
    Row("polling, exposition, families, telemetry", 3_661, 1.803, 2_887, 2_900,
        _in(_EXPORTER, "polling", "exposition", "families", "telemetry")),
    Row("config", 2_267, 1.471, 1_147, 1_150, _in(_EXPORTER, "config")),
    Row("web", 2_830, 1.449, 1_885, 1_900, _in(_EXPORTER, "web")),
    Row("app, cli, process", 3_120, 1.530, 2_344, 2_350,
        _in(_EXPORTER, "app", "cli", "commands", "process", "__main__")),
    Row("budgets, sharding, lease", 1_907, 1.492, 650, 650,
        _in(_EXPORTER, "budgets", "pacing", "sharding", "lease")),
    Row("backfill, diagnose, ledger", 2_674, 1.507, 1_878, 1_900,
        _in(_EXPORTER, "backfill", "diagnose", "job_ledger", "ledger")),
    Row("model, errors, registry, rest", 746, 1.608, 727, 750, _in(_EXPORTER, *_REST)),
    Row("template of the status page", 543, 0.000, 535, 543,
        _in(_EXPORTER, "web/status_page/page.html", "web/status_page/style")),
    Row("simulator", 10_781, 1.685, 6_991, 7_000, ("src/trainfleet_simulator",)),
    Row("conformance kit", 2_745, 1.517, 1_800, 1_800, ("src/trainfleet_conformance",)),
    Row("tests", 71_458, 1.612, 37_726, 38_000, ("tests",)),
    Row("benchmarks, fuzz, generator", 12_296, 2.163, 7_979, 8_000, ("benchmarks", "fuzz", "deploy/generator")),
    Row("second generator of detection", 0, 0.000, 977, 1_000, ("benchmarks/detection_second",)),
    Row("examples, receiver", 859, 1.742, 810, 859, ("examples", "deploy/__init__", "deploy/compose")),
    Row("docs (words)", 76_854, 0.000, 39_735, 40_000, ("docs",)),
)
# fmt: on


@dataclass(slots=True)
class Size:
    """The size of a component. `lines` are words if it is of docs; `code` is the lines of its modules."""

    lines: int = 0
    code: int = 0
    statements: int = 0

    @property
    def spacing(self) -> float:
        """Return the lines for each statement; 0 without statements."""
        return self.code / self.statements if self.statements else 0.0


def row_of(path: str) -> Row | None:
    """Return the row of a file by its path from the root."""
    fitting = [
        (len(start), row)
        for row in ROWS
        for start in row.paths
        if path.startswith(start) and path[len(start) :][:1] in _ENDS
    ]
    return max(fitting, key=lambda one: one[0])[1] if fitting else None


_ENDS = ("", "/", ".", "_")
"""What may follow the path of a row in the path of a file: `usage` has `usage.py`, `usage_past.py` and `usage/`."""


def files() -> Iterator[str]:
    """Yield the paths of all files that count, from the root: modules, all files of packages, and docs."""
    for folder in sorted(ROOT.iterdir()):
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and "__pycache__" not in name and ".egg-info/" not in name and _counts(folder.name, path):
                yield name


def _counts(folder: str, path: Path) -> bool:
    is_data = path.suffix == ".yaml" and "generator" in path.parts
    return folder == "src" or is_data or path.suffix == (".md" if folder == "docs" else ".py")


@cache
def sizes() -> dict[str, Size]:
    """Return the size of each row, by its name. Files of no row do not count."""
    found = {row.name: Size() for row in ROWS}
    for name in files():
        if row := row_of(name):
            _add(name, found[row.name])
    return found


def _add(name: str, size: Size) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".md"):
        size.lines += len(text.split())
    elif name.endswith(".py"):
        size.lines += text.count("\n")
        size.code += text.count("\n")
        size.statements += sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
    else:
        size.lines += count_data(text)


def count_data(text: str) -> int:
    """Count the lines of a file that is no module. One of more than 120 characters counts for several."""
    return sum(max(1, -(-len(line) // _LINE)) for line in text.splitlines())


def table() -> str:
    """Return the table of all components as text."""
    cells: list[tuple[str, ...]] = [
        ("component", "first", "now", "limit", "goal", "statements", "lines each", "at least")
    ]
    for row in ROWS:
        now = sizes()[row.name]
        numbers = (row.first, now.lines, row.limit, row.goal, now.statements)
        spacing = (f"{now.spacing:.3f}", f"{LEAST_SHARE * row.spacing:.3f}") if row.spacing else ("", "")
        cells.append((row.name, *(f"{number:,}" for number in numbers), *spacing))
    exporter = [row for row in ROWS if row.paths[0].startswith(_EXPORTER) and row.spacing]
    lines = sum(sizes()[row.name].lines for row in exporter)
    totals = (sum(row.first for row in exporter), lines, sum(row.limit for row in exporter), EXPORTER_GOAL)
    cells.append(("exporter, without the template", *(f"{number:,}" for number in totals), "", "", ""))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        line[0].ljust(widths[0])
        + "".join(f"  {text:>{width}}" for text, width in zip(line[1:], widths[1:], strict=True))
        for line in cells
    )


if __name__ == "__main__":
    print(table())
