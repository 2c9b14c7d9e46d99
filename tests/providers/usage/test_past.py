"""How a day is cut into calls, by what a source answers at a time; and what a unit does with the answers."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import MEASURES, Level
from trainfleet_exporter.model import Job, JobUsage, UsageSource
from trainfleet_exporter.providers.history import DAY, Life, Lives, Range, Track
from trainfleet_exporter.providers.usage.columns import Target
from trainfleet_exporter.providers.usage.newest import Batch
from trainfleet_exporter.providers.usage.past import Asked, PastCalls, PastMetrics, parts_of

START = 20_000 * DAY
DAY_ONE = Range(START, START + DAY)
CALLS = PastCalls(source="bulk", api="api", kept=((60, math.inf),), owners=3, readings=5_000, answered=1_000)


def _asked(*owners: tuple[str, int, Range], step: int = 60) -> list[Asked]:
    return list(CALLS.batches(owners, step))


def test_as_many_jobs_as_a_call_takes_are_asked_for_together() -> None:
    hour = Range(START, START + 3600)
    found = _asked(*((name, 1, hour) for name in "abcd"))
    assert [list(asked.within) for asked in found] == [["a", "b", "c"], ["d"]]
    assert [asked.readings for asked in found] == [180, 60]
    assert not _asked()


def test_readings_of_a_unit_are_limited() -> None:
    found = _asked(("a", 2, DAY_ONE), ("b", 1, DAY_ONE), ("c", 1, DAY_ONE))
    assert [list(asked.within) for asked in found] == [["a", "b"], ["c"]]
    assert [CALLS.calls(asked) for asked in found] == [{"api": 5}, {"api": 2}]


def test_a_large_job_is_asked_for_some_hours_at_once() -> None:
    small = Range(START + 60, START + 120)
    found = _asked(("a", 1, small), ("large", 100, DAY_ONE), ("b", 1, small))
    assert [list(asked.within) for asked in found] == [*([["large"]] * 29), ["a", "b"]]
    spans = [asked.span for asked in found[:-1]]
    assert (spans[0].start, spans[-1].end) == (DAY_ONE.start, DAY_ONE.end)
    assert all(before.end == after.start for before, after in pairwise(spans))
    assert {asked.readings for asked in found[:-2]} == {5_000}
    assert found[-1].span == small


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, DAY - 1), st.integers(1, DAY)), max_size=12))
def test_every_minute_of_every_job_is_asked_for_once(given_jobs: list[tuple[int, int, int]]) -> None:
    owners = [
        (str(number), parts, Range(START + begin, START + begin + length))
        for number, (parts, begin, length) in enumerate(given_jobs)
    ]
    seconds: Counter[str] = Counter()
    for asked in _asked(*owners):
        assert asked.readings <= CALLS.readings
        assert len(asked.within) <= CALLS.owners
        for owner, within in asked.within.items():
            assert asked.span.start <= within.start < within.end <= asked.span.end
            seconds[owner] += within.end - within.start
    assert seconds == {owner: within.end - within.start for owner, _, within in owners}


def test_older_days_have_fewer_readings_and_then_none() -> None:
    calls = replace(CALLS, kept=((60, 31 * DAY), (300, 91 * DAY)))
    assert [calls.step(days * DAY) for days in (0, 30, 31, 90, 91)] == [60, 60, 300, 300, 0]


def test_parts_of_a_job_by_level() -> None:
    life = Life(job=Job(job_id="j"), pods=4, cards=32)
    assert [parts_of(life, level) for level in ("job", "pod", "device")] == [1, 4, 32]
    assert parts_of(Life(job=Job(job_id="j"), pods=4), "device") == 4


@dataclass(frozen=True, slots=True)
class _Metric:
    key: str
    of_accelerators: bool = False
    level: Level = "job"

    @property
    def targets(self) -> Sequence[Target]:
        family = MEASURES["cpu_utilization_ratio"].at("job")
        assert family is not None
        return [Target(family, 0.01)]


class _Sink:
    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.reasons: Counter[str] = Counter()
        self.missing: list[str] = []

    def life(self, life: Life) -> None:
        raise AssertionError

    def track(self, track: Track) -> None:
        self.tracks.append(track)

    def mark(self, job_id: str, mark: str, times: array[int] | None = None) -> None:
        raise AssertionError

    def dropped(self, reason: str, count: int = 1) -> None:
        self.reasons[reason] += count

    def gone(self, job_id: str) -> None:
        self.missing.append(job_id)


def _owners(day: Range, lives: Lives, metric: _Metric) -> Iterator[tuple[str, int, Range]]:
    yield from (("a", 1, day), ("b", 1, day))


async def _points(metric: _Metric, asked: Asked, deadline: float) -> AsyncIterator[Batch]:
    keys = [(owner,) for owner in (*asked.within, "stranger")]
    yield Batch(keys, [array("d", [50.0] * len(keys))], float(asked.span.start))


async def _none(metric: _Metric, asked: Asked, deadline: float) -> AsyncIterator[Batch]:
    if asked.within:
        raise NotFound("no such job", operation="GetPoints")
    yield Batch([], [], 0.0)


def test_a_unit_is_one_metric_of_some_jobs() -> None:
    metrics, sink = (_Metric("b"), _Metric("a"), _Metric("c", of_accelerators=True)), _Sink()
    units = list(PastMetrics(CALLS, metrics, _owners, _points, metrics[0]).units(DAY_ONE, lambda _: ()))
    assert [(unit.key, unit.calls) for unit in units] == [(f"{key} 60 0", {"api": 3}) for key in "abc"]
    asyncio.run(units[1].do(sink, 0.0))
    assert [(track.of, track.keys, track.source) for track in sink.tracks if track.of is JobUsage] == [
        (JobUsage, ("a",), "bulk"),
        (JobUsage, ("b",), "bulk"),
    ]
    assert {track.field for track in sink.tracks if track.of is UsageSource} == {"source", "timestamp"}
    assert sink.reasons == {"unlisted": 1}


def test_not_found_means_deleted_only_for_a_single_job() -> None:
    sink, metrics = _Sink(), [_Metric("a")]
    alone = PastMetrics(replace(CALLS, owners=1), metrics, _owners, _none)
    for unit in alone.units(DAY_ONE, lambda _: ()):
        asyncio.run(unit.do(sink, 0.0))
    assert sink.missing == ["a", "b"]
    (together,) = PastMetrics(CALLS, metrics, _owners, _none).units(DAY_ONE, lambda _: ())
    with pytest.raises(NotFound):
        asyncio.run(together.do(sink, 0.0))
