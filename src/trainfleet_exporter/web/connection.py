"""One client's connection: HTTP/1.1 as uvicorn speaks it, with limits, and a way for an answer to end it at once.

    connected ──10 s for all of the request's head──► served ──300 s for all of the answer──► idle ──75 s──► closed
                     ▲                                                                         │
                     └─────────────────────── the first byte of the next one ──────────────────┘

uvicorn itself waits for requests, for what is left of them and for readers of answers as long as they like, and keeps
whatever they send. The pages need nothing but a request's head: what follows it is read and thrown away.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from trainfleet_exporter.web.guests import Guest
from trainfleet_exporter.web.headers import HEADERS

log = logging.getLogger(__name__)

_EXTENSION = "trainfleet_exporter.connection"
"""Our name among the extensions of an ASGI scope."""

HEAD_SECONDS = 10.0
"""How long a request may be on its way, from the connection or from its first byte to the end of its head."""
ANSWER_SECONDS = 300.0
"""How long an answer may be made and taken: far longer than any scrape may last."""
IDLE_SECONDS = 75
"""How long a connection may be idle: longer than a scrape interval, so that Prometheus keeps its own (and its TLS)."""
PARTING_SECONDS = 10.0
"""How long a client has to take what is left of its last answer when all of that has been written."""
REQUEST_BYTES = 64 << 10
"""Of a request, its head and what follows it."""
HEADERS_AT_MOST = 100
"""Of a request: each of them takes more memory than the four bytes that it may have."""
TARGET_BYTES = 8 << 10
"""Of a request's target (path and query)."""
_LINGER_SECONDS = 1.0
"""How long a client that was refused may go on sending what nobody reads, or take to say goodbye."""
_REFUSAL = (
    b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n"
    + b"".join(b"%s: %s\r\n" % header for header in HEADERS.items())
    + b"\r\n%s\n"
)
_NO_REQUEST = 400
PIPELINED = 4
"""Requests that may wait for the answer to one before them."""


class _BadRequestError(Exception):
    """No valid request, more than a request may have, or more requests than may wait."""


class _FromStrangers(logging.Filter):
    """What uvicorn warns of is what strangers send, by which anybody could fill a log: shown with all details only."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING or log.isEnabledFor(logging.DEBUG)


_LOG = logging.getLogger("uvicorn.error.connection")
_LOG.addFilter(_FromStrangers())


class Connection(HttpToolsProtocol):
    """Gives each request's application a way to abort its connection (see `abort_of`)."""

    def __init__(
        self,
        config: Any,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        guest: Guest,
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state=app_state)
        self.logger = _LOG
        self._guest = guest
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None
        """The request that is being answered; others may wait behind it."""
        self._is_idle = False
        """Whether nothing has come since the last answer."""
        self._in_head = False
        """Whether a part of a request's head has come, and not all of it."""
        self._in_request = False
        """Whether a part of a request has come, and not all of it."""
        self._taken = 0
        """Bytes that have come of it, in reads that may hold the end of another one, too."""
        self._read = 0
        """Bytes of the latest read."""
        self._headers = 0
        """Headers that have come of it."""
        self._error = _NO_REQUEST
        """The status for what the parser does not take."""
        self._is_deaf = False
        """Whether nothing is read any more, for what came last was no request that can be answered."""

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._guest.end = self._break_off
        self._within(HEAD_SECONDS, self._give_up_request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._within(0, None)
        self._guest.leave()
        answering, self._answering = self._answering, None  # which has this connection, in a circle
        if answering is not None:
            # uvicorn tells only the last of the requests that wait: this one would go on writing to nobody.
            answering.disconnected = True
            answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf or self.transport.is_closing():
            return
        if self._is_idle:
            self._is_idle = False
            self._within(HEAD_SECONDS, self._give_up_request)
        self._read = len(data)
        self._taken += self._read
        super().data_received(data)
        if self._in_request and self._taken > REQUEST_BYTES and not self._is_deaf:
            self._refuse(431 if self._in_head else 413)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one behind a body in chunks."""
        self._headers += 1
        if self._headers > HEADERS_AT_MOST:
            self._error = 431
            raise _BadRequestError
        super().on_header(name, value)

    def pause_writing(self) -> None:
        """The client has not taken what was sent last."""
        super().pause_writing()
        self._guest.stall()

    def resume_writing(self) -> None:
        """It has."""
        super().resume_writing()
        self._guest.flow()

    def shutdown(self) -> None:
        """The server stops: this connection ends, behind its answer if there is one under way."""
        if self._answering is not None:
            super().shutdown()
        elif not self.transport.is_closing():
            self._part()

    def timeout_keep_alive_handler(self) -> None:
        """It has been idle for long enough."""
        self._part()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._in_head = self._in_request = True
        self._taken, self._headers = self._read, 0

    def on_headers_complete(self) -> None:
        """The request is known, and its handler about to begin."""
        if len(self.pipeline) >= PIPELINED:
            raise _BadRequestError
        size = sum(len(name) + len(value) for name, value in self.headers) + len(self.url)
        hosts = sum(name == b"host" for name, _ in self.headers)
        if len(self.url) > TARGET_BYTES:
            self._error = 414
        elif size > REQUEST_BYTES:
            self._error = 431
        elif any(name == b"content-length" and int(value) > REQUEST_BYTES for name, value in self.headers):
            self._error = 413
        lacks_host = hosts == 0 and self.parser.get_http_version() == "1.1"
        if self._error != _NO_REQUEST or lacks_host or hosts > 1:  # RFC 9112, 3.2
            raise _BadRequestError
        super().on_headers_complete()
        self._in_head = False
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.scope is self.scope:  # else it was no request that is answered
            abort = partial(_abort, weakref.ref(cycle), self.transport)  # weak: the cycle has the scope
            self.scope["extensions"] = {_EXTENSION: {"abort": abort}}

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        super().on_message_complete()
        self._in_request = False
        if self._answering is None and not self._is_deaf and not self.transport.is_closing():  # it was answered before
            self._is_idle = True
            self._within(IDLE_SECONDS, self._part)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        self._guest.serve()
        if self.flow.write_paused:  # by the answer before this one
            self._guest.stall()
        self._within(ANSWER_SECONDS, self._break_off)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """All of an answer has been written."""
        self._answering = None
        super().on_response_complete()
        if self._answering is None:  # else the next one has begun
            self._guest.wait()
            if self.transport.is_closing():
                self._within(PARTING_SECONDS, self.transport.abort)
            elif self._is_deaf:
                self._linger()
            elif self._in_request:
                self._within(HEAD_SECONDS, self._give_up_request)
            else:
                self._is_idle = True
                self._within(0, None)  # uvicorn has a time of its own for that

    def send_400_response(self, msg: str) -> None:
        """What has come is no request, or too much of one."""
        self._refuse(self._error)

    # The limits.

    def _within(self, seconds: float, action: Callable[[], None] | None) -> None:
        """Do this after so many seconds, unless something else is to be done by then."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, action) if action is not None else None

    def _give_up_request(self) -> None:
        """The rest of a request has not come in time."""
        log.debug("a request of %s did not come in time", self.client)
        if self._in_head:
            self._refuse(408)
        else:
            self._part()

    def _refuse(self, status: int) -> None:
        """Read no more. Say why, unless an answer is under way: then that one is the last."""
        self._is_deaf = True
        if self._answering is None:
            if self._in_head or not self._in_request:  # else it has had its answer
                reason = HTTPStatus(status).phrase
                self.transport.write(_REFUSAL % (status, reason.encode(), len(reason) + 1, reason.encode()))
            self._linger()

    def _linger(self) -> None:
        """Close it, in a moment: with bytes of the client's unread, what was said last would be lost on its way."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
            is_sent = not self.transport.get_write_buffer_size()
            self._within(_LINGER_SECONDS if is_sent else PARTING_SECONDS, self.transport.abort)
        else:
            self._part()

    def _part(self) -> None:
        """Close a connection on which nothing is under way, with TLS's goodbye, which is not waited for."""
        self.transport.close()
        self._within(_LINGER_SECONDS, self.transport.abort)

    def _break_off(self) -> None:
        if self._answering is None:
            self.transport.abort()
        else:
            _abort(weakref.ref(self._answering), self.transport)


def _abort(answer: weakref.ref[RequestResponseCycle], transport: asyncio.Transport) -> None:
    cycle = answer()
    if cycle is not None:
        # Else it learns of the end too late, or never if others are pipelined: a handler that returns amid its answer
        # is a fault, and logged, where the connection is thought to be in order.
        cycle.disconnected = True
    transport.abort()


def abort_of(scope: Any) -> Callable[[], None]:
    """What ends the connection of an ASGI scope at once: what it has not sent yet is thrown away, and the client sees a
    broken connection instead of a short answer. Where the server knows no such thing, it does nothing: a handler that
    returns amid its answer has its connection closed anyway."""
    given = scope.get("extensions", {}).get(_EXTENSION)
    abort: Callable[[], None] = given["abort"] if given else _nothing
    return abort


def _nothing() -> None:
    pass
