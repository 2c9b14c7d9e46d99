"""The users that hold accelerators of dedicated pools: one call for each pool and each 500 running workloads."""

from __future__ import annotations

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.collectors import PerPoolCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import users


class PoolUsersCollector(PerPoolCollector[ModelArtsShared]):
    """A part for each pool."""

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
