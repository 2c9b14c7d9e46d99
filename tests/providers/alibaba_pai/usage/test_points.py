"""Units and data points of CloudMonitor: this in, that out; and nothing in that breaks anything."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.alibaba_pai.cloud import metric as row
from trainfleet_exporter.families.usage import Quantity
from trainfleet_exporter.fleet.usage import NewestReadings, Reading, Subjects
from trainfleet_exporter.providers.alibaba_pai.metrics import (
    JOB_FAMILIES,
    UNITS,
    Choice,
    Feed,
    MetricMeta,
    base_units,
    feeds,
)
from trainfleet_exporter.providers.alibaba_pai.usage import quota_of, readings

NOW = 1_767_323_045.0
MIB = 2.0**20


@pytest.mark.parametrize(
    ("unit", "quantity", "factor"),
    [
        ("%", "ratio", 0.01),
        ("Percent", "bounded_ratio", 0.01),
        ("Bytes", "bytes", 1),
        ("kB", "bytes", 1e3),
        ("MiB", "bytes", MIB),
        ("Megabytes", "bytes", 1e6),
        ("MB/s", "bytes_per_second", 1e6),
        ("bytes/sec", "bytes_per_second", 1),
        (" KB/Second ", "bytes_per_second", 1e3),
        ("MBps", "bytes_per_second", 1e6),
        ("bits/s", "bytes_per_second", 1 / 8),
        ("bps", "bytes_per_second", 1 / 8),
        ("Mbps", "bytes_per_second", 1e6 / 8),
        ("cores", "cores", 1),
        ("mCore", "cores", 0.001),
        ("Watts", "watts", 1),
        ("mW", "watts", 0.001),
        ("TFlops", "flops_per_second", 1e12),
        ("GFLOP/s", "flops_per_second", 1e9),
    ],
)
def test_units_in_all_their_spellings(unit: str, quantity: Quantity, factor: float) -> None:
    assert base_units(unit, quantity) == factor
    others = {"ratio", "bounded_ratio"} if "ratio" in quantity else {quantity}
    for other in set(get_args(Quantity)) - others:
        assert base_units(unit, other) is None


@pytest.mark.parametrize(
    "unit", ["", "Count", "Kb/s", "kb", "mb/s", "b/s", "MW", "MB/min", "Bytes/s/s", "Kelvin", "%%", "TFLOP", "EFLOPS"]
)
def test_what_is_not_certain_is_no_unit(unit: str) -> None:
    assert [quantity for quantity in UNITS if base_units(unit, quantity) is not None] == []


def _feed(
    name: str, unit: str = "%", dimensions: str | None = None, choices: Mapping[str, Choice] | None = None
) -> Feed:
    given_ = row(name, unit) if dimensions is None else {"MetricName": name, "Unit": unit, "Dimensions": dimensions}
    (feed,) = feeds({name: msgspec.convert(given_, MetricMeta)}, JOB_FAMILIES, choices or {})[0].values()
    return feed


def _readings(feed: Feed, points: Iterable[object]) -> Sequence[Reading]:
    """The readings of an answer that has these points."""
    found = readings(feed, json.dumps(list(points)), quota_of({}, ""))
    assert found is not None
    return list(zip(*found, strict=True))


@pytest.mark.parametrize(
    ("dimensions", "point", "key"),
    [
        ("jobId,pod,gpuId", {"gpuId": "3"}, ("a", "a-0", "3", "gpu")),
        ("jobId,pod,gpuId", {"gpuId": 3}, ("a", "a-0", "3", "gpu")),
        ("jobId,pod,gpuId", {"gpuId": ""}, ("a", "a-0")),
        ("jobId,pod,gpuId", {"cardIndex": "3"}, ("a", "a-0")),
        ("jobId,pod,gpuId,cardIndex", {"gpuId": "3", "cardIndex": "b"}, ("a", "a-0", "3/b", "gpu")),
        ("jobId,pod,gpuId,cardIndex", {"gpuId": "3"}, ("a", "a-0", "3", "gpu")),
        ("jobId,podId,npu-id", {"npu-id": "3"}, ("a", "a-0", "3", "gpu")),
        ("", {"cardIndex": "b", "gpuType": "A10", "gpu": 7}, ("a", "a-0", "b/7", "gpu")),
        ("", {"gpu": True, "device": ""}, ("a", "a-0")),
        ("jobId,podId", {"pod": None, "podId": "p"}, ("a", "p")),
        ("jobId,podId", {"pod": "", "podName": "p"}, ("a", "p")),
        ("jobId,podId", {"pod": 7, "podId": "p"}, ("a", "7")),
        ("jobId,podId", {"pod": None}, ("a",)),
        ("jobId", {}, ("a",)),
    ],
)
def test_what_a_point_is_of(dimensions: str, point: dict[str, object], key: tuple[str, ...]) -> None:
    feed = _feed("CARD_GPU_DUTY_CYCLE", dimensions=dimensions, choices=CARDS_AS)
    assert [found for found, _, _ in _readings(feed, [{"jobId": "a", "pod": "a-0", **point}])] == [key]


CARDS_AS = {
    suffix: Choice(name="CARD_GPU_DUTY_CYCLE")
    for suffix in ("job_accelerator_utilization_ratio", "pod_accelerator_utilization_ratio")
}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
POINT = st.fixed_dictionaries(
    {},
    optional={
        "timestamp": JSON | st.floats(NOW * 1000 - 1e7, NOW * 1000 + 1e7).map(int),
        "jobId": JSON | st.sampled_from(["a", "b"]),
        "pod": JSON | st.sampled_from(["a-0", "a-1"]),
        "gpuId": JSON | st.integers(0, 7),
        "Average": JSON | st.floats(-10, 200),
        "Value": JSON | st.floats(-10, 200),
    },
)


@pytest.mark.parametrize("name", ["JOB_CPU_UTIL", "POD_GPU_ACCELERATOR_DUTTY_UTIL", "CARD_GPU_DUTY_CYCLE"])
@given(points=st.lists(POINT | JSON, max_size=20))
def test_any_points_are_shown_truly_or_counted(name: str, points: list[Any]) -> None:
    feed = _feed(name)
    collected = NewestReadings(feed.level, {"a": 0.0}, Subjects(), now=NOW, max_age=900, once=True)
    collected.take_each(_readings(feed, points))
    assert collected.points == len(points)
    shown = [column for column in collected.of_families(feed.targets, period=0) if column.subjects]
    kept = sum(len(column.values) for column in shown if column.family.level == feed.level)
    levels = sum(family.level == feed.level for family in feed.targets)
    assert kept / levels + sum(collected.dropped.values()) == len(points)
    assert {subject.keys[0] for subject in collected.taken} <= {"a"}
    assert all(NOW - 900 <= time <= NOW + 900 for time in collected.times)
    assert all(0 <= value < math.inf for column in shown for value in column.values)
