"""The queue, the workloads and the nodes of PAI's quotas, on scripted answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, FleetOf, Row, job
from tests.support.golden import check_golden_samples

GOLDEN = Path(__file__).parent / "golden"
POOLS = CONFIG.replace("{usage: {source: job_metrics}}", "{usage: {enabled: false}, nodes: {enabled: true}}")


@pytest.fixture
def config() -> str:
    """The config of the fleet."""
    return POOLS


def _waiting(workload_id: str, position: int, *, quota: str = "q1", **fields: object) -> Row:
    return {
        "WorkloadId": workload_id,
        "WorkloadType": "DLC",
        "WorkloadStatus": "Pending",
        "Status": "Enqueued",
        "Position": position,
        "QuotaId": quota,
        "Resource": {"CPU": "8", "GPU": "8", "Memory": "512Gi"},
        **fields,
    }


def _node(name: str, **fields: object) -> Row:
    return {
        "NodeName": name,
        "NodeType": "ml.gu8tf.8.46xlarge",
        "NodeStatus": "Ready",
        "GPUType": "GU8T",
        "CPU": "184",
        "GPU": "8",
        "Memory": "1800",
        "RequestCPU": "92",
        "RequestGPU": "4",
        "RequestMemory": "921600Mi",
        **fields,
    }


def _world() -> Cloud:
    """A parent with a child; what waits in the child is in the parent's queue as well."""
    cloud = Cloud()
    types = {"QuotaConfig": {"WorkloadTypes": ["DLC", "DSW"]}}
    cloud.quotas = [
        {"QuotaId": "q1", "QuotaName": "parent", "ParentQuotaId": "", **types},
        {"QuotaId": "q2", "QuotaName": "child", "ParentQuotaId": "q1", **types},
    ]
    cloud.jobs = [job("a", "Queuing", ResourceId="q1"), job("b", "Queuing", ResourceId="q2")]
    of_child = _waiting("b", 1, quota="q2", Resource={"CPU": "4", "Memory": "8Gi"})
    cloud.queues = {
        "q1": [_waiting("a", 2), of_child, _waiting("notebook", 3, WorkloadType="dsw")],
        "q2": [of_child],
    }
    cloud.running = {("q1", "dlc"): 12, ("q2", "dlc"): 5, ("q1", "dsw"): 1}
    cloud.nodes = {
        "q1": [
            _node("n1", OrderStatus="Normal", GmtExpiredTime=""),
            _node("n2", NodeStatus="Abnormal", OrderStatus="Overdue", GmtExpiredTime="2026-12-01T00:00:00Z"),
            _node("n3", NodeStatus="Cordoned", GPU=None, ReasonCode="CordonByUser", OrderStatus="Normal"),
            _node("n4", ReasonCode="cordoned by alice, see ticket 7", ReasonMessage="a secret", GmtExpiredTime="soon"),
        ],
        "q2": [_node("n1")],
    }
    return cloud


async def test_golden_exposition_of_queues_workloads_and_nodes(fleet_of: FleetOf) -> None:
    async with fleet_of(_world()) as fleet:
        assert await fleet.exporter.poll_once()
        shown = await fleet.lines("pool_workloads", "pool_queued", "job_queue_position", "node_")
        check_golden_samples(GOLDEN / "pools.txt", shown)


async def test_calls_are_one_for_the_queue_and_one_for_each_type(fleet_of: FleetOf) -> None:
    cloud = _world()
    cloud.queues["q2"] = [_waiting(f"w{n}", n, quota="q2") for n in range(250)]
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        called = Counter(query["path"].split("/")[-2] for query in cloud.called("ListQuotaWorkloads"))
        assert called == {"q1": 1 + 2, "q2": 3 + 2}
        counted = [query for query in cloud.called("ListQuotaWorkloads") if "WorkloadStatuses" in query]
        assert {(q["WorkloadType"], q["WorkloadStatuses"], q["PageSize"]) for q in counted} == {
            ("dlc", "Running", "1"),
            ("dsw", "Running", "1"),
        }
        assert Counter(query["QuotaId"] for query in cloud.called("ListNodes")) == {"q1": 1, "q2": 1}
        assert {(q["Verbose"], q["PageSize"], q["path"]) for q in cloud.called("ListNodes")} == {
            ("true", "100", "/api/v1/nodes")
        }
        assert await fleet.value('pool_queued_accelerators{pool_id="q2",accelerator="gpu"}') == 2000


async def test_a_queue_that_does_not_say_what_it_wants_has_no_sum(fleet_of: FleetOf) -> None:
    cloud = _world()
    cloud.queues["q1"].append(_waiting("c", 4, Resource=None))
    cloud.queues["q2"].append(_waiting("d", 4, Resource={"CPU": "8", "GPU": {"count": 8}}))
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.lines("pool_queued_accelerators") == []
        labels = 'workload_type="dlc",status="queued",platform_status="Enqueued"'
        assert await fleet.value(f'pool_workloads{{pool_id="q1",{labels}}}') == 3


async def test_queue_positions_only_in_a_jobs_own_queue(fleet_of: FleetOf) -> None:
    cloud = _world()
    cloud.queues["q1"] += [
        _waiting("gone", 5),
        _waiting("left out", 6),
        _waiting("a", 9, WorkloadId="x", Position=None),
        _waiting("running", 7, Status="Dequeued"),
    ]
    cloud.jobs += [job("left out", "Queuing"), job("running", "EnvPreparing")]
    async with fleet_of(
        cloud, POOLS.replace("    limits", "    jobs: {exclude: {name: [name-left out]}}\n    limits")
    ) as fleet:
        assert await fleet.exporter.poll_once()
        places = await fleet.lines("job_queue_position")
        assert len(places) == 2
        assert await fleet.value('job_queue_position{job_id="a"}') == 2
        assert await fleet.value('job_queue_position{job_id="b"}') == 1


async def test_unknown_workload_type_is_counted_in_its_queue(fleet_of: FleetOf) -> None:
    cloud = _world()
    del cloud.quotas[1]
    cloud.quotas[0]["QuotaConfig"] = None
    cloud.queues["q1"] = [_waiting("r", 1, WorkloadType="Ray")]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        labels = {
            'workload_type="dlc",status="queued",platform_status="Enqueued"': 0,
            'workload_type="ray",status="queued",platform_status="Enqueued"': 1,
            'workload_type="dlc",status="running",platform_status="Running"': 12,
        }
        assert len(await fleet.lines("pool_workloads")) == len(labels)
        for text, value in labels.items():
            assert await fleet.value(f'pool_workloads{{pool_id="q1",{text}}}') == value


async def test_nodes_are_polled_only_where_they_are_switched_on(fleet_of: FleetOf) -> None:
    cloud = _world()
    async with fleet_of(cloud, POOLS.replace(", nodes: {enabled: true}", "")) as fleet:
        fleet.schedule.start()
        await asyncio.sleep(120)
        assert cloud.called("ListNodes") == []
        assert len(await fleet.lines("pool_workloads")) == 8
