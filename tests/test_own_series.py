"""The exporter's own tables: their lines are those of prometheus-client, and two readers get back what was counted."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence

import prometheus_client as prometheus
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.registry import Collector, CollectorRegistry

from trainfleet_exporter.own_series import Counts, Durations, Figures, Heading, Table, Values
from trainfleet_exporter.page import Format

AWKWARD = 'a "word" and a \\ and\na second line'
LABELS = ("second", "first")  # lines have labels sorted by name
LEVEL = Heading("own_level", AWKWARD, LABELS)
SINGLE = Heading("own_single", "Without labels.")
POLLS = Heading("own_polls_total", AWKWARD, LABELS, "counter")
LATENCY = Heading("own_latency_seconds", AWKWARD, LABELS, "histogram")
BOUNDS = (0.01, 0.5, 1.0, 2e6)


class Levels(Table):
    """Gauges that a test sets."""

    def __init__(self, levels: dict[Values, float], single: float) -> None:
        super().__init__()
        self.levels = levels
        self.single = single

    def families(self) -> Iterator[tuple[Heading, Figures]]:
        yield LEVEL, LEVEL.figures(self.levels.items())
        yield SINGLE, SINGLE.figures([((), self.single)])


texts = st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from('\\"\nn{}=, #é😀'))
values = st.tuples(texts, texts)
seconds = st.floats(0, 1e9) | st.sampled_from(BOUNDS)
levels = st.builds(
    Levels, st.dictionaries(values, st.floats() | st.integers(-(10**20), 10**20)), st.floats() | st.booleans()
)
steps = st.lists(st.tuples(values, st.floats(0, 1e20) | st.integers(0, 10**20)))
times = st.lists(st.tuples(values, seconds))


def counted(steps: Iterable[tuple[Values, float]]) -> Counts:
    counts = Counts(POLLS)
    for labels, count in steps:
        counts.add(*labels, count=count)
    return counts


def timed(times: Iterable[tuple[Values, float]]) -> Durations:
    durations = Durations(LATENCY, BOUNDS)
    for labels, taken in times:
        durations.add(*labels, seconds=taken)
    return durations


def registered(*collectors: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return registry


def page(tables: Sequence[Table], fmt: Format) -> bytes:
    return b"".join(table.text(fmt) for table in tables)


def plain(families: Iterable[Metric]) -> list[object]:
    """Families as what can be compared: NaN is written, for it equals nothing."""
    return [
        (family.name, family.documentation, family.type, [(s.name, s.labels, repr(s.value)) for s in family.samples])
        for family in families
    ]


def test_the_lines_of_each_kind() -> None:
    levels = Levels({("b", "a"): 3, ('"\\', "\n"): 1234567.5}, single=True)
    tables = (levels, counted([(("b", "a"), 2), (("c", "a"), 0), (("b", "a"), 0.5)]), timed([(("b", "a"), 0.5)]))
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
    assert page(tables, Format.TEXT).decode() == expected
    heads = {
        "# HELP own_polls_total": "# HELP own_polls",
        "# TYPE own_polls_total": "# TYPE own_polls",
        '"word"': '\\"word\\"',
    }
    for text, openmetrics in heads.items():
        expected = expected.replace(text, openmetrics)
    assert page(tables, Format.OPENMETRICS).decode() == expected


@pytest.mark.long
@given(levels, steps, times)
def test_a_page_is_what_prometheus_client_writes_and_reads(
    levels: Levels, steps: list[tuple[Values, float]], times: list[tuple[Values, float]]
) -> None:
    tables = (levels, counted(steps), timed(times))
    registry = registered(*tables)
    text, openmetrics = page(tables, Format.TEXT), page(tables, Format.OPENMETRICS)
    assert text == write_text(registry)
    assert openmetrics + Format.OPENMETRICS.end == write_openmetrics(registry)
    collected = plain(registry.collect())
    assert plain(read_text(text.decode())) == collected
    assert plain(read_openmetrics((openmetrics + Format.OPENMETRICS.end).decode())) == collected


@given(steps, times)
@example([], [(("b", "a"), bound) for bound in BOUNDS])
@example([], [(("b", "a"), math.nextafter(bound, math.inf)) for bound in BOUNDS])
def test_the_same_is_counted_as_by_the_instruments_of_prometheus_client(
    steps: list[tuple[Values, float]], times: list[tuple[Values, float]]
) -> None:
    counter = prometheus.Counter(POLLS.name, POLLS.help, POLLS.labels, registry=None)
    for labels, count in steps:
        counter.labels(*labels).inc(count)
    histogram = prometheus.Histogram(LATENCY.name, LATENCY.help, LATENCY.labels, registry=None, buckets=BOUNDS)
    for labels, taken in times:
        histogram.labels(*labels).observe(taken)
    theirs = list(registered(counter, histogram).collect())
    for family in theirs:  # the process' start is told once, not with every series
        family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    assert plain(registered(counted(steps), timed(times)).collect()) == plain(theirs)


@pytest.mark.parametrize("fmt", Format)
def test_what_is_forgotten_is_written_no_more_and_begins_from_nothing(fmt: Format) -> None:
    rows = [(("b", "a"), 1.0), (("b", "c"), 1.0), (("d", "a"), 1.0)]
    counts, durations = counted(rows), timed(rows)
    assert counts.text(fmt).count(b'first="a"') == 2
    assert durations.text(fmt).count(b'_count{first="a"') == 2
    for labels, left in (
        ({"second": "b", "first": "a"}, rows[1:]),
        ({"second": "b"}, rows[2:]),
        ({"second": "nobody"}, rows[2:]),
    ):
        counts.forget(**labels)
        durations.forget(**labels)
        assert counts.text(fmt) == counted(left).text(fmt)
        assert durations.text(fmt) == timed(left).text(fmt)
    counts.add("b", "a")
    durations.add("b", "a", seconds=1.0)
    assert counts.text(fmt) == counted([rows[2], rows[0]]).text(fmt)
    assert durations.text(fmt) == timed([rows[2], rows[0]]).text(fmt)


def test_lines_follow_what_comes_and_goes() -> None:
    table = Levels({}, single=0)
    for number in range(30):
        table.levels = {(str(n), "a"): float(n) for n in range(number, number + number % 4)}
        assert table.text(Format.TEXT) == Levels(table.levels, single=0).text(Format.TEXT)


def test_series_that_have_gone_take_no_memory() -> None:
    table, wide = Levels({}, single=0), "x" * 10_000

    def churn(numbers: range) -> None:
        for number in numbers:
            table.levels = {(f"{number}{wide}", "a"): 1.0}
            table.text(Format.TEXT)

    churn(range(10))
    tracemalloc.start()
    try:
        churn(range(10, 200))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20 * len(wide)  # of 190 series, each with a line and a key as wide
