"""Progress of the work: a bar on a terminal, else a log line every 30 seconds."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from typing import TextIO

from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

_WIDTH = 24
_REDRAWN = 0.2
"""Seconds between two updates of the bar."""
_REPORT_INTERVAL = 30.0
"""Seconds between two log lines."""


class Progress:
    """Counts units and calls. The real number of calls may differ from `expected`."""

    def __init__(self, stream: TextIO | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._clock = clock
        self._began = clock()
        self._reported_at = self._began
        self._drawn = 0
        self.expected = 0
        """Calls of the units that were not done when the days began."""
        self.settled = 0
        """Those calls of `expected` whose units are done."""
        self.calls = 0
        """Attempts of this run."""
        self.units = 0
        """Units done in this run."""
        self.stage = ""

    def done(self, calls: int) -> None:
        """Count a unit as done. `calls` is how many it was expected to take."""
        self.settled += calls
        self.units += 1
        self.report()

    def line(self) -> str:
        """Format the state as a line."""
        spent = self._clock() - self._began
        rate = self.calls / spent if spent > 0 else 0.0
        left = max(0, self.expected - self.settled)
        share = f"{self._share:.0%}" if self.expected else ""
        parts = [self.stage, share, f"{self.units} units", f"{self.calls} calls", f"{rate:.1f} calls/s"]
        parts += [f"{_span(left / rate)} left"] if left and rate else []
        return ", ".join(part for part in parts if part)

    @property
    def _share(self) -> float:
        return min(1.0, self.settled / self.expected) if self.expected else 0.0

    def report(self, *, at_once: bool = False) -> None:
        """Show the state if the interval is over."""
        now = self._clock()
        if not at_once and now - self._reported_at < (_REPORT_INTERVAL if self._stream is None else _REDRAWN):
            return
        self._reported_at = now
        if self._stream is None:
            log.info("backfill is running", extra=fields(progress=self.line()))
            return
        text = f"[{'#' * int(self._share * _WIDTH):<{_WIDTH}}] {self.line()}"
        text = text[: shutil.get_terminal_size().columns - 1]  # a longer line would begin a new line each time
        self._stream.write(f"\r{text:<{self._drawn}}")
        self._stream.flush()
        self._drawn = len(text)

    def leave(self) -> None:
        """Clear the bar so that other lines can be printed."""
        if self._stream is not None and self._drawn:
            self._stream.write(f"\r{'':<{self._drawn}}\r")
            self._stream.flush()
            self._drawn = 0


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
