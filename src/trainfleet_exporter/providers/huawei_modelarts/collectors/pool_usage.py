"""What each dedicated pool uses (its monitor): one call a pool, however many nodes and jobs.

The series are those of the cluster that a pool stands in: a logical pool shows what the whole physical one uses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainfleet_exporter.errors import BadAnswer, NotFound
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.pool_details import PoolReading, pool_readings, pool_usage
from trainfleet_exporter.providers.sweeps import each_sweep

_MINUTES = 5


def pools_usage(shared: Shared, *, interval: float, max_data_age: float, at_once: int) -> Sweep:
    """The collector: a part for each pool."""

    async def read(part: Part) -> None:
        try:
            answer = await shared.api.pool_monitor(part.key, minutes=_MINUTES, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        now, max_age = time.time(), max(max_data_age, 2 * part.interval)
        found = pool_readings(answer, now=now, max_age=max_age)
        del answer  # before publishing, during which other pools are read
        if found is None:
            raise BadAnswer("the answer has no metrics", operation="ShowPoolMonitor")
        readings, dropped = found
        for reason, count in dropped.items():
            part.dropped(reason, count)
        await _publish(part, readings, now=now, max_data_age=max_data_age)

    return each_sweep("pool_usage", interval=interval, at_once=at_once, keys=shared.own_pools, read=read)


async def _publish(part: Part, readings: Sequence[PoolReading], *, now: float, max_data_age: float) -> None:
    async def rebuild(moment: float) -> tuple[Sequence[object], float | None]:
        max_age = max(max_data_age, 2 * part.interval)  # as it is then: polls may be stretched meanwhile
        fresh = [reading for reading in readings if moment - reading.time <= max_age]
        # A touch later than the limit, so that the reading is surely beyond it then.
        stale_at = min((reading.time for reading in fresh), default=None)
        return pool_usage(part.key, fresh), None if stale_at is None else stale_at + max_age + 0.001

    objects, stale_at = await rebuild(now)
    await part.publish(objects, stale_at=stale_at, rebuild=rebuild)
