"""Dedicated pools: their list, allocation, workloads, nodes and monitor; each API with ways of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.client import START
from tests.simulator.modelarts.client import POOLS, V2, Caller, refusal
from trainfleet_simulator.modelarts.catalog import (
    ASCEND,
    ASCEND_TEAM,
    COMING,
    GPU,
    NEVER_CAME,
    TEAM_WORKSPACE,
)
from trainfleet_simulator.modelarts.phases import WORKLOAD_STATUSES
from trainfleet_simulator.world.usage import reading

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


def test_a_list_of_pools_refuses_unknown_statuses(caller: Caller) -> None:
    assert refusal(caller.get(POOLS, status="Running")) == BAD


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


def test_allocation_is_in_the_quantity_form_of_each_pool(caller: Caller) -> None:
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


def test_both_documented_forms_of_statistics_occur(caller: Caller) -> None:
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
    assert waits["resourceRequirement"]["huawei.com/ascend-1980"] == "48"
    assert waits["hostIps"] == ""
    hosts = {node["status"]["privateIp"] for node in caller.body(f"{POOLS}/{ASCEND}/nodes")["items"]}
    assert set(pretrain["hostIps"].split(",")) <= hosts, "the nodes' addresses, not the pods'"


def test_queued_workloads_have_their_place_in_the_queue() -> None:
    caller = Caller()
    longest = 0
    for _ in range(40):
        caller.clock.now += 60
        for pool in (ASCEND, ASCEND_TEAM, GPU):
            rows = caller.body(f"{POOLS}/{pool}/workloads")["items"]
            queued = [row for row in rows if row["status"] == "Queue"]
            queue = sorted(queued, key=lambda row: int(row["pendingPosition"]))
            assert [row["pendingPosition"] for row in queue] == list(range(1, len(queue) + 1))
            assert [row["jobUUID"] for row in queue] == caller.world.pools[pool].waiting()
            assert {row["pendingPosition"] for row in rows if row["status"] != "Queue"} == {-1}
            longest = max(longest, len(queue))
    assert longest > 2


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


def monitored(caller: Caller, pool: str, **query: str) -> dict[str, list[dict[str, Any]]]:
    """Points by metric, oldest first."""
    body = caller.body(f"{POOLS}/{pool}/monitor", **query)
    return {metric["metric"]["metricName"]: metric["dataPoints"] for metric in body["metrics"]}


def values(points: list[dict[str, Any]]) -> list[float]:
    return [point["statistics"][0]["value"] for point in points]


LAST_MINUTES = {"time_range": "-1.-1.5", "statistics": "average", "period": "60"}


def test_monitor_gives_percent_and_minus_one_for_no_data(caller: Caller) -> None:
    points = monitored(caller, GPU, **LAST_MINUTES)
    assert {name for name in points if name.startswith("mem")} == {"memUsedRate"}
    assert all(START - 300 <= point["timestamp"] / 1000 <= START for rows in points.values() for point in rows)
    assert set(values(points["npuUtil"])) == {-1}
    assert {point["unit"] for point in points["npuUtil"]} == {""}
    assert {point["unit"] for point in points["gpuUtil"]} == {"Percent"}
    assert all(0 < value <= 100 for name in ("gpuUtil", "cpuUsage") for value in values(points[name])[:-1])


def test_the_monitors_newest_minute_is_not_there_at_once() -> None:
    caller = Caller()
    assert values(monitored(caller, GPU, **LAST_MINUTES)["cpuUsage"])[-1] == -1, "5 seconds after its minute"
    caller.clock.now += 15
    later = monitored(caller, GPU, **LAST_MINUTES)["cpuUsage"]
    assert later[-1]["timestamp"] == (START - 5) * 1000
    assert values(later)[-1] > 0


def test_the_monitor_tells_disks_in_megabytes(caller: Caller) -> None:
    points = monitored(caller, GPU, **LAST_MINUTES)
    whole, free, share = (points[name][0] for name in ("diskCapacity", "diskAvailableCapacity", "diskUsedRate"))
    assert (whole["unit"], free["unit"], share["unit"]) == ("Megabytes", "Megabytes", "Percent")
    (capacity,), (available,), (used,) = values([whole]), values([free]), values([share])
    assert available == pytest.approx(capacity * (1 - used / 100))


def test_the_monitor_is_the_share_of_the_nodes_that_jobs_use(caller: Caller) -> None:
    pool, world = caller.world.pools[GPU], caller.world
    at = int(START) // 60 * 60 - 60
    used = sum(
        (reading("GpuCoreUsage", job, pod, at) or 0.0) * pod.role.cards
        for job in world.jobs.values()
        if job.draft.pool_id == GPU
        for pod in job.pods
    )
    found = values(monitored(caller, GPU, **LAST_MINUTES)["gpuUtil"])[-2]
    assert found == pytest.approx(used / (8 * len(pool.nodes)), abs=0.001)


def test_a_logical_pool_shows_the_cluster_that_it_is_part_of(caller: Caller) -> None:
    whole, part = (caller.body(f"{POOLS}/{pool}/monitor", **LAST_MINUTES) for pool in (ASCEND, ASCEND_TEAM))
    assert whole == part
    other = caller.body(f"{POOLS}/{GPU}/monitor", **LAST_MINUTES)
    assert other["metrics"][0]["metric"]["dimensions"] != whole["metrics"][0]["metric"]["dimensions"]


def test_pools_without_nodes_have_no_data_or_no_points(caller: Caller) -> None:
    coming = monitored(caller, COMING, **LAST_MINUTES)
    assert {value for rows in coming.values() for value in values(rows)} == {-1}
    assert set(map(len, monitored(caller, NEVER_CAME, **LAST_MINUTES).values())) == {0}


def test_monitor_gives_the_maximum_of_an_hour_by_default(caller: Caller) -> None:
    def before_last(**query: str) -> Any:
        return monitored(caller, GPU, **query)["cpuUsage"][-2]["statistics"][0]

    assert before_last()["statistic"] == "maximum"
    assert len(monitored(caller, GPU)["cpuUsage"]) == 60
    average, minimum = before_last(statistics="average"), before_last(statistics="minimum")
    assert before_last()["value"] > average["value"] > minimum["value"] > 0
    assert before_last(statistics="sampleCount")["value"] == 5
    start = int(START - 600) * 1000
    assert len(monitored(caller, GPU, time_range=f"{start}.-1.5")["cpuUsage"]) == 10, "a start beats the minutes"


@pytest.mark.parametrize(
    "query",
    [
        {"statistics": "mean"},
        {"period": "61"},
        {"time_range": "60"},
        {"time_range": "-1.-1.1441"},
        {"time_range": "1000000000000.-1.5"},
    ],
    ids=str,
)
def test_the_monitor_refuses(caller: Caller, query: dict[str, str]) -> None:
    assert refusal(caller.get(f"{POOLS}/{GPU}/monitor", **query)) == BAD
