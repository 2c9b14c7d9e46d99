"""The HyperPod cluster and the training plans."""

from __future__ import annotations

import pytest

from tests.simulator.sagemaker.client import Caller
from trainfleet_simulator.sagemaker.catalog import CLUSTER, CLUSTER_PLAN, JOBS_PLAN, arn
from trainfleet_simulator.sagemaker.hyperpod import CLUSTER_ARN


@pytest.fixture(scope="module")
def caller() -> Caller:
    """One world whose clock stands."""
    return Caller()


def test_the_cluster_is_found_by_its_name_and_its_arn(caller: Caller) -> None:
    (listed,) = caller.ask("ListClusters")["ClusterSummaries"]
    assert (listed["ClusterName"], listed["ClusterArn"]) == (CLUSTER, CLUSTER_ARN)
    assert caller.ask("DescribeCluster", ClusterName=CLUSTER) == caller.ask("DescribeCluster", ClusterName=CLUSTER_ARN)
    assert arn("training-plan", CLUSTER_PLAN) in listed["TrainingPlanArns"]
    assert caller.refused("DescribeCluster", ClusterName="other") == "ResourceNotFound"
    assert caller.refused("ListClusterNodes", ClusterName="other") == "ResourceNotFound"


def test_a_group_has_as_many_nodes_as_it_says(caller: Caller) -> None:
    groups = caller.ask("DescribeCluster", ClusterName=CLUSTER)["InstanceGroups"]
    nodes = caller.every("ListClusterNodes", "ClusterNodeSummaries", ClusterName=CLUSTER, MaxResults=3)
    assert len({node["InstanceId"] for node in nodes}) == len(nodes)
    for group in groups:
        own = [node for node in nodes if node["InstanceGroupName"] == group["InstanceGroupName"]]
        assert len(own) == group["CurrentCount"] <= group["TargetCount"]
        assert {node["InstanceType"] for node in own} == {group["InstanceType"]}
    states = [node["InstanceStatus"]["Status"] for node in nodes]
    assert states.count("Failure") == 1
    assert set(states) == {"Running", "Failure", "Pending", "DeepHealthCheckInProgress"}


def test_a_plan_counts_the_instances_that_jobs_hold(caller: Caller) -> None:
    listed = caller.every("ListTrainingPlans", "TrainingPlanSummaries", MaxResults=1)
    (plan,) = (plan for plan in listed if plan["TrainingPlanName"] == JOBS_PLAN)
    assert plan["InUseInstanceCount"] == caller.world.pools[JOBS_PLAN].nodes_in_use > 0
    assert plan["InUseInstanceCount"] + plan["AvailableInstanceCount"] == plan["TotalInstanceCount"]
    assert plan["EndTime"] - plan["StartTime"] == plan["DurationHours"] * 3600
    assert plan["StartTime"] < caller.clock.now < plan["EndTime"]
    assert {one["TrainingPlanName"]: one["Status"] for one in listed} == {
        "p5-reserved": "Active",
        "hyperpod-p5": "Active",
        "p5-next-quarter": "Scheduled",
    }
