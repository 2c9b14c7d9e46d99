"""Serves an ASGI application in the running event loop: uvicorn's protocol, with a deadline for each step.

    accepted ──10 s──► head of a request is read ──60 s──► response is read ──75 s without a request──► closed
                 ▲                                               │
                 └───────── first byte of the next request ◄─────┘

uvicorn alone waits without an end for requests and for readers of responses, and keeps all that clients send. At the
maximum number of connections, the connection whose step began first is closed: a new client always gets in, and slow
and silent clients are the first to go. Without a free descriptor, asyncio's own server would try 2,048 times a second,
each with a traceback in the log; this one tries once a second.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - else imported at the first gzip: not with every descriptor in use
import encodings.idna  # noqa: F401 - likewise, at the first host name
import logging
import socket
import ssl
import weakref
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.web.listeners import MAX_CONNECTIONS, address_text
from trainfleet_exporter.web.tls import HANDSHAKE_SOCKET

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""For a TLS handshake, for a head from the connection or its first byte on, and to read the rest of a last response."""
ANSWER_SECONDS = 60.0
"""For making a response, and for the client to read it: longer than a scrape may take."""
IDLE_SECONDS = 75.0
"""Between requests: longer than a scrape interval, so that Prometheus keeps its connection."""
REQUEST_BYTES = 64 << 10
"""Bytes of a request: its head and its body."""
HEADERS_AT_MOST = 100
"""Headers of a request: each takes more memory than the four bytes that it may have."""
PIPELINED = 4
"""Requests that may wait for the response to an earlier one."""
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
}
"""For browsers: do not guess the type of a response, do not run it, and do not show it in another site's page."""

_EXTENSION = "trainfleet_exporter.connection"
_REFUSAL = b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_UVICORN_LOG = logging.getLogger("uvicorn.error.connection")
_UVICORN_LOG.setLevel(logging.ERROR)  # its warnings are about what clients send, who could fill a log
_DRAIN_SECONDS = 2.0
"""For clients to read responses in progress when the server stops."""


class _BadRequestError(Exception):
    """The request is invalid or exceeds a limit."""


class Connection(HttpToolsProtocol):
    """One connection. It puts itself into `steps`, in which the connection whose step began first is first.

    `rejected` counts rejections by reason.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        steps: dict[Connection, None],
        rejected: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(config, state, app_state={})
        self.logger = _UVICORN_LOG
        self.opening: asyncio.Task[None] | None = None
        """Sets the connection up, such as the TLS handshake; None when it is done."""
        self._steps = steps
        self._steps[self] = None
        self._rejected = rejected
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None
        """The request whose response is in progress; others may wait behind it."""
        self._in_head = self._is_idle = self._ends = False
        """Whether a head has begun and not ended; no byte has come since the last response; no request is read."""
        self._read_bytes = self._request_bytes = 0
        """Bytes of the latest read, and of the request so far with that read."""
        self._status = HTTPStatus.BAD_REQUEST

    # Steps.

    def _step(self, seconds: float, *, is_head: bool = False) -> None:
        """Begin the next step. The connection is closed after these seconds, for a head with a status."""
        if self._deadline is not None:
            self._deadline.cancel()
        end = partial(self._refuse, HTTPStatus.REQUEST_TIMEOUT) if is_head else self.abort
        self._deadline = self.loop.call_later(seconds, end)
        if self in self._steps:  # else it makes room for another one
            del self._steps[self]
            self._steps[self] = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.opening = None
        self._step(HEAD_SECONDS, is_head=True)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._ends:
            return
        if self._is_idle:
            self._is_idle = False
            self._step(HEAD_SECONDS, is_head=True)
        self._read_bytes = len(data)
        self._request_bytes += self._read_bytes
        super().data_received(data)
        if self._request_bytes > REQUEST_BYTES and not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)
        self._step(ANSWER_SECONDS)

    def on_response_complete(self) -> None:
        self._answering = None
        super().on_response_complete()  # which may start the next one
        self._unset_keepalive_if_required()  # uvicorn's own timer
        if self._answering is None:
            if self._ends:
                self.transport.close()
            self._is_idle = not self._in_head and not self.transport.is_closing()
            self._request_bytes = 0
            self._step(IDLE_SECONDS if self._is_idle else HEAD_SECONDS, is_head=self._in_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._steps.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        self.pipeline.clear()
        self._disconnect()
        super().connection_lost(exc)

    # A request.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {_EXTENSION: {"connection": weakref.ref(self)}}
        self._in_head = True
        self._request_bytes = self._read_bytes

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS_AT_MOST:
            self._status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _BadRequestError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        hosts = sum(name == b"host" for name, _ in self.headers)
        lacks_host = hosts == 0 and self.parser.get_http_version() == "1.1"
        if lacks_host or hosts > 1 or len(self.pipeline) >= PIPELINED:  # RFC 9112, 3.2
            raise _BadRequestError
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().on_headers_complete()
        self._in_head = False

    # The end.

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._status)

    def _refuse(self, status: HTTPStatus) -> None:
        """Close the connection: with this status if a head has begun, or after the responses to earlier requests."""
        self._rejected("invalid")
        self._ends = True
        if self._answering is not None:
            return
        if self._in_head:
            self.transport.write(_REFUSAL % (status, status.phrase.encode()))
            self.transport.close()
            self._step(HEAD_SECONDS)
        else:
            self.abort()

    def shutdown(self) -> None:
        """The server stops: close this connection, after its response if there is one in progress."""
        if self._answering is not None:
            super().shutdown()
        elif self.opening is None and self.transport.get_write_buffer_size():
            self.transport.close()
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once: a client that reads sees a broken response, never a short one."""
        if self.opening is not None:
            self.opening.cancel()
        else:
            self._disconnect()
            self.transport.abort()

    def _disconnect(self) -> None:
        """Let the handler of the response in progress end: uvicorn notifies only that of the latest request."""
        answering, self._answering = self._answering, None  # which has this connection, in a circle
        if answering is not None:
            answering.disconnected = True
            answering.message_event.set()


def abort_of(scope: Scope) -> Callable[[], None]:
    """Return the function that aborts the connection of an ASGI scope. It does nothing on another server."""
    extension = scope.get("extensions", {}).get(_EXTENSION, {})
    connection: Connection | None = extension["connection"]() if extension else None
    return connection.abort if connection is not None else lambda: None


def with_headers(app: ASGIApp, headers: Mapping[str, str], *, replace: bool = False) -> ASGIApp:
    """Return the application with more headers in its responses. If one has the same name, `replace` decides."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                response = MutableHeaders(scope=message)
                for name, value in headers.items():
                    if replace or name not in response:
                        response[name] = value
            await send(message)

        await app(scope, receive, adding)

    return call


class WebServer:
    """One application on one or more listening sockets; `addresses` is where they listen, with the real ports.

    `tls` returns the TLS context for the next connection, or None. `max_connections` is for all sockets together.
    `rejected` counts rejections by reason: tls, busy, invalid.
    """

    def __init__(
        self,
        app: Any,
        sockets: Sequence[socket.socket],
        *,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        max_connections: int = MAX_CONNECTIONS,
        rejected: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sockets = list(sockets)
        self.addresses = [address_text(sock) for sock in self._sockets]
        self._config = protocol_config(app)
        self._tls = tls
        self._max_connections = max_connections
        self._rejected = rejected
        self._state = ServerState()
        self._steps: dict[Connection, None] = {}
        self._accepting: list[asyncio.Task[None]] = []
        self._refusals, self._evictions, self._shortages = OnceAMinute(), OnceAMinute(), OnceAMinute()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._steps)

    async def start(self) -> None:
        """Begin to accept connections."""
        self._config.load()
        self._accepting = [asyncio.create_task(self._accept(sock)) for sock in self._sockets]

    async def stop(self) -> None:
        """Stop accepting connections, let responses finish (for at most two seconds), and close all connections."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for sock in self._sockets:
            sock.close()  # now, or the kernel keeps accepting connections that get no response
        tasks = self._state.tasks
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while self._steps or tasks:
                    for connection in list(self._steps):
                        connection.shutdown()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            facts = fields(connections=len(self._steps))
            log.warning("closed connections at shutdown before clients had read their responses", extra=facts)
            for connection in list(self._steps):
                connection.abort()
            if tasks:
                await asyncio.wait(tasks, timeout=0.5)  # handlers notice that their connection is closed

    async def _accept(self, sock: socket.socket) -> None:
        short = False
        while True:
            try:
                connected, address = await asyncio.get_running_loop().sock_accept(sock)
            except ConnectionAbortedError:  # by the client
                continue
            except OSError as error:  # new connections wait in the kernel's queue
                if count := self._shortages.due():
                    short = True
                    facts = fields(error=error.strerror, count=count)
                    log.warning("cannot accept connections; retrying every second", extra=facts)
                await asyncio.sleep(1)
                continue
            if short:
                log.info("connections are accepted again")
                short = False
            self._admit(connected, address[0])
            await asyncio.sleep(0)  # others run, however many connections wait

    def _admit(self, connected: socket.socket, client: str) -> None:
        if len(self._steps) >= self._max_connections:
            oldest = next(iter(self._steps))
            del self._steps[oldest]
            oldest.abort()
            self._rejected("busy")
            if count := self._evictions.due():
                log.warning("connection limit reached", extra=fields(limit=self._max_connections, count=count))
        connection = Connection(self._config, self._state, self._steps, self._rejected)
        connection.opening = asyncio.create_task(self._open(connection, connected, client))

    async def _open(self, connection: Connection, connected: socket.socket, client: str) -> None:
        tls: dict[str, Any] = {}
        try:
            if (context := self._tls()) is not None:
                HANDSHAKE_SOCKET.set(connected)
                tls = {"ssl": context, "ssl_handshake_timeout": HEAD_SECONDS, "ssl_shutdown_timeout": HEAD_SECONDS}
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, connected, **tls)
        except (ssl.SSLError, ConnectionAbortedError) as error:  # refused, or not finished in time
            self._rejected("tls")
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error
            if count := self._refusals.due():
                facts = fields(client=client, error=f"{type(error).__name__}: {reason}", count=count)
                log.warning("refused TLS handshakes", extra=facts)
        except OSError as error:  # the client left
            log.debug("cannot open a connection", extra=fields(client=client, error=error))
        except Exception:
            log.exception("cannot open a connection: internal error")
        finally:
            if connection.opening is not None:  # it was not made
                self._steps.pop(connection, None)
                connected.close()


class OnceAMinute:
    """Says when to log what may happen often: at most once a minute."""

    def __init__(self) -> None:
        self._count = 0
        self._next = float("-inf")

    def due(self) -> int:
        """Count one more. Return the number since the last line if a line is due, else 0."""
        self._count += 1
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return 0
        count, self._count, self._next = self._count, 0, now + 60
        return count


def protocol_config(app: Any) -> uvicorn.Config:
    """Return uvicorn's settings for an application."""
    return uvicorn.Config(app, http=Connection, ws="none", log_config=None, access_log=False, proxy_headers=False)
