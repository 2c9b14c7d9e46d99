"""Heads in both formats."""

from __future__ import annotations

from trainfleet_exporter.families.family import MetricFamily, number
from trainfleet_exporter.model import Job
from trainfleet_exporter.page.formats import Format, head

COUNTER = MetricFamily("x_total", 'A "quoted" \\ text\nof two lines', Job, number("restarts"), kind="counter")
GAUGE = MetricFamily("x_seconds", "Plain", Job, number("duration"))


def test_text_keeps_the_name_and_the_quotes() -> None:
    assert head(COUNTER, Format.TEXT) == (
        b'# HELP x_total A "quoted" \\\\ text\\nof two lines\n# TYPE x_total counter\n'
    )


def test_openmetrics_drops_total_and_escapes_quotes() -> None:
    assert head(COUNTER, Format.OPENMETRICS) == (
        b'# HELP x A \\"quoted\\" \\\\ text\\nof two lines\n# TYPE x counter\n'
    )


def test_gauges_are_named_alike() -> None:
    assert head(GAUGE, Format.TEXT) == head(GAUGE, Format.OPENMETRICS)
    assert head(GAUGE, Format.TEXT) == b"# HELP x_seconds Plain\n# TYPE x_seconds gauge\n"
