"""CloudMonitor's figures of quotas and nodes agree with PaiStudio's and with what their jobs use."""

from __future__ import annotations

import json

import pytest

from tests.simulator.client import START, Caller
from tests.simulator.pai.client import last, latest_answer
from trainfleet_simulator.pai.catalog import COMING, GENERAL, HIDDEN, ROOT, TRAIN, VISION
from trainfleet_simulator.world.pools import Amount
from trainfleet_simulator.world.usage import reading

NEWEST = int(START - 60) // 60 * 60


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller()


def averages(caller: Caller, metric: str, **query: str) -> dict[str, float]:
    points = last(caller, metric, **query)
    assert {point["timestamp"] for point in points} <= {NEWEST * 1000}
    return {point["quotaId"]: point["Average"] for point in points}


def test_totals_and_requests_are_those_of_list_quotas(caller: Caller) -> None:
    answer = caller.body("paistudio", "ListQuotas", "/api/v1/quotas/")
    details = {quota["QuotaId"]: quota["QuotaDetails"] for quota in answer["Quotas"]}
    for metric, amount, kind in (
        ("QUOTA_CPU_TOTAL", "ActualMinQuota", "CPU"),
        ("QUOTA_CPU_REQUEST", "AllocatedQuota", "CPU"),
        ("QUOTA_GPU_ACCELERATOR_TOTAL", "ActualMinQuota", "GPU"),
        ("QUOTA_GPU_ACCELERATOR_REQUEST", "AllocatedQuota", "GPU"),
    ):
        found = averages(caller, metric)
        assert set(found) == {ROOT, TRAIN, VISION, GENERAL, HIDDEN}, "a quota without nodes has no points"
        told_by_quotas = {
            quota_id: float(details[quota_id][amount][kind]) for quota_id in details if quota_id != COMING
        }
        assert {quota_id: found[quota_id] for quota_id in told_by_quotas} == told_by_quotas


@pytest.mark.parametrize("quota_id", [ROOT, GENERAL, HIDDEN])
def test_utilization_is_of_the_whole_quota_and_its_children(caller: Caller, quota_id: str) -> None:
    world = caller.world
    family = {pool.spec.pool_id for pool in world.family(quota_id)}
    pods = [
        (job, pod)
        for job in world.jobs.values()
        if job.draft.pool_id in family
        for pod in job.pods
        if reading("CpuCoreUsage", job, pod, NEWEST) is not None
    ]
    assert pods
    whole = world.amount(quota_id, lambda pool: pool.actual)
    cores = sum((reading("CpuCoreUsage", job, pod, NEWEST) or 0) * pod.role.cpu for job, pod in pods)
    cards = sum((reading("GpuCoreUsage", job, pod, NEWEST) or 0) * pod.role.cards for job, pod in pods)
    assert averages(caller, "QUOTA_CPU_UTIL")[quota_id] == pytest.approx(cores / whole.cpu, abs=1e-3)
    duty = averages(caller, "QUOTA_GPU_ACCELERATOR_DUTTY_UTIL")[quota_id]
    assert duty == pytest.approx(cards / whole.cards, abs=1e-3)
    power = averages(caller, "QUOTA_GPU_POWER_USAGE")[quota_id]
    assert power == pytest.approx(whole.cards * 62 + cards * 3.4, abs=0.1)
    assert 0 < averages(caller, "QUOTA_MEMORY_UTIL")[quota_id] < 100
    assert 0 < averages(caller, "QUOTA_GPU_ACCELERATOR_MEMORY_UTIL")[quota_id] < 100


def test_a_point_has_its_quotas_name_and_dimensions_choose(caller: Caller) -> None:
    (point,) = last(caller, "QUOTA_CPU_UTIL", Dimensions=json.dumps({"quotaId": TRAIN}))
    assert (point["quotaName"], point["regionId"], "nodeId" in point) == ("pool-train", "cn-hangzhou", False)
    assert latest_answer(caller, "DescribeMetricLast")["rows"] == [
        [TRAIN, "", "", "QUOTA_CPU_UTIL", point["Average"], NEWEST * 1000]
    ]
    assert last(caller, "QUOTA_CPU_UTIL", Dimensions=json.dumps([{"quotaId": "nosuch"}])) == []
    assert last(caller, "QUOTA_CPU_UTIL", StartTime=str(NEWEST * 1000)) == []


def test_nodes(caller: Caller) -> None:
    points = last(caller, "NODE_GPU_ACCELERATOR_REQUEST", Dimensions=json.dumps({"quotaId": TRAIN}))
    pool = caller.world.pools[TRAIN]
    assert {point["nodeId"]: point["Average"] for point in points} == {
        name: float(8 - node.free.cards) for name, node in pool.nodes.items()
    }
    totals = last(caller, "NODE_GPU_ACCELERATOR_TOTAL", Dimensions=json.dumps({"nodeId": points[0]["nodeId"]}))
    assert [point["Average"] for point in totals] == [8.0]
    assert sum(point["Average"] for point in points) == pool.allocated.cards
    assert pool.allocated != Amount()
