"""Addresses of the simulated clouds, and faults below HTTP: connections that are reset, closed or hang, and partial or
slow responses.

A listener can be closed and opened again: a closed one refuses connections. Its protocol class adds the connection to
the ASGI scope of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import MutableMapping
from functools import partial
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_EXTENSION = "trainfleet.connection"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of 0 seconds: unsent bytes are discarded, and RST is sent
_NOT_HTTP = b"SSH-2.0-OpenSSH_9.6\r\n\x00\x01\xfe\xffwho goes there?\r\n"
_UNTIL_READ = 0.05  # seconds for the client to read the first part of a response before the rest is lost
_A_BYTE_A = 1.0  # seconds
NEED_THE_ANSWER = frozenset({"reset_midway", "cut_off", "drip"})


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which passes itself to the application."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lost = asyncio.Event()
        self.requests = 0
        """The number of requests so far."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.requests += 1
        scope: MutableMapping[str, Any] = self.scope  # type: ignore[assignment]  # ours in a dict of theirs
        scope["extensions"] = {_EXTENSION: self}

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has closed the connection, or we have cut it."""
        super().connection_lost(exc)
        self._lost.set()

    def cut(self) -> None:
        """Cut the connection at once, so that its next use fails."""
        with contextlib.suppress(OSError):  # the client was faster
            self.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self.transport.abort()

    async def lost_within(self, seconds: float) -> bool:
        """Wait so many seconds, or until the client has gone; return whether it has gone."""
        try:
            async with asyncio.timeout(seconds):
                await self._lost.wait()
        except TimeoutError:
            return False
        return True

    async def break_answer(self, kind: str, whole: bytes, body_size: int) -> None:
        """Do what the kind says to the answer whose bytes these are; returns when the connection is gone."""
        transport = self.transport
        match kind:
            case "reset":
                self._reset()
            case "not_http":
                transport.write(_NOT_HTTP)
                transport.close()
            case "close":
                transport.close()
            case "reset_midway":
                transport.write(whole[: len(whole) - (body_size + 1) // 2])
                if not await self.lost_within(_UNTIL_READ):
                    self._reset()
            case "cut_off":
                transport.write(whole[: len(whole) - (body_size + 1) // 2])
                transport.close()
            case "drip":
                for byte in whole:
                    transport.write(bytes((byte,)))
                    if await self.lost_within(_A_BYTE_A):
                        return
                transport.close()
        await self._lost.wait()

    def _reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection of a request; None within a process."""
    found = scope.get("extensions", {}).get(_EXTENSION)
    return found if isinstance(found, Connection) else None


class Breaking(Response):
    """Replaces a response, or a part of it, by a fault of the wire."""

    def __init__(self, kind: str, answer: Response | None = None) -> None:
        super().__init__()
        self._kind = kind
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Break the response (ASGI). RuntimeError without a connection."""
        connection = connection_of(scope)
        if connection is None:
            raise RuntimeError("faults of the wire need the simulator's own server: use serve or serve_listeners")
        whole, size = b"", 0
        if self._answer is not None:
            self._answer.headers.setdefault("date", self.headers.get("date", ""))
            body = bytes(self._answer.body)
            whole, size = _head(self._answer) + body, len(body)
        await connection.break_answer(self._kind, whole, size)


def _head(answer: Response) -> bytes:
    phrase = HTTPStatus(answer.status_code).phrase
    lines = [f"HTTP/1.1 {answer.status_code} {phrase}".encode(), *(b": ".join(pair) for pair in answer.raw_headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


_IDLE = 77
"""Seconds that a connection may be idle: longer than clients keep one. In stepped time, a client never closes it, so
the value is no multiple of a usual poll interval."""
_LONGEST_END = 1.0  # seconds in which requests must end after their connections are closed


def _socket(host: str, port: int, *, listens: bool) -> socket.socket:
    """Return a socket with the address. Port 0 takes any free one. Raises OSError."""
    # asyncio turns off Nagle's algorithm only for sockets that declare TCP; otherwise kept connections lag by 40 ms.
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        if listens:
            sock.listen(1024)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


class Listener:
    """One address in the running loop, open from the start. Raises OSError if the address is taken."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", port: int = 0) -> None:
        self._config = uvicorn.Config(
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
        self._config.load()
        self._host = host
        self._state = ServerState()
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        # While the listener is closed, a bound socket that does not listen refuses connections and keeps the port.
        self._reserved = _socket(host, port, listens=False)
        address = f"[{host}]" if ":" in host else host
        self.url = f"http://{address}:{self._reserved.getsockname()[1]}"
        """The base URL, which never changes."""
        self._listening: socket.socket | None = None
        self.open()

    @property
    def connections(self) -> int:
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
        self._listening = sock = _socket(self._host, self._reserved.getsockname()[1], listens=True)
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
