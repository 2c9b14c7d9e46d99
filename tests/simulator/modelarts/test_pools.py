"""Dedicated pools: their list, allocation, workloads, nodes and monitor; each API with ways of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.client import START
from tests.simulator.modelarts.client import POOLS, V2, Caller, refusal
from trainfleet_exporter.simulator.modelarts.catalog import (
    ASCEND,
    ASCEND_TEAM,
    COMING,
    GPU,
    NEVER_CAME,
    TEAM_WORKSPACE,
)
from trainfleet_exporter.simulator.modelarts.phases import WORKLOAD_STATUSES

RUNTIME = f"{V2}/metrics/runtime/pools"
BAD = (400, "ModelArts.50004000")
UNKNOWN = (404, "ModelArts.50015001")


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller()


def listed(caller: Caller, **query: str) -> dict[str, dict[str, Any]]:
    return {pool["metadata"]["name"]: pool for pool in caller.body(POOLS, **query)["items"]}


def statistics(pool: str) -> str:
    return f"{V2}/statistics/pools/{pool}/workloads"


def test_pools_of_one_workspace(caller: Caller) -> None:
    assert set(listed(caller)) == {ASCEND, ASCEND_TEAM, COMING, NEVER_CAME}
    assert set(listed(caller, workspaceId=TEAM_WORKSPACE)) == {GPU}
    assert set(listed(caller, status="created")) == {ASCEND, ASCEND_TEAM}
    assert set(listed(caller, status="creating")) == {COMING}
    assert set(listed(caller, status="failed")) == {NEVER_CAME}
    assert set(listed(caller, labelSelector="os.modelarts/name=ascend-team")) == {ASCEND_TEAM}


@pytest.mark.parametrize("query", [{"status": "Running"}, {"labelSelector": "name=x"}], ids=str)
def test_a_list_of_pools_refuses(caller: Caller, query: dict[str, str]) -> None:
    assert refusal(caller.get(POOLS, **query)) == BAD


def test_node_states_are_arrays_and_left_out_when_empty(caller: Caller) -> None:
    pools = listed(caller) | listed(caller, workspaceId=TEAM_WORKSPACE)

    def counts(pool: str) -> dict[str, list[int]]:
        states = pools[pool]["status"]["resources"]
        return {state: [row["count"] for row in rows] for state, rows in states.items()}

    assert counts(ASCEND) == {"available": [10]}, "its child's nodes included"
    assert counts(ASCEND_TEAM) == {"available": [4]}
    assert counts(GPU) == {"available": [5], "abnormal": [1]}
    assert counts(COMING) == {"creating": [2]}
    assert counts(NEVER_CAME) == {}
    assert pools[ASCEND_TEAM]["spec"]["type"] == "Logical"
    assert pools[ASCEND_TEAM]["status"]["parent"] == ASCEND == pools[ASCEND]["status"]["root"]
    assert "parent" not in pools[ASCEND]["status"]


def test_allocation_is_in_kubernetes_quantities_each_pool_in_its_own(caller: Caller) -> None:
    body = caller.body(RUNTIME)
    tables = {item["metadata"]["name"]: item["table"] for item in body["items"]}
    assert set(tables) == {ASCEND, ASCEND_TEAM, GPU}
    capacity = {pool: table["capacity"]["value"] for pool, table in tables.items()}
    assert capacity[ASCEND] == {"cpu": "1920", "memory": "15728640Mi", "huawei.com/ascend-1980": 80}
    assert capacity[ASCEND_TEAM] == {"cpu": "768000m", "memory": "6442450944Ki", "huawei.com/ascend-1980": "32"}
    assert capacity[GPU] == {"cpu": 360, "memory": 5 * 512 * 2**30, "nvidia.com/gpu": "40"}
    for pool, table in tables.items():
        held = caller.world.amount(pool, lambda one: one.allocated)
        device = "nvidia.com/gpu" if pool == GPU else "huawei.com/ascend-1980"
        assert int(table["allocated"]["value"][device]) == held.cards > 0


def test_statistics_count_as_the_list_of_workloads_does(caller: Caller) -> None:
    for pool in (ASCEND, ASCEND_TEAM, GPU):
        body = caller.body(statistics(pool))
        answer = body.get("statistics") or body["statics"]
        assert answer["total"] == len(answer["items"])
        for item in answer["items"]:
            for status in WORKLOAD_STATUSES:
                rows = caller.body(f"{POOLS}/{pool}/workloads", type=item["type"], status=status, limit="1")
                assert int(item["status"].get(status, 0)) == rows["total"]
                assert status not in item["status"] or rows["total"]
            assert item["total"] == sum(map(int, item["status"].values()))


def test_the_two_documented_names_and_types_of_the_statistics_both_occur(caller: Caller) -> None:
    keys = {pool: next(iter(caller.body(statistics(pool)))) for pool in (ASCEND, ASCEND_TEAM, GPU)}
    assert keys == {ASCEND: "statistics", ASCEND_TEAM: "statistics", GPU: "statics"}
    (team,) = caller.body(statistics(ASCEND_TEAM))["statistics"]["items"]
    assert all(isinstance(count, str) for count in team["status"].values())
    other = caller.body(statistics(GPU))["statics"]["items"]
    assert all(isinstance(count, int) for item in other for count in item["status"].values())
    assert caller.body(statistics(COMING)) == {"statistics": {"total": 0, "items": []}}


@pytest.mark.parametrize("path", ["workloads", "nodes", "monitor"])
def test_unknown_pools(caller: Caller, path: str) -> None:
    assert refusal(caller.get(f"{POOLS}/pool-nosuch/{path}")) == UNKNOWN
    assert refusal(caller.get(statistics("pool-nosuch"))) == UNKNOWN


@pytest.mark.parametrize(
    "query",
    [{"type": "job"}, {"status": "Stopped"}, {"limit": "501"}, {"limit": "-1"}, {"offset": "x"}, {"sort": "name"}],
    ids=str,
)
def test_a_list_of_workloads_refuses(caller: Caller, query: dict[str, str]) -> None:
    assert refusal(caller.get(f"{POOLS}/{ASCEND}/workloads", **query)) == BAD


def test_workloads_are_paged_by_records(caller: Caller) -> None:
    path = f"{POOLS}/{ASCEND}/workloads"
    whole = caller.body(path)
    assert whole["total"] == len(whole["items"]) > 5
    assert caller.body(path, limit="0")["items"] == whole["items"], "0 is the most"
    assert caller.body(path, offset="3", limit="2")["items"] == whole["items"][3:5]
    times = [row["createTime"] for row in caller.body(path, ascend="true")["items"]]
    assert times == sorted(times)
    types = [("type", "infer"), ("type", "notebook")]
    assert {row["type"] for row in caller.body(path, *types)["items"]} == {"infer", "notebook"}


def test_a_workload_is_a_job_with_units(caller: Caller) -> None:
    rows = {row["jobName"]: row for row in caller.body(f"{POOLS}/{ASCEND}/workloads")["items"]}
    pretrain = rows["pangu-pretrain"]
    assert pretrain["jobUUID"] == caller.job_id("pangu-pretrain")
    assert pretrain["name"] == f"modelarts-job-{pretrain['jobUUID']}"
    assert pretrain["resourceRequirement"] == {
        "cpu": "384 Cores",
        "memory": "3072.00 GiB",
        "huawei.com/ascend-1980": "16",
    }
    assert (pretrain["status"], pretrain["pendingPosition"]) == ("Running", -1)
    waits = rows["waits-for-room"]
    assert (waits["status"], waits["pendingDuration"]) == ("Queue", 200)
    assert waits["pendingPosition"] >= 1


def test_nodes_are_paged_by_a_token(caller: Caller) -> None:
    path = f"{POOLS}/{GPU}/nodes"
    whole = caller.body(path)
    assert whole["metadata"] == {}
    assert [node["status"]["phase"] for node in whole["items"]] == ["Available"] * 5 + ["Abnormal"]
    first = caller.body(path, limit="4")
    assert first["metadata"]["remainingItemCount"] == 2
    second = caller.body(path, limit="4", **{"continue": first["metadata"]["continue"]})
    assert first["items"] + second["items"] == whole["items"]
    assert second["metadata"] == {}
    assert refusal(caller.get(path, **{"continue": "x"})) == BAD
    cards = sum(int(node["status"]["resources"]["nvidia.com/gpu"]) for node in whole["items"][:5])
    free = sum(int(node["status"]["availableResources"]["nvidia.com/gpu"]) for node in whole["items"])
    assert cards - free == caller.world.pools[GPU].allocated.cards


def test_the_monitor_has_minus_one_where_it_has_no_data(caller: Caller) -> None:
    body = caller.body(f"{POOLS}/{GPU}/monitor", time_range="-1.-1.5", statistics="average", period="60")
    points = {metric["metric"]["metricName"]: metric["dataPoints"] for metric in body["metrics"]}
    assert "memUsedRate" in points
    assert "memUsage" not in points
    assert all(START - 300 <= point["timestamp"] / 1000 <= START for rows in points.values() for point in rows)

    def values(name: str) -> set[float]:
        return {point["statistics"][0]["value"] for point in points[name]}

    assert values("npuUtil") == {-1}
    assert {point["unit"] for point in points["npuUtil"]} == {""}
    assert all(0 < value <= 100 for value in values("gpuUtil") | values("cpuUsage"))


def test_the_monitor_takes_the_maximum_unless_told_otherwise(caller: Caller) -> None:
    def latest(**query: str) -> dict[str, Any]:
        body = caller.body(f"{POOLS}/{GPU}/monitor", **query)
        found: dict[str, Any] = body["metrics"][0]["dataPoints"][-1]["statistics"][0]
        return found

    assert latest()["statistic"] == "maximum"
    assert latest()["value"] > latest(statistics="average")["value"] > latest(statistics="minimum")["value"]


@pytest.mark.parametrize(
    "query",
    [{"statistics": "mean"}, {"period": "61"}, {"time_range": "60"}, {"time_range": "-1.-1.1441"}],
    ids=str,
)
def test_the_monitor_refuses(caller: Caller, query: dict[str, str]) -> None:
    assert refusal(caller.get(f"{POOLS}/{GPU}/monitor", **query)) == BAD
