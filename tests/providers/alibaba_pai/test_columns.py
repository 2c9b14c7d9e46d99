"""What is shown of readings: of each thing, and of wholes made of them; by a plain model, and as time goes by."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.alibaba_pai.cloud import metric as row
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage
from trainfleet_exporter.providers.alibaba_pai.catalogue import metric
from trainfleet_exporter.providers.alibaba_pai.columns import Column, Shown, columns, kept_of, newest_by_owner
from trainfleet_exporter.providers.alibaba_pai.datapoints import Collected, Whose
from trainfleet_exporter.providers.alibaba_pai.entities import Entities
from trainfleet_exporter.providers.alibaba_pai.metric_map import JOB_FAMILIES, Choice, Feed, feeds
from trainfleet_exporter.providers.alibaba_pai.payloads import MetricMeta
from trainfleet_exporter.providers.alibaba_pai.points import Points

NOW = 1_767_323_040.0
SILENCE = 180.0
Table = dict[str, dict[tuple[str, ...], float]]


def _feed(name: str, unit: str, choices: dict[str, Choice] | None = None) -> Feed:
    return feeds({name: metric(msgspec.convert(row(name, unit), MetricMeta))}, JOB_FAMILIES, choices or {})[0][name]


def _point(job_id: str, place: int, value: object, *, age: float = 60.0, card: int = 0) -> dict[str, Any]:
    return {
        "timestamp": int((NOW - age) * 1000),
        "jobId": job_id,
        "pod": f"{job_id}-{place}",
        "gpuId": str(card),
        "Average": value,
    }


def _collected(feed: Feed, points: Iterable[object], entities: Entities | None = None) -> Collected:
    whose = Whose(lambda point: point.job_id or "", frozenset("abc"))
    collected = Collected(feed, whose, entities or Entities(), now=NOW, max_age=900)
    _take(collected, points)
    return collected


def _take(collected: Collected, points: Iterable[object]) -> None:
    """Points as an answer has them."""
    collected.take(collected.reader.decode(json.dumps(list(points))))


def _made(collected: Collected) -> list[Column]:
    return list(asyncio.run(columns(collected)).columns)


def _shown(found: Iterable[Column]) -> Table:
    return {
        f"{column.readings.of.__name__}.{column.readings.field}": {
            subject.keys: value for subject, value in zip(column.readings.subjects, column.readings.values, strict=True)
        }
        for column in found
    }


def _show(feed: Feed, points: Iterable[object], entities: Entities | None = None) -> Table:
    return _shown(_made(_collected(feed, points, entities)))


CPU, MEMORY = _feed("POD_CPU_UTIL", "%"), _feed("POD_MEMORY_USED", "Bytes")
CARDS = _feed(
    "CARD_GPU_POWER_USAGE",
    "W",
    {
        suffix: Choice(name="CARD_GPU_POWER_USAGE")
        for suffix in ("pod_accelerator_power_watts", "job_accelerator_power_watts")
    },
)


def test_a_job_has_the_mean_of_ratios_and_the_sum_of_amounts() -> None:
    assert _show(CPU, [_point("a", 0, 10), _point("a", 1, 20), _point("b", 0, 5)]) == {
        "PodUsage.values.cpu": {("a", "a-0"): 0.1, ("a", "a-1"): 0.2, ("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("a",): 0.15, ("b",): 0.05},
    }
    assert _show(MEMORY, [_point("a", 0, 10), _point("a", 1, 20)]) == {
        "PodUsage.values.memory_bytes": {("a", "a-0"): 10, ("a", "a-1"): 20},
        "JobUsage.values.memory_bytes": {("a",): 30},
    }


def test_cards_make_pods_and_jobs() -> None:
    points = [_point("a", 0, 100, card=0), _point("a", 0, 200, card=1), _point("a", 1, 50)]
    assert _show(CARDS, points) == {
        "DeviceUsage.power_watts": {
            ("a", "a-0", "0", "gpu"): 100,
            ("a", "a-0", "1", "gpu"): 200,
            ("a", "a-1", "0", "gpu"): 50,
        },
        "PodUsage.values.accelerator_power_watts": {("a", "a-0"): 300, ("a", "a-1"): 50},
        "JobUsage.values.accelerator_power_watts": {("a",): 350},
    }
    classes = {column.readings.of for column in _made(_collected(CARDS, points))}
    assert classes == {DeviceUsage, PodUsage, JobUsage}


def test_a_sum_that_lacks_a_part_is_not_shown_and_a_mean_is() -> None:
    points = [_point("a", 0, 10), _point("a", 1, -1), _point("b", 0, 5), _point("b", 1, 15), _point("c", 0, None)]
    assert _show(MEMORY, points)["JobUsage.values.memory_bytes"] == {("b",): 20}
    assert _show(CPU, points)["JobUsage.values.cpu"] == {("a",): 0.1, ("b",): 0.1}
    nobody_knows_whose = {**_point("", 0, 5), "timestamp": "soon"}
    assert "JobUsage.values.memory_bytes" not in _show(MEMORY, [*points, nobody_knows_whose])


def test_pods_that_fell_silent_are_shown_and_count_no_more() -> None:
    points = [_point("a", 0, 10, age=60), _point("a", 1, 20, age=60 + SILENCE), _point("a", 2, 30, age=300)]
    shown = _show(MEMORY, points)
    assert len(shown["PodUsage.values.memory_bytes"]) == 3
    assert shown["JobUsage.values.memory_bytes"] == {("a",): 30}


@given(
    st.lists(
        st.builds(
            _point,
            st.sampled_from("abc"),
            st.integers(0, 3),
            st.floats(-1, 90, allow_subnormal=False) | st.none(),  # a hundredth of those may be zero
            age=st.sampled_from([60.0, 60.0, 60.0, 120.0, 241.0, 400.0]),
        ),
        max_size=16,
        unique_by=lambda point: point["pod"],
    ),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=3),
    st.sampled_from([CPU, MEMORY]),
)
def test_wholes_are_what_their_parts_make(
    points: list[dict[str, Any]], known: list[tuple[str, int]], feed: Feed
) -> None:
    entities = Entities()
    for job_id, place in known:  # another metric knows pods that this one says nothing of
        entities.of("pod").subject((job_id, f"{job_id}-{place}"))
    is_ratio = feed is CPU
    lacking = {point["jobId"] for point in points if point["Average"] is None}
    expected: dict[tuple[str, ...], float] = {}
    for job_id in "abc":
        given_ = [point for point in points if point["jobId"] == job_id and point["Average"] is not None]
        newest = max((point["timestamp"] for point in given_), default=0)
        present = [point["Average"] for point in given_ if newest - point["timestamp"] <= SILENCE * 1000]
        fit = [value for value in present if value >= 0]
        if is_ratio and fit:
            expected[job_id,] = math.fsum(fit) / len(fit) / 100
        elif not is_ratio and fit and len(fit) == len(present) and job_id not in lacking:
            expected[job_id,] = math.fsum(fit)
    shown = _show(feed, points, entities)
    field = "values.cpu" if is_ratio else "values.memory_bytes"
    assert shown.get(f"JobUsage.{field}", {}) == pytest.approx(expected, abs=1e-9)
    pods = {
        (point["jobId"], point["pod"]): point["Average"] / (100 if is_ratio else 1)
        for point in points
        if point["Average"] is not None and point["Average"] >= 0
    }
    assert shown.get(f"PodUsage.{field}", {}) == pytest.approx(pods, abs=1e-9)


def test_metrics_of_the_same_pods_share_all_but_their_values() -> None:
    entities = Entities()
    first, second = (
        _made(_collected(feed, [_point(job_id, pod, 5) for job_id in "ab" for pod in (0, 1)], entities))
        for feed in (CPU, MEMORY)
    )
    for one, other in zip(first, second, strict=True):
        assert one.lineup is other.lineup
        assert one.oldest is other.oldest
        assert one.newest is other.newest


def test_pods_that_come_while_two_metrics_are_read_do_not_mix_them_up() -> None:
    entities = Entities()
    first, second = _collected(MEMORY, [_point("a", 0, 1)], entities), _collected(CPU, [_point("b", 0, 2)], entities)
    _take(first, [_point("c", 0, 3)])
    _take(second, [_point("a", 0, 4), _point("c", 0, 5)])
    assert _shown(_made(first))["PodUsage.values.memory_bytes"] == {("a", "a-0"): 1, ("c", "c-0"): 3}
    assert _shown(_made(second))["PodUsage.values.cpu"] == {
        ("b", "b-0"): 0.02,
        ("a", "a-0"): 0.04,
        ("c", "c-0"): 0.05,
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from([CPU, MEMORY, CARDS]),
            st.lists(
                st.builds(
                    _point,
                    st.sampled_from("abc"),
                    st.integers(0, 3),
                    st.integers(-1, 90),
                    age=st.sampled_from([60.0, 60.0, 60.0, 400.0]),
                    card=st.integers(0, 1),
                ),
                max_size=10,
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    st.randoms(use_true_random=False),
)
def test_metrics_that_are_read_at_once_show_what_each_would_alone(
    reads: list[tuple[Feed, list[dict[str, Any]]]], turns: Random
) -> None:
    entities = Entities()
    found: dict[int, list[Column]] = {}

    async def other_tasks() -> None:
        for _ in range(turns.randint(0, 2)):
            await asyncio.sleep(0)

    async def read(number: int, feed: Feed, points: list[dict[str, Any]]) -> None:
        collected = _collected(feed, [], entities)
        for point in points:
            _take(collected, [point])
            await other_tasks()
        found[number] = list((await columns(collected)).columns)

    async def main() -> None:
        await asyncio.gather(*[read(number, *one) for number, one in enumerate(reads)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{columns.__module__}._WHOLES", 1)
        asyncio.run(main())
    for number, (feed, points) in enumerate(reads):
        assert _shown(found[number]) == _show(feed, points)
        for column in found[number]:
            assert len(column.oldest) == len(column.newest) == len(column.lineup.subjects)
            assert column.first == min(column.oldest)
            assert column.lineup.owners == {subject.keys[0] for subject in column.lineup.subjects}


def test_a_known_pod_of_a_job_that_others_serve_now_is_not_shown() -> None:
    entities = Entities()
    _show(CPU, [_point("a", 0, 10), _point("b", 0, 20)], entities)
    whose = Whose(lambda point: "b" if point.job_id == "b" else None, frozenset("b"))
    collected = Collected(CPU, whose, entities, now=NOW, max_age=900)
    _take(collected, [_point("a", 0, 10), _point("b", 0, 20)])
    assert _shown(_made(collected)) == {
        "PodUsage.values.cpu": {("b", "b-0"): 0.2},
        "JobUsage.values.cpu": {("b",): 0.2},
    }
    assert collected.dropped == {}


def test_pods_that_only_their_cards_tell_of_are_forgotten_when_they_are_replaced() -> None:
    entities = Entities()
    most = 0
    for restart in range(200):
        _show(CARDS, [_point("a", restart, 50)], entities)
        most = max(most, len(entities.of("device")), len(entities.of("pod")))
        entities.keep_if({"a"}.__contains__)
    assert most <= 70


def test_what_is_shown_stays_while_the_next_metric_brings_others() -> None:
    entities = Entities()
    shown = _made(_collected(MEMORY, [_point("a", 0, 1)], entities))
    _collected(CPU, [_point("b", 0, 2)], entities)
    entities.keep_if({"b"}.__contains__)
    assert _shown(shown)["PodUsage.values.memory_bytes"] == {("a", "a-0"): 1}


def test_what_became_too_old_or_is_listed_no_more_goes() -> None:
    found = _made(_collected(CPU, [_point("a", 0, 1), _point("a", 1, 3, age=200), _point("b", 0, 5)]))
    everybody = dict.fromkeys("ab")
    whole = asyncio.run(kept_of(found, NOW - 200, everybody))
    assert [one is other for one, other in zip(whole, found, strict=True)] == [True, True]
    fresh = asyncio.run(kept_of(found, NOW - 199))
    assert _shown(fresh) == {
        "PodUsage.values.cpu": {("a", "a-0"): 0.01, ("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("b",): 0.05},  # one reading in the mean of a is too old
    }
    assert [column.first for column in fresh] == [NOW - 60, NOW - 60]
    assert _shown(asyncio.run(kept_of(found, NOW - 900, {"b": None}))) == {
        "PodUsage.values.cpu": {("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("b",): 0.05},
    }
    assert asyncio.run(kept_of(found, NOW - 900, {})) == []
    assert asyncio.run(kept_of(found, NOW)) == []


def test_a_reading_that_is_replaced_by_a_newer_one_gives_its_job_its_time() -> None:
    found = _made(_collected(CPU, [_point("a", 0, 10, age=90), _point("a", 0, 20, age=60)]))
    assert [(list(column.readings.values), list(column.newest)) for column in found] == [([0.2], [NOW - 60])] * 2


def test_the_newest_reading_of_each_job_over_all_metrics() -> None:
    entities = Entities()
    found = [
        column
        for feed, points in (
            (CPU, [_point("a", 0, 1, age=90), _point("a", 1, 3, age=60), _point("b", 0, 5, age=70)]),
            (MEMORY, [_point("a", 0, 1, age=100), _point("b", 0, 5, age=65)]),
        )
        for column in _made(_collected(feed, points, entities))
    ]
    newest = asyncio.run(newest_by_owner([(column.lineup, column.newest) for column in found]))
    assert newest == {"a": NOW - 60, "b": NOW - 65}
    of_jobs = [column for column in found if column.readings.of is JobUsage]  # as where pods are not exposed
    assert asyncio.run(newest_by_owner([(column.lineup, column.newest) for column in of_jobs])) == newest


def test_nothing_makes_nothing() -> None:
    assert _made(_collected(CPU, [])) == []
    assert asyncio.run(newest_by_owner([])) == {}


def test_other_tasks_run_while_many_are_worked_on() -> None:
    points = [_point(f"job{job}", 0, 5 if job else -1) for job in range(30_000)]
    whose = Whose(lambda point: point.job_id, frozenset(point["jobId"] for point in points))
    collected = Collected(MEMORY, whose, Entities(), now=NOW, max_age=900)

    async def pages() -> AsyncIterator[Points]:
        yield collected.reader.decode(json.dumps(points))

    async def work() -> Shown:
        await collected.take_pages(pages())
        return await columns(collected)

    async def main() -> int:
        turns = 0
        working = asyncio.ensure_future(work())
        while not working.done():
            turns += 1
            await asyncio.sleep(0)
        assert len(working.result().columns) == 2
        return turns

    assert asyncio.run(main()) > 40


def test_the_same_readings_again_show_the_same_columns() -> None:
    entities = Entities()

    def poll(points: list[dict[str, Any]], before: Shown | None, feed: Feed = MEMORY) -> Shown:
        collected = _collected(feed, points, entities)
        shown = asyncio.run(columns(collected, before))
        assert collected.dropped["out_of_range"] == sum(point["Average"] == -1 for point in points)
        return shown

    points = [_point("a", 0, 1), _point("a", 1, 2), _point("b", 0, -1)]
    first = poll(points, None)
    assert poll(points, first) is first
    assert poll(points[::-1], first) is first
    for other in (
        [*points[:2], _point("b", 0, 1)],
        [*points[:2], _point("b", 0, -1, age=50)],
        points[:2],
        [*points, _point("b", 1, 1)],
        [*points, {**_point("a", 2, 1), "timestamp": "soon"}],
    ):
        assert poll(other, first) is not first
        assert _shown(poll(other, first).columns) == _show(MEMORY, other)
    assert poll(points, first, CPU) is not first
