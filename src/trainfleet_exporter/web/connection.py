"""One client's connection: HTTP/1.1 by uvicorn, with a deadline for each step and limits on what a request may have.

    connected ──10 s for the request's head──► answering ──300 s to read the whole answer──► idle ──75 s──► closed
                     ▲                                                                        │
                     └──────────────────────── first byte of the next request ────────────────┘

uvicorn alone waits for requests, for their rest and for readers of answers without an end, and keeps all that clients
send. The pages need only the head of a request: this class reads and drops its body.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Literal

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.web.connection_limiter import Slot

log = logging.getLogger(__name__)

_EXTENSION = "trainfleet_exporter.connection"
"""The key of this extension in an ASGI scope."""

HEAD_SECONDS = 10.0
"""From the connection, or the first byte of a request, to the end of the request's head; and as long for its body,
from the end of the answer."""
ANSWER_SECONDS = 300.0
"""Seconds to make and read a response: much longer than any scrape may take."""
IDLE_SECONDS = 75
"""Seconds between requests: longer than a scrape interval, so that Prometheus keeps its connection (and its TLS
session)."""
PARTING_SECONDS = 10.0
"""Seconds for a client to read the rest of its last response, after the exporter has written all of it."""
_LINGER_SECONDS = 1.0
"""Seconds for a rejected client to stop sending, or to close the connection."""
REQUEST_BYTES = 64 << 10
"""Bytes of a request: its head and its body."""
HEADERS_AT_MOST = 100
"""Headers of a request: each takes more memory than the four bytes that it may have."""
TARGET_BYTES = 8 << 10
"""Bytes of a request's target: path and query."""
PIPELINED = 4
"""Requests that may wait for the answer to an earlier one."""

SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
}
"""For browsers: do not guess the type of a response, do not run it, and do not show it in another site's page."""
_REFUSAL = (
    b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n"
    + "".join(f"{name}: {value}\r\n" for name, value in SECURITY_HEADERS.items()).encode()
    + b"\r\n%s\n"
)


class _BadRequestError(Exception):
    """The request is invalid, exceeds a limit, or is one too many."""


_UVICORN_LOG = logging.getLogger("uvicorn.error.connection")
_UVICORN_LOG.setLevel(logging.ERROR)  # its warnings are about what clients send, who could fill a log


class Connection(HttpToolsProtocol):
    """One connection, which an application can abort by the scope of a request (see `abort_of`)."""

    def __init__(self, config: uvicorn.Config, state: ServerState, slot: Slot) -> None:
        super().__init__(config, state, app_state={})
        self.logger = _UVICORN_LOG
        self._slot = slot
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None
        """The request that is being answered; others may wait behind it."""
        self._is_idle = False
        """Whether no byte has come since the last response."""
        self._incomplete: Literal["head", "body"] | None = None
        """The part of a request that has begun and not ended."""
        self._request_bytes = 0
        """Bytes of the request so far, in reads that may also hold the end of another one."""
        self._read_bytes = 0
        """Bytes of the latest read."""
        self._header_count = 0
        self._status = 400
        """The status for requests that the parser rejects."""
        self._is_refused = False
        """Whether the connection has stopped reading."""

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._slot.close = self.abort
        self._set_deadline(HEAD_SECONDS, self._request_timed_out)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._slot.release()
        answering, self._answering = self._answering, None  # which has this connection, in a circle
        if answering is not None:
            # uvicorn notifies only the last waiting request: this one would keep writing.
            answering.disconnected = True
            answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        if self._is_idle:
            self._is_idle = False
            self._set_deadline(HEAD_SECONDS, self._request_timed_out)
        self._read_bytes = len(data)
        self._request_bytes += self._read_bytes
        super().data_received(data)
        if self._incomplete and self._request_bytes > REQUEST_BYTES and not self._is_refused:
            self._refuse(431 if self._incomplete == "head" else 413)

    def pause_writing(self) -> None:
        """The client has not read the latest bytes."""
        super().pause_writing()
        self._slot.stall()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._slot.resume()

    def shutdown(self) -> None:
        """The server stops: close this connection, after its answer if there is one under way."""
        if self._answering is not None:
            super().shutdown()
        elif not self.transport.is_closing():
            self._close()

    # A request.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.scope["extensions"] = {_EXTENSION: {"connection": weakref.ref(self)}}
        self._incomplete = "head"
        self._request_bytes, self._header_count = self._read_bytes, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one after a chunked body."""
        self._header_count += 1
        if self._header_count > HEADERS_AT_MOST:
            self._status = 431
            raise _BadRequestError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The end of a request's head: its handler is about to begin."""
        if len(self.pipeline) >= PIPELINED:
            raise _BadRequestError
        if len(self.url) > TARGET_BYTES:
            self._status = 414
        elif sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > REQUEST_BYTES:
            self._status = 431
        elif any(name == b"content-length" and int(value) > REQUEST_BYTES for name, value in self.headers):
            self._status = 413
        hosts = sum(name == b"host" for name, _ in self.headers)
        lacks_host = hosts == 0 and self.parser.get_http_version() == "1.1"
        if self._status != 400 or lacks_host or hosts > 1:  # RFC 9112, 3.2
            raise _BadRequestError
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().on_headers_complete()
        self._incomplete = "body"

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        super().on_message_complete()
        self._incomplete = None
        if self._answering is None and not self._is_refused and not self.transport.is_closing():  # answered before
            self._await_request()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        self._slot.begin_answer()
        if self.flow.write_paused:  # by the answer before this one
            self._slot.stall()
        self._set_deadline(ANSWER_SECONDS, self.abort)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """All of an answer is written."""
        self._answering = None
        super().on_response_complete()
        self._unset_keepalive_if_required()  # uvicorn's own timer
        if self._answering is None:  # else the next one has begun
            self._go_on()

    def _go_on(self) -> None:
        """Wait for the next request, or for the rest of one; or end the connection."""
        self._slot.end_answer()
        if self.transport.is_closing():
            self._set_deadline(PARTING_SECONDS, self.transport.abort)
        elif self._is_refused:
            self._close_slowly()
        elif self._incomplete:
            self._set_deadline(HEAD_SECONDS, self._request_timed_out)
        else:
            self._await_request()

    def _await_request(self) -> None:
        self._is_idle = True
        self._set_deadline(IDLE_SECONDS, self._close)

    def send_400_response(self, msg: str) -> None:
        """Handle an invalid request, or one that exceeds a limit."""
        self._refuse(self._status)

    # The deadline, and how a connection ends.

    def _set_deadline(self, seconds: float, action: Callable[[], None]) -> None:
        """Act after this number of seconds, unless another deadline is set before."""
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, action)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _request_timed_out(self) -> None:
        log.debug("request timed out", extra=fields(client=self.client))
        if self._incomplete == "head":
            self._refuse(408)
        else:
            self._close()

    def _refuse(self, status: int) -> None:
        """Stop reading. Send this status, unless a response is in progress: then that one is the last."""
        log.debug("request refused", extra=fields(client=self.client, status=status))
        self._is_refused = True
        if self._answering is None:
            if self._incomplete != "body":  # else the request was answered before its end
                reason = HTTPStatus(status).phrase.encode()
                self.transport.write(_REFUSAL % (status, reason, len(reason) + 1, reason))
            self._close_slowly()

    def _close_slowly(self) -> None:
        """Close after a moment: if the client's bytes are unread, the last response could be lost."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
            is_sent = not self.transport.get_write_buffer_size()
            self._set_deadline(_LINGER_SECONDS if is_sent else PARTING_SECONDS, self.transport.abort)
        else:
            self._close()

    def _close(self) -> None:
        """Close an idle connection; send TLS's close message without waiting for the reply."""
        self.transport.close()
        self._set_deadline(_LINGER_SECONDS, self.transport.abort)

    def abort(self) -> None:
        """Close the connection at once: bytes that are not sent yet are lost, and the client sees a broken connection
        instead of a short answer."""
        if self._answering is not None:
            # Otherwise its handler learns of the end too late. It would continue to write, and uvicorn logs an error
            # about a handler that returns before the end of its response.
            self._answering.disconnected = True
        self.transport.abort()


def abort_of(scope: Scope) -> Callable[[], None]:
    """Return the function that aborts the connection of an ASGI scope. It does nothing on another server, which closes
    the connection anyway when a handler returns before the end of its answer."""
    extension = scope.get("extensions", {}).get(_EXTENSION, {})
    connection: Connection | None = extension["connection"]() if extension else None
    return connection.abort if connection is not None else lambda: None


def with_security_headers(app: ASGIApp) -> ASGIApp:
    """Return the application with SECURITY_HEADERS in its answers, unless they have their own of the same name."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, with_headers(SECURITY_HEADERS, send, replace=False))

    return call


def with_headers(headers: Mapping[str, str], send: Send, *, replace: bool) -> Send:
    """Return a `send` that adds these headers to an answer. If it has one of the same name, `replace` decides."""

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer = MutableHeaders(scope=message)
            for name, value in headers.items():
                if replace or name not in answer:
                    answer[name] = value
        await send(message)

    return adding
