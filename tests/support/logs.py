"""Log records as text."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from trainfleet_exporter.process.logs import as_logfmt, facts_of


def line_of(record: logging.LogRecord, *, without: Collection[str] = ()) -> str:
    """Return the message and fields of a record, such as `poll failed provider=a error=down`, without the trace."""
    facts = facts_of(record)
    hidden = {"time", "level", "msg", "trace", *without}
    return f"{facts['msg']} {as_logfmt({key: fact for key, fact in facts.items() if key not in hidden})}".strip()


def lines_of(records: Iterable[logging.LogRecord], level: int = logging.WARNING) -> list[str]:
    """Return the lines of the records at this level and above."""
    return [line_of(record) for record in records if record.levelno >= level]


def text_of(record: logging.LogRecord) -> str:
    """Return the message of a record, `: ` with its error if it has one, and its other fields."""
    facts = dict(getattr(record, "fields", {}))
    error = f": {facts.pop('error')}" if "error" in facts else ""
    return " ".join([f"{record.getMessage()}{error}", *(f"{key}={fact}" for key, fact in facts.items())])


def texts_of(records: Iterable[logging.LogRecord]) -> list[str]:
    """Return the texts of all records."""
    return [text_of(record) for record in records]
