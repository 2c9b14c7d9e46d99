"""Logs on stderr, as logfmt or JSON, one line per record.

The exporter's own messages are fixed texts with the facts as fields, and hold no secrets by construction:

    log.warning("cannot write the state file", extra=fields(file=path, error=error))

Records of libraries, exceptions, tracebacks and warnings may quote anything, so they go through `redaction.redact`.
Uncaught exceptions of the process, of threads and of finalizers are logged, and so are warnings of Python.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from trainfleet_exporter.errors import CloudError, TrainfleetError
from trainfleet_exporter.process.redaction import LONGEST_TRACE, redact

_NAMES = {"WARNING": "warn", "CRITICAL": "error"}
_FRAMES = 30
"""The innermost frames of each exception, where all frames would be longer than `LONGEST_TRACE`."""

log = logging.getLogger(__name__)


def set_up_logs(level: str, form: str, stream: TextIO | None = None) -> None:
    """Write records of `level` and above, uncaught exceptions and warnings to stderr in the given format."""
    write = partial(json.dumps, default=str) if form == "json" else as_logfmt
    root = logging.getLogger()
    root.handlers[:] = [_Handler(stream if stream is not None else sys.stderr, write)]
    root.setLevel({"warn": "WARNING"}.get(level, level.upper()))
    # A distribution's own hook would write a report with every variable.
    sys.excepthook = _uncaught
    # Hooks of threads and finalizers that are not Python's own belong to the program that runs us, such as pytest.
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = lambda given: log.error("internal error in a thread", exc_info=given.exc_value)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = lambda given: log.error(
            "internal error in a finalizer", exc_info=given.exc_value, extra=fields(object=type(given.object).__name__)
        )
    warnings.showwarning = _warned


def fields(**facts: object) -> dict[str, object]:
    """Return the `extra` of a log call: facts, which follow the message as fields.

    An error in a field is shown as its text. One of our own adds its `reason`, and a CloudError also its operation,
    HTTP status, code and request id.
    """
    return {"fields": facts}


def describe(error: BaseException) -> str:
    """Return the type and text of an exception, redacted; of the exporter's own errors the text alone."""
    if isinstance(error, TrainfleetError):
        return str(error)
    return redact("".join(traceback.format_exception_only(error)).strip())


def format_traceback(error: BaseException) -> str:
    """Return Python's own traceback with causes and groups, redacted."""
    text = "".join(traceback.format_exception(error)).rstrip()
    if len(text) > LONGEST_TRACE:
        text = "".join(traceback.format_exception(error, limit=-_FRAMES)).rstrip()
    return redact(text)


def facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a line of the log says about a record."""
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    facts: dict[str, Any] = {
        "time": time.replace("+00:00", "Z"),
        "level": _NAMES.get(record.levelname, record.levelname.lower()),
        "msg": str(record.msg) if _is_ours(record) and not record.args else redact(record.getMessage()),
    }
    if _is_ours(record):
        for key, value in getattr(record, "fields", {}).items():
            facts.update(_described(key, value))
    else:
        facts |= {"logger": record.name, "place": f"{record.module}:{record.lineno}"}
    if record.exc_info and record.exc_info[1] is not None:
        facts["trace"] = format_traceback(record.exc_info[1])
    return facts


def as_logfmt(facts: Mapping[str, Any]) -> str:
    """Return the facts as one line, such as `msg=stopped`."""
    return " ".join(f"{key}={_logfmt_value(value)}" for key, value in facts.items())


class _Handler(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO, write: Callable[[Mapping[str, Any]], str]) -> None:
        super().__init__(stream)
        self._write = write

    def filter(self, record: logging.LogRecord) -> bool:
        # Records of libraries below warnings do not help users.
        return _is_ours(record) or record.levelno >= logging.WARNING

    def format(self, record: logging.LogRecord) -> str:
        try:
            return self._write(facts_of(record))
        except Exception as error:  # noqa: BLE001 - of the arguments, which are not shown
            facts = {"level": "error", "msg": "cannot write a log record", "logger": record.name}
            return as_logfmt(facts | {"place": f"{record.module}:{record.lineno}", "error": describe(error)})

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Do nothing: stderr is closed."""


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == "trainfleet_exporter"


def _described(key: str, value: object) -> dict[str, object]:
    """Return a field, with the fields that an error adds before its text."""
    if not isinstance(value, BaseException):
        return {key: value}
    facts = dict[str, object]()
    if isinstance(value, TrainfleetError):
        facts["reason"] = value.reason
    if isinstance(value, CloudError):
        facts |= {name: getattr(value, name) for name in ("operation", "status", "code", "request_id")}
    text = value.message if isinstance(value, CloudError) else describe(value)
    return {name: fact for name, fact in facts.items() if fact not in ("", None)} | {key: text}


def _logfmt_value(value: Any) -> str:
    """A text; of what Python and JSON write differently, the JSON."""
    is_json = value is None or isinstance(value, bool | dict | list | tuple)
    text = json.dumps(value, default=str, separators=(",", ":")) if is_json else str(value)
    if text and text.isprintable() and not set(text) & set(' "=\\'):
        return text
    # JSON's escapes are a superset of what logfmt readers know, and keep a record on its line.
    return json.dumps(text)


def _uncaught(kind: type[BaseException], error: BaseException, _: object) -> None:
    if kind is KeyboardInterrupt:
        log.error("interrupted")
    else:
        log.error("internal error; the program exits", exc_info=error)


def _warned(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    place = f"{filename.rpartition('/')[2]}:{lineno}"
    log.warning("Python warning", extra=fields(type=category.__qualname__, place=place, text=redact(str(message))))
