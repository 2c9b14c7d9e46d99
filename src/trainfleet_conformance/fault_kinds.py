"""The faults that every operation of every cloud can have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from trainfleet_conformance.answers import is_identity, spoiling_leaves, spoiling_rows
from trainfleet_conformance.gateway import Answer, Arrival, Spoil
from trainfleet_simulator.broken_bodies import LOGIN, other_types
from trainfleet_simulator.rows import ENDLESS_NUMBER
from trainfleet_simulator.wire import Breaking

_RETRY_AFTER = {"retry-after": "7"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?([KMGT]i?)?")
_KEY = re.compile(r"^(id|uid|uuid)$|_id$|Id$|ID$")
_HOSTILE = (
    'a"b\\c\nd\re\tf\x00g',
    'x"} 1\n# TYPE trainfleet_injected gauge\ntrainfleet_injected 1\n',
    "\u202e\u2028</script><script>alert(1)</script>",
    "{} %s ${HOME} {{7*7}}",
    "long" * 2560,
)


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


def _status(status: int, headers: dict[str, str] | None = None) -> Spoil:
    said = {"code": "MadeToFail", "message": "made to fail"}
    return lambda arrival, answer: JSONResponse({**said, "error": said}, status, headers)


def _quoting(arrival: Arrival, answer: Answer) -> Response:
    """Make a rejection that quotes the whole request in every field of errors."""
    quoted = " ".join((*arrival.headers.values(), arrival.target, arrival.body.decode("utf-8", "replace")))
    names = ("code", "message", "error_code", "error_msg", "request_id", "Code", "Message", "RequestId", "reason")
    said = dict.fromkeys(names, quoted)
    return JSONResponse({**said, "error": said}, 400, {"x-request-id": quoted[:200].replace("\n", " ")})


def _wire(kind: str) -> Spoil:
    return lambda arrival, answer: Breaking(kind, answer.response() if kind == "cut_off" else None)


def _body(make: Callable[[bytes], bytes]) -> Spoil:
    return lambda arrival, answer: answer.response(make(answer.body))


def _detail(name: str, value: Any) -> Any:
    return value if _KEY.search(name) else other_types(value)


def _numbers(make: Callable[[float], Any], text: Callable[[str], str]) -> Spoil:
    """Change numbers, and numbers as text. Keep names."""

    def change(name: str, value: Any) -> Any:
        if is_identity(name) or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return make(value)
        return text(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value

    return spoiling_leaves(change)


def _hostile(name: str, value: Any) -> Any:
    return _HOSTILE[len(name) % len(_HOSTILE)] if isinstance(value, str) and not _NUMBER.fullmatch(value) else value


WHOLE = (
    FaultKind("server error", "500", _status(500)),
    FaultKind("unavailable", "503, with Retry-After", _status(503, _RETRY_AFTER), pauses=True),
    FaultKind("throttled", "429, with Retry-After", _status(429, _RETRY_AFTER), pauses=True),
    FaultKind("unauthorized", "401", _status(401), refusal=True),
    FaultKind("denied", "403", _status(403), refusal=True),
    FaultKind("not found", "404", _status(404)),
    FaultKind("quoting", "400, in which all that was asked is quoted, secrets too", _quoting, refusal=True),
    FaultKind("hang", "nothing ever comes", _wire("hang")),
    FaultKind("reset", "the connection is reset before an answer", _wire("reset")),
    FaultKind("cut off", "the connection is closed in the middle of the answer", _wire("cut_off")),
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
    FaultKind("odd details", "values of rows are of other types, but for their ids", spoiling_rows(_detail)),
    FaultKind("nulls", "every value is null", spoiling_leaves(lambda name, value: None)),
    FaultKind("huge numbers", "1e400 for numbers", _numbers(lambda value: ENDLESS_NUMBER, lambda text: "1e400")),
    FaultKind("NaN", "NaN for numbers", _numbers(lambda value: float("nan"), lambda text: "NaN")),
    FaultKind(
        "negative numbers",
        "numbers below 0",
        _numbers(lambda value: -(abs(value) or 1), lambda text: "-" + text.lstrip("-")),
    ),
    FaultKind(
        "hostile texts",
        "quotes, line breaks, control characters, 10 kB, for every text",
        spoiling_leaves(_hostile),
        renames=True,
    ),
)
"""These keep the form of a response. Invalid values must not be shown, and nothing may break."""


def whole(name: str) -> FaultKind:
    """Return the kind of this name."""
    return next(kind for kind in WHOLE if kind.name == name)
