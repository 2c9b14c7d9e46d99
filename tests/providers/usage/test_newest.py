"""The newest reading of each thing: in the usual order, and in any other."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from trainfleet_exporter.providers.usage.entities import EntityIndex, Key
from trainfleet_exporter.providers.usage.newest import Batch, Newest, Scope

NOW = 1_767_323_040.0
PODS = [("a", "a-0"), ("a", "a-1"), ("b", "b-0")]


def index() -> EntityIndex:
    """An index that knows all pods."""
    found = EntityIndex("pod")
    for key in PODS:
        found.subject(key)
    return found


def newest(of: EntityIndex, served: str = "ab", **given: bool) -> Newest:
    return Newest(of, Scope(frozenset(served), {"c"}.__contains__), now=NOW, max_age=900, **given)


def batch(keys: Sequence[Key], *values: float, times: float | list[float] = NOW) -> Batch:
    return Batch(list(keys), [array("d", values)], times)


def in_order(of: Newest) -> list[tuple[list[float], list[float]]]:
    """Values and times by statistic, where all readings came in the usual order."""
    if of.in_order is None:
        return []
    return [(list(column), list(of.in_order.times)) for column in of.in_order.columns]


def found(of: Newest) -> dict[Key, tuple[float, float]]:
    """By key, the value and the time."""
    return {subject.keys: (value, of.times.get(subject, of.time)) for subject, value in of.values[0].items()}


def test_readings_in_the_order_of_the_index_are_whole_columns() -> None:
    of = newest(index())
    of.take(batch(PODS[:1], 1))
    assert not in_order(of)  # not yet
    of.take(batch(PODS[1:], 2, 3, times=[NOW - 60, NOW]))
    assert in_order(of) == [([1, 2, 3], [NOW, NOW - 60, NOW])]
    assert found(of) == {PODS[0]: (1, NOW), PODS[1]: (2, NOW - 60), PODS[2]: (3, NOW)}
    assert of.dropped == {}


def test_readings_that_leave_the_order_are_kept_all_the_same() -> None:
    of = newest(index())
    of.take(batch(PODS[:2], 1, 2))
    of.take(batch([("b", "b-7"), PODS[2], PODS[0]], 7, 3, 9))
    assert not in_order(of)
    assert found(of) == {PODS[0]: (1, NOW), PODS[1]: (2, NOW), PODS[2]: (3, NOW), ("b", "b-7"): (7, NOW)}
    assert of.dropped == {"duplicate": 1}
    assert of.rows == 5


def test_readings_of_jobs_that_are_not_served_are_not_in_order() -> None:
    of = newest(index(), served="b")
    of.take(batch(PODS, 1, 2, 3))
    assert found(of) == {PODS[2]: (3, NOW)}
    assert of.dropped == {"unlisted": 2}


def test_readings_of_jobs_of_another_source_are_ignored() -> None:
    of = newest(index())
    of.take(batch([("c", "c-0"), ("d", "d-0")], 1, 2))
    assert found(of) == {}
    assert of.dropped == {"unlisted": 1}
    assert of.spoiled == set()


def test_what_cannot_be_shown_is_counted_by_reason() -> None:
    of = newest(index())
    of.take(batch(PODS, 1, 2, 3, times=[NOW - 901, NOW + 901, math.inf]))
    of.take(Batch([("a",), PODS[0]], [[1.0, None]], NOW))
    assert found(of) == {}
    assert of.dropped == {"stale": 1, "malformed": 4}
    assert of.spoiled == {"a", "b"}


def test_a_newer_reading_replaces_an_older_one() -> None:
    of = newest(index())
    of.take(batch([PODS[0]] * 3, 1, 2, 3, times=[NOW - 60, NOW, NOW - 30]))
    assert found(of) == {PODS[0]: (2, NOW)}
    assert of.dropped == {"duplicate": 2}


def test_of_undated_readings_that_differ_none_is_believed() -> None:
    of = newest(index(), undated=True)
    of.take(batch([PODS[0], PODS[1], PODS[0], PODS[1], PODS[1]], 1, 2, 1, 3, 2))
    assert {subject.keys for subject in of.ambiguous} == {PODS[1]}
    assert of.dropped == {"duplicate": 4}


def test_an_empty_batch_changes_nothing() -> None:
    of = newest(index())
    of.take(batch([], times=[]))
    of.take(batch(PODS, 1, 2, 3))
    assert in_order(of) == [([1, 2, 3], [NOW, NOW, NOW])]
