"""What is left of columns as jobs go and time goes by."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Coroutine
from typing import Any, TypeVar

from trainfleet_exporter.model import Subject
from trainfleet_exporter.providers.usage.columns import Column, column_of, kept_of
from trainfleet_exporter.providers.usage.entities import EntityList
from trainfleet_exporter.providers.usage.table import MEASURES

T = TypeVar("T")


async def with_turns(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """What comes of it, and how often others had their turn meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        found = await work
        return found, turns
    finally:
        counting.cancel()


def column(number: int) -> Column:
    """The CPU of so many pods of seven jobs."""
    family = MEASURES["cpu_utilization_ratio"].at("pod")
    assert family is not None
    entity_list = EntityList(tuple(Subject((f"job{pod % 7}", f"worker-{pod}")) for pod in range(number)))
    return column_of(family, entity_list, array("d", range(number)))


def test_jobs_that_are_left_out_take_their_values_along() -> None:
    whole = column(20_000)
    owners = {f"job{number}" for number in (0, 1, 2, 4, 6)}
    (kept,), turns = asyncio.run(with_turns(kept_of([whole], owners=owners)))
    assert turns >= 4  # others have their turn
    assert list(kept.readings.values) == [number for number in range(20_000) if number % 7 not in (3, 5)]
    assert list(kept.readings.subjects) == [whole.entity_list.subjects[int(value)] for value in kept.readings.values]
    assert kept.entity_list.owners == owners


def test_a_column_that_is_kept_whole_is_the_same() -> None:
    whole = column(20)
    (kept,) = asyncio.run(kept_of([whole], owners=[f"job{number}" for number in range(9)]))
    assert kept is whole
    (kept,) = asyncio.run(kept_of([whole]))
    assert kept is whole


def test_a_column_that_has_nothing_any_more_goes() -> None:
    assert asyncio.run(kept_of([column(20)], owners=["job9"])) == []
