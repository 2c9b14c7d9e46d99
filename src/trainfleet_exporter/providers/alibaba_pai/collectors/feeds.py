"""What CloudMonitor has to show of one namespace, by its catalogue: read once a day, a call for each 200 metrics, free
of charge."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.catalogue import Metric, metric
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import CloudMonitor
from trainfleet_exporter.providers.alibaba_pai.metric_map import Choice, Feed, Unfed, assumed, feeds, tell
from trainfleet_exporter.providers.usage.table import Family

log = logging.getLogger(__name__)

_KEPT = 86400.0
_AGAIN = 600.0
"""How long to wait after a failure, or an empty answer, while there is an older catalogue to go on with."""
_REFUSED = 6 * 3600.0
"""How long to wait after the catalogue was refused where it can be done without."""
_PATIENCE = 10.0
"""How long a poll may be held up by this."""


class Feeds:
    """The metrics that feed `families`, with what the config chose for some of them. `source` is for the log."""

    def __init__(
        self,
        monitor: CloudMonitor,
        namespace: str,
        families: Sequence[Family],
        choices: Mapping[str, Choice],
        *,
        source: str = "CloudMonitor",
    ) -> None:
        self.namespace = namespace
        self.known: Mapping[str, Feed] = {}
        """By metric."""
        self.catalogue: Mapping[str, Metric] | None = None
        """By name; None as long as it could not be read."""
        self._monitor = monitor
        self._families = families
        self._choices = choices
        self._source = source
        self._unfed: Collection[Unfed] = ()
        self._told: set[Unfed] = set()
        self._malformed = 0
        """How many rows of the latest list could not be read."""
        self._next_read = float("-inf")
        self._reading = asyncio.Lock()

    async def learn(self, part: Part) -> None:
        """Read the catalogue if it is time to. A failure is reported, and raised where there is no older catalogue."""
        if await self._read(part):
            self._learn(part, self.catalogue or {})
        else:
            part.still_lost({"malformed": len(self._unfed)})

    async def learn_or_assume(self, part: Part) -> Mapping[str, Feed]:
        """The same where the catalogue may be refused: then only what is certain without it is known."""
        async with self._reading:
            try:
                await self.learn(part)
            except CloudError as error:
                is_refused = isinstance(error, AccessDenied | NotFound | RequestRefused)
                self._next_read = asyncio.get_running_loop().time() + (_REFUSED if is_refused else _AGAIN)
                part.lacks("catalogue of metrics", error)
                self._learn(part, assumed(self._families, self._choices))
        return self.known

    def _learn(self, part: Part, catalogue: Mapping[str, Metric]) -> None:
        self.known, self._unfed = feeds(catalogue, self._families, self._choices)
        tell(self._source, self._unfed, self._told)
        part.dropped("malformed", len(self._unfed))

    async def _read(self, part: Part) -> bool:
        """Whether the catalogue was read now."""
        now = asyncio.get_running_loop().time()
        if now < self._next_read:
            part.still_lost({"malformed": self._malformed})
            return False
        try:
            deadline = min(part.deadline, now + _PATIENCE)
            listing = await self._monitor.describe_metric_meta_list(self.namespace, deadline=deadline)
        except CloudError as error:
            if self.catalogue is None:
                raise
            self._next_read = now + _AGAIN
            part.lacks(f"catalogue of {self.namespace}", error)
            part.still_lost({"malformed": self._malformed})
            return False
        part.dropped("malformed", listing.malformed)
        self._malformed = listing.malformed
        if not listing.rows and self.catalogue != {}:
            log.warning("CloudMonitor has no metrics of %s: is its endpoint one that serves PAI?", self.namespace)
        if not listing.rows and self.catalogue:  # what was there yesterday is not gone today
            self._next_read = now + _AGAIN
            return False
        self.catalogue = {name: metric(row) for name, row in listing.rows.items()}
        # A row that could not be read may be that of a metric: it is not waited for until tomorrow.
        self._next_read = now + (_KEPT if self.catalogue and not listing.malformed else _AGAIN)
        return True
