"""The soak: run some hours, and check that its limits detect growth."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.soak.report import ROWS, Row, failures
from tests.soak.week import Setting, run

FLAT = {row.name: 1000.0 for row in ROWS}


@pytest.mark.long
def test_two_hours(tmp_path: Path) -> None:
    """Run all events of a day in two hours. The state at the end is not judged, because faults may still be active."""
    week = run(Setting(days=1, hours=2.0, often=240, scrape=60.0), tmp_path)
    assert len(week.looks) == 1
    assert set(week.looks[0].figures) >= {"tasks", "series", "text", "own objects", "live"}
    kinds = Counter[str]()
    for what, count in week.done.items():
        kinds[what.partition(":")[0]] += count
    assert {kind: kinds[kind] for kind in ("fault", "reload", "rotation")} == {"fault": 25, "reload": 8, "rotation": 4}
    assert kinds["scrape"] >= 100
    assert kinds["bad guest"] >= 3
    assert week.done["calls that ended 200"] > 500
    assert week.done["polls of jobs of pai"] >= 20
    assert week.done["jobs that came on pai"] > 10
    assert week.done["jobs that ended on modelarts"] > 10
    assert week.done["jobs that ended on sagemaker"] > 10
    assert dict(week.complaints) == {}


@pytest.mark.parametrize("row", [row for row in ROWS if row.limit is not None], ids=lambda row: row.name)
def test_each_leak_is_found(row: Row) -> None:
    days = [{**FLAT, row.name: 1000.0 + 100.1 * day} for day in range(7)]
    (found,) = failures(days)
    assert found.startswith(row.title)


def test_what_shrinks_or_grows_a_little_is_flat() -> None:
    assert failures([FLAT, {**FLAT, "tasks": 1003.0, "allocated: own": 1050.0, "series": 500.0}]) == []
    assert len(failures([FLAT, {**FLAT, "tasks": 1004.0, "allocated: own": 1050.1}])) == 2
