"""Logs on stderr, as logfmt or JSON, one line a record; and nothing in them that could be a secret.

The exporter's own records hold what was written to be read. What others write is not trusted: a library's record quotes
what it had in hand (asyncio: tasks and callbacks with their arguments; aiohttp: cookies, addresses), and so do the
texts of exceptions. Therefore:

* of an exception, types and places are shown, not its text (see traces.py);
* of a library's record, its level, its name, where it was written, and its words up to the first thing that may have
  been filled in; below warnings nothing, at any --log.level;
* what would go past the log to stderr goes through it: uncaught exceptions of the process, of threads and of
  finalizers, warnings, and records that cannot be formatted.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

from trainfleet_exporter.errors import TrainfleetError
from trainfleet_exporter.traces import describe, format_trace

LEVELS = ("debug", "info", "warn", "error")
FORMATS = ("logfmt", "json")
LIBRARIES = ("asyncio", "httpx", "httpcore", "aiohttp", "uvicorn", "apscheduler")
"""They speak at their own level of detail; below warnings they have nothing for the exporter's user."""
_NAMES = {"WARNING": "warn", "CRITICAL": "error"}
_OURS = "trainfleet_exporter"
_PLACEHOLDER = re.compile(r"%(\(\w+\))?[-#0 +]*[\d*]*(\.[\d*]+)?[a-zA-Z]")
# Words as people write them: a key, which mixes letters and digits or both cases, is none. A template may quote, since
# what would stand between its quotes is not filled in; a finished text is shown up to its first quote or bracket.
_WORD = r"(?:[A-Z]{1,12}|[A-Z]?[a-z]{1,15})(?![A-Za-z0-9])"
_TEMPLATE = re.compile(rf"(?:{_WORD}|[ ,.:'\"()/-]|…){{1,120}}")
_TEXT = re.compile(rf"(?:{_WORD}|[ ,-]|\.$){{1,120}}")

log = logging.getLogger(__name__)


def set_up_logs(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send every record of `level` and above to stderr in the given format, and uncaught exceptions with them."""
    handler = _Handler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _LogfmtFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel({"warn": "WARNING"}.get(level, level.upper()))
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))
    _take_what_nobody_catches()


class _Handler(logging.StreamHandler[TextIO]):
    def filter(self, record: logging.LogRecord) -> bool:
        # Libraries beyond those that are named, which one of them may bring along.
        return (_is_ours(record) or record.levelno >= logging.WARNING) and bool(super().filter(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        # logging's own way would print the record's arguments and the whole stack.
        error = sys.exception()
        told = {"level": "error", "msg": "a log record could not be written", "logger": record.name}
        told |= {"place": f"{record.module}:{record.lineno}", "reason": describe(error) if error else "unknown"}
        try:
            self.stream.write(" ".join(f"{key}={_logfmt_value(value)}" for key, value in told.items()) + "\n")
            self.flush()
        except (AttributeError, OSError, ValueError):
            return  # nobody reads stderr any more, or there is none


class _Formatter(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        ours = _is_ours(record)
        fields: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": _NAMES.get(record.levelname, record.levelname.lower()),
            "msg": _own_message(record) if ours else _words(record),
        }
        if ours:
            fields.update((key, _plain(value)) for key, value in getattr(record, "fields", {}).items())
        else:
            fields.update(logger=record.name, place=f"{record.module}:{record.lineno}")
        if record.exc_info and record.exc_info[1] is not None:
            fields["trace"] = format_trace(record.exc_info[1], record.exc_info[2])
        return fields


class _LogfmtFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_logfmt_value(value)}" for key, value in self.fields(record).items())


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), default=str)


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == _OURS or record.name.startswith(f"{_OURS}.")


def _own_message(record: logging.LogRecord) -> str:
    """The message, with exceptions among its arguments described rather than quoted."""
    arguments = record.args
    if not arguments:
        return str(record.msg)
    if isinstance(arguments, Mapping):
        return str(record.msg) % {key: _plain(value) for key, value in arguments.items()}
    return str(record.msg) % tuple(map(_plain, arguments))


def _plain(value: Any) -> Any:
    return describe(value) if isinstance(value, BaseException) and not isinstance(value, TrainfleetError) else value


def _words(record: logging.LogRecord) -> str:
    """What a library says, up to the first thing in it that it may have filled in."""
    text = record.msg if isinstance(record.msg, str) else ""
    if record.args:
        text = _PLACEHOLDER.sub("…", text)
    text = text.rstrip()
    found = (_TEMPLATE if record.args else _TEXT).match(text)
    words = found[0] if found else ""
    return words if words and words == text else f"{words.rstrip()}…"


def _logfmt_value(value: Any) -> str:
    text = str(value)
    if text and all(char.isprintable() and char not in ' "=\\' for char in text):
        return text
    # JSON's escapes are a superset of what logfmt readers know, and keep a record on its line.
    return json.dumps(text)


def _take_what_nobody_catches() -> None:
    """Have uncaught exceptions and warnings told by the log.

    A hook of threads or finalizers that is not Python's own is left in place: whoever runs this in a process of theirs
    (a test runner) has put it there. That of the process is replaced in any case: what a distribution has put there
    writes reports with every variable.
    """
    sys.excepthook = _uncaught
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _uncaught_of_thread
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisable
    warnings.showwarning = _warned


def _uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        log.error("interrupted")
        return
    log.critical("the program ends on a fault of its own", exc_info=(kind, error, traceback))


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
    # Its text quotes values as those of exceptions do ("expected str but got Secret with value ...").
    fields = {"type": category.__qualname__, "place": f"{filename.rpartition('/')[2]}:{lineno}"}
    log.warning("Python warns of the code", extra={"fields": fields})
