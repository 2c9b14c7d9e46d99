"""A gateway between the exporter and a pretend cloud: it knows each request's operation, counts requests and spoils
answers.

Operations are not guessed from paths: whatever the provider's own dialect signs is noted with its call's operation.
A request that arrives without having been signed did not use the transport.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest import mock

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.transport import CALLER, ApiClient, Call, Dialect, HttpAnswer, SignedRequest, Transport

UNSIGNED = "(not by the transport)"


class PretendCloud(Protocol):
    """A cloud as its documentation describes it. It is served over loopback; the provider calls it like the real one.

    It does not change by itself, so that two pages can be compared. Its lists have more than one page if the cloud has
    pages. It refuses requests without valid credentials.
    """

    @property
    def app(self) -> ASGIApp:
        """The ASGI application that answers."""
        ...

    def live_jobs(self) -> Mapping[str, str]:
        """The ids of the jobs that have not ended, each with its state in the cloud's own word."""
        ...

    def forget(self, job_id: str) -> None:
        """Delete a live job: no list has it, and its id is not found."""
        ...

    def end(self, job_id: str, word: str) -> None:
        """A live job ends now (`time.time()`) in this state, one in which nothing is held. It is reported as ended jobs
        are, and no other job changes for it."""
        ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request at the pretend cloud. `at` is loop time; `collector` is who polled, empty if no collector did."""

    at: float
    api: str
    operation: str
    collector: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the pretend cloud said."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def payload(self) -> Any:
        """Its JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def response(self, body: bytes | None = None) -> Response:
        """The same again, or with another body."""
        kept = {name: value for name, value in self.headers.items() if body is None or name != "content-length"}
        return Response(self.body if body is None else body, self.status, kept)


Spoil = Callable[[Arrival, Answer], Response | None]
"""Makes another answer of a true one; None leaves it as it is."""


class Signatures:
    """What was signed lately, and what was sent to prove who asks."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str, bytes], tuple[str, str, str]] = {}
        self.secrets: set[str] = set()

    def note(self, api: str, call: Call, signed: SignedRequest) -> None:
        """A request is about to be sent."""
        caller = CALLER.get()
        collector = "" if caller is None else caller.collector
        self._operations[signed.method, signed.target, signed.body] = (api, call.operation, collector)
        self.secrets.update((*signed.secrets, *call.secrets))

    def find(self, method: str, target: str, body: bytes) -> tuple[str, str, str]:
        """API, operation and collector of a request."""
        return self._operations.get((method, target, body), ("", UNSIGNED, ""))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note whatever any client signs in here."""
        open_client = Transport.client

        def client(transport: Transport, base_url: str, dialect: Dialect) -> ApiClient:
            return open_client(transport, base_url, _Watched(dialect, self))

        with mock.patch.object(Transport, "client", client):
            yield


class _Watched:
    """A dialect, and a note of what it signs."""

    def __init__(self, dialect: Dialect, signatures: Signatures) -> None:
        self._dialect = dialect
        self._signatures = signatures

    @property
    def api(self) -> str:
        return self._dialect.api

    async def prepare(self, call: Call, deadline: float) -> object:
        return await self._dialect.prepare(call, deadline)

    def refused(self, error: AccessDenied, mark: object) -> bool:
        return self._dialect.refused(error, mark)

    def sign(self, call: Call, host: str) -> SignedRequest:
        signed = self._dialect.sign(call, host)
        self._signatures.note(self.api, call, signed)
        return signed

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        return self._dialect.judge(answer)


class Gateway:
    """The pretend cloud as it is served (ASGI). `spoil` changes answers; `delay` is the seconds that each one takes."""

    def __init__(self, cloud: ASGIApp, signatures: Signatures) -> None:
        self._cloud = cloud
        self._signatures = signatures
        self.spoil: Spoil = lambda arrival, answer: None
        self.delay = 0.0
        self.arrivals: list[Arrival] = []
        self.payloads: dict[str, list[Any]] = {}
        """By operation, what was answered truly."""
        self.spoilt = 0
        """How many answers were spoilt."""
        self.at_once: Counter[str] = Counter()
        """By API, the most requests that were under way at a time."""
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
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
        """What the cloud itself says."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._cloud(scope, receive, send)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))
