"""Who holds the accelerators of dedicated pools: one call a pool for each 500 workloads that run in it."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.polling import Part, PartsCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import users


class PoolUsersCollector(PartsCollector):
    """A part for each pool."""

    def __init__(self, shared: ModelArtsShared, interval: float) -> None:
        super().__init__("pool_users", interval, at_once=shared.at_once)
        self._shared = shared

    async def keys(self) -> Sequence[str]:
        """The pools that this shard asks about."""
        return await self._shared.own_pools()

    async def read(self, part: Part) -> None:
        """List what runs in one pool: training jobs, notebooks and services."""
        try:
            listing = await self._shared.client.running_workloads(part.key, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        part.dropped("malformed", listing.malformed)
        found = users(part.key, listing.rows.values())
        del listing  # before publishing, during which other lists are read
        await part.publish(found)
