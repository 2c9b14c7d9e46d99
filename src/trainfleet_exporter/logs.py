"""Logs on stderr, as logfmt or JSON, one line a record. Secrets do not get here: they cannot print themselves."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

LEVELS = ("debug", "info", "warn", "error")
FORMATS = ("logfmt", "json")
LIBRARIES = ("asyncio", "httpx", "httpcore", "aiohttp", "uvicorn", "apscheduler")
"""They speak at their own level of detail; below warnings they have nothing for the exporter's user."""
_NAMES = {"WARNING": "warn", "CRITICAL": "error"}


def set_up_logs(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send every record of `level` and above to stderr in the given format."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _LogfmtFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel({"warn": "WARNING"}.get(level, level.upper()))
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))


class _Formatter(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": _NAMES.get(record.levelname, record.levelname.lower()),
            "msg": record.getMessage(),
        }
        fields.update(getattr(record, "fields", {}))
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return fields


class _LogfmtFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_logfmt_value(value)}" for key, value in self.fields(record).items())


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), default=str)


def _logfmt_value(value: Any) -> str:
    text = str(value)
    if text and all(char.isprintable() and char not in ' "=\\' for char in text):
        return text
    # JSON's escapes are a superset of what logfmt readers know, and keep a record on its line.
    return json.dumps(text)
