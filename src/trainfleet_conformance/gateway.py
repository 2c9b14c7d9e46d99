"""A gateway between the exporter and a simulated cloud. It knows each request's operation, counts requests and changes
responses.

It marks each request that the provider's dialect signs, so it needs no paths. A request without a mark did not use the
transport.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast
from unittest import mock

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfleet_exporter.transport import CALLER, ApiClient, Call, Dialect, SignedRequest, Transport

UNSIGNED = "(not by the transport)"
_MARK = "x-conformance-call"


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
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


Spoil = Callable[[Arrival, Response], Response | None]
"""Makes another response from the true one; None keeps it."""


def payload_of(answer: Response) -> Any:
    """Return the decoded JSON of a response; None if its body is not JSON."""
    try:
        return json.loads(bytes(answer.body))
    except ValueError:
        return None


@contextmanager
def marking() -> Iterator[None]:
    """Mark every request that a client signs inside this block."""
    open_client = Transport.client

    def client(transport: Transport, base_url: str, dialect: Dialect) -> ApiClient:
        return open_client(transport, base_url, cast("Dialect", _Marking(dialect)))

    with mock.patch.object(Transport, "client", client):
        yield


class _Marking:
    """A dialect that adds a header with API, operation and collector to what another dialect signs."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign a request, and mark it."""
        signed = self._dialect.sign(call, host)
        caller = CALLER.get()
        mark = json.dumps((self._dialect.api, call.operation, caller.collector if caller else ""))
        return replace(signed, headers={**signed.headers, _MARK: mark})


class Gateway:
    """Serves the simulated cloud (ASGI). `spoil` changes responses; `delay` is the seconds before each response."""

    def __init__(self, cloud: ASGIApp) -> None:
        self._cloud = cloud
        self.spoil: Spoil | None = None
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
        mark = request.headers.get(_MARK)
        api, operation, collector = json.loads(mark) if mark else ("", UNSIGNED, "")
        now = asyncio.get_running_loop().time()
        arrival = Arrival(now, api, operation, collector, str(request.url), dict(request.headers), body)
        self.arrivals.append(arrival)
        self._under_way[api] += 1
        self.at_once[api] = max(self.at_once[api], self._under_way[api])
        try:
            await asyncio.sleep(self.delay)
            answer = await self._ask(scope, body)
            spoilt = None if self.spoil is None else self.spoil(arrival, answer)
            if spoilt is None:
                self.payloads.setdefault(operation, []).append(payload_of(answer))
            else:
                self.spoilt += 1
            await (spoilt or answer)(scope, receive, send)
        finally:
            self._under_way[api] -= 1

    async def _ask(self, scope: Scope, body: bytes) -> Response:
        """Return the response of the cloud itself."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._cloud(scope, receive, send)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Response(b"".join(message.get("body", b"") for message in sent[1:]), sent[0]["status"], headers)
