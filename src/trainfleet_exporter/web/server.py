"""Serves an ASGI application from the running event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - else imported at the first gzip: not with every descriptor in use
import contextlib
import encodings.idna  # noqa: F401 - likewise, at the first host name
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import uvicorn

from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.web.connection import IDLE_SECONDS, Connection
from trainfleet_exporter.web.connection_limiter import MAX_CONNECTIONS, ConnectionLimiter, Slot
from trainfleet_exporter.web.listeners import Listener, Shortage, address_text

log = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
"""Between two Date headers."""
_DRAIN_SECONDS = 2.0
"""For answers under way to be read when the server stops."""
_ABORT_SECONDS = 0.5
"""For handlers to notice that their connection was closed."""


class _Server(uvicorn.Server):
    """uvicorn in an event loop that is not its own: the daemon handles signals, and starts and stops it.

    uvicorn alone would cancel the handlers of slow clients, and log a traceback for each; this one closes their
    connections.
    """

    def __init__(
        self, config: uvicorn.Config, tls: Callable[[], Awaitable[ssl.SSLContext]] | None, limiter: ConnectionLimiter
    ) -> None:
        super().__init__(config)
        self._tls = tls
        self._limiter = limiter
        self.accepting = asyncio.Event()
        self._stopping = asyncio.Event()
        self._listeners: list[Listener] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        shortage = Shortage()
        self._listeners = [
            Listener(sock, self._protocol, limiter=self._limiter, tls=self._tls, shortage=shortage)
            for sock in sockets or ()
        ]
        self.started = True
        self.accepting.set()

    async def main_loop(self) -> None:
        # A tick a second, for the Date header, in place of uvicorn's ten: an idle process should sleep.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._stopping.wait()

    def request_stop(self) -> None:
        """Make `serve` shut down and return."""
        self.should_exit = True
        self._stopping.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in self._listeners:
            listener.close()
        for sock in sockets or ():
            sock.close()
        state = self.server_state
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._drain()
        except TimeoutError:
            facts = fields(connections=len(state.connections))
            log.warning("closed connections at shutdown before clients had read their answers", extra=facts)
            for listener in self._listeners:
                listener.abort()
            for connection in list(state.connections):
                connection.transport.abort()
            if state.tasks:
                await asyncio.wait(state.tasks, timeout=_ABORT_SECONDS)

    async def _drain(self) -> None:
        """Close every connection once the client has its answer."""
        state = self.server_state
        while state.connections or state.tasks or not all(listener.is_settled for listener in self._listeners):
            for connection in list(state.connections):
                connection.shutdown()
            await asyncio.sleep(0.02)

    def _protocol(self, slot: Slot) -> Connection:
        return Connection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state, slot=slot)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class WebServer:
    """One application on one or more listening sockets; `addresses` is where they listen, with the real ports.

    `tls` returns the TLS context for the next connection; without it there is no TLS. `max_connections` is for all
    sockets together.
    """

    def __init__(
        self,
        app: Any,
        sockets: Sequence[socket.socket],
        *,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._sockets = list(sockets)
        self.addresses = [address_text(sock) for sock in self._sockets]
        self._server = _Server(
            protocol_config(app),
            tls,
            ConnectionLimiter(max_connections),
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to accept connections."""
        self._task = asyncio.create_task(self._server.serve(sockets=self._sockets))
        accepting = asyncio.create_task(self._server.accepting.wait())
        await asyncio.wait([self._task, accepting], return_when=asyncio.FIRST_COMPLETED)
        if not self._server.accepting.is_set():
            accepting.cancel()
            await self._task

    async def stop(self) -> None:
        """Let running answers end (for two seconds at most) and close every connection."""
        if self._task is not None:
            self._server.request_stop()
            await self._task
            self._task = None
        for sock in self._sockets:
            sock.close()


def protocol_config(app: Any) -> uvicorn.Config:
    """Return uvicorn's settings for an application."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=IDLE_SECONDS,
        proxy_headers=False,
        server_header=False,
    )
