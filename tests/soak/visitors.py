"""Clients of the daemon's pages: correct scrapers, and others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from trainfleet_conformance.page import check

_PATIENCE = 60.0
_OPENMETRICS = "accept: application/openmetrics-text; version=1.0.0"
_GZIP = "accept-encoding: gzip"
WAYS: Sequence[tuple[str, tuple[str, ...], bool]] = (
    ("plain, new connection", (), False),
    ("gzip, kept connection", (_GZIP,), True),
    ("OpenMetrics, kept connection", (_OPENMETRICS,), True),
    ("gzip, new connection", (_GZIP,), False),
    ("plain, kept connection", (), True),
    ("OpenMetrics and gzip, new connection", (_OPENMETRICS, _GZIP), False),
)
"""Ways to scrape a page: name, headers, and whether the connection is kept."""
_NONSENSE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    b"GET /metrics HTTP/9.9\r\n\r\n",
    b"GET /metrics\r\n",
    b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf",
    b"PUT /-/reload HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"GET /%00%ff/../../etc/passwd HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
)


class Unsatisfied(Exception):
    """A response that no visitor may get."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with an inflated body."""

    status: int
    body: bytes = field(repr=False)


class Visitor:
    """A client of one port, as one user whose password may change. `close` closes the kept connection."""

    def __init__(self, port: int, user: str) -> None:
        self._port = port
        self._user = user
        self.password = ""
        self._kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, *headers: str, method: str = "GET", keep: bool = False) -> Answer:
        """Send one request. If the server has closed the kept connection, connect again."""
        async with asyncio.timeout(_PATIENCE):
            for fresh in (False, True):
                reader, writer = await self._connection(keep=keep)
                try:
                    writer.write(self._request(method, path, headers, keep=keep))
                    return await _read(reader)
                except (OSError, asyncio.IncompleteReadError):
                    self._kept = None
                    if fresh or not keep:
                        raise
                finally:
                    if not keep or self._kept is None:
                        await _end(writer)
        raise AssertionError("unreachable")

    async def scrape(self, way: int) -> str:
        """Scrape the page and check it; return the name of the way to scrape."""
        name, headers, keep = WAYS[way % len(WAYS)]
        answer = await self.ask("/metrics", *headers, keep=keep)
        end = b"# EOF\n" if _OPENMETRICS in headers else b"\n"
        if answer.status != 200 or not answer.body.endswith(end):
            raise Unsatisfied(f"{name}: {answer.status}, {len(answer.body)} bytes that end with {answer.body[-20:]!r}")
        try:
            check(answer.body.decode())
        except ValueError as error:
            raise Unsatisfied(f"{name}: {error}") from None
        return name

    async def leave_amid(self) -> None:
        """Request the page, and disconnect when its first bytes arrive."""
        reader, writer = await self._small_connection()
        writer.write(self._request("GET", "/metrics", (), keep=False))
        await reader.read(100)
        writer.transport.abort()

    async def read_slowly(self) -> None:
        """Read the page in small pieces, for a minute."""
        reader, writer = await self._small_connection()
        writer.write(self._request("GET", "/metrics", (), keep=False))
        for _ in range(30):
            if not await reader.read(512):
                break
            await asyncio.sleep(2)
        writer.transport.abort()

    async def talk_nonsense(self, rng: Random) -> None:
        """Send an invalid or incomplete request, and wait for some time."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(rng.choice(_NONSENSE))
            async with asyncio.timeout(30):
                while await reader.read(4096):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()

    async def close(self) -> None:
        """Close the kept connection."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await _end(kept[1])

    def _request(self, method: str, path: str, headers: Sequence[str], *, keep: bool) -> bytes:
        login = base64.b64encode(f"{self._user}:{self.password}".encode()).decode()
        lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Basic {login}", *headers]
        if not keep:
            lines.append("connection: close")
        if method == "POST":
            lines.append("content-length: 0")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def _connection(self, *, keep: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if keep and self._kept is not None and not self._kept[0].at_eof():
            return self._kept
        if keep:
            await self.close()
        made = await asyncio.open_connection("127.0.0.1", self._port)
        if keep:
            self._kept = made
        return made

    async def _small_connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection with a buffer of a few kilobytes, so that the server must wait for its reader."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        return await asyncio.open_connection(sock=sock, limit=1024)


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
    body = await reader.readexactly(int(headers["content-length"])) if "content-length" in headers else b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    return Answer(int(head[0].split()[1]), gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body)


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
