"""What collectors keep of an answer while they wait for the next one: not the whole of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary, ref

import pytest

from tests.faults.operations import ROWS
from tests.faults.row import Row
from tests.faults.site import open_site
from tests.support.clock import run_stepped
from trainfleet_exporter.simulator import Simulator
from trainfleet_exporter.transport import ApiClient, Call

_OPERATIONS = (
    "ListNodes",
    "ListQuotaWorkloads",
    "GetJob",
    "GetJobMetrics",
    "GetMetrics",
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


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.operation in _OPERATIONS], ids=lambda row: str(row.operation)
)
def test_an_answer_is_let_go_before_the_next_call(row: Row, tmp_path: Path) -> None:
    original = ApiClient.call
    latest: WeakKeyDictionary[asyncio.Task[Any], tuple[str, ref[_Payload]]] = WeakKeyDictionary()
    calls = 0
    held: set[tuple[str, str]] = set()

    async def watched(self: ApiClient, call: Call, *, deadline: float) -> Any:
        nonlocal calls
        task = asyncio.current_task()
        assert task is not None
        calls += 1
        if task in latest and latest[task][1]() is not None:
            held.add((latest[task][0], call.operation))
        payload = await original(self, call, deadline=deadline)
        if isinstance(payload, dict):
            payload = _Payload(payload)
            latest[task] = call.operation, ref(payload)
        return payload

    async def main() -> None:
        async with open_site(tmp_path, row, Simulator(seed=5, clouds=("pai", "modelarts"), still=True)) as site:
            await site.after_polls(2)

    with mock.patch.object(ApiClient, "call", watched):
        run_stepped(main)
    assert calls > 20
    assert held == set()
