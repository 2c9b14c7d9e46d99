"""What each dedicated pool uses (its monitor): one call a pool, however many nodes and jobs.

The series are those of the cluster that a pool stands in: a logical pool shows what the whole physical one uses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.polling import Part, PartsCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.pool_monitor import add_pool
from trainfleet_exporter.providers.usage.publishing import count, max_age, publish
from trainfleet_exporter.providers.usage.sheet import Sheet

_MINUTES = 5


class PoolUsageCollector(PartsCollector):
    """A part for each pool."""

    def __init__(self, shared: ModelArtsShared, interval: float) -> None:
        super().__init__("pool_usage", interval, at_once=shared.at_once)
        self._shared = shared
        self._max_data_age = shared.max_data_age

    async def keys(self) -> Sequence[str]:
        """The pools that this shard asks about."""
        return await self._shared.own_pools()

    async def read(self, part: Part) -> None:
        """Read the monitor of one pool."""
        try:
            answer = await self._shared.client.pool_monitor(part.key, minutes=_MINUTES, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        sheet = Sheet(part.key, now=time.time(), max_age=max_age(part, self._max_data_age))
        add_pool(sheet, answer)
        del answer  # before publishing, during which other pools are read
        count(part, sheet.dropped)

        async def build(since: float) -> tuple[Sequence[object], float]:
            return sheet.readings(since), sheet.oldest(since)

        await publish(part, build, self._max_data_age)
