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
from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.families.usage import USAGE_FAMILIES
from trainfleet_exporter.providers.alibaba_pai.payloads import MetricMeta
from trainfleet_exporter.providers.alibaba_pai.usage.cloudmonitor import point_reader
from trainfleet_exporter.providers.alibaba_pai.usage.metrics import (
    FAMILIES,
    JOB_FAMILIES,
    UNITS,
    Choice,
    Feed,
    Metric,
    base_units,
    feeds,
    is_device_key,
    metric,
)
from trainfleet_exporter.providers.usage.columns import Column, columns
from trainfleet_exporter.providers.usage.entities import Entities, Key
from trainfleet_exporter.providers.usage.newest import Newest, Scope
from trainfleet_exporter.providers.usage.quantities import Quantity
from trainfleet_exporter.transport.json_fields import counting_unusable

NOW = 1_767_323_045.0
MIB = 2.0**20


@pytest.mark.parametrize(
    ("unit", "quantity", "factor"),
    [
        ("%", "ratio", 0.01),
        ("Percent", "bounded_ratio", 0.01),
        ("percentage", "ratio", 0.01),
        ("ratio", "ratio", 1),
        ("Bytes", "bytes", 1),
        ("byte", "bytes", 1),
        ("KB", "bytes", 1e3),
        ("kB", "bytes", 1e3),
        ("MB", "bytes", 1e6),
        ("GB", "bytes", 1e9),
        ("KiB", "bytes", 1024),
        ("MiB", "bytes", MIB),
        ("GiB", "bytes", 2**30),
        ("Megabytes", "bytes", 1e6),
        ("MB/s", "bytes_per_second", 1e6),
        ("MiB/s", "bytes_per_second", MIB),
        ("Bytes/s", "bytes_per_second", 1),
        ("bytes/sec", "bytes_per_second", 1),
        (" KB/Second ", "bytes_per_second", 1e3),
        ("MBps", "bytes_per_second", 1e6),
        ("bit/s", "bytes_per_second", 1 / 8),
        ("bits/s", "bytes_per_second", 1 / 8),
        ("bps", "bytes_per_second", 1 / 8),
        ("Mbps", "bytes_per_second", 1e6 / 8),
        ("Kbit/s", "bytes_per_second", 1e3 / 8),
        ("Core", "cores", 1),
        ("cores", "cores", 1),
        ("mCore", "cores", 0.001),
        ("W", "watts", 1),
        ("Watts", "watts", 1),
        ("mW", "watts", 0.001),
        ("TFLOPS", "flops_per_second", 1e12),
        ("TFlops", "flops_per_second", 1e12),
        ("GFLOP/s", "flops_per_second", 1e9),
        ("tflops", "flops_per_second", 1e12),
        ("flops", "flops_per_second", 1),
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


@given(st.text(max_size=12), st.sampled_from(sorted(UNITS)))
def test_any_text_is_a_unit_or_is_not(unit: str, quantity: Quantity) -> None:
    factor = base_units(unit, quantity)
    assert factor is None or factor > 0


def _feed(
    name: str, unit: str = "%", dimensions: str | None = None, choices: Mapping[str, Choice] | None = None
) -> Feed:
    given_ = row(name, unit) if dimensions is None else {"MetricName": name, "Unit": unit, "Dimensions": dimensions}
    return feeds({name: _metric(given_)}, JOB_FAMILIES, choices or {})[0][name]


def _metric(given_: Mapping[str, object]) -> Metric:
    return metric(msgspec.convert(given_, MetricMeta))


@pytest.mark.parametrize("given_", [None, "", "[]", [], " [ ] "])
def test_no_points_are_no_error(given_: object) -> None:
    assert point_reader(_feed("JOB_CPU_UTIL")).decode(given_) == []


@pytest.mark.parametrize(
    "given_", ["[", "{}", "null", "1", {"a": 1}, 7, False, "[" * 100_000, "[" + "9" * 5000 + "]", '[{"jobId":"a"},,{}]']
)
@pytest.mark.parametrize("dimensions", ["jobId,pod,gpuId", ""])
def test_what_is_no_list_of_points_is_a_bad_answer(given_: object, dimensions: str) -> None:
    with pytest.raises(BadAnswer):
        point_reader(_feed("CARD_GPU_DUTY_CYCLE", dimensions=dimensions)).decode(given_)


def test_one_spoilt_point_loses_only_itself() -> None:
    """NaN and half a surrogate pair are no JSON, and a point may be anything."""
    reader = point_reader(_feed("POD_CPU_UTIL"))
    good = {"timestamp": 1767323000000, "jobId": "a", "pod": "a-0", "Average": 5}
    odd = [{**good, "Average": math.nan}, {**good, "pod": "\ud800"}, {**good, "jobId": 7}, "text", None, 7]
    points = reader.decode(json.dumps([good, *odd, {**good, "timestamp": "1767323000000", "Average": "5"}]))
    assert points[0] == points[-1]
    (batch,) = reader.batches(points)
    assert repr(batch.values) == "[[5.0, nan, 5.0, 5.0, None, None, None, 5.0]]"
    assert [key[:1] for key in batch.keys] == [("a",)] * 3 + [("7",)] + [("",)] * 3 + [("a",)]
    texts = [(point.job_id, point.pod) for point in points if point is not None]
    assert texts == [("a", "a-0")] * 2 + [("a", 3 * "\N{REPLACEMENT CHARACTER}"), ("7", "a-0"), ("a", "a-0")]


def test_malformed_point_is_counted_once() -> None:
    with counting_unusable() as unusable:
        point_reader(_feed("JOB_CPU_UTIL")).decode('[{"timestamp": [], "Average": true}]')
    assert unusable == {}


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
    reader = point_reader(_feed("CARD_GPU_DUTY_CYCLE", dimensions=dimensions, choices=CARDS_AS))
    (batch,) = reader.batches(reader.decode(json.dumps([{"jobId": "a", "pod": "a-0", **point}])))
    assert list(batch.keys) == [key]


CARDS_AS = {
    suffix: Choice(name="CARD_GPU_DUTY_CYCLE")
    for suffix in ("job_accelerator_utilization_ratio", "pod_accelerator_utilization_ratio")
}


@pytest.mark.parametrize("statistic", ["pod", "podId", "timestamp", "class", "a-b", "gpuId", "P99"])
def test_a_statistic_may_have_any_name(statistic: str) -> None:
    choice = {"device_utilization_ratio": Choice(statistic=statistic)}
    feed = _feed("CARD_GPU_DUTY_CYCLE", dimensions="jobId,pod,gpuId", choices=choice)
    point = {"timestamp": int(NOW) * 1000, "jobId": "a", "pod": "a-0", "gpuId": "3", statistic: 50}
    collected = _collected(feed)
    _take(feed, collected, [point] if statistic not in ("pod", "timestamp", "gpuId") else [])
    assert len(collected.subjects) == (statistic in ("class", "a-b", "P99"))


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


def _collected(feed: Feed, *, entities: Entities | None = None) -> Newest:
    """What is to be collected of the job a."""
    index = (entities or Entities()).of(feed.level)
    return Newest(index, Scope(frozenset("a")), now=NOW, max_age=900, statistics=len(feed.statistics))


def _take(feed: Feed, newest: Newest, points: Iterable[object]) -> None:
    """Points as an answer has them."""
    reader = point_reader(feed)
    for batch in reader.batches(reader.decode(json.dumps(list(points)))):
        newest.take(batch)


def _columns(feed: Feed, newest: Newest) -> Sequence[Column]:
    return columns(newest, Entities(), feed.targets).columns


def _found(newest: Newest) -> dict[Key, tuple[float, list[float]]]:
    """What was read: by key, the time and the values in the metric's unit."""
    return {
        key: (newest.times.get(subject, newest.time), [values[subject] for values in newest.values])
        for key, subject in newest.index.subjects.items()
        if subject in newest.subjects
    }


@pytest.mark.parametrize("name", ["JOB_CPU_UTIL", "POD_GPU_ACCELERATOR_DUTTY_UTIL", "CARD_GPU_DUTY_CYCLE"])
@given(points=st.lists(POINT | JSON, max_size=20))
def test_any_points_are_shown_truly_or_counted(name: str, points: list[Any]) -> None:
    feed = _feed(name)
    collected = _collected(feed)
    _take(feed, collected, points)
    assert collected.rows == len(points)
    found = _found(collected)
    assert len(collected.subjects) == len(found)
    shown = _columns(feed, collected)
    kept = sum(len(column.readings.subjects) for column in shown if column.level == feed.level)
    levels = sum(target.family.level == feed.level for target in feed.targets)
    assert kept / levels + sum(collected.dropped.values()) == len(points)
    for key, (time, _) in found.items():
        assert key[0] == "a"
        assert NOW - 900 <= time <= NOW + 900
    for column in shown:
        assert len(column.readings.subjects) == len(column.readings.values) == len(column.oldest) > 0
        assert all(0 <= value < math.inf for value in column.readings.values)


USUAL = st.fixed_dictionaries(
    {
        "timestamp": st.integers(-16, 16).map(lambda minutes: int(NOW + 60 * minutes) * 1000) | JSON,
        "jobId": st.sampled_from(["a", "a", "a", "b"]),
        "pod": st.sampled_from(["a-0", "a-1", "", "é"]) | JSON,
        "gpuId": st.sampled_from(["0", "1", 1]),
        "Average": st.floats(-1, 110)
        | st.floats()
        | st.integers()
        | st.sampled_from([10**300, 10**400, True, "7", None]),
    },
    optional={"Value": st.integers(0, 9), "podId": st.sampled_from(["a-0", "a-2"])},
)


PLAIN = st.fixed_dictionaries(
    {
        "timestamp": st.integers(-16, 16).map(lambda minutes: int(NOW + 60 * minutes) * 1000),
        "jobId": st.sampled_from(["a", "a", "a", "b"]),
        "pod": st.sampled_from(["a-0", "a-1", "é"]),
        "gpuId": st.sampled_from(["0", "1"]),
        "Average": st.floats(-1, 110) | st.integers(-1, 110),
    },
    optional={"Value": st.integers(0, 9), "podId": st.sampled_from(["a-0", "a-2"])},
)


@pytest.mark.parametrize(
    ("name", "unit", "dimensions"),
    [
        ("JOB_CPU_UTIL", "%", "jobId"),
        ("POD_MEMORY_UTIL", "%", "jobId,pod"),
        ("POD_CPU_USED", "mCore", ""),
        ("POD_MEMORY_USED", "MiB", "jobId,podId"),
        ("CARD_GPU_DUTY_CYCLE", "%", "jobId,pod,gpuId"),
        ("CARD_GPU_POWER_USAGE", "W", "jobId,pod,gpuId,cardIndex"),
    ],
)
@given(pages=st.lists(st.lists(USUAL, max_size=8) | st.lists(PLAIN, max_size=8), max_size=3))
def test_fast_path_for_points_gives_the_same_result(
    name: str, unit: str, dimensions: str, pages: list[list[Any]]
) -> None:
    feed = _feed(name, unit, dimensions)
    whole, usual = _collected(feed), _collected(feed)
    entities = Entities()
    for _ in range(2):  # only what was met before is known to the short way
        usual = _collected(feed, entities=entities)
        for page in pages:
            _take(feed, usual, page)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Newest, "_take_usual", Newest._take_odd)
        for point in [point for page in pages for point in page]:
            _take(feed, whole, [point])
    found = [{key: repr(reading) for key, reading in _found(each).items()} for each in (usual, whole)]  # as NaN is NaN
    assert found[0] == found[1]
    assert (usual.dropped, usual.rows, usual.spoiled) == (whole.dropped, whole.rows, whole.spoiled)
    shown = [
        [
            {
                subject.keys: value
                for subject, value in zip(column.entity_list.subjects, column.readings.values, strict=True)
            }
            for column in _columns(feed, each)
        ]
        for each in (usual, whole)
    ]
    assert shown[0] == shown[1]
    assert usual.dropped == whole.dropped


def test_newest_point_wins_in_any_order() -> None:
    ages = (60, 30, 45)
    feed = _feed("JOB_CPU_UTIL")
    collected = _collected(feed)
    _take(feed, collected, [{"timestamp": (NOW - age) * 1000, "jobId": "a", "Average": age} for age in ages])
    assert _found(collected) == {("a",): (NOW - 30, [30])}
    assert collected.dropped == {"duplicate": 2}


@pytest.mark.parametrize(
    ("point", "value"),
    [
        ({"Average": 50}, 0.5),
        ({"Value": 50}, 0.5),
        ({"average": "50"}, 0.5),
        ({"value": 50.0}, 0.5),
        ({"Average": 50, "Value": 70, "Maximum": 90}, 0.5),
        ({"Average": None, "Value": 70}, 0.7),
        ({"Maximum": 90}, None),
        ({"Average": "-1"}, None),
        ({"Average": 10**400}, None),
        ({"Average": True}, None),
        ({"Average": math.nan}, None),
    ],
)
def test_the_statistic_is_the_average_or_the_value(point: dict[str, Any], value: float | None) -> None:
    feed = _feed("JOB_CPU_UTIL")
    collected = _collected(feed)
    _take(feed, collected, [{"timestamp": NOW * 1000, "jobId": "a", **point}])
    found = [list(column.readings.values) for column in _columns(feed, collected)]
    assert found == ([] if value is None else [[value]])


def test_metric_without_default_statistic_needs_a_named_one() -> None:
    only = {"POD_CPU_USED": Metric("POD_CPU_USED", "Core", ("jobId", "pod"), (60,), ("Sum",))}
    found, unfed = feeds(only, JOB_FAMILIES, {})
    assert found == {}
    assert [each.reason for each in unfed] == ["of Average and Value it has none"] * 2
    found, unfed = feeds(only, JOB_FAMILIES, {"pod_cpu_usage_cores": Choice(statistic="Sum")})
    assert [target.family.suffix for target in found["POD_CPU_USED"].targets] == ["pod_cpu_usage_cores"]


@pytest.mark.parametrize(
    ("dimensions", "name", "level"),
    [
        ("userId,regionId,workspaceId,jobId", "X", "job"),
        ("jobId,podId", "X", "pod"),
        ("jobId, pod, gpu", "X", "device"),
        ("jobId,nodeId,gpuId", "X", "device"),
        ("quotaName,regionId", "X", "pool"),
        ("quotaId,nodeId", "NODE_CPU_UTIL", None),
        ("instanceId", "X", None),
        ("", "CARD_X", "device"),
        ("", "SOMETHING", None),
    ],
)
def test_dimensions_say_what_a_metric_is_of(dimensions: str, name: str, level: str | None) -> None:
    assert _metric({"MetricName": name, "Dimensions": dimensions}).level == level


def test_dimension_that_identifies_cards() -> None:
    keys = ["gpuId", "gpu", "cardIndex", "device", "NPU", "nodeGpuType", "gpuModel", "gpuCount", "jobId", "nodeId", "x"]
    assert [key for key in keys if is_device_key(key)] == ["gpuId", "gpu", "cardIndex", "device", "NPU"]


@pytest.mark.parametrize(
    ("periods", "period"), [("60,300", 60), ("15,60", 60), ("300,900", 300), ("15", 15), ("", None), ("a, 60 ", 60)]
)
def test_the_period_is_a_minute_or_what_is_next_to_it(periods: str, period: int | None) -> None:
    assert _metric({"MetricName": "X", "Periods": periods}).period == period


def test_every_family_of_the_table_is_one_that_is_exposed() -> None:
    exposed = {family.name.removeprefix("trainfleet_") for family in USAGE_FAMILIES}
    of_disks_or_sources = {"job_usage_info", "job_usage_timestamp_seconds"}
    assert FAMILIES.keys() <= exposed
    assert exposed - FAMILIES.keys() - of_disks_or_sources == {
        "pool_disk_utilization_ratio",
        "pool_disk_capacity_bytes",
        "pool_disk_available_bytes",
    }
