"""Accepts connections from listening sockets, also while the system has no free file descriptor.

Without a free descriptor, asyncio tries 2,048 times a second, each with a traceback in the log (up to Python 3.13 at
least). This class tries once a second. It logs one line when the shortage begins and one when it ends:

    listening ──no descriptor──► short: new connections wait in the kernel's queue ──5 seconds without that──► listening
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.process.arguments import found
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.web.connection import PARTING_SECONDS
from trainfleet_exporter.web.connection_limiter import ConnectionLimiter, Slot

log = logging.getLogger(__name__)

_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 100
"""Connections accepted before other tasks of the event loop run."""
_RETRY_SECONDS = 1.0
"""Until the next attempt where the system had no descriptor, or no memory, for a connection."""
_OVER_SECONDS = 5.0
"""Without another failure, after an attempt, until a shortage is over: one that comes and goes is logged once."""
_HANDSHAKE_SECONDS = 10.0
"""Seconds for the TLS handshake."""


class Listener:
    """Accepts connections on listening sockets that the limiter admits, in place of asyncio.Server.

    `protocol` makes the protocol of each. `tls` returns the TLS context for the next one; without it there is no TLS.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        protocol: Callable[[Slot], asyncio.BaseProtocol],
        *,
        limiter: ConnectionLimiter,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None,
    ) -> None:
        self._sockets = sockets
        self._protocol = protocol
        self._limiter = limiter
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self.opening: set[asyncio.Task[None]] = set()
        """Connections that are accepted and not set up (TLS handshakes)."""
        self._short_since: float | None = None
        """When the shortage began, on the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        """The next attempt during a shortage, or its end."""
        self._resume()

    def close(self) -> None:
        """Stop accepting connections. The sockets stay open."""
        for sock in self._sockets:
            self._loop.remove_reader(sock)
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        """Close the connections that are not set up."""
        for task in self.opening:
            task.cancel()

    def _resume(self) -> None:
        for sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, address = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # by the client
                continue
            except OSError as error:
                self._note_shortage(error)
                return
            slot = self._limiter.admit(address[0])
            if slot is None:
                connection.close()
                continue
            task = self._loop.create_task(self._open(connection, slot))
            slot.close = task.cancel
            self.opening.add(task)
            task.add_done_callback(partial(self._opened, connection, address[0], slot))

    def _note_shortage(self, error: OSError) -> None:
        # The sockets stay readable: without a pause the event loop would spin.
        self.close()
        self._timer = self._loop.call_later(_RETRY_SECONDS, self._retry)
        if self._short_since is None:
            self._short_since = self._loop.time()
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
            log.warning("cannot accept connections; retrying every second", extra=fields(error=reason))

    def _retry(self) -> None:
        self._timer = self._loop.call_later(_OVER_SECONDS, self._end_shortage)
        self._resume()
        for sock in self._sockets:
            # Also without a new connection: a system without descriptors refuses before it looks for one, so only an
            # attempt finds the end of a shortage.
            self._accept(sock)

    def _end_shortage(self) -> None:
        assert self._short_since is not None
        facts = fields(seconds=round(self._loop.time() - self._short_since))
        log.info("connections are accepted again", extra=facts)
        self._short_since = self._timer = None

    async def _open(self, connection: socket.socket, slot: Slot) -> None:
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {
                "ssl": await self._tls(),
                "ssl_handshake_timeout": _HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": PARTING_SECONDS,
            }
        await self._loop.connect_accepted_socket(partial(self._protocol, slot), connection, **tls)

    def _opened(self, connection: socket.socket, client: str, slot: Slot, task: asyncio.Task[None]) -> None:
        self.opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError):  # the client left, or has no common TLS version; asyncio has closed the socket
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error  # as ssl has it
            facts = fields(client=client, error=f"{type(error).__name__}: {reason}")
            log.debug("cannot open a connection", extra=facts)
            slot.release()
        elif error is not None or task.cancelled():  # maybe before it did anything
            connection.close()
            slot.release()
            if error is not None:
                log.error("cannot open a connection: internal error", exc_info=error)


def listen(*addresses: str) -> list[socket.socket]:
    """Open the listening sockets for each `host:port`, `:port` (every interface) or `[::1]:port`, or none of them.

    Raises StartError for a malformed address, a used port or a forbidden port.
    """
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(sock) for address in addresses for sock in _listen(address)]
        opened.pop_all()
    return sockets


def _listen(address: str) -> Iterator[socket.socket]:
    host, port = split_address(address)
    try:
        for family, sockaddr in _resolve(host, port):
            # Naming IPPROTO_TCP matters: asyncio sets TCP_NODELAY only on sockets that say they are TCP, and without
            # it each answer on a kept connection waits some 40 ms.
            sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            yield sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
            sock.bind(sockaddr)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except (OSError, UnicodeError) as error:
        raise StartError(f"cannot listen on {address}: {_reason(error)}") from None


def _reason(error: OSError | UnicodeError) -> str:
    """Return what went wrong, and how to fix it."""
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
    """Host and port of `HOST:PORT` or `:PORT`. Raises StartError for any other text."""
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
    # A name such as localhost has several addresses. With port 0, take only one: each would get a different port.
    return [(socket.AddressFamily(family), sockaddr) for family, sockaddr in list(unique)[: 1 if port == 0 else None]]


def address_text(sock: socket.socket) -> str:
    """Write where a socket listens, as `host:port` or `[::1]:port`."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
