"""Logs on stderr, as logfmt or JSON, one line per record.

The exporter's own messages hold no secrets by construction. Libraries' records, exceptions, tracebacks and warnings may
quote anything, so all of them go through `redaction.redact`. Uncaught exceptions of the process, of threads and of
finalizers, and warnings, go to the log, too, and not past it to stderr.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

from trainfleet_exporter.errors import TrainfleetError
from trainfleet_exporter.process.redaction import LONGEST_TRACE, redact

LOG_LEVELS = ("debug", "info", "warn", "error")
LOG_FORMATS = ("logfmt", "json")
LIBRARIES = ("asyncio", "httpx", "httpcore", "aiohttp", "uvicorn", "apscheduler")
"""Their records below warnings are of no use to the exporter's user; formatting them would cost time."""
_NAMES = {"WARNING": "warn", "CRITICAL": "error"}
_OUR_LOGGER = "trainfleet_exporter"
_FRAMES = 30
"""The innermost frames of each exception, where all frames would be longer than `LONGEST_TRACE`."""

log = logging.getLogger(__name__)


def set_up_logs(level: str, form: str, stream: TextIO | None = None) -> None:
    """Write records of `level` and above, uncaught exceptions and warnings to stderr in the given format."""
    handler = _Handler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _LogfmtFormatter())
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
        fields = {"level": "error", "msg": "a log record could not be written", "logger": record.name}
        fields |= {"place": f"{record.module}:{record.lineno}", "reason": describe(error) if error else "unknown"}
        try:
            self.stream.write(_as_logfmt(fields) + "\n")
            self.flush()
        except (AttributeError, OSError, ValueError):
            return  # stderr is closed


class _Formatter(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        ours = _is_ours(record)
        fields: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": _NAMES.get(record.levelname, record.levelname.lower()),
            "msg": _message(record) if ours else redact(record.getMessage()),
        }
        if ours:
            fields.update((key, _described(value)) for key, value in getattr(record, "fields", {}).items())
        else:
            fields.update(logger=record.name, place=f"{record.module}:{record.lineno}")
        if record.exc_info and record.exc_info[1] is not None:
            fields["trace"] = format_traceback(record.exc_info[1], record.exc_info[2])
        return fields


class _LogfmtFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _as_logfmt(self.fields(record))


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), default=str)


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == _OUR_LOGGER or record.name.startswith(f"{_OUR_LOGGER}.")


def _message(record: logging.LogRecord) -> str:
    """The message of our own record, with exceptions among its arguments redacted."""
    arguments = record.args
    if not arguments:
        return str(record.msg)
    if isinstance(arguments, Mapping):
        return str(record.msg) % {key: _described(value) for key, value in arguments.items()}
    return str(record.msg) % tuple(map(_described, arguments))


def _described(value: Any) -> Any:
    return describe(value) if isinstance(value, BaseException) else value


def _as_logfmt(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={_logfmt_value(value)}" for key, value in fields.items())


def _logfmt_value(value: Any) -> str:
    text = str(value)
    if text and all(char.isprintable() and char not in ' "=\\' for char in text):
        return text
    # JSON's escapes are a superset of what logfmt readers know, and keep a record on its line.
    return json.dumps(text)


def _uncaught(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        log.error("interrupted")
        return
    log.critical("the program ends on a fault of its own", exc_info=(kind, error, where))


def _uncaught_of_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is None or issubclass(given.exc_type, SystemExit):
        return
    log.error("a thread ended on a fault", exc_info=(given.exc_type, given.exc_value, given.exc_traceback))


def _unraisable(given: sys.UnraisableHookArgs) -> None:
    fields = {"object": type(given.object).__qualname__}
    error = given.exc_value
    if error is None:
        log.error("a finalizer failed", extra={"fields": fields | {"type": given.exc_type.__qualname__}})
        return
    log.error("a finalizer failed", exc_info=(given.exc_type, error, given.exc_traceback), extra={"fields": fields})


def _warned(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    fields = {"type": category.__qualname__, "place": f"{filename.rpartition('/')[2]}:{lineno}"}
    log.warning("Python warns of the code", extra={"fields": fields | {"text": redact(str(message))}})
