"""Pools: instance groups of HyperPod clusters, and training plans; and the nodes of clusters.

If the instances of a group are from a plan, the group is a child of the plan. So sums over pools without a parent count
each instance once. A poll of pools makes one call for the plans, one for all clusters, two for each cluster, and one
for each further 100 of its nodes. The nodes themselves are off by default: one call for each 100 nodes of a cluster.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupDetails.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingPlanSummary.html
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from trainfleet_exporter.errors import BadAnswer, NotFound, RequestRefused
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.lists import distinct, with_unread
from trainfleet_exporter.model import Node, NodeCondition, NodeCount, Pool, PoolAmounts, PoolStatus
from trainfleet_exporter.polling import FairQueue, Part, Poll, Topic
from trainfleet_exporter.providers.aws_sagemaker import api
from trainfleet_exporter.providers.aws_sagemaker.api import Answer, Calls, State, page_of
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.instances import Group, accelerators_of, cpu_cores_of
from trainfleet_exporter.providers.values import code, readable, unix_time, whole

# Answers.


class InstancesOfType(Answer):
    instance_type: str | None = None
    current_count: float | None = None
    threads_per_core: float | None = None


class ClusterGroup(InstancesOfType):
    """An instance group of a cluster. A flexible one has details in place of a type."""

    instance_group_name: str | None = None
    instance_type_details: list[InstancesOfType | None] | None = None
    status: str | None = None
    training_plan_arn: str | None = None

    @property
    def types(self) -> Sequence[InstancesOfType]:
        """Its instances by type; unreadable ones have none."""
        details = None if self.instance_type is not None else self.instance_type_details
        return [self] if details is None else [each or InstancesOfType() for each in details]


class Cluster(Answer):
    """The response of DescribeCluster, or a row of ListClusters, which has only the name."""

    cluster_name: str | None = None
    instance_groups: list[ClusterGroup | None] | None = None
    restricted_instance_groups: list[ClusterGroup | None] | None = None


class ClusterNode(Answer):
    instance_group_name: str | None = None
    instance_id: str | None = None
    instance_type: str | None = None
    instance_status: State | None = None

    @property
    def word(self) -> str:
        return (self.instance_status.status if self.instance_status is not None else None) or ""


class ReservedCapacity(Answer):
    instance_type: str | None = None
    total_instance_count: float | None = None
    status: str | None = None


class TrainingPlan(Answer):
    training_plan_arn: str | None = None
    training_plan_name: str | None = None
    status: str | None = None
    total_instance_count: float | None = None
    end_time: float | None = None
    available_instance_count: float | None = None
    in_use_instance_count: float | None = None
    reserved_capacity_summaries: list[ReservedCapacity | None] | None = None


Clusters = page_of("ClusterSummaries", Cluster)
ClusterNodes = page_of("ClusterNodeSummaries", ClusterNode)
TrainingPlans = page_of("TrainingPlanSummaries", TrainingPlan)
NO_PLAN, _NO_GROUP = TrainingPlan(), ClusterGroup()
Groups = Mapping[str | None, tuple[ClusterGroup, float | None]]
"""Groups of a cluster by name, with the ends of their plans (Unix seconds)."""

# Words.

STATUS: Mapping[str, PoolStatus] = {
    "Creating": PoolStatus.CREATING,
    "InService": PoolStatus.READY,
    "Updating": PoolStatus.READY,  # the nodes of a group still serve
    "Degraded": PoolStatus.ABNORMAL,
    "Failed": PoolStatus.ABNORMAL,
    "Deleting": PoolStatus.DELETING,
    "Pending": PoolStatus.CREATING,
    "Running": PoolStatus.READY,
    "SystemUpdating": PoolStatus.CREATING,
    "DeepHealthCheckInProgress": PoolStatus.CREATING,
    "AttachInProgress": PoolStatus.CREATING,
    "Failure": PoolStatus.ABNORMAL,
    "ShuttingDown": PoolStatus.DELETING,
    "DetachInProgress": PoolStatus.DELETING,
    "Scheduled": PoolStatus.CREATING,
    "Active": PoolStatus.READY,
}
"""By status of an instance group (InstanceGroupStatus), a node (ClusterInstanceStatus) or a training plan
(TrainingPlanStatus)."""
_CONDITIONS: Mapping[PoolStatus, NodeCondition] = {
    PoolStatus.READY: "available",
    PoolStatus.ABNORMAL: "abnormal",
    PoolStatus.CREATING: "creating",
    PoolStatus.DELETING: "deleting",
}

# From answers to the model: pure functions. Values without a name become None.


def group_pool(
    cluster: str, group: ClusterGroup, nodes: Iterable[ClusterNode], plan: TrainingPlan = NO_PLAN
) -> tuple[Pool, PoolAmounts] | None:
    if not group.instance_group_name:
        return None
    pool_id = f"{cluster}/{group.instance_group_name}"
    used = [Group(each.instance_type or "", whole(each.current_count), each.threads_per_core) for each in group.types]
    statuses = Counter(STATUS.get(node.word) for node in nodes if node.instance_group_name == group.instance_group_name)
    serves = group.status == "SystemUpdating"  # the nodes that are not updated yet
    return Pool(
        pool_id=pool_id,
        name=pool_id,
        resource_type="HyperPod",
        parent_pool_id=(plan.training_plan_arn or "").rpartition("/")[2],
        status=PoolStatus.READY if serves else STATUS.get(group.status or "", PoolStatus.UNKNOWN),
        nodes=tuple(NodeCount(condition, statuses[status]) for status, condition in _CONDITIONS.items()),
    ), PoolAmounts(pool_id=pool_id, capacity_cpu_cores=cpu_cores_of(used), capacity_accelerators=accelerators_of(used))


def plan_pool(row: TrainingPlan) -> tuple[Pool, PoolAmounts] | None:
    """Only an active plan has instances. Other plans wait for theirs, or got none."""
    if not row.training_plan_name:
        return None
    parts = [part or ReservedCapacity() for part in row.reserved_capacity_summaries or ()]
    kinds = {part.instance_type or "" for part in parts}
    in_use, kind = whole(row.in_use_instance_count), next(iter(kinds)) if len(kinds) == 1 else ""
    # Parts of one type may follow one another, so that only the plan has their total.
    counts = [(kind, row.total_instance_count)]
    if len(kinds) > 1:
        active = [part for part in parts if part.status in (None, "Active")]
        counts = [(part.instance_type or "", part.total_instance_count) for part in active]
    capacity = [Group(each, whole(count)) for each, count in counts if row.status == "Active"]
    pool = Pool(
        pool_id=(row.training_plan_arn or row.training_plan_name).rpartition("/")[2],  # a job has only the ARN
        name=row.training_plan_name,
        resource_type="TrainingPlan",
        status=STATUS.get(row.status or "", PoolStatus.UNKNOWN),
        allocated_nodes=in_use,
        empty_nodes=whole(row.available_instance_count),
    )
    return pool, PoolAmounts(
        pool_id=pool.pool_id,
        capacity_cpu_cores=cpu_cores_of(capacity),
        capacity_accelerators=accelerators_of(capacity),
        allocated_accelerators=accelerators_of([Group(kind, in_use)]),
    )


def cluster_node(cluster: str, row: ClusterNode, groups: Groups) -> Node:
    kind, status = row.instance_type or "", STATUS.get(row.word, PoolStatus.UNKNOWN)
    group, expires = groups.get(row.instance_group_name, (_NO_GROUP, None))
    threads = next((each.threads_per_core for each in group.types if each.instance_type == kind), None)
    own = [Group(kind, 1, threads)]
    return Node(
        pool_id=f"{cluster}/{row.instance_group_name}",
        node_name=row.instance_id or "",
        node_type=kind,
        status=status,
        reason="" if status is PoolStatus.READY else code(row.word),
        expires=expires,
        capacity_cpu_cores=cpu_cores_of(own),
        capacity_accelerators=accelerators_of(own),
    )


# Collectors.

_PLANS = "training plans"
"""A part. The names of the others, which are those of clusters, have no spaces."""
_FOR_PLANS = 0.5
"""The part of a poll's time in which plans are read: clusters do without them if that takes longer."""


class Pools:
    def __init__(self, config: AwsSageMakerConfig, sagemaker: Calls) -> None:
        self._calls = sagemaker
        self._chosen = None if config.clusters == "all" else config.clusters
        """Names in the config; None for all clusters that the cloud lists."""
        self._at_once = config.limits.concurrency
        self._clusters: Topic[tuple[str, ...]] = Topic("clusters", ())
        """Names, published by each poll of pools when they are listed. It is whole when the clusters are read, too."""
        self._pool_turns, self._node_turns = FairQueue(), FairQueue()
        self._plans: dict[str, TrainingPlan] = {}
        """The plans of the last good answer by ARN: names and ends do not age."""
        self._groups: dict[str, Groups] = {}
        """By cluster, those of the last good answer."""

    @collector("pools")
    async def pools(self, poll: Poll) -> None:
        """Read a part for the training plans, first because clusters name them, and one for each cluster."""
        with self._clusters.polling():
            now = asyncio.get_running_loop().time()
            async with poll.part(_PLANS, deadline=now + _FOR_PLANS * (poll.deadline - now)) as part:
                await self._read_plans(part)
            names = self._chosen
            if names is None:
                rows = await self._list("ListClusters", Clusters, poll, optional="clusters")
                found, malformed = distinct(poll, [(row and row.cluster_name) or None for row in rows], str)
                names = with_unread(found, self._clusters.value, malformed=malformed)
            poll.keep_only([_PLANS, *names])
            self._groups = {name: groups for name, groups in self._groups.items() if name in names}
            self._clusters.publish(names, whole=False)
            await self._read_each(poll, self._pool_turns, names, self._read_cluster)
            self._clusters.publish(names)

    @collector("nodes")
    async def nodes(self, poll: Poll) -> None:
        names = await self._clusters.get()
        await self._clusters.wait(poll.deadline)  # pools know the ends of the plans that nodes are from
        poll.keep_only(names)
        await self._read_each(poll, self._node_turns, names, self._read_nodes)

    async def _read_each(
        self, poll: Poll, turns: FairQueue, names: Sequence[str], read: Callable[[Part], Awaitable[None]]
    ) -> None:
        async def read_one(part: Part) -> None:
            try:
                await read(part)
            except NotFound as error:
                await part.not_found(error)

        await turns.read_each(poll, names, read_one, at_once=self._at_once)

    async def _read_plans(self, part: Part) -> None:
        rows = await self._list("ListTrainingPlans", TrainingPlans, part, optional=_PLANS)
        known = [row if row and row.training_plan_name else None for row in rows if not row or row.status != "Expired"]
        shown, _ = distinct(part, [row and plan_pool(row) for row in known], lambda pair: pair[0].pool_id)
        self._plans = {row.training_plan_arn: row for row in known if row and row.training_plan_arn}
        await part.publish([each for pair in shown.values() for each in pair])

    async def _read_cluster(self, part: Part) -> None:
        cluster = await self._calls.call("DescribeCluster", {"ClusterName": part.key}, Cluster, deadline=part.deadline)
        nodes = await self._list_nodes(part)
        if cluster.instance_groups is None and cluster.restricted_instance_groups is None:
            raise BadAnswer("the answer has no instance groups", operation="DescribeCluster")
        listed = [*(cluster.instance_groups or ()), *(cluster.restricted_instance_groups or ())]
        groups = [(each, self._plans.get(each.training_plan_arn or "", NO_PLAN)) for each in readable(listed)]
        found = [group_pool(part.key, one, nodes, plan) for one, plan in groups]
        shown, _ = distinct(part, found, lambda pair: pair[0].pool_id)
        part.dropped("malformed", sum(each is None for one, _ in groups for each in one.instance_type_details or ()))
        self._groups[part.key] = {each.instance_group_name: (each, unix_time(plan.end_time)) for each, plan in groups}
        await part.publish([each for pair in shown.values() for each in pair])

    async def _read_nodes(self, part: Part) -> None:
        groups = self._groups.get(part.key, {})
        await part.publish([cluster_node(part.key, row, groups) for row in await self._list_nodes(part)])

    async def _list_nodes(self, part: Part) -> list[ClusterNode]:
        rows = await self._list("ListClusterNodes", ClusterNodes, part, ClusterName=part.key)
        named = [row if row and row.instance_id and row.instance_group_name else None for row in rows]
        return list(distinct(part, named, lambda row: row.instance_id or "")[0].values())

    async def _list(self, operation: str, into: Any, of: Part | Poll, *, optional: str = "", **asked: str) -> list[Any]:
        """Return a list. In regions that do not serve it, it is empty if `optional` names what is lacking then."""
        rows = self._calls.rows(operation, {**asked, "MaxResults": api.PAGE_SIZE}, into, deadline=of.deadline)
        try:
            return [row async for row in rows]
        except RequestRefused as error:
            if not optional or not (error.code.startswith("UnknownOperation") or error.status == 404):
                raise
            of.lacks(optional, error)
            return []
