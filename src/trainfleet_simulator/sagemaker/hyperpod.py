"""The simulated HyperPod cluster: its instance groups and nodes, some of which are broken or not yet created.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.catalog import GROUPS, Group, arn
from trainfleet_simulator.sagemaker.parameters import PAGED, Call, check, invalid, not_found, page
from trainfleet_simulator.sagemaker.plans import PLAN_STATUS
from trainfleet_simulator.world.nouns import DAY

CLUSTER_ARN = arn("cluster", catalog.CLUSTER_ID)
_AGE = 60 * DAY  # seconds before the world's start
_MESSAGES = {"Failure": "The instance failed a health check: NVIDIA GPU Xid 79."}


def list_clusters(call: Call) -> Answer:
    """ListClusters."""
    check(call.body, PAGED)
    summary = {
        "ClusterArn": CLUSTER_ARN,
        "ClusterName": catalog.CLUSTER,
        "CreationTime": float(call.world.started - _AGE),
        "ClusterStatus": "InService",
        "TrainingPlanArns": [arn("training-plan", group.plan) for group in GROUPS if group.plan],
    }
    clusters, token, total = page(call, lambda: [summary])
    rows = [[one["ClusterName"], one["ClusterStatus"]] for one in clusters]
    return Answer({"ClusterSummaries": clusters, **token}, total=total, rows=rows)


def describe_cluster(call: Call) -> Answer:
    """DescribeCluster: its instance groups."""
    check(call.body, {"ClusterName": "text"}, "ClusterName")
    _check_name(call)
    body = {
        "ClusterArn": CLUSTER_ARN,
        "ClusterName": catalog.CLUSTER,
        "ClusterStatus": "InService",
        "CreationTime": float(call.world.started - _AGE),
        "InstanceGroups": [_group(group) for group in GROUPS],
        "Orchestrator": {"Eks": {"ClusterArn": f"arn:aws:eks:{catalog.REGION}:{catalog.ACCOUNT_ID}:cluster/sim"}},
        "NodeRecovery": "Automatic",
    }
    return Answer(body, rows=[[group.name, len(group.states), group.target, group.status] for group in GROUPS])


def list_cluster_nodes(call: Call) -> Answer:
    """ListClusterNodes: the instances that have an id."""
    check(call.body, {**PAGED, "ClusterName": "text"}, "ClusterName")
    _check_name(call)

    def find() -> list[dict[str, Any]]:
        return sorted(_nodes(call.world.started), key=lambda node: (node["LaunchTime"], node["InstanceId"]))

    nodes, token, total = page(call, find)
    rows = [[node["InstanceGroupName"], node["InstanceId"], node["InstanceStatus"]["Status"]] for node in nodes]
    return Answer({"ClusterNodeSummaries": nodes, **token}, total=total, rows=rows)


def _check_name(call: Call) -> None:
    name = call.text("ClusterName")
    if not name:
        raise invalid("ClusterName is empty")
    if name not in {catalog.CLUSTER, CLUSTER_ARN}:
        raise not_found(f"Cluster {name} not found.")


def _group(group: Group) -> dict[str, Any]:
    row = {
        "InstanceGroupName": group.name,
        "InstanceType": group.instance_type,
        "CurrentCount": len(group.states),
        "TargetCount": group.target,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-sim/lifecycle", "OnCreate": "on_create.sh"},
        "ExecutionRole": f"arn:aws:iam::{catalog.ACCOUNT_ID}:role/hyperpod",
        "ThreadsPerCore": 1,
        "Status": group.status,
    }
    if group.plan:
        row |= {"TrainingPlanArn": arn("training-plan", group.plan), "TrainingPlanStatus": PLAN_STATUS[group.plan]}
    return row


def _nodes(started: int) -> Iterator[dict[str, Any]]:
    for group_number, group in enumerate(GROUPS):
        for place, status in enumerate(group.states):
            digest = hashlib.sha256(f"{group.name}/{place}".encode()).hexdigest()
            yield {
                "InstanceGroupName": group.name,
                "InstanceId": f"i-{digest[:17]}",
                "InstanceType": group.instance_type,
                "LaunchTime": float(started - _AGE + 60 * place),
                "LastSoftwareUpdateTime": float(started - 10 * DAY),
                "InstanceStatus": {"Status": status, "Message": _MESSAGES.get(status, "")},
                "PrivateDnsHostname": f"ip-10-1-{group_number}-{place + 10}.ec2.internal",
            }
