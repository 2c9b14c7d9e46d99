"""PaiStudio's queues (ListQuotaWorkloads) and nodes (ListNodes)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.client import Caller
from tests.simulator.pai.client import latest_answer
from trainfleet_simulator.pai.catalog import COMING, GENERAL, HIDDEN, ROOT, TRAIN, VISION

NODES = "/api/v1/nodes"


@pytest.fixture(scope="module")
def caller() -> Caller:
    caller = Caller()
    caller.clock.now += 600
    caller.jobs(PageSize="1")
    return caller


def queue(caller: Caller, quota_id: str, **query: str) -> dict[str, Any]:
    path = f"/api/v1/quotas/{quota_id}/workloads"
    return caller.body("paistudio", "ListQuotaWorkloads", path, **({"PageSize": "100"} | query))


def nodes(caller: Caller, **query: str) -> list[dict[str, Any]]:
    answer = caller.body("paistudio", "ListNodes", NODES, **({"PageSize": "100"} | query))
    assert answer["TotalCount"] == len(answer["Nodes"])
    rows: list[dict[str, Any]] = answer["Nodes"]
    return rows


def test_who_waits_has_a_position_and_who_runs_has_none(caller: Caller) -> None:
    answer = queue(caller, ROOT, ShowOwn="true")
    rows = answer["Workloads"]
    assert answer["TotalCount"] == len(rows)
    waiting = [row for row in rows if row["Status"] == "Enqueued"]
    assert [row["WorkloadId"] for row in waiting] == caller.world.pools[ROOT].waiting()
    assert [row["Position"] for row in waiting] == list(range(1, len(waiting) + 1))
    assert {row["WorkloadStatus"] for row in waiting} == {"Pending"}
    assert waiting[0]["GmtEnqueuedTime"] is not None
    assert waiting[0]["GmtDequeuedTime"] is None
    assert "waits-for-room" in [row["WorkloadName"] for row in waiting]
    placed = rows[len(waiting) :]
    assert {row["Status"] for row in placed} == {"Dequeued"}
    assert {row["Position"] for row in placed} == {None}
    pretrain = next(row for row in placed if row["WorkloadName"] == "llm-pretrain-70b")
    assert pretrain["WorkloadStatus"] == "Running"
    assert pretrain["WorkloadType"] == "dlc"
    assert pretrain["Resource"] == {"CPU": "368", "GPU": "16", "Memory": "3600Gi"}
    assert pretrain["GmtDequeuedTime"] is not None


@pytest.mark.parametrize("quota_id", [ROOT, TRAIN, VISION, GENERAL, COMING])
def test_list_holds_the_workloads_of_a_quota_and_its_children(caller: Caller, quota_id: str) -> None:
    world = caller.world
    family = {pool.spec.pool_id for pool in world.family(quota_id)}
    expected = {
        job.job_id
        for job in world.live()
        if job.draft.pool_id in family and (job.pods or job.job_id in world.pools[job.draft.pool_id].waiting())
    }
    rows = queue(caller, quota_id)["Workloads"]
    assert {row["WorkloadId"] for row in rows} == expected
    assert {row["QuotaId"] for row in rows} <= family
    cards = sum(int(row["Resource"]["GPU"]) for row in rows if row["Status"] == "Dequeued")
    assert cards == world.amount(quota_id, lambda pool: pool.allocated).cards


def test_counts_cost_one_short_page(caller: Caller) -> None:
    answer = queue(caller, TRAIN, PageSize="1", WorkloadType="dlc", WorkloadStatuses="Running")
    assert len(answer["Workloads"]) == 1
    rows = queue(caller, TRAIN)["Workloads"]
    assert answer["TotalCount"] == sum(row["WorkloadStatus"] == "Running" for row in rows) > 1
    logged = latest_answer(caller, "ListQuotaWorkloads")
    assert (logged["api"], logged["total"], logged["rows"][0][0]) == ("paistudio", len(rows), rows[0]["WorkloadId"])


def test_filters_and_pages(caller: Caller) -> None:
    rows = queue(caller, ROOT)["Workloads"]
    ids = [row["WorkloadId"] for row in rows]
    paged = [
        row["WorkloadId"]
        for number in range(1, len(ids) // 3 + 2)
        for row in queue(caller, ROOT, PageSize="3", PageNumber=str(number))["Workloads"]
    ]
    assert paged == ids
    assert {row["Status"] for row in queue(caller, ROOT, Status="Enqueued")["Workloads"]} == {"Enqueued"}
    assert queue(caller, ROOT, WorkloadType="dsw")["TotalCount"] == 0


@pytest.mark.parametrize(
    ("quota_id", "query", "expected"),
    [
        ("nosuch", {}, (404, "NotFound")),
        (HIDDEN, {}, (404, "NotFound")),
        (ROOT, {"PageSize": "101"}, (400, "InvalidParameter")),
        (ROOT, {"Status": "Waiting"}, (400, "InvalidParameter")),
        (ROOT, {"ShowOwn": "1"}, (400, "InvalidParameter")),
    ],
    ids=str,
)
def test_refused_queues(caller: Caller, quota_id: str, query: dict[str, str], expected: tuple[int, str]) -> None:
    path = f"/api/v1/quotas/{quota_id}/workloads"
    assert caller.refusal("paistudio", "ListQuotaWorkloads", path, **query) == expected


def test_nodes_tell_amounts_as_text_and_memory_as_bare_gib(caller: Caller) -> None:
    general = nodes(caller, QuotaId=GENERAL)
    assert len(general) == 5
    facts = general[0]
    assert [row["NodeName"] for row in general] == sorted((row["NodeName"] for row in general), reverse=True)
    wanted = {
        "NodeType": "ecs.gn6v-c8g1.16xlarge",
        "NodeStatus": "Ready",
        "AcceleratorType": "GPU",
        "GPUType": "V100",
        "CPU": "64",
        "GPU": "8",
        "Memory": "256",
        "GPUMemory": "128",
        "AllocatableCPU": "60",
        "AllocatableMemory": "240",
        "SystemReservedCPU": "4",
        "SystemReservedMemory": "16",
        "ResourceGroupId": "rgsimgeneral",
        "BoundQuotas": [{"QuotaId": GENERAL, "QuotaName": "pool-general"}],
    }
    assert {name: facts[name] for name in wanted} == wanted
    assert "RequestGPU" not in facts


def test_verbose_nodes_tell_what_is_requested(caller: Caller) -> None:
    rows = nodes(caller, QuotaId=TRAIN, Verbose="true")
    pool = caller.world.pools[TRAIN]
    assert {row["NodeName"]: (row["RequestCPU"], row["RequestGPU"], row["PodNum"]) for row in rows} == {
        name: (str(184 - node.free.cpu), str(8 - node.free.cards), node.pods) for name, node in pool.nodes.items()
    }
    assert sum(float(row["RequestMemory"]) for row in rows) == pytest.approx(pool.allocated.memory / 1024)
    assert all(row["WorkloadNum"] <= row["PodNum"] and (row["WorkloadNum"] > 0) == (row["PodNum"] > 0) for row in rows)
    assert any(row["WorkloadNum"] for row in rows)
    assert latest_answer(caller, "ListNodes")["rows"] == [[row["NodeName"], "Ready", row["RequestGPU"]] for row in rows]


def test_parent_lists_nodes_of_its_children_with_their_quota(caller: Caller) -> None:
    rows = nodes(caller, QuotaId=ROOT)
    assert len(rows) == 4 + 6 + 3
    bound = [[quota["QuotaId"] for quota in row["BoundQuotas"]] for row in rows]
    assert sorted(bound) == sorted([[ROOT]] * 4 + [[TRAIN, ROOT]] * 6 + [[VISION, ROOT]] * 3)
    assert nodes(caller, QuotaId=COMING) == []


def test_pages_of_nodes(caller: Caller) -> None:
    names = [row["NodeName"] for row in nodes(caller, QuotaId=TRAIN)]
    assert names == sorted(names, reverse=True)
    page = caller.body("paistudio", "ListNodes", NODES, QuotaId=TRAIN, PageSize="4", PageNumber="2")
    assert ([row["NodeName"] for row in page["Nodes"]], page["TotalCount"]) == (names[4:], 6)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, (400, "MissingQuotaId")),
        ({"QuotaId": "nosuch"}, (404, "NotFound")),
        ({"QuotaId": HIDDEN}, (404, "NotFound")),
        ({"QuotaId": TRAIN, "PageSize": "101"}, (400, "InvalidParameter")),
    ],
    ids=str,
)
def test_refused_nodes(caller: Caller, query: dict[str, str], expected: tuple[int, str]) -> None:
    assert caller.refusal("paistudio", "ListNodes", NODES, **query) == expected
