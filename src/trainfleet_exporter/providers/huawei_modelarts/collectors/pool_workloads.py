"""Workloads of each dedicated pool by type and status: one call a pool, however many workloads."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import BadAnswer, NotFound, NotReady
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.sweeps import each_sweep


def pool_workloads(shared: Shared, *, interval: float, at_once: int) -> Sweep:
    """The collector: a part for each pool."""

    async def pools() -> Sequence[str]:
        await shared.pools_polled.wait()
        if not shared.pools_known:
            raise NotReady("the list of pools could not be read")
        return shared.pool_ids

    async def read(part: Part) -> None:
        try:
            payload = await shared.api.workload_statistics(part.key, deadline=part.deadline)
        except NotFound:
            await part.publish([])  # gone since the list was read
            return
        translated = translate.pool_workloads(part.key, payload)
        if translated is None:
            raise BadAnswer("the answer has no statistics", operation="ShowWorkloadStatistics")
        rows, dropped = translated
        for reason, count in dropped.items():
            part.dropped(reason, count)
        await part.publish(rows)

    return each_sweep("pool_workloads", interval=interval, at_once=at_once, keys=pools, read=read)
