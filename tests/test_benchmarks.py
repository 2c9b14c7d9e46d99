"""`make bench` keeps what it measured if a later part fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import __main__ as bench
from benchmarks import report


def test_failed_part_keeps_measured_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(short: bool, old: Path | None):  # type: ignore[no-untyped-def]
        yield report.Section("Scrapes", (), {"small": report.Table(("server",), [("nginx",)])})
        raise RuntimeError("no memory")

    monkeypatch.setattr(report, "DOCUMENT", tmp_path / "page.md")
    monkeypatch.setattr(bench, "_PARTS", {"scrapes": failing, "polls": lambda *_: iter([report.Section("Polls", ())])})
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    assert bench.main() == 1
    page = report.DOCUMENT.read_text(encoding="utf-8")
    assert page.index("no memory") < page.index("| nginx |") < page.index("## Polls")
