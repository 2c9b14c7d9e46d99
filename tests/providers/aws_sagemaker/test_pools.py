"""Pools: instance groups of HyperPod clusters, training plans, and nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest
from msgspec import convert

from tests.providers.aws_sagemaker.cloud import CONFIG, Cloud, FleetOf, Row, failed, job, plan_arn
from tests.providers.aws_sagemaker.models import enumeration
from tests.support.clock import START
from trainfleet_exporter.providers.aws_sagemaker import pools


def _group(name: str, kind: str = "ml.p5.48xlarge", count: int = 4, status: str = "InService", **fields: Any) -> Row:
    return {"InstanceGroupName": name, "InstanceType": kind, "CurrentCount": count, "Status": status, **fields}


def _node(number: int, status: str = "Running", group: str = "workers") -> Row:
    return {
        "InstanceGroupName": group,
        "InstanceId": f"i-{number}",
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": START,
        "InstanceStatus": {"Status": status},
    }


def _plan(name: str, status: str = "Active") -> Row:
    return {
        "TrainingPlanArn": plan_arn(name),
        "TrainingPlanName": name,
        "Status": status,
        "EndTime": START + 86400,
        "TotalInstanceCount": 8,
        "AvailableInstanceCount": 2,
        "InUseInstanceCount": 6,
        "ReservedCapacitySummaries": [
            {
                "ReservedCapacityArn": "arn:aws:sagemaker:us-east-1:123456789012:reserved-capacity/r",
                "InstanceType": "ml.p5.48xlarge",
                "TotalInstanceCount": 8,
                "Status": "Active",
            }
        ],
    }


def _cloud() -> Cloud:
    cloud = Cloud()
    groups = [_group("workers", TrainingPlanArn=plan_arn("plan-a")), _group("head", "ml.m5.xlarge", 1, "Degraded")]
    nodes = [_node(number) for number in range(2)] + [_node(8, "Failure"), _node(9, "DeepHealthCheckInProgress")]
    cloud.clusters = {"hyper": (groups, nodes)}
    cloud.plans = [_plan("plan-a"), _plan("old", "Expired")]
    return cloud


async def test_groups_and_plans_are_pools(fleet_of: FleetOf) -> None:
    cloud = _cloud()
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        assert fleet.own("collector_success", collector="pools") == 1
        infos = await fleet.lines("pool_info")
        assert len(infos) == 3
        for both in (
            ('"hyper/workers"', 'parent_pool_id="plan-a"'),
            ('pool_id="plan-a"', 'resource_type="TrainingPlan"'),
        ):
            assert any(all(each in line for each in both) for line in infos)
        assert await fleet.value('pool_status{pool_id="hyper/head",status="abnormal"}') == 1
        for status, count in {"available": 2, "abnormal": 1, "creating": 1}.items():
            assert await fleet.value(f'pool_nodes{{pool_id="hyper/workers",status="{status}"}}') == count
        assert await fleet.value('pool_nodes{pool_id="hyper/head",status="available"}') == 0
        kind = 'accelerator="gpu",accelerator_model="H100"'
        assert await fleet.value(f'pool_capacity_accelerators{{pool_id="hyper/workers",{kind}}}') == 32
        assert await fleet.value(f'pool_capacity_accelerators{{pool_id="plan-a",{kind}}}') == 64
        assert await fleet.value(f'pool_allocated_accelerators{{pool_id="plan-a",{kind}}}') == 48
        assert await fleet.value('pool_empty_nodes{pool_id="plan-a"}') == 2
        assert await fleet.value('pool_capacity_cpu_cores{pool_id="hyper/head"}') == 4
        names = Counter(name for name, _ in cloud.calls)
        assert names == {"ListTrainingPlans": 1, "ListClusters": 1, "DescribeCluster": 1, "ListClusterNodes": 1}
        unnamed = httpx.Response(200, json={"ClusterSummaries": [{}]})  # it may be the cluster
        cloud.answer = lambda operation, asked: unnamed if operation == "ListClusters" else None
        await fleet.runner("pools").tick()
        assert len(await fleet.lines("pool_info")) == 3


async def test_nodes_have_their_health(fleet_of: FleetOf) -> None:
    cloud = _cloud()
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        await fleet.runner("nodes").tick()
        assert await fleet.value('node_status{pool_id="hyper/workers",node_name="i-8",status="abnormal"}') == 1
        assert await fleet.value('node_status{pool_id="hyper/workers",node_name="i-9",status="creating"}') == 1
        reason = 'node_status_reason{pool_id="hyper/workers",node_name="i-9",reason="DeepHealthCheckInProgress"}'
        assert await fleet.value(reason) == 1
        assert await fleet.lines('node_status_reason{provider="p",pool_id="hyper/workers",node_name="i-0"') == []
        assert len(await fleet.lines("node_capacity_accelerators")) == 4
        ends = await fleet.lines("node_expiry_timestamp_seconds")
        assert [float(line.rpartition(" ")[2]) for line in ends] == [START + 86400] * 4


@pytest.mark.parametrize(
    ("answer", "success"),
    [
        (failed("UnknownOperationException"), 1),
        (failed("", status=404), 1),
        (failed("ValidationException", "a parameter is wrong"), 0),
        (failed("AccessDeniedException"), 0),
    ],
)
@pytest.mark.parametrize("refused", ["ListClusters", "ListTrainingPlans"])
async def test_what_a_region_does_not_serve_fails_nothing(
    fleet_of: FleetOf, refused: str, answer: httpx.Response, success: int
) -> None:
    cloud = _cloud()
    cloud.answer = lambda operation, asked: answer if operation == refused else None
    others = 'pool_id="plan-a"' if refused == "ListClusters" else 'pool_id="hyper/'
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        assert fleet.own("collector_success", collector="pools") == success
        infos = await fleet.lines("pool_info")
        assert infos
        assert all(others in line for line in infos)


@pytest.mark.parametrize("status", enumeration("TrainingPlanStatus"))
def test_only_an_active_plan_has_capacity(status: str) -> None:
    found = pools.plan_pool(convert(_plan("p", status), pools.TrainingPlan))
    assert found is not None
    assert bool(found[1].capacity_accelerators) == (status == "Active")


async def test_groups_and_jobs_find_their_plan_by_arn(fleet_of: FleetOf) -> None:
    cloud = _cloud()
    cloud.plans[0] |= {"TrainingPlanArn": plan_arn("0a1b2c"), "TrainingPlanName": "nightly"}
    config = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "TrainingPlanArn": plan_arn("0a1b2c")}
    cloud.jobs = [job("a", ResourceConfig={**config, "VolumeSizeInGB": 30})]
    groups = [_group("mine", TrainingPlanArn=plan_arn("0a1b2c")), _group("other", TrainingPlanArn=plan_arn("nightly"))]
    cloud.clusters = {"hyper": (groups, [])}
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        await fleet.runner("jobs").tick()
        pools = [line.split('pool_id="')[1:] for line in await fleet.lines("pool_info")]
        assert [(each[0].split('"')[0], each[1].split('"')[0]) for each in pools] == [
            *(("0a1b2c", ""), ("hyper/mine", "0a1b2c"), ("hyper/other", ""))
        ]
        (info,) = await fleet.lines("job_info")
        assert 'pool_id="0a1b2c"' in info


async def test_only_the_configured_clusters_are_read(fleet_of: FleetOf) -> None:
    cloud = _cloud()
    cloud.clusters["other"] = ([_group("x")], [])
    async with fleet_of(cloud, CONFIG + "    clusters: [hyper]\n") as fleet:
        await fleet.runner("pools").tick()
        assert await fleet.lines('pool_info{provider="p",pool_id="other') == []
        assert cloud.called("ListClusters") == []
        assert [asked["ClusterName"] for asked in cloud.called("DescribeCluster")] == ["hyper"]


def test_every_status_of_the_models_has_a_word() -> None:
    words = {*enumeration("InstanceGroupStatus"), *enumeration("ClusterInstanceStatus")}
    words |= {*enumeration("TrainingPlanStatus")}
    assert pools.STATUS.keys() | {"NotFound", "Expired"} == words
