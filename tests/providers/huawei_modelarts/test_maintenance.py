"""Announced work on nodes, on scripted answers."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Row
from tests.providers.huawei_modelarts.usage.usage_rig import FleetOf

ON = CONFIG + "    collectors: {maintenance: {enabled: true}}\n"
FAMILY = "node_maintenance_timestamp_seconds"


def event(event_id: str, state: str, **fields: object) -> Row:
    return {
        "id": event_id,
        "type": "node_reboot",
        "state": state,
        "nodeName": "node-1",
        "poolName": "pool-1",
        "publishTime": "2026-01-01T00:00:00Z",
        "notBefore": "2026-01-02T00:00:00Z",
        **fields,
    }


async def test_work_that_has_not_ended_is_shown(fleet_of: FleetOf) -> None:
    async with fleet_of(ON) as (cloud, fleet):
        cloud.events["0"] = [
            event("planned", "scheduled"),
            event("asks", "inquiring", notBefore=None),
            event("runs", "executing", notBefore=None, startTime="2026-01-03T00:00:00Z", poolName=None),
            event("new", "postponed", type="node freezes, call 0800"),
            *(event(state, state) for state in ("completed", "failed", "canceled")),
            event("undated", "scheduled", notBefore="", publishTime=None),
        ]
        assert await fleet.exporter.poll_once()
        shown = [line.removeprefix(f"trainfleet_{FAMILY}").strip() for line in await fleet.lines(FAMILY)]
        of_pool = 'provider="p",pool_id="pool-1",node_name="node-1"'
        of_none = of_pool.replace("pool-1", "")
        assert shown == [
            f'{{{of_pool},event_id="planned",kind="node_reboot",state="scheduled"}} 1767312000',
            f'{{{of_pool},event_id="asks",kind="node_reboot",state="inquiring"}} 1767225600',
            f'{{{of_none},event_id="runs",kind="node_reboot",state="executing"}} 1767398400',
            f'{{{of_pool},event_id="new",kind="",state="unknown"}} 1767312000',
        ]
        assert fleet.own("dropped_readings_total", collector="maintenance", reason="malformed") == 1


async def test_an_event_of_two_workspaces_is_shown_once(fleet_of: FleetOf) -> None:
    async with fleet_of(ON) as (cloud, fleet):
        cloud.workspaces = [{"id": "0", "name": "default"}, {"id": "w", "name": "team"}]
        cloud.events = {"0": [event("one", "scheduled")], "w": [event("one", "scheduled"), event("two", "scheduled")]}
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines(FAMILY)) == 2
        assert fleet.own("dropped_readings_total", collector="maintenance", reason="duplicate") == 1
        refusal = httpx.Response(403, json={"error_code": "ModelArts.0108", "error_msg": "not authorized"})
        cloud.answer = lambda _, request: refusal if request.url.params.get("workspaceId") == "0" else None
        fleet.schedule.start()
        await asyncio.sleep(7200)
        assert len(await fleet.lines(FAMILY)) == 2


@pytest.mark.parametrize(("events", "calls"), [(0, 1), (100, 1), (101, 2)])
async def test_calls_are_one_for_each_hundred_events(fleet_of: FleetOf, events: int, calls: int) -> None:
    async with fleet_of(ON) as (cloud, fleet):
        cloud.events["0"] = [event(f"event-{number}", "scheduled") for number in range(events)]
        assert await fleet.exporter.poll_once()
        asked = cloud.called("/scheduled-events")
        assert [about["offset"] for about in asked] == [str(100 * page) for page in range(calls)]
        assert {(about["workspaceId"], about["limit"]) for about in asked} == {("0", "100")}
        assert len(await fleet.lines(FAMILY)) == events


async def test_a_refusal_fails_this_collector_only(fleet_of: FleetOf) -> None:
    async with fleet_of(ON) as (cloud, fleet):
        refusal = httpx.Response(403, json={"error_code": "ModelArts.0108", "error_msg": "not authorized"})
        cloud.answer = lambda path, request: refusal if path.endswith("/scheduled-events") else None
        assert not await fleet.exporter.poll_once()
        assert fleet.own("collector_success", collector="maintenance") == 0
        assert fleet.own("collector_success", collector="pools") == 1
