"""Units and data points of CloudMonitor: this in, that out; and nothing in that breaks anything."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.alibaba_pai.cloud import metric as row
from tests.providers.alibaba_pai.working import at_once
from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.families.usage import USAGE_FAMILIES
from trainfleet_exporter.providers.alibaba_pai.catalogue import Metric, is_device_key, metric
from trainfleet_exporter.providers.alibaba_pai.columns import columns
from trainfleet_exporter.providers.alibaba_pai.datapoints import (
    UNFIT,
    UNREAD,
    Collected,
    Whose,
    batches,
    points_of,
)
from trainfleet_exporter.providers.alibaba_pai.metric_map import FAMILIES, JOB_FAMILIES, Choice, Feed, feeds
from trainfleet_exporter.providers.alibaba_pai.plain_points import PlainPoints, as_object, plain_points
from trainfleet_exporter.providers.alibaba_pai.roster import Key, Rosters
from trainfleet_exporter.providers.alibaba_pai.units import UNITS, Quantity, base_units, convert

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
    ],
)
def test_units_in_all_their_spellings(unit: str, quantity: Quantity, factor: float) -> None:
    assert base_units(unit, quantity) == factor
    others = {"ratio", "bounded_ratio"} if "ratio" in quantity else {quantity}
    for other in set(get_args(Quantity)) - others:
        assert base_units(unit, other) is None


@pytest.mark.parametrize(
    "unit", ["", "Count", "Kb/s", "kb", "mb/s", "b/s", "MW", "MB/min", "Bytes/s/s", "Celsius", "%%"]
)
def test_what_is_not_certain_is_no_unit(unit: str) -> None:
    assert [quantity for quantity in UNITS if base_units(unit, quantity) is not None] == []


@given(st.text(max_size=12), st.sampled_from(sorted(UNITS)))
def test_any_text_is_a_unit_or_is_not(unit: str, quantity: Quantity) -> None:
    factor = base_units(unit, quantity)
    assert factor is None or factor > 0


@given(st.floats(), st.sampled_from(sorted(UNITS)), st.data())
def test_a_converted_value_is_finite_and_not_negative(raw: float, quantity: Quantity, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(sorted(UNITS[quantity])))
    value = convert(raw, UNITS[quantity][unit], quantity)
    assert value is None or (math.isfinite(value) and value >= 0)
    if value is not None and quantity == "bounded_ratio":
        assert value <= 1


@given(st.floats(min_value=0, max_value=100))
def test_percent_is_a_hundredth(percent: float) -> None:
    assert convert(percent, UNITS["ratio"]["%"], "ratio") == pytest.approx(percent / 100, abs=1e-11)


@pytest.mark.parametrize("given_", [None, "", "[]", [], " [ ] "])
def test_no_points_are_no_error(given_: object) -> None:
    assert points_of({"Datapoints": given_}, "Datapoints") == []
    assert points_of({}, "Datapoints") == []


@pytest.mark.parametrize("given_", ["[", "{}", "null", "1", {"a": 1}, 7, "[" * 100_000, "[" + "9" * 5000 + "]"])
def test_what_is_no_list_of_points_is_a_bad_answer(given_: object) -> None:
    with pytest.raises(BadAnswer):
        points_of({"Datapoints": given_}, "Datapoints")


PLAIN_POINT = {"timestamp": 1767323000000, "jobId": "a", "pod": "a-0", "gpuId": "3", "Average": 5, "other": [1]}


@pytest.mark.parametrize(
    ("point", "is_plain"),
    [
        (PLAIN_POINT, True),
        ({**PLAIN_POINT, "Average": 0.5, "podId": 7}, True),
        ({**PLAIN_POINT, "Average": "5"}, False),
        ({**PLAIN_POINT, "Average": None}, False),
        ({**PLAIN_POINT, "Average": 10**305}, False),
        ({**PLAIN_POINT, "timestamp": "1767323000000"}, False),
        ({**PLAIN_POINT, "timestamp": True}, False),
        ({**PLAIN_POINT, "pod": ""}, False),
        ({**PLAIN_POINT, "pod": 7}, False),
        ({**PLAIN_POINT, "gpuId": 7}, False),
        ({**PLAIN_POINT, "jobId": None}, False),
        ("text", False),
    ],
)
def test_only_a_page_of_usual_points_is_read_the_short_way(point: object, is_plain: bool) -> None:
    plain = _collected(_feed("CARD_GPU_DUTY_CYCLE")).plain
    assert plain is not None
    for page, expected in (([point], is_plain), ([PLAIN_POINT, point], is_plain), ([], True)):
        points = _in_batches(json.dumps(page), plain)
        assert [isinstance(each, plain.struct) for each in points] == [expected] * len(page)
        if not expected:
            assert list(points) == page


@pytest.mark.parametrize("name", ["pod-1", "},{", '"},{"', '}],[{"', "\\"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_long_page_is_decoded_piece_by_piece(
    name: str, separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainfleet_exporter.providers.alibaba_pai.plain_points._PIECE", 250)
    plain = _collected(_feed("CARD_GPU_DUTY_CYCLE")).plain
    assert plain is not None
    point = {name: value for name, value in PLAIN_POINT.items() if name != "other"}
    page = [{**point, "pod": name, "gpuId": str(number)} for number in range(20)]
    text = json.dumps(page, separators=separators)
    assert [as_object(point) for point in _in_batches(text, plain)] == page
    if name == "pod-1" and separators == (",", ":"):
        assert len(list(plain.page(text))) == 5
        for broken in (text[:-1], text[1:], text + "]", text.replace("},{", "},,{", 9)):
            with pytest.raises(BadAnswer):
                _in_batches(broken, plain)


def test_which_metrics_have_usual_points() -> None:
    shapes = {
        "POD_CPU_UTIL": "jobId,pod",
        "POD_MEMORY_UTIL": "jobId,podId",
        "POD_GPU_DUTY_CYCLE": "",
        "JOB_CPU_UTIL": "jobId",
        "CARD_GPU_DUTY_CYCLE": "jobId,pod,gpuId",
        "CARD_GPU_MEMORY_UTIL": "jobId,pod,gpuId,cardIndex",
        "CARD_GPU_POWER_USAGE": "",
    }
    catalogue = {name: metric({"MetricName": name, "Unit": "%", "Dimensions": shapes[name]}) for name in shapes}
    found, _ = feeds(catalogue | {"CARD_GPU_POWER_USAGE": Metric("CARD_GPU_POWER_USAGE", "W")}, JOB_FAMILIES, {})
    usual = {name for name, feed in found.items() if _collected(feed).plain is not None}
    assert usual == {"POD_CPU_UTIL", "POD_GPU_DUTY_CYCLE", "JOB_CPU_UTIL", "CARD_GPU_DUTY_CYCLE"}
    assert _collected(found["POD_CPU_UTIL"], series=True).plain is None


@pytest.mark.parametrize("statistic", ["pod", "timestamp", "class", "a-b", ""])
def test_a_statistic_with_a_strange_name_is_read_the_long_way(statistic: str) -> None:
    assert plain_points(_feed("POD_CPU_UTIL"), statistic) is None


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


def _feed(*names: str, choices: dict[str, Choice] | None = None) -> Feed:
    catalogue = {name: metric(row(name, "%")) for name in names}
    found, _ = feeds(catalogue, JOB_FAMILIES, choices or {})
    return found[names[0]]


def _collected(
    feed: Feed, *, served: frozenset[str] = frozenset("a"), series: bool = False, rosters: Rosters | None = None
) -> Collected:
    """What is to be collected of the job a. Without anybody who is `served` every point gets a closer look."""
    whose = Whose(lambda point: "a" if point.get("jobId") == "a" else "", served)
    return Collected(feed, whose, rosters or Rosters(), now=NOW, max_age=900, series=series)


def _in_batches(text: str, plain: PlainPoints | None) -> list[object]:
    async def read() -> list[object]:
        return [point async for points in batches({"Datapoints": text}, "Datapoints", plain) for point in points]

    return asyncio.run(read())


def _found(collected: Collected) -> dict[Key, tuple[float, tuple[float, ...]]]:
    """What was read: by key, the time and the value for each target."""
    return {
        key: (collected.times[place], tuple(collected.values(target)[place] for target in collected.feed.targets))
        for key, place in collected.roster.places.items()
        if place < len(collected.times) and collected.times[place] != UNREAD
    }


@pytest.mark.parametrize("name", ["JOB_CPU_UTIL", "POD_GPU_ACCELERATOR_DUTTY_UTIL", "CARD_GPU_DUTY_CYCLE"])
@given(points=st.lists(POINT | JSON, max_size=20), series=st.booleans())
def test_any_points_are_shown_truly_or_counted(name: str, points: list[Any], series: bool) -> None:
    collected = _collected(_feed(name), series=series)
    collected.take(points_of({"Datapoints": json.dumps(points)}, "Datapoints"))
    assert collected.points == len(points)
    found = _found(collected)
    assert collected.read == len(found)
    if not series:
        kept = sum(any(value != UNFIT for value in values) for _, values in found.values())
        assert kept + sum(collected.dropped.values()) == len(points)
    for key, (time, _) in found.items():
        assert key[0] == "a"
        assert NOW - 900 <= time <= NOW + 900
    for column in at_once(columns(collected)):
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
@given(pages=st.lists(st.lists(USUAL, max_size=8) | st.lists(PLAIN, max_size=8), max_size=3), as_text=st.booleans())
def test_the_short_way_for_usual_points_leads_where_the_long_one_does(
    name: str, unit: str, dimensions: str, pages: list[list[Any]], as_text: bool
) -> None:
    catalogue = {name: metric({"MetricName": name, "Unit": unit, "Dimensions": dimensions, "Periods": "60"})}
    feed = feeds(catalogue, JOB_FAMILIES, {})[0][name]
    whole, usual = _collected(feed, served=frozenset()), _collected(feed)
    for _ in range(2):  # only what was met before is known to the short way
        usual = _collected(feed, rosters=usual.rosters)
        for page in pages:
            usual.take(_in_batches(json.dumps(page), usual.plain) if as_text else page)
    for page in pages:
        whole.take(page)
    assert _found(usual) == _found(whole)
    assert usual.dropped == whole.dropped
    assert (usual.points, usual.read) == (whole.points, whole.read)
    assert [usual.may_lack(owner) for owner in "ab"] == [whole.may_lack(owner) for owner in "ab"]
    for target in feed.targets:
        assert usual.is_fit(target) == whole.is_fit(target)
    shown = [
        [
            {subject.keys: value for subject, value in zip(column.lineup.subjects, column.readings.values, strict=True)}
            for column in at_once(columns(each))
        ]
        for each in (usual, whole)
    ]
    assert shown[0] == shown[1]


def test_a_newer_point_takes_the_place_of_an_older_one_whatever_their_order() -> None:
    ages = (60, 30, 45)
    for series in (False, True):
        collected = _collected(_feed("JOB_CPU_UTIL"), series=series)
        collected.take([{"timestamp": (NOW - age) * 1000, "jobId": "a", "Average": age} for age in ages])
        assert _found(collected) == {("a",): (NOW - 30, (0.3,))}
        assert collected.dropped == ({} if series else {"duplicate": 2})


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
    collected = _collected(_feed("JOB_CPU_UTIL"))
    collected.take([{"timestamp": NOW * 1000, "jobId": "a", **point}])
    found = [values[0] for _, values in _found(collected).values()]
    assert (found or [UNFIT]) == [UNFIT if value is None else value]


def test_a_metric_that_has_other_statistics_only_needs_one_to_be_named() -> None:
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
def test_dimensions_tell_what_a_metric_is_of(dimensions: str, name: str, level: str | None) -> None:
    assert metric({"MetricName": name, "Dimensions": dimensions}).level == level


def test_what_tells_cards_apart() -> None:
    keys = ["gpuId", "gpu", "cardIndex", "device", "NPU", "nodeGpuType", "gpuModel", "gpuCount", "jobId", "nodeId", "x"]
    assert [key for key in keys if is_device_key(key)] == ["gpuId", "gpu", "cardIndex", "device", "NPU"]


@pytest.mark.parametrize(
    ("periods", "period"), [("60,300", 60), ("15,60", 60), ("300,900", 300), ("15", 15), ("", None), ("a, 60 ", 60)]
)
def test_the_period_is_a_minute_or_what_is_next_to_it(periods: str, period: int | None) -> None:
    assert metric({"MetricName": "X", "Periods": periods}).period == period


def test_every_family_of_the_table_is_one_that_is_exposed() -> None:
    exposed = {family.name.removeprefix("trainfleet_") for family in USAGE_FAMILIES}
    of_disks_or_sources = {"job_usage_info", "job_usage_timestamp_seconds"}
    assert FAMILIES.keys() <= exposed
    assert exposed - FAMILIES.keys() - of_disks_or_sources == {
        "pool_disk_utilization_ratio",
        "pool_disk_capacity_bytes",
        "pool_disk_available_bytes",
    }
