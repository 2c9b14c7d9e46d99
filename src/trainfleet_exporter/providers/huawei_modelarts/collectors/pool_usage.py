"""What each dedicated pool uses (its monitor): one call a pool, however many nodes and jobs.

The series are those of the cluster that a pool stands in: a logical pool shows what the whole physical one uses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainfleet_exporter.errors import BadAnswer, NotFound
from trainfleet_exporter.polling import Part, PartsCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import PoolReading, pool_readings, pool_usage

_MINUTES = 5


class PoolUsageCollector(PartsCollector):
    """A part for each pool."""

    def __init__(self, shared: ModelArtsShared, interval: float) -> None:
        super().__init__("pool_usage", interval, at_once=shared.at_once)
        self._shared = shared

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
        now, max_age = time.time(), max(self._shared.max_data_age, 2 * part.interval)
        found = pool_readings(answer, now=now, max_age=max_age)
        del answer  # before publishing, during which other pools are read
        if found is None:
            raise BadAnswer("the answer has no metrics", operation="ShowPoolMonitor")
        readings, dropped = found
        for reason, count in dropped.items():
            part.dropped(reason, count)
        await _publish(part, readings, now=now, max_data_age=self._shared.max_data_age)


async def _publish(part: Part, readings: Sequence[PoolReading], *, now: float, max_data_age: float) -> None:
    async def rebuild(moment: float) -> tuple[Sequence[object], float | None]:
        max_age = max(max_data_age, 2 * part.interval)  # as it is then: polls may be stretched meanwhile
        fresh = [reading for reading in readings if moment - reading.time <= max_age]
        # A touch later than the limit, so that the reading is surely beyond it then.
        stale_at = min((reading.time for reading in fresh), default=None)
        return pool_usage(part.key, fresh), None if stale_at is None else stale_at + max_age + 0.001

    objects, stale_at = await rebuild(now)
    await part.publish(objects, stale_at=stale_at, rebuild=rebuild)
