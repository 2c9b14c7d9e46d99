"""Changes responses of unknown shape: rows are the objects in lists, all other values are leaves. The tables WHOLE and
ODD have the faults of single responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from trainfleet_conformance.gateway import Arrival, Spoil, payload_of
from trainfleet_simulator.broken_bodies import LOGIN, other_types
from trainfleet_simulator.listener import Breaking
from trainfleet_simulator.rows import ENDLESS_NUMBER, dumps, with_content

Leaf = Callable[[str, Any], Any]
"""Makes another value for a field of that name; REMOVED removes the field."""
REMOVED = object()
_TOTAL = re.compile(r"total|count$", re.IGNORECASE)
_KEY = re.compile(r"^(id|uid|uuid)$|_id$|Id$|ID$")
_NAME = re.compile(r"^(key|name)$|_name$|Name$")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([KMGT]i?)?")


def is_identity(name: str) -> bool:
    """Return whether a field of that name identifies or describes its object, instead of counting something."""
    return any(form.search(name) for form in (_KEY, _NAME))


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


def change_rows(payload: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    """Return a response with its lists changed; None if it has no list."""
    found = list(lists(payload))
    for each in found:
        each[:] = change(list(each))
    return payload if found else None


def spoiling(change: Callable[[Any], Any]) -> Spoil:
    """Change the payloads of responses. `change` returns another payload, or None to keep the response."""

    def spoil(arrival: Arrival, answer: Response) -> Response | None:
        payload = payload_of(answer)
        changed = None if payload is None else change(payload)
        return None if changed is None else with_content(dumps(changed).encode(), answer)

    return spoil


def spoiling_leaves(change: Leaf) -> Spoil:
    """Change all leaves of responses."""
    return spoiling(lambda payload: change_leaves(payload, change))


def spoiling_rows(change: Leaf) -> Spoil:
    """Change the leaves of rows in responses with lists."""
    return spoiling(lambda payload: change_rows(payload, lambda rows: [change_leaves(row, change) for row in rows]))


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


def _body(make: Callable[[bytes], bytes]) -> Spoil:
    return lambda arrival, answer: with_content(make(bytes(answer.body)), answer)


def _numbers(make: Callable[[float], Any], text: Callable[[str], str]) -> Spoil:
    """Change numbers, and numbers as text. Keep names."""

    def change(name: str, value: Any) -> Any:
        if is_identity(name) or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return make(value)
        return text(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value

    return spoiling_leaves(change)


_HOSTILE = (
    'a"b\\c\nd\re\tf\x00g',
    'x"} 1\n# TYPE trainfleet_injected gauge\ntrainfleet_injected 1\n',
    "\u202e\u2028</script><script>alert(1)</script>",
    "{} %s ${HOME} {{7*7}}",
    "long" * 2560,
)


def _hostile(name: str, value: Any) -> Any:
    return _HOSTILE[len(name) % len(_HOSTILE)] if isinstance(value, str) and not _NUMBER.fullmatch(value) else value


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One fault. A `refusal` rejects the credentials; a provider may then pause them."""

    name: str
    meaning: str
    make: Spoil
    refusal: bool = False
    pauses: bool = False
    """Whether the exporter pauses the whole host, because the response asks for it."""
    renames: bool = False
    """Whether ids change, so that the page shows other objects."""

    def __str__(self) -> str:
        return self.name


WAIT = {"retry-after": "7"}
DENIED = FaultKind("denied", "403", refusing(403), refusal=True)
HANG = FaultKind("hang", "nothing ever comes", lambda arrival, answer: Breaking("hang"))
QUOTING = FaultKind("quoting", "400, in which all that was asked is quoted, secrets too", _quoting, refusal=True)
WHOLE = (
    FaultKind("server error", "500", refusing(500)),
    FaultKind("unavailable", "503, with Retry-After", refusing(503, **WAIT), pauses=True),
    FaultKind("throttled", "429, with Retry-After", refusing(429, **WAIT), pauses=True),
    FaultKind("unauthorized", "401", refusing(401), refusal=True),
    DENIED,
    FaultKind("not found", "404", refusing(404)),
    QUOTING,
    HANG,
    FaultKind("reset", "the connection is reset before an answer", lambda arrival, answer: Breaking("reset")),
    FaultKind("cut off", "the answer ends in the middle", lambda arrival, answer: Breaking("cut_off", answer)),
    FaultKind("truncated", "JSON that ends in the middle", _body(lambda body: body[: len(body) // 2])),
    FaultKind("login page", "200 with a page of HTML", lambda arrival, answer: HTMLResponse(LOGIN)),
    FaultKind("empty", "200 without a body", _body(lambda body: b"")),
    FaultKind("null", "JSON null", _body(lambda body: b"null")),
    FaultKind("list", "a JSON list in place of an object", _body(lambda body: b"[" + (body or b"{}") + b"]")),
    FaultKind("no object", "an empty JSON object: no list, no total, nothing", _body(lambda body: b"{}")),
)
"""These make the whole response invalid: no part of it may be shown."""

ODD = (
    FaultKind("wrong types", "every value is of another type", spoiling_leaves(lambda name, value: other_types(value))),
    FaultKind(
        "odd details",
        "values of rows are of other types, but for their ids",
        spoiling_rows(lambda name, value: value if _KEY.search(name) else other_types(value)),
    ),
    FaultKind("nulls", "every value is null", spoiling_leaves(lambda name, value: None)),
    FaultKind("huge numbers", "1e400 for numbers", _numbers(lambda value: ENDLESS_NUMBER, lambda text: "1e400")),
    FaultKind("NaN", "NaN for numbers", _numbers(lambda value: float("nan"), lambda text: "NaN")),
    FaultKind(
        "negative numbers",
        "numbers below 0",
        _numbers(lambda value: -(abs(value) or 1), lambda text: "-" + text.lstrip("-")),
    ),
    FaultKind("hostile texts", "quotes, control characters, 10 kB for texts", spoiling_leaves(_hostile), renames=True),
)
"""These keep the form of a response. Invalid values must not be shown, and nothing may break."""
