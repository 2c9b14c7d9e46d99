"""How far a backfill is: a log line every 30 seconds."""

from __future__ import annotations

import asyncio
import logging

from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.transport import Attempt

log = logging.getLogger(__name__)
_LOG_SECONDS = 30.0
"""Between two log lines."""


class Progress:
    """Counts calls. Their real number may differ from `expected`."""

    def __init__(self) -> None:
        self._began = self._logged = 0.0
        """When the first attempt was counted, and the last line logged (loop time)."""
        self.stage = ""
        self.expected = 0
        """Calls of the days that were not whole when the work began."""
        self.settled = 0
        """Those of `expected` that are done."""
        self._calls = 0
        """Attempts of this run."""

    def count(self, attempt: Attempt) -> None:
        """Count an attempt, and log the state if it is time."""
        now = asyncio.get_running_loop().time()
        if not self._calls:
            self._began = self._logged = now
        self._calls += 1
        if now - self._logged < _LOG_SECONDS:
            return
        self._logged = now
        facts: dict[str, object] = {"stage": self.stage, "calls": self._calls}
        if self.expected:
            facts |= {"expected": self.expected, "done": f"{self.settled / self.expected:.0%}"}
        if self.settled:
            left = max(0, self.expected - self.settled)
            facts["minutes_left"] = round((now - self._began) * left / self.settled / 60)
        log.info("backfill is running", extra=fields(**facts))
