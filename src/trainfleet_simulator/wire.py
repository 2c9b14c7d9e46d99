"""Break a response below HTTP: connections that are reset, closed or hang, and partial or slow responses.

The protocol class adds the connection to the ASGI scope of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
        self._requests = 0

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._requests += 1
        scope: MutableMapping[str, Any] = self.scope  # type: ignore[assignment]  # ours in a dict of theirs
        scope["extensions"] = {_EXTENSION: self}

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has closed the connection, or we have cut it."""
        super().connection_lost(exc)
        self._lost.set()

    @property
    def is_kept(self) -> bool:
        """Return whether it has served an earlier request."""
        return self._requests > 1

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
