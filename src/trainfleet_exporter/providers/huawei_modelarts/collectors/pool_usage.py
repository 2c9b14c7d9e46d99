"""What each dedicated pool uses (its monitor): one call a pool, however many nodes and jobs.

The series are those of the cluster that a pool stands in: a logical pool shows what the whole physical one uses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.pool_monitor import add_pool
from trainfleet_exporter.providers.sweeps import each_sweep
from trainfleet_exporter.providers.usage.publishing import count, max_age, publish
from trainfleet_exporter.providers.usage.sheet import Sheet

_MINUTES = 5


class PoolUsage:
    """The collector, with a part for each pool."""

    def __init__(self, shared: Shared, *, max_data_age: float) -> None:
        self._shared = shared
        self._max_data_age = max_data_age

    def collector(self, *, interval: float, at_once: int) -> Sweep:
        """The collector."""
        keys = self._shared.own_pools
        return each_sweep("pool_usage", interval=interval, at_once=at_once, keys=keys, read=self._read)

    async def _read(self, part: Part) -> None:
        try:
            answer = await self._shared.api.pool_monitor(part.key, minutes=_MINUTES, deadline=part.deadline)
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
