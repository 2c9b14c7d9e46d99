"""Pools (PaiStudio ListQuotas, verbose): one call a poll for each 100 quotas."""

from __future__ import annotations

from trainfleet_exporter.polling import Poll, Sweep
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared


def pools(shared: Shared, *, interval: float) -> Sweep:
    """The collector. The list is one part: its pages make sense only together."""

    async def run(poll: Poll) -> None:
        async with poll.part("quotas") as part:
            listing = await shared.api.list_quotas(deadline=poll.deadline)
            part.dropped("malformed", listing.malformed)
            pools = [pool for row in listing.rows.values() if (pool := translate.pool(row)) is not None]
            amounts = [translate.pool_amounts(row) for row in listing.rows.values()]
            shared.pool_models = {
                found.pool_id: found.capacity_accelerators[0].model for found in amounts if found.capacity_accelerators
            }
            await part.publish([*pools, *amounts])

    return Sweep(name="pools", interval=interval, run=run)
