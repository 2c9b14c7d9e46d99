"""The simulated training plans, and the HyperPod cluster: its instance groups and nodes, some of which are broken or
not yet created.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingPlanSummary.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import GROUPS, Group, arn
from trainfleet_simulator.sagemaker.training import Paged
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import DAY

CLUSTER_ARN = arn("cluster", catalog.CLUSTER_ID)
_AGE = 60 * DAY  # seconds before the world's start
_PLANS = {
    catalog.JOBS_PLAN: ("Active", -9 * DAY, 30, 6),
    catalog.CLUSTER_PLAN: ("Active", -40 * DAY, 60, 8),
    catalog.COMING_PLAN: ("Scheduled", 12 * DAY, 14, 4),
}
"""The status of a plan, its start (seconds from the world's), its days, and its instances (of the first plan: the
pool's)."""


class _Named(Paged, rename="pascal", kw_only=True):
    cluster_name: str


def _list_answer(call: Call, asked: Paged, name: str, rows: Sequence[Any]) -> Answer:
    page, token, _ = call.page(asked.next_token, asked.max_results, lambda: rows)
    return Answer({name: page, **token})


def list_clusters(call: Call) -> Answer:
    """ListClusters."""
    return _list_answer(call, call.read(Paged), "ClusterSummaries", [_cluster(call.world)])


def describe_cluster(call: Call) -> Answer:
    """DescribeCluster: its instance groups."""
    _asked(call)
    return Answer({**_cluster(call.world), "InstanceGroups": [_group(group) for group in GROUPS]})


def list_cluster_nodes(call: Call) -> Answer:
    """ListClusterNodes: the instances that have an id."""
    nodes = sorted(_nodes(call.world.started), key=lambda node: (node["LaunchTime"], node["InstanceId"]))
    return _list_answer(call, _asked(call), "ClusterNodeSummaries", nodes)


def list_training_plans(call: Call) -> Answer:
    """ListTrainingPlans, the latest start first."""
    plans = [_plan(call.world, name) for name in _PLANS]
    plans.sort(key=lambda plan: float(plan["StartTime"]), reverse=True)
    return _list_answer(call, call.read(Paged), "TrainingPlanSummaries", plans)


def _asked(call: Call) -> _Named:
    """Return a request about the cluster. Raises ApiError for another one."""
    asked = call.read(_Named)
    if asked.cluster_name not in {catalog.CLUSTER, CLUSTER_ARN}:
        raise call.refused("not_found")
    return asked


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
        "Status": group.status,
    }
    if group.plan:
        row |= {"TrainingPlanArn": arn("training-plan", group.plan), "TrainingPlanStatus": _PLANS[group.plan][0]}
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
                "InstanceStatus": {"Status": status},
            }


def _plan(world: World, name: str) -> dict[str, Any]:
    status, begins, days, count = _PLANS[name]
    in_use = sum(len(group.states) for group in GROUPS if group.plan == name)
    if name in world.pools:
        count, in_use = len(world.pools[name].nodes), world.pools[name].nodes_in_use
    capacity = {
        "ReservedCapacityArn": arn("reserved-capacity", f"{name}-1"),
        "InstanceType": "ml.p5.48xlarge",
        "TotalInstanceCount": count,
        "Status": status,
    }
    return {
        "TrainingPlanArn": arn("training-plan", name),
        "TrainingPlanName": name,
        "Status": status,
        "StartTime": float(world.started + begins),
        "EndTime": float(world.started + begins + days * DAY),
        "TotalInstanceCount": count,
        "AvailableInstanceCount": count - in_use if status == "Active" else 0,
        "InUseInstanceCount": in_use,
        "ReservedCapacitySummaries": [capacity],
    }
