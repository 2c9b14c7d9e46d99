"""Machine types (DLC ListEcsSpecs): the resources of jobs on public resources, whose rows may have only their type.

The table is read when a row needs it, at most every six hours: one call for each 100 types. Without it, such jobs are
shown without their requested resources. Nothing else is missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.client import PaiClient
from trainfleet_exporter.providers.alibaba_pai.translate import EcsSpec
from trainfleet_exporter.transport.json_fields import counting_unusable

_TABLE_KEPT_SECONDS = 6 * 3600.0
_RETRY_SECONDS = 600.0
"""Seconds to wait after a failure, so that a missing permission does not cost a call in every poll."""
_MAX_WAIT_SECONDS = 10.0
"""Seconds for which this may delay a poll of jobs."""


class EcsSpecs:
    """The table of machine types that was needed and could be read."""

    def __init__(self, api: PaiClient) -> None:
        self._api = api
        self._next_read = float("-inf")
        self._reading = asyncio.Lock()
        self._lost: Counter[str] = Counter()
        """The number of unusable entries, by reason."""
        self.known: Mapping[str, EcsSpec] = {}

    async def have(self, part: Part) -> None:
        """Read the table if it is due. An error is logged and does not fail the part."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now < self._next_read:
                part.still_lost(self._lost)
                return
            self._next_read = now + _RETRY_SECONDS
            try:
                listing = await self._api.list_ecs_specs(deadline=min(part.deadline, now + _MAX_WAIT_SECONDS))
            except CloudError as error:
                part.lacks("machine types", error)
                part.still_lost(self._lost)
                return
            part.dropped("malformed", listing.malformed)
            with counting_unusable() as self._lost:
                self.known = {name: translate.ecs_spec(row) for name, row in listing.rows.items()}
            self._lost["malformed"] += listing.malformed
            # What could not be read this time is not waited for until the next table is due.
            is_whole = not listing.malformed and all(spec.cpu_cores is not None for spec in self.known.values())
            self._next_read = now + (_TABLE_KEPT_SECONDS if is_whole else _RETRY_SECONDS)
