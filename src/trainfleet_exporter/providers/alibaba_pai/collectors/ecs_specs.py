"""Machine types (DLC ListEcsSpecs): what jobs on public resources hold, whose rows name nothing but their type.

The list hardly ever changes: one call for each 100 types every six hours, and at the next poll after a failure.
"""

from __future__ import annotations

import asyncio

from trainfleet_exporter.polling import Poll, Sweep
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared

_KEPT = 6 * 3600.0


def ecs_specs(shared: Shared, *, interval: float) -> Sweep:
    """The collector. It shows nothing by itself: jobs ask it what a machine type has."""
    read_at: float | None = None

    async def run(poll: Poll) -> None:
        nonlocal read_at
        now = asyncio.get_running_loop().time()
        if read_at is not None and now - read_at < _KEPT:
            return
        try:
            async with poll.part("specs") as part:
                listing = await shared.api.list_ecs_specs(deadline=poll.deadline)
                part.dropped("malformed", listing.malformed)
                shared.ecs_specs = {name: translate.ecs_spec(row) for name, row in listing.rows.items()}
                read_at = now
                await part.publish([])
        finally:
            shared.ecs_specs_polled.done()

    return Sweep(name="ecs_specs", interval=interval, run=run)
