"""Progress of the work: one line on a terminal, else a log line every 30 seconds."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from typing import TextIO

from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)
_REDRAW, _REPORT = 0.2, 30.0
"""Seconds between two updates of the line, and between two log lines."""


class Progress:
    """Counts calls. Their real number may differ from `expected`."""

    def __init__(self, stream: TextIO | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._clock = clock
        self._began = self._reported = clock()
        self._drawn = 0
        self.stage = ""
        self.expected = 0
        """Calls of the days that were not whole when the work began."""
        self.settled = 0
        """Those of `expected` that are done."""
        self.calls = 0
        """Attempts of this run."""

    def report(self) -> None:
        """Show the state if it is time."""
        now = self._clock()
        if now - self._reported < (_REPORT if self._stream is None else _REDRAW):
            return
        self._reported = now
        if self._stream is None:
            log.info("backfill is running", extra=fields(progress=self.line()))
            return
        text = self.line()[: shutil.get_terminal_size().columns - 1]  # a longer one would begin a new line each time
        self._stream.write(f"\r{text:<{self._drawn}}")
        self._stream.flush()
        self._drawn = len(text)

    def line(self) -> str:
        """Format the state as a line."""
        spent, left = self._clock() - self._began, self.expected - self.settled
        parts = [self.stage, f"{self.calls:,} calls"]
        if self.expected:
            parts.append(f"{self.settled / self.expected:.0%} of {self.expected:,}")
        if self.settled and left > 0:
            parts.append(f"about {spent * left / self.settled / 60:.0f} min left")
        return ", ".join(parts)

    def leave(self) -> None:
        """Clear the line so that others can be printed."""
        if self._stream is not None and self._drawn:
            self._stream.write(f"\r{'':<{self._drawn}}\r")
            self._stream.flush()
            self._drawn = 0
