"""docs/evidence/calls.md matches the measured calls. `make cost` measures the large worlds again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.cost import CLOUDS, DOCUMENT, SIZES, WORLDS, Cloud, Measured, measure, table

from trainfleet_exporter.families.usage import PROFILES

_, _, _MEASURED = DOCUMENT.read_text(encoding="utf-8").partition("<!-- measured: begin -->")
DOCUMENTED = _MEASURED.partition("<!-- measured: end -->")[0]


def _rows(text: str) -> dict[str, list[str]]:
    """Return the cells of each row by collector."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `"))
    return {row[0]: row[1:] for row in rows}


def _documented(cloud: Cloud) -> str:
    part = DOCUMENTED.partition(f"**{cloud.title}**")[2].partition("\n\n**")[0]
    assert part
    return part


@pytest.mark.long
@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.name)
def test_the_smallest_world_is_documented_as_it_is_measured(cloud: Cloud) -> None:
    alone, with_ended = (measure(cloud, *world) for world in WORLDS[:2])
    assert with_ended.calls == alone.calls
    measured = _rows(table(cloud, [alone, with_ended]))
    documented = _rows(_documented(cloud))
    assert [(name, cells[:2]) for name, cells in documented.items()] == [
        (name, cells[:2]) for name, cells in measured.items()
    ]


@pytest.mark.long
@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.name)
def test_calls_do_not_grow_with_jobs_but_by_pages(cloud: Cloud) -> None:
    small, large = measure(cloud, 10), measure(cloud, 300)

    def more(collector: str) -> float:
        return large.each(collector) - small.each(collector)

    assert large.live > 200
    assert 0 < more("jobs") <= large.live / cloud.page + 1
    for collector in small.intervals.keys() - {"jobs", "pods", "nodes", "usage"}:
        assert more(collector) == 0, collector
    if cloud.name == "sagemaker":
        assert 0 < more("usage") <= 4 * large.pods / 500 + 1
    else:
        assert more("usage") == 0  # a page of points is far from full
    assert _of_pods(large) <= 500


@pytest.mark.long
def test_profiling_costs_one_call_a_metric_and_poll() -> None:
    off = CLOUDS[0]
    profiled = {**off.collectors["usage"], "profiling": list(PROFILES)}
    on = replace(off, collectors={**off.collectors, "usage": profiled})
    without, with_it = measure(off, SIZES[0]), measure(on, SIZES[0])
    more = {name: with_it.each(name) - without.each(name) for name in without.intervals}
    assert more == {**dict.fromkeys(without.intervals, 0), "usage": 9}


def _of_pods(measured: Measured) -> float:
    return measured.each("pods") if "pods" in measured.intervals else 0.0
