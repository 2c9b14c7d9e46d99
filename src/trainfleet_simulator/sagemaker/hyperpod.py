"""The simulated training plans, and the HyperPod cluster: its instance groups and nodes, some of which are broken or
not yet created.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingPlanSummary.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import GROUPS, Group, arn
from trainfleet_simulator.sagemaker.parameters import PAGED, Lists, check, invalid, not_found
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY

CLUSTER_ARN = arn("cluster", catalog.CLUSTER_ID)
_AGE = 60 * DAY  # seconds before the world's start
_MESSAGES = {"Failure": "The instance failed a health check: NVIDIA GPU Xid 79."}
_PLANS = {
    catalog.JOBS_PLAN: ("training-job", -9 * DAY, 30, 6),
    catalog.CLUSTER_PLAN: ("hyperpod-cluster", -40 * DAY, 60, 8),
    catalog.COMING_PLAN: ("training-job", 12 * DAY, 14, 4),
}
"""The purpose of a plan, its start (seconds from the world's), its days, and its instances (of the first plan: the
pool's)."""
PLAN_STATUS = {catalog.JOBS_PLAN: "Active", catalog.CLUSTER_PLAN: "Active", catalog.COMING_PLAN: "Scheduled"}
_INSTANCE_TYPE = "ml.p5.48xlarge"


class Capacity:
    """The operations."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists

    def list_clusters(self, call: Call) -> Answer:
        """ListClusters."""
        check(call.body, PAGED)
        plans = [arn("training-plan", group.plan) for group in GROUPS if group.plan]
        summary = {**_cluster(call.world), "TrainingPlanArns": plans}
        clusters, token, _ = self._lists.page(call, lambda: [summary])
        return Answer({"ClusterSummaries": clusters, **token})

    @staticmethod
    def describe_cluster(call: Call) -> Answer:
        """DescribeCluster: its instance groups."""
        check(call.body, {"ClusterName": "text"}, "ClusterName")
        _check_name(call)
        body = {
            **_cluster(call.world),
            "InstanceGroups": [_group(group) for group in GROUPS],
            "Orchestrator": {"Eks": {"ClusterArn": f"arn:aws:eks:{catalog.REGION}:{catalog.ACCOUNT_ID}:cluster/sim"}},
        }
        return Answer(body)

    def list_cluster_nodes(self, call: Call) -> Answer:
        """ListClusterNodes: the instances that have an id."""
        check(call.body, {**PAGED, "ClusterName": "text"}, "ClusterName")
        _check_name(call)

        def find() -> list[dict[str, Any]]:
            return sorted(_nodes(call.world.started), key=lambda node: (node["LaunchTime"], node["InstanceId"]))

        nodes, token, _ = self._lists.page(call, find)
        return Answer({"ClusterNodeSummaries": nodes, **token})

    def list_training_plans(self, call: Call) -> Answer:
        """ListTrainingPlans, the latest start first."""
        check(call.body, PAGED)

        def find() -> list[dict[str, Any]]:
            plans = [_plan(call.world, name) for name in _PLANS]
            return sorted(plans, key=lambda plan: float(plan["StartTime"]), reverse=True)

        plans, token, _ = self._lists.page(call, find)
        return Answer({"TrainingPlanSummaries": plans, **token})


def _check_name(call: Call) -> None:
    name = call.body["ClusterName"]
    if not name:
        raise invalid("ClusterName is empty")
    if name not in {catalog.CLUSTER, CLUSTER_ARN}:
        raise not_found(f"Cluster {name} not found.")


def _cluster(world: World) -> dict[str, Any]:
    return {
        "ClusterArn": CLUSTER_ARN,
        "ClusterName": catalog.CLUSTER,
        "CreationTime": float(world.started - _AGE),
        "ClusterStatus": "InService",
    }


def _group(group: Group) -> dict[str, Any]:
    row = {
        "InstanceGroupName": group.name,
        "InstanceType": group.instance_type,
        "CurrentCount": len(group.states),
        "TargetCount": group.target,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-sim/lifecycle", "OnCreate": "on_create.sh"},
        "ExecutionRole": f"arn:aws:iam::{catalog.ACCOUNT_ID}:role/hyperpod",
        "Status": group.status,
    }
    if group.plan:
        row |= {"TrainingPlanArn": arn("training-plan", group.plan), "TrainingPlanStatus": PLAN_STATUS[group.plan]}
    return row


def _nodes(started: int) -> Iterator[dict[str, Any]]:
    for group in GROUPS:
        for place, status in enumerate(group.states):
            digest = hashlib.sha256(f"{group.name}/{place}".encode()).hexdigest()
            yield {
                "InstanceGroupName": group.name,
                "InstanceId": f"i-{digest[:17]}",
                "InstanceType": group.instance_type,
                "LaunchTime": float(started - _AGE + 60 * place),
                "InstanceStatus": {"Status": status, "Message": _MESSAGES.get(status, "")},
            }


def _plan(world: World, name: str) -> dict[str, Any]:
    target, begins, days, count = _PLANS[name]
    start, end, status = float(world.started + begins), float(world.started + begins + days * DAY), PLAN_STATUS[name]
    in_use = sum(len(group.states) for group in GROUPS if group.plan == name)
    if name in world.pools:
        pool = world.pools[name]
        count, in_use = len(pool.nodes), pool.nodes_in_use
    lasts = {"DurationHours": days * 24, "DurationMinutes": 0, "StartTime": start, "EndTime": end}
    capacity = {
        "ReservedCapacityArn": arn("reserved-capacity", f"{name}-1"),
        "ReservedCapacityType": "Instance",
        "InstanceType": _INSTANCE_TYPE,
        "TotalInstanceCount": count,
        "Status": status,
        **lasts,
    }
    return {
        "TrainingPlanArn": arn("training-plan", name),
        "TrainingPlanName": name,
        "Status": status,
        **lasts,
        "TotalInstanceCount": count,
        "AvailableInstanceCount": count - in_use if status == "Active" else 0,
        "InUseInstanceCount": in_use,
        "TargetResources": [target],
        "ReservedCapacitySummaries": [capacity],
    }
