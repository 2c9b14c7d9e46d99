"""Changes responses of unknown shape: rows are the objects in lists, all other values are leaves. The tables WHOLE and
ODD have the faults of single responses."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from trainfleet_conformance.stage import Arrival, Spoil
from trainfleet_simulator.broken_bodies import break_body, other_types
from trainfleet_simulator.listener import NEED_THE_ANSWER, Breaking
from trainfleet_simulator.rows import dumps, with_content
from trainfleet_simulator.values import HOSTILE, INVALID

Leaf = Callable[[str, Any], Any]
"""Makes another value for a field of that name; REMOVED removes the field."""
REMOVED = object()
_TOTAL = re.compile(r"total|count$", re.IGNORECASE)
_KEY = re.compile(r"^(id|uid|uuid)$|_id$|Id$|ID$")
_NAME = re.compile(r"^(key|name)$|_name$|Name$")
_NUMBER = re.compile(r"-?\d+(\.\d+)?( ?[KMGT]i?B?)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d.*")
_TEN_YEARS = 315_360_000.0


def _is_number(name: str, value: Any) -> bool:
    """Return whether a field is a number or its text, and does not identify or describe its object."""
    if isinstance(value, bool) or _KEY.search(name) or _NAME.search(name):
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def _is_time(name: str, value: Any) -> bool:
    """Return whether a field is a time: a text, or a number of seconds or milliseconds close to the present."""
    written = str(value)
    if not _is_number(name, value) or not written.replace(".", "", 1).isdigit():
        return _TIME.fullmatch(written) is not None
    return any(abs(float(value) / scale - time.time()) < _TEN_YEARS for scale in (1, 1000))


def change_leaves(value: Any, change: Leaf, name: str = "") -> Any:
    """Return the value with each text, number, boolean and null in it changed."""
    if isinstance(value, dict):
        changed = {key: change_leaves(inner, change, key) for key, inner in value.items()}
        return {key: inner for key, inner in changed.items() if inner is not REMOVED}
    if isinstance(value, list):
        return [inner for inner in (change_leaves(each, change, name) for each in value) if inner is not REMOVED]
    return change(name, value)


def lists(value: Any) -> Iterator[list[Any]]:
    """The outermost lists of objects."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from lists(inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield value


def holds(value: Any, *wanted: object) -> bool:
    """Return whether its leaves include each of `wanted`."""
    return set(wanted) <= set(_leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def has_total(payload: Any) -> bool:
    """Return whether a response has a list of several rows and their total number."""
    if not isinstance(payload, dict) or not any(len(found) > 1 for found in lists(payload)):
        return False
    return any(_TOTAL.search(key) and isinstance(value, int | str) for key, value in payload.items())


def spoiling(change: Callable[[Any], Any]) -> Spoil:
    """Change the payloads of responses. `change` returns another payload, or None to keep the response."""

    def spoil(arrival: Arrival, answer: Response) -> Response | None:
        changed = None if arrival.payload is None else change(arrival.payload)
        return None if changed is None else with_content(dumps(changed).encode(), answer)

    return spoil


def spoiling_leaves(change: Leaf) -> Spoil:
    """Change all leaves of responses."""
    return spoiling(lambda payload: change_leaves(payload, change))


def spoiling_lists(change: Callable[[list[Any]], list[Any]]) -> Spoil:
    """Change all lists of responses."""

    def changed(payload: Any) -> Any:
        found = list(lists(payload))
        for each in found:
            each[:] = change(each)
        return payload if found else None

    return spoiling(changed)


def spoiling_rows(change: Leaf) -> Spoil:
    """Change the leaves of rows in responses with lists."""
    return spoiling_lists(lambda rows: [change_leaves(row, change) for row in rows])


def only(operation: str, spoil: Spoil) -> Spoil:
    """Change responses of one operation only."""
    return lambda arrival, answer: spoil(arrival, answer) if arrival.operation == operation else None


def refusing(status: int, **headers: str) -> Spoil:
    """Replace responses by an error."""
    said = {"code": "MadeToFail", "message": "made to fail"}
    return lambda arrival, answer: JSONResponse({**said, "error": said}, status, headers)


def _quoting(arrival: Arrival, answer: Response) -> Response:
    """Make a rejection that quotes the whole request in every field of errors."""
    quoted = " ".join((*arrival.headers.values(), arrival.url, arrival.body.decode("utf-8", "replace")))
    names = ("code", "message", "error_code", "error_msg", "request_id", "Code", "Message", "RequestId", "reason")
    said = dict.fromkeys(names, quoted)
    return JSONResponse({**said, "error": said}, 400, {"x-request-id": quoted[:200].replace("\n", " ")})


def _body(content: bytes) -> Spoil:
    return lambda arrival, answer: with_content(content, answer)


def _broken(kind: str) -> Spoil:
    return lambda arrival, answer: break_body(kind, answer)


def _wire(kind: str) -> Spoil:
    return lambda arrival, answer: Breaking(kind, answer if kind in NEED_THE_ANSWER else None)


def _invalid(kind: str) -> Spoil:
    """Change numbers, and numbers as text. Keep names."""
    of_number, of_text = INVALID[kind]

    def change(name: str, value: Any) -> Any:
        if not _is_number(name, value):
            return value
        return of_text(value) if isinstance(value, str) else of_number(value)

    return spoiling_leaves(change)


def _unset(written: str, counted: int) -> Spoil:
    """Replace every time, as text and as a number."""

    def change(name: str, value: Any) -> Any:
        if not _is_time(name, value):
            return value
        return written if isinstance(value, str) and _TIME.fullmatch(value) else type(value)(counted)

    return spoiling_leaves(change)


def _odd_detail(name: str, value: Any) -> Any:
    return value if _KEY.search(name) else other_types(value)


def _without_number(name: str, value: Any) -> Any:
    return REMOVED if _is_number(name, value) or _is_time(name, value) else value


def _hostile(name: str, value: Any) -> Any:
    return HOSTILE[len(name) % len(HOSTILE)] if isinstance(value, str) and not _NUMBER.fullmatch(value) else value


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One fault, and how to make it."""

    name: str
    meaning: str
    make: Spoil
    pauses: bool = False
    """Whether the exporter pauses the whole host, because the response asks for it."""
    renames: bool = False
    """Whether ids change, so that the page shows other objects."""
    keeps_jobs: bool = False
    """Whether what identifies a job and its state stays, so that each job is shown."""

    def __str__(self) -> str:
        return self.name


_WAIT = {"retry-after": "7"}
DENIED = FaultKind("denied", "403", refusing(403))
HANG = FaultKind("hang", "nothing ever comes", _wire("hang"))
QUOTING = FaultKind("quoting", "400, in which all that was asked is quoted, secrets too", _quoting)
WHOLE = (
    FaultKind("server error", "500", refusing(500)),
    FaultKind("unavailable", "503, with Retry-After", refusing(503, **_WAIT), pauses=True),
    FaultKind("throttled", "429, with Retry-After", refusing(429, **_WAIT), pauses=True),
    FaultKind("unauthorized", "401", refusing(401)),
    DENIED,
    FaultKind("not found", "404", refusing(404)),
    QUOTING,
    HANG,
    FaultKind("reset", "the connection is reset before an answer", _wire("reset")),
    FaultKind("cut off", "the answer ends in the middle", _wire("cut_off")),
    FaultKind("truncated", "JSON that ends in the middle", _broken("truncated")),
    FaultKind("login page", "200 with a page of HTML", _broken("html")),
    FaultKind("empty", "200 without a body", _body(b"")),
    FaultKind("null", "JSON null", _body(b"null")),
    FaultKind("list", "a JSON list in place of an object", _broken("wrong_top")),
    FaultKind("no object", "an empty JSON object: no list, no total, nothing", _body(b"{}")),
)
"""These make the whole response invalid: no part of it may be shown."""

ODD = (
    FaultKind("wrong types", "every value is of another type", spoiling_leaves(lambda name, value: other_types(value))),
    FaultKind("odd details", "values of rows are of other types, but for their ids", spoiling_rows(_odd_detail)),
    FaultKind("nulls", "every value is null", spoiling_leaves(lambda name, value: None)),
    FaultKind("missing numbers", "rows without numbers and times", spoiling_rows(_without_number), keeps_jobs=True),
    FaultKind("year 1", "times that are not set", _unset("0001-01-01T00:00:00Z", 0), keeps_jobs=True),
    FaultKind("year 1970", "the same", _unset("1970-01-01T08:00:00.000+08:00", -62_135_596_800), keeps_jobs=True),
    FaultKind("huge numbers", "1e400 for numbers", _invalid("infinite")),
    FaultKind("NaN", "NaN for numbers", _invalid("nan")),
    FaultKind("negative numbers", "numbers below 0", _invalid("negative")),
    FaultKind("hostile texts", "quotes, control characters, 10 kB for texts", spoiling_leaves(_hostile), renames=True),
)
"""These keep the form of a response. Invalid values must not be shown, and nothing may break."""
