"""From HyperPod clusters and training plans to the model: pure functions.

An instance group of a cluster is a pool, and so is a training plan. If the instances of a group are from a plan, the
group is a child of the plan. So sums over pools without a parent count each instance once.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupDetails.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingPlanSummary.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from trainfleet_exporter.model import Accelerators, Node, NodeCondition, NodeCount, Pool, PoolAmounts, PoolStatus
from trainfleet_exporter.providers.aws_sagemaker import payloads
from trainfleet_exporter.providers.aws_sagemaker.instances import accelerators, cpu_cores
from trainfleet_exporter.providers.jobs.history import code
from trainfleet_exporter.providers.values import whole

GROUP_STATUS: Mapping[str, PoolStatus] = {
    "InService": PoolStatus.READY,
    "Updating": PoolStatus.READY,
    "SystemUpdating": PoolStatus.READY,
    "Creating": PoolStatus.CREATING,
    "Degraded": PoolStatus.ABNORMAL,
    "Failed": PoolStatus.ABNORMAL,
    "Deleting": PoolStatus.DELETING,
}
"""By status of an instance group (InstanceGroupStatus). During an update, the nodes of a group still serve."""
NODE_STATUS: Mapping[str, PoolStatus] = {
    "Running": PoolStatus.READY,
    "Pending": PoolStatus.CREATING,
    "SystemUpdating": PoolStatus.CREATING,
    "DeepHealthCheckInProgress": PoolStatus.CREATING,
    "AttachInProgress": PoolStatus.CREATING,
    "Failure": PoolStatus.ABNORMAL,
    "ShuttingDown": PoolStatus.DELETING,
    "DetachInProgress": PoolStatus.DELETING,
}
"""By status of a node (ClusterInstanceStatus)."""
ACTIVE = "Active"
PLAN_STATUS: Mapping[str, PoolStatus] = {
    ACTIVE: PoolStatus.READY,
    "Scheduled": PoolStatus.CREATING,
    "Pending": PoolStatus.CREATING,
    "Failed": PoolStatus.ABNORMAL,
}
"""By status of a training plan (TrainingPlanStatus)."""
EXPIRED = "Expired"
_CONDITIONS: Mapping[PoolStatus, NodeCondition] = {
    PoolStatus.READY: "available",
    PoolStatus.ABNORMAL: "abnormal",
    PoolStatus.CREATING: "creating",
    PoolStatus.DELETING: "deleting",
}


def pool_id(cluster: str, group: str) -> str:
    """Return the pool id of an instance group."""
    return f"{cluster}/{group}"


def group_pool(
    cluster: str, group: payloads.ClusterGroup, nodes: Iterable[payloads.Node], plans: Mapping[str, str]
) -> tuple[Pool, PoolAmounts] | None:
    """Translate an instance group, with the nodes of its cluster; None if it has no name.

    `plans` has the names of training plans by ARN.
    """
    name = group.instance_group_name
    if not name:
        return None
    statuses = Counter(node_status(node) for node in nodes if node.instance_group_name == name)
    pool = Pool(
        pool_id=pool_id(cluster, name),
        name=pool_id(cluster, name),
        resource_type="HyperPod",
        parent_pool_id=plans.get(group.training_plan_arn or "", ""),
        status=GROUP_STATUS.get(group.status or "", PoolStatus.UNKNOWN),
        nodes=tuple(NodeCount(condition, statuses[status]) for status, condition in _CONDITIONS.items()),
    )
    count, kind = whole(group.current_count), group.instance_type or ""
    cores = cpu_cores(kind)
    amounts = PoolAmounts(
        pool_id=pool.pool_id,
        capacity_cpu_cores=None if count is None or cores is None else count * cores,
        capacity_accelerators=_times(kind, count),
    )
    return pool, amounts


def plan_pool(row: payloads.TrainingPlan) -> tuple[Pool, PoolAmounts] | None:
    """Translate a training plan to a pool, with its capacity and use; None if it has no name.

    Only an active plan has instances. Other plans wait for theirs, or got none.
    """
    if not row.training_plan_name:
        return None
    in_use = whole(row.in_use_instance_count)
    pool = Pool(
        pool_id=row.training_plan_name,
        name=row.training_plan_name,
        resource_type="TrainingPlan",
        status=PLAN_STATUS.get(row.status or "", PoolStatus.UNKNOWN),
        allocated_nodes=in_use,
        empty_nodes=whole(row.available_instance_count),
    )
    kinds = {part.instance_type or "" for part in row.reserved_capacity_summaries or () if part is not None}
    kind = kinds.pop() if len(kinds) == 1 else ""
    amounts = PoolAmounts(
        pool_id=pool.pool_id,
        capacity_accelerators=_times(kind, whole(row.total_instance_count)) if row.status == ACTIVE else (),
        allocated_accelerators=_times(kind, in_use),
    )
    return pool, amounts


def node(cluster: str, row: payloads.Node, ends: Mapping[str, float]) -> Node | None:
    """Translate a row of ListClusterNodes. `ends` has the end of the training plan by pool (Unix seconds)."""
    if not row.instance_id or not row.instance_group_name:
        return None
    kind, status, pool = row.instance_type or "", node_status(row), pool_id(cluster, row.instance_group_name)
    return Node(
        pool_id=pool,
        node_name=row.instance_id,
        node_type=kind,
        status=status,
        reason="" if status is PoolStatus.READY else code(_word(row)),
        expires=ends.get(pool),
        capacity_cpu_cores=cpu_cores(kind),
        capacity_accelerators=_times(kind, 1),
    )


def node_status(row: payloads.Node) -> PoolStatus:
    """Return the common status of a node."""
    return NODE_STATUS.get(_word(row), PoolStatus.UNKNOWN)


def _word(row: payloads.Node) -> str:
    return ("" if row.instance_status is None else row.instance_status.status) or ""


def _times(kind: str, count: int | None) -> tuple[Accelerators, ...]:
    each = accelerators(kind)
    return () if each is None or count is None else (Accelerators(each.kind, each.model, each.count * count),)
