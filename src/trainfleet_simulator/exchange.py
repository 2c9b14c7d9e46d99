"""A request and its response, and the interface between a simulated cloud and its application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from starlette.responses import Response

from trainfleet_simulator.world.fleet import World


def utc_text(at: float) -> str:
    """Unix seconds as both clouds write most times."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ApiError(Exception):
    """An answer that refuses, with the service's own code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request as it came: path as on the wire, query decoded, header names in lower case."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """The operation that a request calls, as `/truth` and `/faults` name it, and its parameters."""

    api: str
    name: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no error, and what `/truth` notes of it."""

    body: dict[str, Any] | None
    total: int | None = None
    rows: list[list[Any]] = field(default_factory=list)
    no_data: bool = False
    """A well-formed answer that holds nothing."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    """What is sent as plain text instead of a body."""


class Cloud(Protocol):
    """One simulated cloud."""

    world: World

    def takes(self, request: ApiRequest) -> bool:
        """Whether a request is meant for this cloud."""
        ...

    def identify(self, request: ApiRequest) -> Operation:
        """The operation that a request calls; its name is `unknown` if this cloud has no such operation."""
        ...

    def answer(self, request: ApiRequest, operation: Operation, now: float) -> Answer:
        """Check who asks, and answer. Raises ApiError."""
        ...

    def respond(self, answer: Answer, request_id: str) -> Response:
        """An answer as this cloud sends it."""
        ...

    def refuse(self, error: ApiError, request: ApiRequest, operation: Operation, request_id: str) -> Response:
        """A refusal as this cloud sends it."""
        ...

    def usual(self, status: int) -> ApiError:
        """What this cloud says with such a status, where a fault does not say it."""
        ...

    def refusal(self, kind: str, request: ApiRequest, operation: Operation) -> ApiError | None:
        """What this cloud says when it refuses for a named reason; None if the operation knows no such reason."""
        ...

    def hint(self, seconds: int) -> Mapping[str, str]:
        """The headers, besides Retry-After, in which this cloud says how long to wait."""
        ...

    def code(self, body: Any) -> str:
        """The error code in the body of a refusal."""
        ...
