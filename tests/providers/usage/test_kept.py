"""What is left of columns as jobs go and time goes by."""

from __future__ import annotations

from array import array

from trainfleet_exporter.families.usage import MEASURES
from trainfleet_exporter.model import Subject
from trainfleet_exporter.providers.usage.columns import Column, column_of, kept_of
from trainfleet_exporter.providers.usage.entities import EntityList


def column(number: int) -> Column:
    """The CPU of so many pods of seven jobs."""
    family = MEASURES["cpu_utilization_ratio"].at("pod")
    assert family is not None
    entity_list = EntityList(tuple(Subject((f"job{pod % 7}", f"worker-{pod}")) for pod in range(number)))
    return column_of(family, entity_list, array("d", range(number)))


def test_jobs_that_are_left_out_take_their_values_along() -> None:
    whole = column(20_000)
    owners = {f"job{number}" for number in (0, 1, 2, 4, 6)}
    (kept,) = kept_of([whole], owners=owners)
    assert list(kept.readings.values) == [number for number in range(20_000) if number % 7 not in (3, 5)]
    assert list(kept.readings.subjects) == [whole.entity_list.subjects[int(value)] for value in kept.readings.values]
    assert kept.entity_list.owners == owners


def test_a_column_that_is_kept_whole_is_the_same() -> None:
    whole = column(20)
    (kept,) = kept_of([whole], owners=[f"job{number}" for number in range(9)])
    assert kept is whole
    (kept,) = kept_of([whole])
    assert kept is whole


def test_a_column_that_has_nothing_any_more_goes() -> None:
    assert kept_of([column(20)], owners=["job9"]) == []
