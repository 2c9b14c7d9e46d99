"""Dedicated pools: one call a workspace for what they are, and one for what all of them have and have given out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from trainfleet_exporter.model import Pool, PoolAmounts
from trainfleet_exporter.polling import Part, Poll, Sweep
from trainfleet_exporter.providers.division import Look
from trainfleet_exporter.providers.huawei_modelarts import payloads, translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.sweeps import with_unread
from trainfleet_exporter.providers.turns import Turns

_AMOUNTS = "runtime metrics"


def pools(shared: Shared, *, interval: float, at_once: int) -> Sweep:
    """The collector: a part for each workspace's pools, and one for the amounts of all.

    Where another shard shows them, the lists are looked at now and then, to know which pools there are.
    """
    by_workspace: dict[str, tuple[str, ...]] = {}
    stale: set[str] = set()
    """Workspaces whose last good list was kept long enough: their pools are polled on, and may be another's by now."""
    turns = Turns()

    look = Look(interval)

    async def run(poll: Poll) -> None:
        if not shared.division.is_home and not look.is_due():
            return
        shared.pools_polled.begin()
        known = False
        try:
            workspace_ids = await shared.workspaces()
            poll.keep_only([*workspace_ids, _AMOUNTS] if shared.division.is_home else workspace_ids)
            for gone in by_workspace.keys() - set(workspace_ids):
                del by_workspace[gone]
            read_now = await poll.read_each(turns.order(workspace_ids), read, at_once=at_once)
            turns.read(read_now)
            known = bool(read_now) or not workspace_ids
            if shared.division.is_home:
                # After them, because the amounts are for the pools that are listed.
                await poll.read_each([_AMOUNTS], amounts, at_once=1)
            elif len(read_now) == len(workspace_ids):
                look.done()
        finally:
            shared.pool_ids = tuple(dict.fromkeys(pool_id for ids in by_workspace.values() for pool_id in ids))
            shared.pools_known = known
            shared.pools_polled.done(good=known)

    async def read(part: Part) -> None:
        rows = await shared.api.list_pools(part.key, deadline=part.deadline)
        # From here to where this workspace's pools are entered nothing is waited for: a pool has one owner.
        others = by_workspace.keys() - {part.key} - stale
        elsewhere = {pool_id for other in others for pool_id in by_workspace[other]}
        found, dropped = _pools(rows, elsewhere)
        del rows  # before publishing, during which other lists are read
        for reason, count in dropped.items():
            part.dropped(reason, count)
        stale.discard(part.key)
        by_workspace[part.key] = with_unread(found, by_workspace.get(part.key, ()), malformed=dropped["malformed"])
        await part.publish(list(found.values()) if shared.division.is_home else [])

    async def amounts(part: Part) -> None:
        listed = {pool_id for ids in by_workspace.values() for pool_id in ids}
        found, dropped = _amounts(await shared.api.pool_runtime_metrics(deadline=part.deadline), listed)
        for reason, count in dropped.items():
            part.dropped(reason, count)
        shared.accelerators = {
            pool_id: frozenset(item.kind for item in amount.capacity_accelerators) for pool_id, amount in found.items()
        }
        await part.publish(list(found.values()))

    return Sweep(name="pools", interval=interval, run=run, expired=stale.add)


def _amounts(
    rows: Sequence[payloads.PoolRuntimeMetrics | None], listed: Collection[str]
) -> tuple[dict[str, PoolAmounts], Counter[str]]:
    """The amounts of the pools that are `listed` by pool, and what was dropped."""
    found: dict[str, PoolAmounts] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        amount = None if row is None else translate.pool_amounts(row)
        if amount is None:
            dropped["malformed"] += 1
        elif amount.pool_id not in listed:
            dropped["unlisted"] += 1
        elif amount.pool_id in found:
            dropped["duplicate"] += 1
        else:
            found[amount.pool_id] = amount
    return found, dropped


def _pools(rows: Sequence[payloads.Pool | None], elsewhere: Collection[str]) -> tuple[dict[str, Pool], Counter[str]]:
    """The pools of one workspace by id, and what was dropped; those `elsewhere` are another workspace's."""
    found: dict[str, Pool] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        pool = None if row is None else translate.pool(row)
        if pool is None:
            dropped["malformed"] += 1
        elif pool.pool_id in found or pool.pool_id in elsewhere:
            dropped["duplicate"] += 1
        else:
            found[pool.pool_id] = pool
    return found, dropped
