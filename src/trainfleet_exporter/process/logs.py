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
from types import TracebackType
from typing import Any, TextIO

from trainfleet_exporter.errors import CloudError, TrainfleetError
from trainfleet_exporter.process.redaction import LONGEST_TRACE, redact

LIBRARIES = ("asyncio", "httpx", "httpcore", "aiohttp", "uvicorn", "apscheduler", "botocore", "urllib3")
"""Loggers whose records below warnings do not help users; to format them would cost time."""
_NAMES = {"WARNING": "warn", "CRITICAL": "error"}
_OUR_LOGGER = "trainfleet_exporter"
_FRAMES = 30
"""The innermost frames of each exception, where all frames would be longer than `LONGEST_TRACE`."""

log = logging.getLogger(__name__)


def set_up_logs(level: str, form: str, stream: TextIO | None = None) -> None:
    """Write records of `level` and above, uncaught exceptions and warnings to stderr in the given format."""
    handler = _Handler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_Formatter(partial(json.dumps, default=str) if form == "json" else _as_logfmt))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel({"warn": "WARNING"}.get(level, level.upper()))
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))
    # A distribution's own hook would write a report with every variable.
    sys.excepthook = _uncaught
    # Hooks of threads and finalizers that are not Python's own belong to the program that runs us, such as pytest.
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _uncaught_of_thread
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisable
    warnings.showwarning = _warned


def fields(**facts: object) -> dict[str, object]:
    """Return the `extra` of a log call: facts, which follow the message as fields.

    An error in a field is shown as its text. One of our own adds its `reason`, and a CloudError also its operation,
    HTTP status, code and request id.
    """
    return {"fields": facts}


def describe(error: BaseException) -> str:
    """The type and text of an exception, redacted; of the exporter's own errors the text alone."""
    if isinstance(error, TrainfleetError):
        return str(error)
    return redact("".join(traceback.TracebackException.from_exception(error, limit=0).format_exception_only()).strip())


def format_traceback(error: BaseException, where: TracebackType | None = None) -> str:
    """Python's own traceback with causes and groups, redacted."""
    where = error.__traceback__ if where is None else where
    text = ""
    for limit in (None, -_FRAMES):
        trace = traceback.TracebackException(type(error), error, where, limit=limit)
        text = "".join(trace.format()).rstrip()
        if len(text) <= LONGEST_TRACE:
            break
    return redact(text)


class _Handler(logging.StreamHandler[TextIO]):
    def filter(self, record: logging.LogRecord) -> bool:
        # Not only of the libraries above, but also of those that they import.
        return (_is_ours(record) or record.levelno >= logging.WARNING) and bool(super().filter(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        # logging's own way would print the record's arguments and the whole stack.
        error = sys.exception()
        facts = {"level": "error", "msg": "cannot write a log record", "logger": record.name}
        facts |= {"place": f"{record.module}:{record.lineno}", "error": describe(error) if error else "unknown"}
        try:
            self.stream.write(_as_logfmt(facts) + "\n")
            self.flush()
        except (AttributeError, OSError, ValueError):
            return  # stderr is closed


class _Formatter(logging.Formatter):
    def __init__(self, write: Callable[[Mapping[str, Any]], str]) -> None:
        super().__init__()
        self._write = write

    def format(self, record: logging.LogRecord) -> str:
        return self._write(facts_of(record))


def facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a line of the log says about a record."""
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    is_ours = _is_ours(record)
    facts: dict[str, Any] = {
        "time": time.replace("+00:00", "Z"),
        "level": _NAMES.get(record.levelname, record.levelname.lower()),
        "msg": str(record.msg) if is_ours and not record.args else redact(record.getMessage()),
    }
    if is_ours:
        for key, value in getattr(record, "fields", {}).items():
            facts |= _described(key, value)
    else:
        facts |= {"logger": record.name, "place": f"{record.module}:{record.lineno}"}
    if record.exc_info and record.exc_info[1] is not None:
        facts["trace"] = format_traceback(record.exc_info[1], record.exc_info[2])
    return facts


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == _OUR_LOGGER or record.name.startswith(f"{_OUR_LOGGER}.")


def _described(key: str, value: object) -> dict[str, object]:
    """A field, with the fields that an error adds before its text."""
    if not isinstance(value, BaseException):
        return {key: value}
    facts: dict[str, object] = {}
    if isinstance(value, TrainfleetError):
        facts["reason"] = value.reason
    if isinstance(value, CloudError):
        facts |= {"operation": value.operation, "status": value.status}
        facts |= {"code": value.code, "request_id": value.request_id}
    text = value.message if isinstance(value, CloudError) else describe(value)
    return {name: fact for name, fact in facts.items() if fact not in ("", None)} | {key: text}


def _as_logfmt(facts: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={_logfmt_value(value)}" for key, value in facts.items())


def _logfmt_value(value: Any) -> str:
    """A text; of what Python and JSON write differently, the JSON."""
    is_json = value is None or isinstance(value, bool | dict | list | tuple)
    text = json.dumps(value, default=str, separators=(",", ":")) if is_json else str(value)
    if text and all(char.isprintable() and char not in ' "=\\' for char in text):
        return text
    # JSON's escapes are a superset of what logfmt readers know, and keep a record on its line.
    return json.dumps(text)


def _uncaught(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        log.error("interrupted")
        return
    log.critical("internal error; the program exits", exc_info=(kind, error, where))


def _uncaught_of_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is None or issubclass(given.exc_type, SystemExit):
        return
    log.error("internal error in a thread", exc_info=(given.exc_type, given.exc_value, given.exc_traceback))


def _unraisable(given: sys.UnraisableHookArgs) -> None:
    facts = fields(object=type(given.object).__qualname__, type=given.exc_type.__qualname__)
    error = given.exc_value
    trace = None if error is None else (given.exc_type, error, given.exc_traceback)
    log.error("internal error in a finalizer", exc_info=trace, extra=facts)


def _warned(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    place = f"{filename.rpartition('/')[2]}:{lineno}"
    log.warning("Python warning", extra=fields(type=category.__qualname__, place=place, text=redact(str(message))))
