"""The soak: run some hours, and check that its limits detect growth."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from tests.soak.logbook import logbook
from tests.soak.report import ROWS, Limit, Row, failures, growing, table
from tests.soak.week import Setting, run
from trainfleet_exporter.process.logs import fields

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
    assert week.done["calls that ended ok"] > 500
    assert week.done["polls of jobs of pai"] >= 20
    assert week.done["jobs that came on pai"] > 10
    assert week.done["jobs that ended on modelarts"] > 10
    assert week.done["jobs that ended on sagemaker"] > 10
    assert dict(week.complaints) == {}


def test_a_flat_table_is_flat() -> None:
    assert failures([FLAT] * 7) == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.limit is not None], ids=lambda row: row.name)
def test_each_leak_is_found(row: Row) -> None:
    days = [{**FLAT, row.name: 1000.0 + 100.1 * day} for day in range(7)]
    (found,) = failures(days)
    assert found.startswith(row.title)


@pytest.mark.parametrize("row", [row for row in ROWS if row.limit is None], ids=lambda row: row.name)
def test_notes_are_not_judged(row: Row) -> None:
    assert failures([FLAT, {**FLAT, row.name: 9000.0}]) == []


def test_what_shrinks_or_grows_a_little_is_flat() -> None:
    assert failures([FLAT, {**FLAT, "tasks": 1003.0, "allocated: own": 1050.0, "series": 500.0}]) == []
    assert len(failures([FLAT, {**FLAT, "tasks": 1004.0, "allocated: own": 1050.1}])) == 2


def test_a_figure_that_cannot_be_had_is_left_out() -> None:
    days = [{name: value for name, value in FLAT.items() if name != "descriptors"}] * 2
    assert failures(days) == []
    assert "descriptors" not in table(days)


def test_table_has_rows_of_figures_and_columns_of_days() -> None:
    rows = (Row("a", "things", Limit(more=2)), Row("b", "size, KiB", Limit(share=0.05), 1024), Row("c", "a note"))
    days = [{"a": 5.0, "b": 2048.0, "c": 0.0}, {"a": 6.0, "b": 2150.4, "c": 3.0}]
    assert table(days, rows).splitlines() == [
        "|  | day 1 | day 2 | growth | allowed |",
        "|---|---:|---:|---:|---:|",
        "| things | 5 | 6 | +20.0% | +2 |",
        "| size, KiB | 2.0 | 2.1 | +5.0% | +5% |",
        "| a note | 0 | 3 | +3 | not judged |",
    ]


def test_what_grew_most_comes_first() -> None:
    reported = growing("Files", Counter(a=1, b=5, gone=3), Counter(a=2, b=9000, new=7))
    assert reported.splitlines() == ["Files:", "", "- b: +8,995 (5 → 9,000)", "- new: +7 (0 → 7)", "- a: +1 (1 → 2)"]
    assert growing("Files", Counter(a=1), Counter(a=1)).endswith("- nothing")


def test_operator_errors_are_the_only_expected_errors() -> None:
    log = logging.getLogger("trainfleet_exporter.app.reload")
    with logbook() as book:
        log.info("not counted")
        log.warning("poll failed", extra=fields(error="x"))
        log.error("not reloaded; the old config stays in use", extra=fields(error="x"))
        assert not book.unexpected
        log.error("something else")
        try:
            raise ValueError("1")
        except ValueError:
            log.warning("a trace", exc_info=True)
        logging.getLogger("asyncio").warning("a task was never waited for")
    assert book.unexpected.total() == 3
    assert book.counts["WARNING", log.name, "poll failed"] == 1
