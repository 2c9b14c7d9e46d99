"""Addresses of the simulated clouds. A listener can be closed and opened again: a closed one refuses connections."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from trainfleet_simulator.wire import Connection

_IDLE = 77
"""Seconds that a connection may be idle: longer than clients keep one. In stepped time, a client never closes it, so
the value is no multiple of a usual poll interval."""
_LONGEST_END = 1.0  # seconds in which requests must end after their connections are closed


def bound(host: str, port: int) -> socket.socket:
    """Return a socket with the address that does not listen yet. Port 0 takes any free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only for sockets that declare TCP; otherwise kept connections lag by 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 takes any free one. Raises OSError."""
    sock = bound(host, port)
    try:
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def url_of(host: str, sock: socket.socket) -> str:
    """Return the base URL of a socket."""
    return f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"


def uvicorn_config(app: ASGIApp) -> uvicorn.Config:
    """Return the configuration of uvicorn."""
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
        date_header=False,  # the clouds' own clock sets it
        timeout_keep_alive=_IDLE,
    )


class Listener:
    """One address in the running loop, open from the start. Raises OSError if the address is taken."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", port: int = 0) -> None:
        self._config = uvicorn_config(app)
        self._config.load()
        self._host = host
        self._state = ServerState()
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        # While the listener is closed, a bound socket that does not listen refuses connections and keeps the port.
        self._reserved = bound(host, port)
        self._url = url_of(host, self._reserved)
        self._listening: socket.socket | None = None
        try:
            self.open()
        except OSError:
            self._reserved.close()
            raise

    @property
    def url(self) -> str:
        """Return the base URL, which never changes."""
        return self._url

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._state.connections)

    def shut(self) -> None:
        """Refuse new connections and cut the open ones."""
        if self._listening is None:
            return
        self._loop.remove_reader(self._listening)
        self._listening.close()
        self._listening = None
        for connection in list(self._state.connections):
            assert isinstance(connection, Connection)
            connection.cut()

    def open(self) -> None:
        """Accept connections again, at the same address."""
        if self._listening is not None:
            return
        self._listening = sock = listen(self._host, self._reserved.getsockname()[1])
        self._loop.add_reader(sock, self._accept, sock)

    async def aclose(self) -> None:
        """Close, release the address, and wait for requests in flight."""
        self.shut()
        self._reserved.close()
        under_way = {*self._arriving, *self._state.tasks}
        if under_way:
            _, left = await asyncio.wait(under_way, timeout=_LONGEST_END)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)  # an aborted transport closes its socket in the next turn of the loop

    def _accept(self, sock: socket.socket) -> None:
        try:
            while True:
                client, _ = sock.accept()
                client.setblocking(False)
                task = self._loop.create_task(self._connect(sock, client))
                self._arriving.add(task)
                task.add_done_callback(partial(self._arrived, client))
        except (BlockingIOError, ConnectionAbortedError):  # no more are waiting, or one has gone
            return

    def _arrived(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._arriving.discard(task)
        if task.cancelled():  # perhaps before its first step, so that no transport owns the socket
            client.close()

    async def _connect(self, by: socket.socket, client: socket.socket) -> None:
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: Connection(config=self._config, server_state=self._state, app_state={}, _loop=self._loop), client
        )
        if self._listening is not by:  # closed in the meantime
            transport.abort()
