"""Serves an ASGI application in the running event loop: uvicorn's protocol behind the exporter's own listeners.

uvicorn's server would handle signals. It would also cancel the handlers of slow clients when it stops, and log a
traceback for each; this one closes their connections.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - else imported at the first gzip: not with every descriptor in use
import encodings.idna  # noqa: F401 - likewise, at the first host name
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.web.connection import Connection
from trainfleet_exporter.web.connection_limiter import MAX_CONNECTIONS, ConnectionLimiter, Slot
from trainfleet_exporter.web.listeners import Listener, address_text

log = logging.getLogger(__name__)

_DRAIN_SECONDS = 2.0
"""Seconds for clients to read responses in progress when the server stops."""
_ABORT_SECONDS = 0.5
"""Seconds for handlers to notice that their connection is closed."""


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
        self._config = protocol_config(app)
        self._tls = tls
        self._limiter = ConnectionLimiter(max_connections)
        self._state = ServerState()
        self._listener: Listener | None = None

    @property
    def connections(self) -> int:
        """The number of open connections, without TLS handshakes."""
        return len(self._state.connections)

    async def start(self) -> None:
        """Begin to accept connections."""
        self._config.load()
        self._listener = Listener(self._sockets, self._protocol, limiter=self._limiter, tls=self._tls)

    async def stop(self) -> None:
        """Stop accepting connections, let responses finish (for at most two seconds), and close all connections."""
        if self._listener is not None:
            self._listener.close()
        for sock in self._sockets:
            sock.close()  # now, or the kernel keeps accepting connections that get no response
        if self._listener is not None:
            await self._close_connections(self._listener)
            self._listener = None

    async def _close_connections(self, listener: Listener) -> None:
        state = self._state
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while state.connections or state.tasks or listener.opening:
                    for connection in list(state.connections):
                        connection.shutdown()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            facts = fields(connections=len(state.connections))
            log.warning("closed connections at shutdown before clients had read their responses", extra=facts)
            listener.abort()
            for connection in list(state.connections):
                connection.transport.abort()
            if state.tasks:
                await asyncio.wait(state.tasks, timeout=_ABORT_SECONDS)

    def _protocol(self, slot: Slot) -> Connection:
        return Connection(self._config, self._state, slot)


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
        proxy_headers=False,
        server_header=False,
    )
