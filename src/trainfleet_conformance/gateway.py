"""A gateway between the exporter and a simulated cloud. It knows each request's operation, counts requests and changes
responses.

It learns operations from the calls that the provider's dialect signs, not from paths. A request that arrives unsigned
did not use the transport.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from unittest import mock

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfleet_exporter.transport import CALLER, ApiClient, Call, Dialect, SignedRequest, Transport

UNSIGNED = "(not by the transport)"


class PretendCloud(Protocol):
    """A simulated cloud that follows the cloud's documentation. The kit serves it over loopback.

    Its data are constant, so two pages can be compared. Its lists have several pages if the cloud has pages. It rejects
    requests without valid credentials.
    """

    @property
    def app(self) -> ASGIApp:
        """The ASGI application of the cloud."""

    def live_jobs(self) -> Mapping[str, str]:
        """Return the ids of the live jobs, each with its state in the cloud's word."""

    def forget(self, job_id: str) -> None:
        """Delete a live job: lists leave it out, and a call with its id returns 404."""

    def end(self, job_id: str, word: str) -> None:
        """End a live job now (`time.time()`) in this state, in which it holds nothing. Report it like other ended jobs,
        and change no other job."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request at the simulated cloud. `at` is loop time; `collector` is empty if no collector sent it."""

    at: float
    api: str
    operation: str
    collector: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the simulated cloud."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def payload(self) -> Any:
        """The decoded JSON; None if the body is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def response(self, body: bytes | None = None) -> Response:
        """Make the response again, with the same body or another one."""
        kept = {name: value for name, value in self.headers.items() if body is None or name != "content-length"}
        return Response(self.body if body is None else body, self.status, kept)


Spoil = Callable[[Arrival, Answer], Response | None]
"""Makes another response from the true one; None keeps it."""


def keep(arrival: Arrival, answer: Answer) -> Response | None:
    """Change no response."""
    return None


class Signatures:
    """Recently signed requests, and the credentials that they sent."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str, bytes], tuple[str, str, str]] = {}
        self.secrets: set[str] = set()

    def note(self, api: str, call: Call, signed: SignedRequest) -> None:
        """Record a request."""
        caller = CALLER.get()
        collector = "" if caller is None else caller.collector
        self._operations[signed.method, signed.target, signed.body] = (api, call.operation, collector)
        self.secrets.update((*signed.secrets, *call.secrets))

    def find(self, method: str, target: str, body: bytes) -> tuple[str, str, str]:
        """Return API, operation and collector of a request."""
        return self._operations.get((method, target, body), ("", UNSIGNED, ""))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record every request that a client signs inside this block."""
        open_client = Transport.client

        def client(transport: Transport, base_url: str, dialect: Dialect) -> ApiClient:
            return open_client(transport, base_url, cast("Dialect", _Watched(dialect, self)))

        with mock.patch.object(Transport, "client", client):
            yield


class _Watched:
    """A dialect that records what it signs."""

    def __init__(self, dialect: Dialect, signatures: Signatures) -> None:
        self._dialect = dialect
        self._signatures = signatures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign a request, and record it before the transport sends it."""
        signed = self._dialect.sign(call, host)
        self._signatures.note(self._dialect.api, call, signed)
        return signed


class Gateway:
    """Serves the simulated cloud (ASGI). `spoil` changes responses; `delay` is the seconds before each response."""

    def __init__(self, cloud: ASGIApp, signatures: Signatures) -> None:
        self._cloud = cloud
        self._signatures = signatures
        self.spoil: Spoil = keep
        self.delay = 0.0
        self.arrivals: list[Arrival] = []
        self.payloads: dict[str, list[Any]] = {}
        """By operation, the true responses."""
        self.spoilt = 0
        """The number of changed responses."""
        self.at_once: Counter[str] = Counter()
        """By API, the largest number of requests in flight at a time."""
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request (ASGI)."""
        request = Request(scope, receive)
        body = await request.body()
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1").partition("?")[0] + (f"?{query}" if query else "")
        api, operation, collector = self._signatures.find(request.method, target, body)
        now = asyncio.get_running_loop().time()
        arrival = Arrival(now, api, operation, collector, target, dict(request.headers), body)
        self.arrivals.append(arrival)
        self._under_way[api] += 1
        self.at_once[api] = max(self.at_once[api], self._under_way[api])
        try:
            await asyncio.sleep(self.delay)
            answer = await self._ask(scope, body)
            response = self.spoil(arrival, answer)
            if response is None:
                self.payloads.setdefault(operation, []).append(answer.payload)
                response = answer.response()
            else:
                self.spoilt += 1
            await response(scope, receive, send)
        finally:
            self._under_way[api] -= 1

    async def _ask(self, scope: Scope, body: bytes) -> Answer:
        """Return the response of the cloud itself."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._cloud(scope, receive, send)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))
