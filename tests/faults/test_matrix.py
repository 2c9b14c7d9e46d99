"""Every operation under every fault, and docs/evidence/faults.md as it came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.matrix import run_row
from tests.faults.operations import ROWS
from tests.faults.report import DOCUMENT, row_line, words
from tests.faults.row import Row


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_an_operation_under_every_fault(row: Row, tmp_path: Path) -> None:
    result = run_row(row, tmp_path)
    assert result.complaints == []
    written = DOCUMENT.read_text(encoding="utf-8")
    line = row_line(row, result)
    assert f"\n{line}\n" in written, f"docs/evidence/faults.md does not say so (`make faults`): {line}"


def test_what_the_document_says_beside_the_cells() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    for part in words():
        assert part in written, f"docs/evidence/faults.md does not say so (`make faults`): {part}"
