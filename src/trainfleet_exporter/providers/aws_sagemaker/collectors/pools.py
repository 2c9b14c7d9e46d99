"""Pools: instance groups of HyperPod clusters, and training plans.

A poll makes one call for all clusters, two for each cluster, and one for each further 100 of its nodes. It makes one
call for the training plans. The nodes themselves are off by default: one call for each 100 nodes of a cluster.
"""

from __future__ import annotations

import asyncio
from operator import attrgetter

from trainfleet_exporter.errors import BadAnswer, NotFound, RequestRefused
from trainfleet_exporter.polling import BulkCollector, FairQueue, Part, Poll
from trainfleet_exporter.providers.aws_sagemaker import translate_pools as translate
from trainfleet_exporter.providers.aws_sagemaker.collectors.shared import SageMakerShared
from trainfleet_exporter.providers.collectors import PerPoolCollector, distinct
from trainfleet_exporter.providers.jobs.listing import with_unread
from trainfleet_exporter.providers.values import unix_time

_PLANS = "training plans"
_PLANS_SHARE = 0.4
"""Share of the time of a poll that the plans may take."""
_NOT_SERVED = "UnknownOperation"
"""The error code if a region does not serve an operation."""
_CLUSTER = "cluster "
"""Prefix of the key of a cluster's part."""


class PoolsCollector(BulkCollector):
    """A part for the training plans, and one for each cluster."""

    def __init__(self, shared: SageMakerShared, interval: float) -> None:
        super().__init__("pools", interval)
        self._shared = shared
        self._queue = FairQueue()
        self._plans: dict[str, str] = {}
        """Names of the shown plans, by ARN."""
        self._plan_ends: dict[str, float | None] = {}
        """Ends of the plans by name (Unix seconds)."""

    async def poll(self, poll: Poll) -> None:
        """Read the plans first, because clusters name them."""
        clusters = self._shared.clusters
        with clusters.polling():
            # If the call for plans hangs, enough time must be left for the clusters.
            now = asyncio.get_running_loop().time()
            async with poll.part(_PLANS, deadline=now + _PLANS_SHARE * (poll.deadline - now)) as part:
                await self._read_plans(part)
            names = await self._names(poll)
            poll.keep_only([_PLANS, *(_CLUSTER + name for name in names)])
            clusters.publish(names)
        keys = [_CLUSTER + name for name in names]
        await self._queue.read_each(poll, keys, self._read_cluster, at_once=self._shared.at_once)

    async def _names(self, poll: Poll) -> tuple[str, ...]:
        if self._shared.chosen_clusters is not None:
            return self._shared.chosen_clusters
        try:
            rows = await self._shared.client.list_clusters(deadline=poll.deadline)
        except RequestRefused as error:
            if not _is_not_served(error):
                raise
            poll.lacks("clusters", error)
            rows = []
        found = dict.fromkeys(row.cluster_name for row in rows if row is not None and row.cluster_name)
        malformed = sum(row is None or not row.cluster_name for row in rows)
        poll.dropped("malformed", malformed)
        return with_unread(found, self._shared.clusters.value, malformed=malformed)

    async def _read_plans(self, part: Part) -> None:
        try:
            rows = await self._shared.client.list_plans(deadline=part.deadline)
        except RequestRefused as error:
            if not _is_not_served(error):
                raise
            part.lacks(_PLANS, error)
            rows = []
        known = [row for row in rows if row is not None and row.status != translate.EXPIRED]
        found = [pair for row in known if (pair := translate.plan_pool(row)) is not None]
        part.dropped("malformed", len(known) - len(found) + rows.count(None))
        shown = {pool.pool_id: (pool, amounts) for pool, amounts in found}
        part.dropped("duplicate", len(found) - len(shown))
        named = [row for row in known if row.training_plan_name]
        self._plans = {row.training_plan_arn or "": row.training_plan_name or "" for row in named}
        self._plan_ends = {row.training_plan_name or "": unix_time(row.end_time) for row in named}
        await part.publish([each for pair in shown.values() for each in pair])

    async def _read_cluster(self, part: Part) -> None:
        client, name = self._shared.client, part.key.removeprefix(_CLUSTER)
        try:
            cluster = await client.describe_cluster(name, deadline=part.deadline)
            rows = await client.list_nodes(name, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        if cluster.instance_groups is None:
            raise BadAnswer("the answer has no instance groups", operation="DescribeCluster")
        nodes = {row.instance_id: row for row in rows if row is not None}.values()
        groups = [*cluster.instance_groups, *(cluster.restricted_instance_groups or ())]
        found = [None if group is None else translate.group_pool(name, group, nodes, self._plans) for group in groups]
        part.dropped("malformed", found.count(None) + rows.count(None))
        shown = {pair[0].pool_id: pair for pair in found if pair is not None}
        part.dropped("duplicate", len(found) - found.count(None) - len(shown))
        for pool, _ in shown.values():
            end = self._plan_ends.get(pool.parent_pool_id)
            if end is not None:
                self._shared.pool_ends[pool.pool_id] = end
            else:
                self._shared.pool_ends.pop(pool.pool_id, None)
        await part.publish([each for pair in shown.values() for each in pair])


class NodesCollector(PerPoolCollector[SageMakerShared]):
    """A part for each cluster."""

    async def read(self, part: Part) -> None:
        """List the nodes of one cluster."""
        try:
            rows = await self._shared.client.list_nodes(part.key, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        ends = self._shared.pool_ends
        nodes = (None if row is None else translate.node(part.key, row, ends) for row in rows)
        found, _ = distinct(part, nodes, attrgetter("node_name"))
        await part.publish(list(found.values()))


def _is_not_served(error: RequestRefused) -> bool:
    """Return whether the region does not serve the operation."""
    return error.code.startswith(_NOT_SERVED) or error.status == 404
