"""No component is larger than its limit, and no module is outside of the table of limits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.architecture import limits
from tests.architecture.limits import LEAST_SHARE, ROWS, Row, count_data, files, row_of, sizes, table

_GROWING = {"simulator": 1_200, "conformance kit": 1_200, "benchmarks, fuzz, generator": 1_200}
"""What these rows may have more than at first: judges come before the code that they judge."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_component_is_over_its_limit(row: Row) -> None:
    assert sizes()[row.name].lines <= row.limit, f"{row.name} has grown; the table is:\n{table()}"


@pytest.mark.parametrize("row", [row for row in ROWS if row.spacing], ids=lambda row: row.name)
def test_no_component_is_squeezed(row: Row) -> None:
    assert sizes()[row.name].spacing >= LEAST_SHARE * row.spacing, f"{row.name} is denser; the table is:\n{table()}"


def test_every_file_is_in_a_row() -> None:
    assert [name for name in files() if row_of(name) is None] == [], "add their paths to a row of tests/architecture"


def test_no_path_is_in_two_rows() -> None:
    paths = Counter(path for row in ROWS for path in row.paths)
    assert [path for path, count in paths.items() if count > 1] == []


def test_no_limit_is_above_the_first_size() -> None:
    allowed = {row.name: row.first + _GROWING.get(row.name, 0) for row in ROWS if row.first}
    assert {row.name: row.limit for row in ROWS if row.first and row.limit > allowed[row.name]} == {}


def test_long_lines_of_data_count_for_several() -> None:
    assert count_data("") == 0
    assert count_data("a: 1\n\n" + "x" * 121 + "\n") == 4


def test_a_grown_and_denser_component_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "src" / "trainfleet_exporter" / "transport"
    package.mkdir(parents=True)
    for name in ("client.py", "guard.py"):
        (package / name).write_text("a = 1; b = 2\n" * 1_500)
    (package / "table.yaml").write_text("- 1\n" * 10)
    monkeypatch.setattr(limits, "ROOT", tmp_path)
    found = sizes.__wrapped__()["transport"]
    assert (found.lines, found.code, found.statements) == (3_010, 3_000, 6_000)
    (row,) = (row for row in ROWS if row.name == "transport")
    assert found.lines > row.limit
    assert found.spacing < LEAST_SHARE * row.spacing
