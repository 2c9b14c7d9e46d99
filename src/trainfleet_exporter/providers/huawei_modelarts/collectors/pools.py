"""Dedicated pools: one call a workspace for their facts, and one for the capacity and allocation of all. Their
nodes, off by default: one call for each 500 nodes of a pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Accelerator
from trainfleet_exporter.polling import BulkCollector, FairQueue, Part, Poll
from trainfleet_exporter.providers.collectors import PerPoolCollector, distinct
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import node
from trainfleet_exporter.providers.jobs.listing import with_unread

_AMOUNTS = "runtime metrics"


class PoolsCollector(BulkCollector):
    """A part for each workspace's pools, and one for the amounts of all."""

    def __init__(self, shared: ModelArtsShared, interval: float) -> None:
        super().__init__("pools", interval)
        self._shared = shared
        self._queue = FairQueue()
        self._by_workspace: dict[str, tuple[str, ...]] = {}
        """The ids of pools, by the latest list of each workspace that could be read."""
        self._stale: set[str] = set()
        """Workspaces whose last good list was kept long enough. Their pools are polled still, and may have moved to
        another workspace."""
        self._kinds: Mapping[str, frozenset[Accelerator]] = {}
        """By pool, the kinds of its accelerators."""

    async def poll(self, poll: Poll) -> None:
        """Show the pools of all workspaces, then their amounts."""
        with self._shared.pools.polling():
            await self._read(poll)

    async def _read(self, poll: Poll) -> None:
        is_known = False
        try:
            workspace_ids = await self._shared.ids.get()
            poll.keep_only([*workspace_ids, _AMOUNTS])
            for gone in self._by_workspace.keys() - set(workspace_ids):
                del self._by_workspace[gone]
            at_once = self._shared.at_once
            read = await self._queue.read_each(poll, workspace_ids, self._read_list, at_once=at_once)
            is_known = bool(read) or not workspace_ids
            # After the lists, because amounts are shown for listed pools only.
            await poll.read_each([_AMOUNTS], self._read_amounts, at_once=1)
        finally:
            pool_ids = (pool_id for ids in self._by_workspace.values() for pool_id in ids)
            pools = {pool_id: self._kinds.get(pool_id, frozenset()) for pool_id in pool_ids}
            self._shared.pools.publish(pools, known=is_known)

    def expired(self, key: str) -> None:
        """Let other workspaces show this one's pools."""
        self._stale.add(key)

    async def _read_list(self, part: Part) -> None:
        rows = await self._shared.client.list_pools(part.key, deadline=part.deadline)
        # No await may follow until this workspace's pools are entered: a pool has one owner.
        others = self._by_workspace.keys() - {part.key} - self._stale
        elsewhere = {pool_id for other in others for pool_id in self._by_workspace[other]}
        pools = (None if row is None else translate.pool(row) for row in rows)
        found, malformed = distinct(part, pools, attrgetter("pool_id"), elsewhere)
        del rows  # before publishing, during which other lists are read
        self._stale.discard(part.key)
        known = self._by_workspace.get(part.key, ())
        self._by_workspace[part.key] = with_unread(found, known, malformed=malformed)
        await part.publish(list(found.values()))

    async def _read_amounts(self, part: Part) -> None:
        listed = {pool_id for ids in self._by_workspace.values() for pool_id in ids}
        rows = await self._shared.client.pool_runtime_metrics(deadline=part.deadline)
        amounts = [None if row is None else translate.pool_amounts(row) for row in rows]
        del rows  # before publishing, during which other lists are read
        shown = [amount for amount in amounts if amount is None or amount.pool_id in listed]
        part.dropped("unlisted", len(amounts) - len(shown))
        found, _ = distinct(part, shown, attrgetter("pool_id"))
        self._kinds = {
            pool_id: frozenset(item.kind for item in amount.capacity_accelerators) for pool_id, amount in found.items()
        }
        await part.publish(list(found.values()))


class NodesCollector(PerPoolCollector[ModelArtsShared]):
    """A part for each pool."""

    async def read(self, part: Part) -> None:
        """List the nodes of one pool."""
        try:
            rows = await self._shared.client.list_nodes(part.key, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        nodes = (None if row is None else node(part.key, row) for row in rows)
        found, _ = distinct(part, nodes, attrgetter("node_name"))
        del rows  # before publishing, during which other lists are read
        await part.publish(list(found.values()))
