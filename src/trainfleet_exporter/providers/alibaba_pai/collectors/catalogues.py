"""CloudMonitor's catalogue of one namespace, read once a day: one call for each 200 metrics, which costs nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.catalogue import Metric, metric
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import CloudMonitor

log = logging.getLogger(__name__)

_KEPT = 86400.0
_AGAIN = 600.0
"""How long to wait after a failure, or an empty answer, while there is an older catalogue to go on with."""
_PATIENCE = 10.0
"""How long a poll may be held up by this."""


class Catalogue:
    """The metrics of one namespace by name; None as long as they could not be read."""

    def __init__(self, monitor: CloudMonitor, namespace: str) -> None:
        self.namespace = namespace
        self.known: Mapping[str, Metric] | None = None
        self._monitor = monitor
        self._malformed = 0
        """How many rows of the latest list could not be read."""
        self._next_read = float("-inf")

    async def have(self, part: Part) -> bool:
        """Read the catalogue if it is time to; whether it was read now.

        A failure is told, and raised where there is no older catalogue.
        """
        now = asyncio.get_running_loop().time()
        if now < self._next_read:
            part.still_lost({"malformed": self._malformed})
            return False
        try:
            deadline = min(part.deadline, now + _PATIENCE)
            listing = await self._monitor.describe_metric_meta_list(self.namespace, deadline=deadline)
        except CloudError as error:
            if self.known is None:
                raise
            self._next_read = now + _AGAIN
            part.lacks(f"catalogue of {self.namespace}", error)
            part.still_lost({"malformed": self._malformed})
            return False
        part.dropped("malformed", listing.malformed)
        self._malformed = listing.malformed
        if not listing.rows and self.known != {}:
            log.warning("CloudMonitor has no metrics of %s: is its endpoint one that serves PAI?", self.namespace)
        if not listing.rows and self.known:  # what was there yesterday is not gone today
            self._next_read = now + _AGAIN
            return False
        self.known = {name: metric(row) for name, row in listing.rows.items()}
        # A row that could not be read may be that of a metric: it is not waited for until tomorrow.
        self._next_read = now + (_KEPT if self.known and not listing.malformed else _AGAIN)
        return True
