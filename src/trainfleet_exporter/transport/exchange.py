"""One request and its response by a deadline, or a CloudError that says why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import lru_cache
from typing import TypeVar

import httpx

from trainfleet_exporter import __version__
from trainfleet_exporter.errors import BadAnswer, CloudError, RequestRefused, RequestTimedOut, Unreachable
from trainfleet_exporter.transport.body import read_wire, unpack
from trainfleet_exporter.transport.calls import Call, HttpAnswer, HttpSettings, SignedRequest
from trainfleet_exporter.transport.payload import SHORT_FIELD, decode_short_fields

_DEFAULT_HEADERS = (
    ("accept", "application/json"),
    ("accept-encoding", "gzip"),
    ("user-agent", f"trainfleet-exporter/{__version__}"),
)
_ERROR_FIELD = 64 * 1024
"""Bytes of a field of an error up to which a dialect sees it: messages quote whole requests."""
_OUR_FAULT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)

T = TypeVar("T")


@lru_cache(maxsize=512)  # most polls ask for the same targets again, and httpx takes 15 µs to parse one
def _url(text: str) -> httpx.URL:
    return httpx.URL(text)


class Exchange:
    """Sends signed requests to one origin (`scheme://host[:port]`) through an httpx transport."""

    def __init__(self, origin: str, host: str, send: httpx.AsyncBaseTransport, http: HttpSettings) -> None:
        self._origin, self._host, self._transport, self._http = origin, host, send, http

    async def send(self, call: Call, signed: SignedRequest, deadline: float, *, accept: Callable[[HttpAnswer], T]) -> T:
        """Return what `accept` makes of the complete response of any status.

        `accept` decodes only one large response at a time (transport.body).

        The time limit is the request timeout or the time until `deadline` (loop time), whichever is shorter.
        """
        started = asyncio.get_running_loop().time()
        try:
            request = self._request(signed)
            async with asyncio.timeout_at(min(deadline, started + self._http.request_timeout)):
                return await self._exchange(request, call, accept)
        except TimeoutError:
            waited = asyncio.get_running_loop().time() - started
            limit = "the poll's deadline" if deadline < started + self._http.request_timeout else "the request timeout"
            raise RequestTimedOut(
                f"{self._host}: no complete answer after {waited:.1f} s, because {limit} passed"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as failed:
            raise self._translate(failed) from None

    def _request(self, signed: SignedRequest) -> httpx.Request:
        """Return the request. Its target is sent byte for byte as signed (httpx's extension `target`)."""
        if not (signed.target.isascii() and signed.target.isprintable()):
            raise httpx.LocalProtocolError("the request cannot be written as HTTP")
        named = {name.lower() for name in signed.headers}
        try:
            return httpx.Request(
                signed.method,
                _url(self._origin + signed.target),
                headers=[*signed.headers.items(), *(each for each in _DEFAULT_HEADERS if each[0] not in named)],
                stream=httpx.ByteStream(signed.body),  # as `content`, httpx would look for headers to add
                extensions={"target": signed.target.encode("ascii")},
            )
        except UnicodeEncodeError:
            raise httpx.LocalProtocolError("the request cannot be written as HTTP") from None

    async def _exchange(self, request: httpx.Request, call: Call, accept: Callable[[HttpAnswer], T]) -> T:
        response = await self._transport.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        async with AsyncExitStack() as until_decoded:
            try:
                try:
                    wire = await read_wire(response.stream, call.limits, until_decoded)
                finally:
                    await response.aclose()
                encoding = response.headers.get("content-encoding", "")
                body = await unpack(wire, encoding, call.limits, until_decoded)
            except BadAnswer as error:
                raise BadAnswer(f"{self._host}: {error.message}", status=response.status_code) from None
            payload = decode_short_fields(body, SHORT_FIELD if response.is_success else _ERROR_FIELD)
            return accept(HttpAnswer(response.status_code, response.headers, body, payload))

    def _translate(self, error: httpx.HTTPError | httpx.InvalidURL) -> CloudError:
        what = f"{self._host}: {str(error) or type(error).__name__}"
        if isinstance(error, httpx.TimeoutException):
            return RequestTimedOut(what)
        if isinstance(error, _OUR_FAULT):
            return RequestRefused(what)
        return Unreachable(what)
