"""A request and its response, and the interface between a simulated cloud and its application."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from trainfleet_simulator.world.fleet import World


def utc_text(at: float) -> str:
    """Format Unix seconds as the clouds write most times."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def route_name(routes: Mapping[tuple[str, str], re.Pattern[str]], request: ApiRequest) -> str:
    """Return the name of a request by the method and path of a route; `unknown` for other requests."""
    for (method, name), path in routes.items():
        if method == request.method and path.fullmatch(request.path):
            return name
    return "unknown"


class ApiError(Exception):
    """A rejection, with the service's own code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One received request: path as on the wire, query decoded, header names in lower case."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """The operation of a request, with its name in `/truth` and `/faults`, and its parameters."""

    api: str
    name: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response without an error, and the fields that `/truth` records of it."""

    body: dict[str, Any] | None
    total: int | None = None
    rows: list[list[Any]] = field(default_factory=list)
    no_data: bool = False
    """Whether a well-formed response has no data."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    """Plain text that is sent instead of a body."""


Row = tuple[str, tuple[int, str, str] | None]
"""Names of APIs, operations or `token`, of which one must fit (empty: all); the error, None if there is none."""
Table = Mapping[str, Sequence[Row]]
"""The rows of a kind of rejection; the first that fits counts. Messages may have {api}, {name}, {key} and {date}."""
_KEY = re.compile(r"Access=([^,\s]+)")


def refusal(table: Table, kind: str, request: ApiRequest, operation: Operation) -> ApiError | None:
    """Return a cloud's error for a kind of rejection; None if the operation has no such error."""
    key = _KEY.search(request.headers.get("authorization", ""))
    about = {
        "api": operation.api,
        "name": operation.name,
        "key": key[1] if key else "",
        "date": request.headers.get("x-amz-date", ""),
    }
    facts = {operation.api, operation.name, *(["token"] if "x-auth-token" in request.headers else [])}
    for names, error in table.get(kind.removesuffix("_hint"), ()):
        if not names or not facts.isdisjoint(names.split()):
            return None if error is None else ApiError(error[0], error[1], error[2].format_map(about))
    return None


ON_REQUEST = "The simulator fails on request."


def said_on_request(codes: Mapping[int, str]) -> Mapping[int, tuple[str, str]]:
    """Return the codes with the same message each."""
    return {status: (code, ON_REQUEST) for status, code in codes.items()}


class Cloud(ABC):
    """One simulated cloud."""

    world: World
    refusals: Table
    """Its errors by the name of the reason."""
    usual_codes: Mapping[int, tuple[str, str]]
    """Its usual code and message by status."""
    other_code: str
    """Its code for every other status."""
    code_fields: tuple[str, ...]
    """The fields of a rejection that may have its code."""

    @abstractmethod
    def takes(self, request: ApiRequest) -> bool:
        """Return whether a request is for this cloud."""

    @abstractmethod
    def identify(self, request: ApiRequest) -> Operation:
        """Return the operation of a request. Its name is `unknown` if this cloud does not have it."""

    @abstractmethod
    def answer(self, request: ApiRequest, operation: Operation, now: float) -> Answer:
        """Check the identity, and respond. Raises ApiError."""

    @abstractmethod
    def respond(self, answer: Answer, request_id: str) -> Response:
        """Return a response in this cloud's form."""

    @abstractmethod
    def refuse(self, error: ApiError, request: ApiRequest, operation: Operation, request_id: str) -> Response:
        """Return a rejection in this cloud's form."""

    def usual(self, status: int) -> ApiError:
        """Return the error that this cloud usually sends with a status."""
        return ApiError(status, *self.usual_codes.get(status, (self.other_code, ON_REQUEST)))

    def refusal(self, kind: str, request: ApiRequest, operation: Operation) -> ApiError | None:
        """Return the error of this cloud for a kind of rejection; None if the operation has no such rejection."""
        return refusal(self.refusals, kind, request, operation)

    def hint(self, seconds: int) -> Mapping[str, str]:
        """Return the headers, besides Retry-After, with the seconds to wait."""
        return {}

    def code(self, body: Any) -> str:
        """Return the error code in the body of a rejection."""
        if not isinstance(body, dict):
            return ""
        found = next((str(body[name]) for name in self.code_fields if body.get(name)), "")
        return found.rpartition("#")[2]
