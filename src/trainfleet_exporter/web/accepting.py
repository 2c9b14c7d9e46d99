"""Taking connections from a listening socket, also when the system has no file descriptor left to give.

asyncio's own way tries 2,048 times a second then, each with a trace in the log (up to Python 3.13 at least). This one
tries once a second, says so once when it begins and once when it is over:

    listening ──no descriptor──► short: who comes waits in the kernel's queue ──5 seconds without that──► listening
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

from trainfleet_exporter.web.connection import PARTING_SECONDS
from trainfleet_exporter.web.guests import Guest, Guests

log = logging.getLogger(__name__)

_AT_ONCE = 100
"""Connections taken before the loop gets on with its other work."""
_PAUSE = 1.0
"""Seconds before another try where the system had no descriptor, or no memory, for a connection."""
_CALM = 5.0
"""Seconds after which it is over if the next try did not find it again: one that comes and goes is told once."""

_HANDSHAKE_SECONDS = 10.0
"""How long a client has to agree on TLS with us."""


class Shortage:
    """That connections cannot be accepted for now: told once when it begins, once when it is over."""

    def __init__(self) -> None:
        self._over: asyncio.TimerHandle | None = None
        self._since: float | None = None

    def noted(self, error: OSError) -> None:
        """A connection could not be accepted.

        Maybe nobody waited for that: a system without descriptors denies them before it looks. So its end is found by
        trying, and not by the next connection.
        """
        self.cancel()
        loop = asyncio.get_running_loop()
        self._over = loop.call_later(_PAUSE + _CALM, self._end)
        if self._since is None:
            self._since = loop.time()
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
            log.warning("connections wait, because none can be accepted: %s; tried again every second", reason)

    def cancel(self) -> None:
        """Forget that it will be over."""
        if self._over is not None:
            self._over.cancel()
            self._over = None

    def _end(self) -> None:
        assert self._since is not None
        lasted = asyncio.get_running_loop().time() - self._since
        self._over = self._since = None
        log.info("connections are accepted again, after %.0f s", lasted)


class Acceptor:
    """Gives each connection of one listening socket a protocol of its own, if it may come in.

    It takes the place of an asyncio.Server. `tls` is asked for each connection by what it is to be made; without it
    there is no TLS.
    """

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[Guest], asyncio.BaseProtocol],
        *,
        guests: Guests,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None,
        shortage: Shortage,
    ) -> None:
        self._sock = sock
        self._protocol = protocol
        self._guests = guests
        self._tls = tls
        self._shortage = shortage
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._beginning: set[asyncio.Task[None]] = set()
        self._is_open = True
        self._watch()

    @property
    def is_idle(self) -> bool:
        """Whether every connection that was accepted has come about, or come to nothing."""
        return not self._beginning

    def close(self) -> None:
        """Accept no more. The socket itself stays open."""
        if self._is_open:
            self._is_open = False
            self._shortage.cancel()
            self._unwatch()

    def abort(self) -> None:
        """Give up the connections that have not come about yet (TLS handshakes)."""
        for task in self._beginning:
            task.cancel()

    def _watch(self) -> None:
        self._loop.add_reader(self._sock, self._accept)

    def _try_again(self) -> None:
        self._again = None
        self._watch()
        self._accept()  # also where nobody waits: else a shortage that lasts would be told as over

    def _unwatch(self) -> None:
        if self._again is None:
            self._loop.remove_reader(self._sock)
        else:
            self._again.cancel()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # the client has gone already
                continue
            except OSError as error:
                # The socket stays readable: without a pause the loop would run in circles.
                self._unwatch()
                self._again = self._loop.call_later(_PAUSE, self._try_again)
                self._shortage.noted(error)
                return
            guest = self._guests.admit(address[0])
            if guest is None:
                connection.close()
                continue
            task = self._loop.create_task(self._begin(connection, address[0], guest))
            guest.end = task.cancel
            self._beginning.add(task)
            task.add_done_callback(partial(self._begun, connection, guest))

    def _begun(self, connection: socket.socket, guest: Guest, task: asyncio.Task[None]) -> None:
        self._beginning.discard(task)
        fault = None if task.cancelled() else task.exception()
        if task.cancelled() or fault is not None:  # maybe before it did anything
            connection.close()
            guest.leave()
        if fault is not None:
            log.error("a connection did not come about, on a fault of the exporter's own", exc_info=fault)

    async def _begin(self, connection: socket.socket, client: str, guest: Guest) -> None:
        protocol = partial(self._protocol, guest)
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(protocol, connection)
            else:
                await self._loop.connect_accepted_socket(
                    protocol,
                    connection,
                    ssl=await self._context(self._tls, connection),
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=PARTING_SECONDS,
                )
        except OSError as error:  # gone, or no TLS that both sides speak: the client's matter
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error  # as ssl has it
            guest.leave()
            log.debug("a connection of %s did not come about: %s: %s", client, type(error).__name__, reason)

    @staticmethod
    async def _context(tls: Callable[[], Awaitable[ssl.SSLContext]], connection: socket.socket) -> ssl.SSLContext:
        try:
            return await tls()
        except BaseException:
            connection.close()  # which nobody else would
            raise
