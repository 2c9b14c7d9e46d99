"""How dated readings are shown: until they are too old, even where no later poll succeeds."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.judging import ServerClock

Build: TypeAlias = Callable[[float], Awaitable[tuple[Sequence[object], float]]]
"""What is shown of readings from a Unix time on, and the time of the oldest of them (infinite if there is none)."""

_TOUCH = 0.001
"""A reading goes so much later than its limit, so that it is surely beyond it then (seconds)."""


def max_age(part: Part, max_data_age: float) -> float:
    """Return the largest age of a reading in seconds. It allows for intervals that become longer after its
    publication."""
    return max(max_data_age, 2 * part.interval)


async def publish_until_stale(part: Part, build: Build, max_data_age: float, *, clock: ServerClock) -> None:
    """Show what `build` makes of the readings that are not too old now, and again when some are.

    `clock` is that of the readings.
    """

    async def rebuild(moment: float) -> tuple[Sequence[object], float | None]:
        ahead, oldest_shown = clock.ahead, max_age(part, max_data_age)
        objects, oldest = await build(moment + ahead - oldest_shown)
        return objects, oldest + oldest_shown + _TOUCH - ahead if math.isfinite(oldest) else None

    objects, stale_at = await rebuild(time.time())
    await part.publish(objects, stale_at=stale_at, rebuild=rebuild)


def count(part: Part, dropped: Counter[str]) -> None:
    """Count what a part does not show, by reason; each once."""
    for reason, number in dropped.items():
        part.dropped(reason, number)
    dropped.clear()
