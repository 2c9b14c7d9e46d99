"""A request and its response, and the interface between a simulated cloud and its application."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

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


class Cloud(Protocol):
    """One simulated cloud."""

    world: World

    def takes(self, request: ApiRequest) -> bool:
        """Return whether a request is for this cloud."""
        ...

    def identify(self, request: ApiRequest) -> Operation:
        """Return the operation of a request. Its name is `unknown` if this cloud does not have it."""
        ...

    def answer(self, request: ApiRequest, operation: Operation, now: float) -> Answer:
        """Check the identity, and respond. Raises ApiError."""
        ...

    def respond(self, answer: Answer, request_id: str) -> Response:
        """Return a response in this cloud's form."""
        ...

    def refuse(self, error: ApiError, request: ApiRequest, operation: Operation, request_id: str) -> Response:
        """Return a rejection in this cloud's form."""
        ...

    def usual(self, status: int) -> ApiError:
        """Return the error that this cloud usually sends with a status."""
        ...

    def refusal(self, kind: str, request: ApiRequest, operation: Operation) -> ApiError | None:
        """Return the error of this cloud for a kind of rejection; None if the operation has no such rejection."""
        ...

    def hint(self, seconds: int) -> Mapping[str, str]:
        """Return the headers, besides Retry-After, with the seconds to wait."""
        ...

    def code(self, body: Any) -> str:
        """Return the error code in the body of a rejection."""
        ...
