"""Pools: instance groups of HyperPod clusters, and training plans; and the nodes of clusters.

If the instances of a group are from a plan, the group is a child of the plan. So sums over pools without a parent count
each instance once. A poll of pools makes one call for the plans, one for all clusters, two for each cluster, and one
for each further 100 of its nodes. The nodes themselves are off by default: one call for each 100 nodes of a cluster.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupDetails.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TrainingPlanSummary.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from trainfleet_exporter.errors import BadAnswer, NotFound, RequestRefused
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.lists import distinct, with_unread
from trainfleet_exporter.model import Node, NodeCondition, NodeCount, Pool, PoolAmounts, PoolStatus
from trainfleet_exporter.polling import FairQueue, Part, Poll, Topic
from trainfleet_exporter.providers.aws_sagemaker import instances
from trainfleet_exporter.providers.aws_sagemaker.api import Answer, Calls, State, page_of
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.instances import UnknownTypes
from trainfleet_exporter.providers.values import code, unix_time, whole

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
    def of_types(self) -> Sequence[InstancesOfType]:
        """Its instances by type; unreadable ones have none."""
        details = None if self.instance_type is not None else self.instance_type_details
        return [self] if details is None else [each or InstancesOfType() for each in details]

    def cpu_cores(self, instance_type: str) -> float | None:
        """Return the vCPUs of one instance of a type."""
        threads = [each.threads_per_core for each in self.of_types if each.instance_type == instance_type]
        return instances.cpu_cores(instance_type, *threads[:1])


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

    @property
    def parts(self) -> list[ReservedCapacity]:
        """Its reserved capacities; those that are unreadable have no type."""
        return [part or ReservedCapacity() for part in self.reserved_capacity_summaries or ()]

    @property
    def instance_types(self) -> set[str]:
        return {part.instance_type or "" for part in self.parts}


Clusters = page_of("ClusterSummaries", Cluster)
ClusterNodes = page_of("ClusterNodeSummaries", ClusterNode)
TrainingPlans = page_of("TrainingPlanSummaries", TrainingPlan)
NO_PLAN, _NO_GROUP = TrainingPlan(), ClusterGroup()
Groups = Mapping[str | None, tuple[ClusterGroup, float | None]]
"""Groups of a cluster by name, with the ends of their plans (Unix seconds)."""

# Words.

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
PLAN_STATUS: Mapping[str, PoolStatus] = {
    "Active": PoolStatus.READY,
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

# From answers to the model: pure functions. Values without a name become None.


def group_pool(
    cluster: str, group: ClusterGroup, nodes: Iterable[ClusterNode], plan: TrainingPlan = NO_PLAN
) -> tuple[Pool, PoolAmounts] | None:
    name = group.instance_group_name
    if not name:
        return None
    pool_id, used = (
        f"{cluster}/{name}",
        [(each.instance_type or "", whole(each.current_count)) for each in group.of_types],
    )
    statuses = Counter(NODE_STATUS.get(node.word) for node in nodes if node.instance_group_name == name)
    pool = Pool(
        pool_id=pool_id,
        name=pool_id,
        resource_type="HyperPod",
        parent_pool_id=(plan.training_plan_arn or "").rpartition("/")[2],
        status=GROUP_STATUS.get(group.status or "", PoolStatus.UNKNOWN),
        nodes=tuple(NodeCount(condition, statuses[status]) for status, condition in _CONDITIONS.items()),
    )
    amounts = PoolAmounts(
        pool_id=pool_id,
        capacity_cpu_cores=instances.total_of(used, group.cpu_cores),
        capacity_accelerators=instances.accelerators_of(used),
    )
    return pool, amounts


def plan_pool(row: TrainingPlan) -> tuple[Pool, PoolAmounts] | None:
    """Translate a training plan to a pool, with its capacity and use.

    Only an active plan has instances. Other plans wait for theirs, or got none.
    """
    if not row.training_plan_name:
        return None
    in_use, kinds = whole(row.in_use_instance_count), row.instance_types
    kind = next(iter(kinds)) if len(kinds) == 1 else ""
    pool = Pool(
        pool_id=(row.training_plan_arn or row.training_plan_name).rpartition("/")[2],  # a job has only the ARN
        name=row.training_plan_name,
        resource_type="TrainingPlan",
        status=PLAN_STATUS.get(row.status or "", PoolStatus.UNKNOWN),
        allocated_nodes=in_use,
        empty_nodes=whole(row.available_instance_count),
    )
    # Parts of one type may follow one another, so that only the plan has their total.
    parts = [part for part in row.parts if part.status in (None, "Active")]
    counts = [(part.instance_type or "", part.total_instance_count) for part in parts]
    groups = counts if len(kinds) > 1 else [(kind, row.total_instance_count)]
    capacity = [(each, whole(number)) for each, number in groups if row.status == "Active"]
    return pool, PoolAmounts(
        pool_id=pool.pool_id,
        capacity_cpu_cores=instances.total_of(capacity, instances.cpu_cores),
        capacity_accelerators=instances.accelerators_of(capacity),
        allocated_accelerators=instances.accelerators_of([(kind, in_use)]),
    )


def cluster_node(cluster: str, row: ClusterNode, groups: Groups) -> Node | None:
    """Translate a row of ListClusterNodes."""
    if not row.instance_id or not row.instance_group_name:
        return None
    kind, status = row.instance_type or "", NODE_STATUS.get(row.word, PoolStatus.UNKNOWN)
    group, expires = groups.get(row.instance_group_name, (_NO_GROUP, None))
    return Node(
        pool_id=f"{cluster}/{row.instance_group_name}",
        node_name=row.instance_id,
        node_type=kind,
        status=status,
        reason="" if status is PoolStatus.READY else code(row.word),
        expires=expires,
        capacity_cpu_cores=group.cpu_cores(kind),
        capacity_accelerators=instances.accelerators_of([(kind, 1)]),
    )


# Collectors.

_PLANS = "training plans"
"""A part. The names of the others, which are those of clusters, have no spaces."""


class Pools:
    def __init__(self, config: AwsSageMakerConfig, sagemaker: Calls, types: UnknownTypes) -> None:
        self._calls, self._types = sagemaker, types
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
        """Read a part for the training plans, and one for each cluster. The plans are first, because clusters name
        them."""
        with self._clusters.polling():
            async with poll.part(_PLANS) as part:
                await self._read_plans(poll, part)
            names = self._chosen
            if names is None:
                rows = await self._list_if_served("ListClusters", Clusters, poll, "clusters", poll.deadline)
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
        self, poll: Poll, queue: FairQueue, names: Sequence[str], read: Callable[[Poll, Part], Awaitable[None]]
    ) -> None:
        async def read_one(part: Part) -> None:
            try:
                await read(poll, part)
            except NotFound as error:
                await part.not_found(error)

        await queue.read_each(poll, names, read_one, at_once=self._at_once)

    async def _read_plans(self, poll: Poll, part: Part) -> None:
        rows = await self._list_if_served("ListTrainingPlans", TrainingPlans, part, _PLANS, part.deadline)
        known = [row for row in rows if row is None or row.status != EXPIRED]
        shown, _ = distinct(part, [row and plan_pool(row) for row in known], lambda pair: pair[0].pool_id)
        plans = [row for row in known if row is not None and row.training_plan_name]
        self._plans = {row.training_plan_arn: row for row in plans if row.training_plan_arn}
        self._types.count(poll, [each for row in plans for each in row.instance_types])
        await part.publish([each for pair in shown.values() for each in pair])

    async def _read_cluster(self, poll: Poll, part: Part) -> None:
        name = part.key
        cluster = await self._calls.call("DescribeCluster", {"ClusterName": name}, Cluster, deadline=part.deadline)
        rows = await self._list_nodes(part)
        if cluster.instance_groups is None and cluster.restricted_instance_groups is None:
            raise BadAnswer("the answer has no instance groups", operation="DescribeCluster")
        groups = [*(cluster.instance_groups or ()), *(cluster.restricted_instance_groups or ())]
        nodes = {row.instance_id: row for row in rows if row is not None and row.instance_id}.values()
        part.dropped("malformed", sum(row is None or not row.instance_id for row in rows) + groups.count(None))
        listed = [(each, self._plans.get(each.training_plan_arn or "", NO_PLAN)) for each in groups if each is not None]
        found = [group_pool(name, one, nodes, plan) for one, plan in listed]
        shown, _ = distinct(part, found, lambda pair: pair[0].pool_id)
        part.dropped("malformed", sum(each is None for one, _ in listed for each in one.instance_type_details or ()))
        self._groups[name] = {each.instance_group_name: (each, unix_time(plan.end_time)) for each, plan in listed}
        self._types.count(poll, [each.instance_type or "" for group, _ in listed for each in group.of_types])
        await part.publish([each for pair in shown.values() for each in pair])

    async def _read_nodes(self, poll: Poll, part: Part) -> None:
        rows, groups = await self._list_nodes(part), self._groups.get(part.key, {})
        found = [None if row is None else cluster_node(part.key, row, groups) for row in rows]
        shown, _ = distinct(part, found, lambda node: node.node_name)
        self._types.count(poll, [node.node_type for node in shown.values()])
        await part.publish(list(shown.values()))

    async def _list_nodes(self, part: Part) -> list[ClusterNode | None]:
        deadline = part.deadline
        return await self._calls.whole_list("ListClusterNodes", ClusterNodes, deadline=deadline, ClusterName=part.key)

    async def _list_if_served(
        self, operation: str, into: Any, of: Part | Poll, what: str, deadline: float
    ) -> list[Any]:
        """Return a list; an empty one if the region does not serve the operation."""
        try:
            return await self._calls.whole_list(operation, into, deadline=deadline)
        except RequestRefused as error:
            if not error.code.startswith("UnknownOperation") and error.status != 404:
                raise
            of.lacks(what, error)
            return []
