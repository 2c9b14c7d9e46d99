"""What collectors keep of an answer while they wait for the next one: not the whole of it."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary, ref

import msgspec
import pytest

from tests.faults.operations import ROWS
from tests.faults.row import Row
from tests.faults.site import open_site
from tests.support.clock import run_stepped
from trainfleet_exporter.transport import ApiClient, Call
from trainfleet_simulator import Simulator

_OPERATIONS = (
    "ListNodes",
    "ListQuotaWorkloads",
    "GetJob",
    "GetJobMetrics",
    "DescribeMetricLast",
    "ShowTrainingJobMetrics",
    "ShowPoolMonitor",
    "ListPoolNodes",
    "ShowPodMetricStatistic",
    "ListInstantQueryAomPromPost",
)
"""Between them they have every collector that makes several calls one after the other."""


class _Payload(dict[str, Any]):
    """A payload that can be referred to weakly."""


@cache
def _kind(into: Any) -> Any:
    """The struct that an answer is decoded into, as one that can be referred to weakly."""
    return into if into is dict else msgspec.defstruct(into.__name__, (), bases=(into,), weakref=True, gc=True)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.operation in _OPERATIONS], ids=lambda row: str(row.operation)
)
def test_an_answer_is_let_go_before_the_next_call(row: Row, tmp_path: Path) -> None:
    original = ApiClient.call
    latest: WeakKeyDictionary[asyncio.Task[Any], tuple[str, ref[Any]]] = WeakKeyDictionary()
    calls = 0
    held: set[tuple[str, str]] = set()

    async def watched(self: ApiClient, call: Call, into: Any = dict, *, deadline: float) -> Any:
        nonlocal calls
        task = asyncio.current_task()
        assert task is not None
        calls += 1
        if task in latest and latest[task][1]() is not None:
            held.add((latest[task][0], call.operation))
        payload = await original(self, call, _kind(into), deadline=deadline)
        if isinstance(payload, dict):
            payload = _Payload(payload)
        if isinstance(payload, _Payload | msgspec.Struct):
            latest[task] = call.operation, ref(payload)
        return payload

    async def main() -> None:
        async with open_site(tmp_path, row, Simulator(seed=5, clouds=("pai", "modelarts"), still=True)) as site:
            await site.after_polls(2)

    with mock.patch.object(ApiClient, "call", watched):
        run_stepped(main)
    assert calls > 20
    assert held == set()


class _Rows(list[Any]):
    """Rows that can be referred to weakly."""


_PUBLISHED = (
    *("ListQuotas", "ListNodes", "ListQuotaWorkloads", "GetJob", "GetJobMetrics"),
    *("ListPools", "ShowPoolRuntimeMetrics", "ShowWorkloadStatistics", "ListWorkloads", "ListPoolNodes"),
    *("ListTrainingJobVersions", "ShowTrainingJobMetrics", "ShowPodMetricStatistic"),
)
"""Those whose answers may be long, and are shown as soon as they came. The rows of other lists are kept for a poll."""


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.operation in _PUBLISHED], ids=lambda row: str(row.operation)
)
def test_an_answer_is_let_go_before_others_get_their_turn(row: Row, tmp_path: Path) -> None:
    original = ApiClient.call
    answered: list[str] = []
    held: set[str] = set()

    async def watched(self: ApiClient, call: Call, into: Any = dict, *, deadline: float) -> Any:
        payload = await original(self, call, _kind(into), deadline=deadline)
        if call.operation not in _PUBLISHED or not isinstance(payload, dict | msgspec.Struct):
            return payload
        answered.append(call.operation)
        if isinstance(payload, msgspec.Struct):
            watched: list[ref[Any]] = [ref(payload)]
        else:
            payload = _Payload({key: _watchable(value) for key, value in payload.items()})
            rows = [each for value in payload.values() if isinstance(value, _Rows) for each in value]
            watched = [ref(each) for each in (payload, *payload.values(), *rows) if isinstance(each, _Payload | _Rows)]
            del rows

        def look() -> None:
            if any(each() is not None for each in watched):
                held.add(call.operation)

        asyncio.get_running_loop().call_soon(look)
        return payload

    async def main() -> None:
        async with open_site(tmp_path, row, Simulator(seed=5, clouds=("pai", "modelarts"), still=True)) as site:
            await site.after_polls(2)

    with mock.patch.object(ApiClient, "call", watched):
        run_stepped(main)
    assert row.operation in answered
    assert held == set()


def _watchable(value: Any) -> Any:
    if isinstance(value, list):
        return _Rows(_Payload(each) if isinstance(each, dict) else each for each in value)
    return _Payload(value) if isinstance(value, dict) else value
