"""The log records of the week, counted by their message, and the records that must not occur."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_EXPECTED_ERRORS = frozenset({"not reloaded; the old config stays in use"})
"""A broken config file is an operator's error, and is logged as an error."""


class Logbook(logging.Handler):
    """Counts warnings and errors. `unexpected` are those that report a bug of the exporter."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """By level, logger and message."""
        self.unexpected: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Count one record."""
        words = str(record.msg)
        self.counts[record.levelname, record.name, words] += 1
        has_trace = record.exc_info is not None and record.exc_info[0] is not None
        is_library = not record.name.startswith("trainfleet")
        if has_trace or is_library or (record.levelno >= logging.ERROR and words not in _EXPECTED_ERRORS):
            trace = repr(record.exc_info[1]) if has_trace and record.exc_info is not None else ""
            self.unexpected[f"{record.levelname} {record.name}: {record.getMessage()} {trace}".strip()] += 1


@contextmanager
def logbook() -> Iterator[Logbook]:
    """Yield a logbook of all records until the end of the block."""
    book, root = Logbook(), logging.getLogger()
    level = root.level
    root.addHandler(book)
    root.setLevel(logging.INFO)  # as in the daemon: the texts are built, even if no handler writes them
    try:
        yield book
    finally:
        root.removeHandler(book)
        root.setLevel(level)
