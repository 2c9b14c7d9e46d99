"""What is shown of readings: of each thing, and of wholes made of them; by a plain model, and as time goes by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.families.usage import MEASURES, Level
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage
from trainfleet_exporter.providers.usage.columns import Column, Shown, Target, columns, kept_of, newest_by_owner
from trainfleet_exporter.providers.usage.entities import Entities, Key
from trainfleet_exporter.providers.usage.newest import Batch, Newest, Scope

NOW = 1_767_323_040.0
SILENCE = 180.0
Table = dict[str, dict[tuple[str, ...], float]]


class Feed(NamedTuple):
    """A metric: what it has a reading for each of, and what it feeds."""

    level: Level
    targets: Sequence[Target]


class Reading(NamedTuple):
    """A reading as a source yields it."""

    job_id: str
    place: int
    value: float | None
    age: float = 60.0
    card: int = 0

    @property
    def pod(self) -> str:
        return f"{self.job_id}-{self.place}"

    def key(self, level: Level) -> Key:
        return (self.job_id, self.pod) if level == "pod" else (self.job_id, self.pod, str(self.card), "gpu")


def _feed(suffix: str, factor: float, *levels: Level) -> Feed:
    """A metric of the first level that feeds all of these."""
    families = [family for level in levels if (family := MEASURES[suffix].at(level)) is not None]
    return Feed(levels[0], [Target(family, factor) for family in families])


CPU, MEMORY = _feed("cpu_utilization_ratio", 0.01, "pod", "job"), _feed("memory_usage_bytes", 1.0, "pod", "job")
CARDS = _feed("accelerator_power_watts", 1.0, "device", "pod", "job")


def _collected(
    feed: Feed, readings: Iterable[Reading], entities: Entities | None = None, served: frozenset[str] = frozenset("abc")
) -> Newest:
    index = (entities or Entities()).of(feed.level)
    newest = Newest(index, Scope(served, {"a", "b"}.__contains__), now=NOW, max_age=900)
    _take(newest, readings)
    return newest


def _batch(newest: Newest, readings: Sequence[Reading]) -> Batch:
    keys = [reading.key(newest.index.level) for reading in readings]
    return Batch(keys, [[reading.value for reading in readings]], [NOW - reading.age for reading in readings])


def _take(newest: Newest, readings: Iterable[Reading]) -> None:
    newest.take(_batch(newest, list(readings)))


def _columns(feed: Feed, newest: Newest, entities: Entities | None = None, before: Shown | None = None) -> Shown:
    return columns(newest, entities or Entities(), feed.targets, before)


def _made(feed: Feed, readings: Iterable[Reading], entities: Entities | None = None) -> list[Column]:
    entities = entities or Entities()
    return list(_columns(feed, _collected(feed, readings, entities), entities).columns)


def _shown(found: Iterable[Column]) -> Table:
    return {
        f"{column.readings.of.__name__}.{column.readings.field}": {
            subject.keys: value for subject, value in zip(column.readings.subjects, column.readings.values, strict=True)
        }
        for column in found
    }


def _show(feed: Feed, readings: Iterable[Reading], entities: Entities | None = None) -> Table:
    return _shown(_made(feed, readings, entities))


def test_a_job_has_the_mean_of_ratios_and_the_sum_of_amounts() -> None:
    assert _show(CPU, [Reading("a", 0, 10), Reading("a", 1, 20), Reading("b", 0, 5)]) == {
        "PodUsage.values.cpu": {("a", "a-0"): 0.1, ("a", "a-1"): 0.2, ("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("a",): 0.15, ("b",): 0.05},
    }
    assert _show(MEMORY, [Reading("a", 0, 10), Reading("a", 1, 20)]) == {
        "PodUsage.values.memory_bytes": {("a", "a-0"): 10, ("a", "a-1"): 20},
        "JobUsage.values.memory_bytes": {("a",): 30},
    }


def test_cards_make_pods_and_jobs() -> None:
    points = [Reading("a", 0, 100, card=0), Reading("a", 0, 200, card=1), Reading("a", 1, 50)]
    assert _show(CARDS, points) == {
        "DeviceUsage.power_watts": {
            ("a", "a-0", "0", "gpu"): 100,
            ("a", "a-0", "1", "gpu"): 200,
            ("a", "a-1", "0", "gpu"): 50,
        },
        "PodUsage.values.accelerator_power_watts": {("a", "a-0"): 300, ("a", "a-1"): 50},
        "JobUsage.values.accelerator_power_watts": {("a",): 350},
    }
    classes = {column.readings.of for column in _made(CARDS, points)}
    assert classes == {DeviceUsage, PodUsage, JobUsage}


def test_a_sum_that_lacks_a_part_is_not_shown_and_a_mean_is() -> None:
    points = [Reading("a", 0, 10), Reading("a", 1, -1), Reading("b", 0, 5), Reading("b", 1, 15), Reading("c", 0, None)]
    assert _show(MEMORY, points)["JobUsage.values.memory_bytes"] == {("b",): 20}
    assert _show(CPU, points)["JobUsage.values.cpu"] == {("a",): 0.1, ("b",): 0.1}
    whose_is_not_known = Reading("", 0, 5, age=-math.inf)
    assert "JobUsage.values.memory_bytes" not in _show(MEMORY, [*points, whose_is_not_known])


def test_pods_that_fell_silent_are_shown_and_count_no_more() -> None:
    points = [Reading("a", 0, 10, age=60), Reading("a", 1, 20, age=60 + SILENCE), Reading("a", 2, 30, age=300)]
    shown = _show(MEMORY, points)
    assert len(shown["PodUsage.values.memory_bytes"]) == 3
    assert shown["JobUsage.values.memory_bytes"] == {("a",): 30}


@given(
    st.lists(
        st.builds(
            Reading,
            st.sampled_from("abc"),
            st.integers(0, 3),
            st.floats(-1, 90, allow_subnormal=False) | st.none(),  # a hundredth of those may be zero
            age=st.sampled_from([60.0, 60.0, 60.0, 120.0, 241.0, 400.0]),
        ),
        max_size=16,
        unique_by=lambda reading: reading.pod,
    ),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=3),
    st.sampled_from([CPU, MEMORY]),
)
def test_wholes_are_what_their_parts_make(readings: list[Reading], known: list[tuple[str, int]], feed: Feed) -> None:
    entities = Entities()
    for job_id, place in known:  # another metric knows pods that this one says nothing of
        entities.of("pod").subject((job_id, f"{job_id}-{place}"))
    is_ratio = feed is CPU
    lacking = {reading.job_id for reading in readings if reading.value is None}
    expected: dict[tuple[str, ...], float] = {}
    for job_id in "abc":
        given_ = [reading for reading in readings if reading.job_id == job_id and reading.value is not None]
        newest = min((reading.age for reading in given_), default=0.0)
        present = [reading.value for reading in given_ if reading.age - newest <= SILENCE]
        fit = [value for value in present if value is not None and value >= 0]
        if is_ratio and fit:
            expected[job_id,] = math.fsum(fit) / len(fit) / 100
        elif not is_ratio and fit and len(fit) == len(present) and job_id not in lacking:
            expected[job_id,] = math.fsum(fit)
    shown = _show(feed, readings, entities)
    field = "values.cpu" if is_ratio else "values.memory_bytes"
    assert shown.get(f"JobUsage.{field}", {}) == pytest.approx(expected, abs=1e-9)
    pods = {
        (reading.job_id, reading.pod): reading.value / (100 if is_ratio else 1)
        for reading in readings
        if reading.value is not None and reading.value >= 0
    }
    assert shown.get(f"PodUsage.{field}", {}) == pytest.approx(pods, abs=1e-9)


def test_a_known_pod_of_a_job_that_others_serve_now_is_not_shown() -> None:
    entities = Entities()
    _show(CPU, [Reading("a", 0, 10), Reading("b", 0, 20)], entities)
    collected = _collected(CPU, [Reading("a", 0, 10), Reading("b", 0, 20)], entities, served=frozenset("b"))
    assert _shown(_columns(CPU, collected, entities).columns) == {
        "PodUsage.values.cpu": {("b", "b-0"): 0.2},
        "JobUsage.values.cpu": {("b",): 0.2},
    }
    assert collected.dropped == {}


def test_what_became_too_old_or_is_listed_no_more_goes() -> None:
    found = _made(CPU, [Reading("a", 0, 1), Reading("a", 1, 3, age=200), Reading("b", 0, 5)])
    everybody = dict.fromkeys("ab")
    whole = kept_of(found, since=NOW - 200, owners=everybody)
    assert [one is other for one, other in zip(whole, found, strict=True)] == [True, True]
    fresh = kept_of(found, since=NOW - 199)
    assert _shown(fresh) == {
        "PodUsage.values.cpu": {("a", "a-0"): 0.01, ("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("b",): 0.05},  # one reading in the mean of a is too old
    }
    assert [column.first for column in fresh] == [NOW - 60, NOW - 60]
    assert _shown(kept_of(found, since=NOW - 900, owners={"b": None})) == {
        "PodUsage.values.cpu": {("b", "b-0"): 0.05},
        "JobUsage.values.cpu": {("b",): 0.05},
    }
    assert kept_of(found, since=NOW - 900, owners={}) == []
    assert kept_of(found, since=NOW) == []


def test_newer_reading_gives_its_time_to_the_job() -> None:
    found = _made(CPU, [Reading("a", 0, 10, age=90), Reading("a", 0, 20, age=60)])
    assert [(list(column.readings.values), list(column.newest)) for column in found] == [([0.2], [NOW - 60])] * 2


def test_the_newest_reading_of_each_job_over_all_metrics() -> None:
    entities = Entities()
    found = [
        column
        for feed, points in (
            (CPU, [Reading("a", 0, 1, age=90), Reading("a", 1, 3, age=60), Reading("b", 0, 5, age=70)]),
            (MEMORY, [Reading("a", 0, 1, age=100), Reading("b", 0, 5, age=65)]),
        )
        for column in _made(feed, points, entities)
    ]
    newest = newest_by_owner(found)
    assert newest == {"a": NOW - 60, "b": NOW - 65}
    of_jobs = [column for column in found if column.readings.of is JobUsage]  # as where pods are not exposed
    assert newest_by_owner(of_jobs) == newest
