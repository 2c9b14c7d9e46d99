"""The exporter's own counters, histograms and gauges: their lines are those of prometheus-client, and readers agree."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable, Iterator

import prometheus_client as prometheus
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.registry import Collector, CollectorRegistry

from trainfleet_exporter.page import Format
from trainfleet_exporter.telemetry import Counter, Histogram, forget_label_texts, write

AWKWARD = 'a "word" and a \\ and\na second line'
LABELS = ("second", "first")  # lines have labels sorted by name
BUCKETS = (0.01, 0.5, 1.0, 2e6)
Values = tuple[str, str]


class Levels(Collector):
    """Gauges that a test sets."""

    def __init__(self, levels: dict[Values, float], single: float) -> None:
        self.levels = levels
        self.single = single

    def collect(self) -> Iterator[Metric]:
        level = GaugeMetricFamily("own_level", AWKWARD, labels=LABELS)
        for labels, value in self.levels.items():
            level.add_metric(labels, value)
        yield level
        yield GaugeMetricFamily("own_single", "Without labels.", value=self.single)


texts = st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from('\\"\nn{}=, #é😀'))
values = st.tuples(texts, texts)
seconds = st.floats(0, 1e9) | st.sampled_from(BUCKETS)
levels = st.builds(
    Levels, st.dictionaries(values, st.floats() | st.integers(-(10**20), 10**20)), st.floats() | st.booleans()
)
steps = st.lists(st.tuples(values, st.floats(0, 1e20) | st.integers(0, 10**20)))
times = st.lists(st.tuples(values, seconds))


def counted(steps: Iterable[tuple[Values, float]], kind: type[prometheus.Counter] = Counter) -> prometheus.Counter:
    counter = kind("own_polls_total", AWKWARD, LABELS, registry=None)
    for labels, count in steps:
        counter.labels(*labels).inc(count)
    return counter


def timed(times: Iterable[tuple[Values, float]], kind: type[prometheus.Histogram] = Histogram) -> prometheus.Histogram:
    histogram = kind("own_latency_seconds", AWKWARD, LABELS, buckets=BUCKETS, registry=None)
    for labels, taken in times:
        histogram.labels(*labels).observe(taken)
    return histogram


def registered(*collectors: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return registry


def plain(families: Iterable[Metric]) -> list[object]:
    """Families as comparable values, without `_created`. NaN is written, because it equals nothing."""
    return [
        (
            family.name,
            family.documentation,
            family.type,
            [(s.name, s.labels, repr(float(s.value))) for s in family.samples if not s.name.endswith("_created")],
        )
        for family in families
    ]


def test_lines_of_each_kind() -> None:
    levels = Levels({("b", "a"): 3, ('"\\', "\n"): 1234567.5}, single=True)
    parts = (levels, counted([(("b", "a"), 2), (("c", "a"), 0), (("b", "a"), 0.5)]), timed([(("b", "a"), 0.5)]))
    expected = """\
# HELP own_level a "word" and a \\\\ and\\na second line
# TYPE own_level gauge
own_level{first="a",second="b"} 3.0
own_level{first="\\n",second="\\"\\\\"} 1.2345675e+06
# HELP own_single Without labels.
# TYPE own_single gauge
own_single 1.0
# HELP own_polls_total a "word" and a \\\\ and\\na second line
# TYPE own_polls_total counter
own_polls_total{first="a",second="b"} 2.5
own_polls_total{first="a",second="c"} 0.0
# HELP own_latency_seconds a "word" and a \\\\ and\\na second line
# TYPE own_latency_seconds histogram
own_latency_seconds_bucket{first="a",le="0.01",second="b"} 0.0
own_latency_seconds_bucket{first="a",le="0.5",second="b"} 1.0
own_latency_seconds_bucket{first="a",le="1.0",second="b"} 1.0
own_latency_seconds_bucket{first="a",le="2e+06",second="b"} 1.0
own_latency_seconds_bucket{first="a",le="+Inf",second="b"} 1.0
own_latency_seconds_count{first="a",second="b"} 1.0
own_latency_seconds_sum{first="a",second="b"} 0.5
"""
    assert write(parts, Format.TEXT).decode() == expected
    heads = {
        "# HELP own_polls_total": "# HELP own_polls",
        "# TYPE own_polls_total": "# TYPE own_polls",
        '"word"': '\\"word\\"',
    }
    for text, openmetrics in heads.items():
        expected = expected.replace(text, openmetrics)
    assert write(parts, Format.OPENMETRICS).decode() == expected


@pytest.mark.long
@given(levels, steps, times)
def test_page_is_what_prometheus_client_writes_and_reads(
    levels: Levels, steps: list[tuple[Values, float]], times: list[tuple[Values, float]]
) -> None:
    parts = (levels, counted(steps), timed(times))
    registry = registered(*parts)
    text, openmetrics = write(parts, Format.TEXT), write(parts, Format.OPENMETRICS) + Format.OPENMETRICS.end
    assert text == write_text(registry)
    assert openmetrics == write_openmetrics(registry)
    collected = plain(registry.collect())
    assert plain(read_text(text.decode())) == collected
    assert plain(read_openmetrics(openmetrics.decode())) == collected


@given(steps, times)
@example([], [(("b", "a"), bound) for bound in BUCKETS])
@example([], [(("b", "a"), math.nextafter(bound, math.inf)) for bound in BUCKETS])
def test_samples_are_those_of_prometheus_client_but_created(
    steps: list[tuple[Values, float]], times: list[tuple[Values, float]]
) -> None:
    ours = (counted(steps), timed(times))
    theirs = plain(registered(counted(steps, prometheus.Counter), timed(times, prometheus.Histogram)).collect())
    assert plain(registered(*ours).collect()) == theirs
    assert plain(read_text(write(ours, Format.TEXT).decode())) == theirs
    assert not any(
        sample.name.endswith("_created") for one in ours for family in one.collect() for sample in family.samples
    )


@pytest.mark.parametrize("fmt", Format)
def test_removed_series_is_not_written_and_restarts_at_zero(fmt: Format) -> None:
    rows = [(("b", "a"), 1.0), (("b", "c"), 1.0), (("d", "a"), 1.0)]
    counter, histogram = counted(rows), timed(rows)
    assert write([counter], fmt).count(b'first="a"') == 2
    assert write([histogram], fmt).count(b'_count{first="a"') == 2
    for labels, left in (
        ({"second": "b", "first": "a"}, rows[1:]),
        ({"second": "b"}, rows[2:]),
        ({"second": "unknown"}, rows[2:]),
    ):
        counter.remove_by_labels(labels)
        histogram.remove_by_labels(labels)
        assert write([counter], fmt) == write([counted(left)], fmt)
        assert write([histogram], fmt) == write([timed(left)], fmt)
    counter.labels("b", "a").inc()
    histogram.labels("b", "a").observe(1.0)
    assert write([counter], fmt) == write([counted([rows[2], rows[0]])], fmt)
    assert write([histogram], fmt) == write([timed([rows[2], rows[0]])], fmt)


def test_gauge_lines_follow_series_that_come_and_go() -> None:
    gauges = Levels({}, single=0)
    for number in range(30):
        gauges.levels = {(str(n), "a"): float(n) for n in range(number, number + number % 4)}
        assert write([gauges], Format.TEXT) == write_text(registered(gauges))


def test_half_surrogate_pairs_do_not_spoil_the_page() -> None:
    parts = (Levels({("\ud800", "a"): 1.0}, single=0), counted([(("\udfff", "a"), 1.0)]))
    page = write(parts, Format.TEXT).decode()
    assert 'own_level{first="a",second="\ufffd"} 1.0\n' in page
    assert 'own_polls_total{first="a",second="\ufffd"} 1.0\n' in page


def test_removed_series_take_no_memory() -> None:
    gauges, counter, histogram, wide = Levels({}, single=0), counted([]), timed([]), "x" * 10_000

    def churn(numbers: range) -> None:
        for number in numbers:
            labels = f"{number}{wide}", "a"
            gauges.levels = {labels: 1.0}
            counter.labels(*labels).inc()
            histogram.labels(*labels).observe(1.0)
            write((gauges, counter, histogram), Format.TEXT)
            counter.remove(*labels)
            histogram.remove(*labels)
        gauges.levels = {}
        forget_label_texts()

    churn(range(10))
    tracemalloc.start()
    try:
        churn(range(10, 200))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20 * len(wide)  # 190 series, each with a label and lines of that width
