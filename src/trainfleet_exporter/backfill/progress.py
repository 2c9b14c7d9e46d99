"""How far a backfill is: a log line every 30 seconds."""

from __future__ import annotations

import asyncio
import logging

from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.transport import Attempt

log = logging.getLogger(__name__)
_LOG_SECONDS = 30.0


class Progress:
    """Counts calls. Their real number may differ from `expected`."""

    def __init__(self) -> None:
        self.stage = ""
        self.expected = 0
        """Calls of the days that were not whole when the work began."""
        self._calls = 0
        self._logged = 0.0
        """Loop time of the first attempt, then of the latest line."""

    def count(self, attempt: Attempt) -> None:
        now = asyncio.get_running_loop().time()
        self._calls += 1
        if self._calls == 1:
            self._logged = now
        elif now - self._logged >= _LOG_SECONDS:
            self._logged = now
            planned = {"expected": self.expected} if self.expected else {}
            log.info("backfill is running", extra=fields(stage=self.stage, calls=self._calls, **planned))
