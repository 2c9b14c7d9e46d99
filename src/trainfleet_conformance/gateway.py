"""A gateway between the exporter and a simulated cloud. It knows each request's operation, counts requests and changes
responses.

It marks each request that the provider's dialect signs, so it needs no paths. A request without a mark did not use the
transport.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast
from unittest import mock

from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from trainfleet_exporter.transport import CALLER, ApiClient, Call, Dialect, SignedRequest, Transport

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


@dataclass(slots=True)
class Arrival:
    """A request at the simulated cloud. `api` is empty if the transport did not send it, `collector` if no poll did."""

    api: str
    operation: str
    collector: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    payload: Any = field(default=None, repr=False)
    """The decoded JSON of the true response; None if it is not JSON."""
    at: float = field(default_factory=time.time)


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


class Gateway(BaseHTTPMiddleware):
    """Serves the simulated cloud (ASGI). `spoil` changes responses; `delay` is the seconds before each of them."""

    def __init__(self, cloud: ASGIApp) -> None:
        super().__init__(cloud)
        self.spoil: Spoil | None = None
        self.delay = 0.0
        self.arrivals: list[Arrival] = []
        self.spoilt = 0
        """The number of changed responses."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Respond to a request."""
        api, operation, collector = json.loads(request.headers.get(_MARK, '["", "", ""]'))
        body = await request.body()
        arrival = Arrival(api, operation, collector, str(request.url), dict(request.headers), body)
        self.arrivals.append(arrival)
        await asyncio.sleep(self.delay)
        streamed: Any = await call_next(request)
        content = b"".join([chunk async for chunk in streamed.body_iterator])
        answer = Response(content, streamed.status_code, dict(streamed.headers))
        arrival.payload = payload_of(answer)
        spoilt = None if self.spoil is None else self.spoil(arrival, answer)
        self.spoilt += spoilt is not None
        return spoilt or answer
