"""Serving an ASGI application from the running loop, on sockets that we open ourselves."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - else had when first gzipped: not with every file descriptor in use
import contextlib
import encodings.idna  # noqa: F401 - likewise, for the first host name
import errno
import logging
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import uvicorn

from trainfleet_exporter.arguments import found
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.web.accepting import Acceptor, Shortage
from trainfleet_exporter.web.connection import IDLE_SECONDS, Connection
from trainfleet_exporter.web.guests import LIMIT, Guest, Guests

log = logging.getLogger(__name__)

_BACKLOG = 1024
_TICK_SECONDS = 1.0
_DRAIN_SECONDS = 2.0
_CUT_OFF_SECONDS = 0.5
"""How long handlers have to notice that their connection was cut off."""


class _Server(uvicorn.Server):
    """uvicorn within somebody else's loop: signals are the daemon's business, and so are beginning and end.

    Its own end would cancel the handlers of slow clients, and log a trace for each; here their connections are cut.
    """

    def __init__(
        self, config: uvicorn.Config, tls: Callable[[], Awaitable[ssl.SSLContext]] | None, guests: Guests
    ) -> None:
        super().__init__(config)
        self._tls = tls
        self._guests = guests
        self.accepting = asyncio.Event()
        self._leaving = asyncio.Event()
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        shortage = Shortage()
        self._acceptors = [
            Acceptor(sock, self._protocol, guests=self._guests, tls=self._tls, shortage=shortage)
            for sock in sockets or ()
        ]
        self.started = True
        self.accepting.set()

    async def main_loop(self) -> None:
        # A tick a second, for the Date header, in place of uvicorn's ten: who waits for scrapes should sleep.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._leaving.wait()

    def leave(self) -> None:
        """End, with `shutdown`."""
        self.should_exit = True
        self._leaving.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        for sock in sockets or ():
            sock.close()
        state = self.server_state
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._drain()
        except TimeoutError:
            log.warning("%d connection(s) cut off: the client did not take its answer in time", len(state.connections))
            for acceptor in self._acceptors:
                acceptor.abort()
            for connection in list(state.connections):
                connection.transport.abort()
            if state.tasks:
                await asyncio.wait(state.tasks, timeout=_CUT_OFF_SECONDS)

    async def _drain(self) -> None:
        """Close every connection once its answer is with the client."""
        state = self.server_state
        while state.connections or state.tasks or not all(acceptor.is_idle for acceptor in self._acceptors):
            for connection in list(state.connections):
                connection.shutdown()
            await asyncio.sleep(0.02)

    def _protocol(self, guest: Guest) -> Connection:
        return Connection(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, guest=guest
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class WebServer:
    """One application on one or more listening sockets. `addresses` tells where it really listens.

    `tls` gives what the next connection's TLS is made by; without it there is none. `max_connections` is how many there
    may be at a time, on all sockets together.
    """

    def __init__(
        self,
        app: Any,
        sockets: Sequence[socket.socket],
        *,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
        max_connections: int = LIMIT,
    ) -> None:
        self._sockets = list(sockets)
        self.addresses = [_address_text(sock) for sock in self._sockets]
        self._server = _Server(
            protocol_config(app),
            tls,
            Guests(max_connections),
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
            self._server.leave()
            await self._task
            self._task = None
        for sock in self._sockets:
            sock.close()


def protocol_config(app: Any) -> uvicorn.Config:
    """How an application's connections speak HTTP."""
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


def listen(address: str) -> list[socket.socket]:
    """Open the listening sockets for `host:port`, `:port` (every interface) or `[::1]:port`.

    Raises StartError in one clear line: a malformed address, a taken port, a forbidden one.
    """
    host, port = split_address(address)
    sockets: list[socket.socket] = []
    try:
        for family, sockaddr in _resolve(host, port):
            # Naming IPPROTO_TCP matters: asyncio sets TCP_NODELAY only on sockets that say they are TCP, and without
            # it each answer on a kept connection waits some 40 ms.
            sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
            sock.bind(sockaddr)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except (OSError, UnicodeError) as error:
        for sock in sockets:
            sock.close()
        raise StartError(f"cannot listen on {address}: {_reason(error)}") from None
    return sockets


def listen_on_each(addresses: Sequence[str]) -> list[socket.socket]:
    """Open the listening sockets of all addresses, or none of them. Raises as `listen` does."""
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            sockets += listen(address)
    except StartError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _reason(error: OSError | UnicodeError) -> str:
    """What went wrong, and what to do about it."""
    other = "choose another --web.listen-address"
    match error:
        case UnicodeError():
            return f"not a host name; {other}"
        case socket.gaierror():  # its number is no errno
            return f"{(error.strerror or 'name not resolved').lower()}; {other}"
        case OSError(errno=errno.EADDRINUSE):
            return f"{os.strerror(errno.EADDRINUSE)} (another exporter running?); {other}"
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            return f"{error.strerror}; raise the limit (ulimit -n)"
        case _:
            return f"{error.strerror or type(error).__name__}; {other}"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `:PORT`. StartError says what is wrong with anything else."""
    host, separator, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise StartError(f"{found(address)}; allowed for an IPv6 address: [ADDRESS]:PORT")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        meant = ""
        if re.fullmatch("[0-9]{1,5}", address, re.ASCII) and int(address) <= 65535:
            meant = f":{address}"
        elif not separator and re.fullmatch("[A-Za-z0-9.-]{1,63}[A-Za-z]|[0-9.]{7,15}", address, re.ASCII):
            meant = f"{address}:10075"
        hint = f'did you mean "{meant}"? ' if meant else ""
        raise StartError(f"{found(address)}; {hint}allowed: HOST:PORT or :PORT, with a port of 0 to 65535")
    return host, int(port)


def _resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    if not host:
        # One socket for both families where the kernel has IPv6, as Go's servers do.
        if socket.has_dualstack_ipv6():
            return [(socket.AF_INET6, ("::", port))]
        return [(socket.AF_INET, ("0.0.0.0", port))]  # noqa: S104 - `:port` asks for every interface
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    unique = dict.fromkeys((family, sockaddr) for family, _, _, _, sockaddr in found)
    # A name such as localhost stands for several addresses; a port of 0 can only be had once.
    return [(socket.AddressFamily(family), sockaddr) for family, sockaddr in list(unique)[: 1 if port == 0 else None]]


def _address_text(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
