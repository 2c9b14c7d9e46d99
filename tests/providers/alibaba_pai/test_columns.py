"""What is shown of readings: of each thing, and of wholes made of them; by a plain model, and as time goes by."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.alibaba_pai.cloud import metric as row
from tests.providers.alibaba_pai.working import at_once
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage
from trainfleet_exporter.providers.alibaba_pai.catalogue import metric
from trainfleet_exporter.providers.alibaba_pai.columns import (
    Column,
    Sliced,
    at_leisure,
    columns,
    kept_of,
    newest_by_owner,
)
from trainfleet_exporter.providers.alibaba_pai.datapoints import Collected, Whose
from trainfleet_exporter.providers.alibaba_pai.metric_map import JOB_FAMILIES, Choice, Feed, feeds
from trainfleet_exporter.providers.alibaba_pai.roster import Rosters

NOW = 1_767_323_040.0
SILENCE = 180.0
Shown = dict[str, dict[tuple[str, ...], float]]


def _feed(name: str, unit: str, choices: dict[str, Choice] | None = None) -> Feed:
    return feeds({name: metric(row(name, unit))}, JOB_FAMILIES, choices or {})[0][name]


def _point(job_id: str, place: int, value: object, *, age: float = 60.0, card: int = 0) -> dict[str, Any]:
    return {
        "timestamp": int((NOW - age) * 1000),
        "jobId": job_id,
        "pod": f"{job_id}-{place}",
        "gpuId": str(card),
        "Average": value,
    }


def _collected(feed: Feed, points: Iterable[object], rosters: Rosters | None = None) -> Collected:
    whose = Whose(lambda point: str(point.get("jobId") or ""), frozenset("abc"))
    collected = Collected(feed, whose, rosters or Rosters(), now=NOW, max_age=900)
    collected.take(list(points))
    return collected


def _shown(found: Iterable[Column]) -> Shown:
    return {
        f"{column.readings.of.__name__}.{column.readings.field}": {
            subject.keys: value for subject, value in zip(column.readings.subjects, column.readings.values, strict=True)
        }
        for column in found
    }


def _show(feed: Feed, points: Iterable[object], rosters: Rosters | None = None) -> Shown:
    return _shown(at_once(columns(_collected(feed, points, rosters))))


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
    classes = {column.readings.of for column in at_once(columns(_collected(CARDS, points)))}
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
    rosters = Rosters()
    for job_id, place in known:  # another metric knows pods that this one says nothing of
        rosters.of("pod").place((job_id, f"{job_id}-{place}"))
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
    shown = _show(feed, points, rosters)
    field = "values.cpu" if is_ratio else "values.memory_bytes"
    assert shown.get(f"JobUsage.{field}", {}) == pytest.approx(expected, abs=1e-9)
    pods = {
        (point["jobId"], point["pod"]): point["Average"] / (100 if is_ratio else 1)
        for point in points
        if point["Average"] is not None and point["Average"] >= 0
    }
    assert shown.get(f"PodUsage.{field}", {}) == pytest.approx(pods, abs=1e-9)


def test_metrics_of_the_same_pods_share_all_but_their_values() -> None:
    rosters = Rosters()
    first, second = (
        at_once(columns(_collected(feed, [_point(job_id, pod, 5) for job_id in "ab" for pod in (0, 1)], rosters)))
        for feed in (CPU, MEMORY)
    )
    for one, other in zip(first, second, strict=True):
        assert one.lineup is other.lineup
        assert one.oldest is other.oldest
        assert one.newest is other.newest


def test_pods_that_come_while_two_metrics_are_read_do_not_mix_them_up() -> None:
    rosters = Rosters()
    first, second = _collected(MEMORY, [_point("a", 0, 1)], rosters), _collected(CPU, [_point("b", 0, 2)], rosters)
    first.take([_point("c", 0, 3)])
    second.take([_point("a", 0, 4), _point("c", 0, 5)])
    assert _shown(at_once(columns(first)))["PodUsage.values.memory_bytes"] == {("a", "a-0"): 1, ("c", "c-0"): 3}
    assert _shown(at_once(columns(second)))["PodUsage.values.cpu"] == {
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
    rosters = Rosters()
    found: dict[int, list[Column]] = {}

    def read(number: int, feed: Feed, points: list[dict[str, Any]]) -> Sliced[None]:
        collected = _collected(feed, [], rosters)
        for point in points:
            collected.take([point])
            yield
        found[number] = yield from columns(collected)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{columns.__module__}._PARTS", 1)
        patch.setattr(f"{columns.__module__}._SUBJECTS", 2)
        under_way = [read(number, *one) for number, one in enumerate(reads)]
        while under_way:
            one = turns.choice(under_way)
            if next(one, one) is one:
                under_way.remove(one)
    for number, (feed, points) in enumerate(reads):
        assert _shown(found[number]) == _show(feed, points)
        for column in found[number]:
            assert len(column.oldest) == len(column.newest) == len(column.lineup.subjects)
            assert column.first == min(column.oldest)
            assert column.lineup.owners == {subject.keys[0] for subject in column.lineup.subjects}


def test_a_known_pod_of_a_job_that_others_serve_now_is_not_shown() -> None:
    rosters = Rosters()
    _show(CPU, [_point("a", 0, 10), _point("b", 0, 20)], rosters)
    whose = Whose(lambda point: "b" if point["jobId"] == "b" else None, frozenset("b"))
    collected = Collected(CPU, whose, rosters, now=NOW, max_age=900)
    collected.take([_point("a", 0, 10), _point("b", 0, 20)])
    assert _shown(at_once(columns(collected))) == {
        "PodUsage.values.cpu": {("b", "b-0"): 0.2},
        "JobUsage.values.cpu": {("b",): 0.2},
    }
    assert collected.dropped == {}


def test_pods_that_only_their_cards_tell_of_are_forgotten_when_they_are_replaced() -> None:
    rosters = Rosters()
    most = 0
    for restart in range(200):
        _show(CARDS, [_point("a", restart, 50)], rosters)
        most = max(most, len(rosters.of("device")), len(rosters.of("pod")))
        asyncio.run(rosters.keep_if({"a"}.__contains__))
    assert most <= 70


def test_what_is_shown_stays_while_the_next_metric_brings_others() -> None:
    rosters = Rosters()
    shown = at_once(columns(_collected(MEMORY, [_point("a", 0, 1)], rosters)))
    _collected(CPU, [_point("b", 0, 2)], rosters)
    asyncio.run(rosters.keep_if({"b"}.__contains__))
    assert _shown(shown)["PodUsage.values.memory_bytes"] == {("a", "a-0"): 1}


def test_what_became_too_old_or_is_listed_no_more_goes() -> None:
    found = at_once(columns(_collected(CPU, [_point("a", 0, 1), _point("a", 1, 3, age=200), _point("b", 0, 5)])))
    everybody = dict.fromkeys("ab")
    whole = at_once(kept_of(found, NOW - 200, everybody))
    assert [one is other for one, other in zip(whole, found, strict=True)] == [True, True]
    fresh = at_once(kept_of(found, NOW - 199))
    assert _shown(fresh) == {
        "PodUsage.values.cpu": {("a", "a-0"): 0.01, ("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("b",): 0.05},  # one reading in the mean of a is too old
    }
    assert [column.first for column in fresh] == [NOW - 60, NOW - 60]
    assert _shown(at_once(kept_of(found, NOW - 900, {"b": None}))) == {
        "PodUsage.values.cpu": {("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("b",): 0.05},
    }
    assert at_once(kept_of(found, NOW - 900, {})) == []
    assert at_once(kept_of(found, NOW)) == []


def test_the_newest_reading_of_each_job_over_all_metrics() -> None:
    rosters = Rosters()
    found = [
        column
        for feed, points in (
            (CPU, [_point("a", 0, 1, age=90), _point("a", 1, 3, age=60), _point("b", 0, 5, age=70)]),
            (MEMORY, [_point("a", 0, 1, age=100), _point("b", 0, 5, age=65)]),
        )
        for column in at_once(columns(_collected(feed, points, rosters)))
    ]
    newest = at_once(newest_by_owner([(column.lineup, column.newest) for column in found]))
    assert newest == {"a": NOW - 60, "b": NOW - 65}
    of_jobs = [column for column in found if column.readings.of is JobUsage]  # as where pods are not exposed
    assert at_once(newest_by_owner([(column.lineup, column.newest) for column in of_jobs])) == newest


def test_nothing_makes_nothing() -> None:
    assert at_once(columns(_collected(CPU, []))) == []
    assert at_once(newest_by_owner([])) == {}


def test_others_have_their_turn_while_many_are_worked_on() -> None:
    points = [_point(f"job{job}", 0, 5 if job else -1) for job in range(30_000)]
    whose = Whose(lambda point: str(point["jobId"]), frozenset(point["jobId"] for point in points))
    collected = Collected(MEMORY, whose, Rosters(), now=NOW, max_age=900)
    collected.take(points)

    async def main() -> int:
        turns = 0
        working = asyncio.ensure_future(at_leisure(columns(collected)))
        while not working.done():
            turns += 1
            await asyncio.sleep(0)
        assert len(working.result()) == 2
        return turns

    assert asyncio.run(main()) > 30


def test_to_leave_some_out_goes_on_in_slices() -> None:
    """As in a poll of a large fleet in which one job has just ended."""
    points = [_point(f"job{job}", pod, 5, age=60 + pod) for job in range(4_000) for pod in range(5)]
    jobs = frozenset(point["jobId"] for point in points)
    collected = Collected(MEMORY, Whose(lambda point: str(point["jobId"]), jobs), Rosters(), now=NOW, max_age=900)
    collected.take(points)
    assert _steps(columns(collected)) >= 4_000 * 6 // 2_500
    collected.take([_point("job0", 5, -1)])
    # Told apart, picked, and gone through for whose they are; then the jobs.
    assert _steps(columns(collected)) >= 3 * 4 + 4_000 * 6 // 2_500
    found = at_once(columns(collected))
    assert _steps(kept_of(found, NOW - 900, dict.fromkeys(jobs))) <= 4
    assert _steps(kept_of(found, NOW - 900, dict.fromkeys(jobs - {"job1"}))) >= 3 * 4


def _steps(work: Sliced[object]) -> int:
    return sum(1 for _ in work)
