"""Clients of the daemon's pages: correct scrapers, and others."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Mapping, Sequence
from random import Random

import httpx

from trainfleet_conformance.page import check

_PATIENCE = 60.0
_OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
_GZIP = {"accept_encoding": "gzip"}
WAYS: Sequence[tuple[str, Mapping[str, str], bool]] = (
    ("plain, new connection", {}, False),
    ("gzip, kept connection", _GZIP, True),
    ("OpenMetrics, kept connection", _OPENMETRICS, True),
    ("gzip, new connection", _GZIP, False),
    ("plain, kept connection", {}, True),
    ("OpenMetrics and gzip, new connection", _OPENMETRICS | _GZIP, False),
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


class Visitor:
    """A client of one port, as one user whose password may change. `close` closes the kept connection."""

    def __init__(self, port: int, user: str) -> None:
        self._port = port
        self._user = user
        self.password = ""
        self._kept = self._client()

    async def ask(self, path: str, *, method: str = "GET", keep: bool = False, **headers: str) -> httpx.Response:
        """Send one request, on the kept connection or on one of its own."""
        sent = {"accept-encoding": "identity", **{name.replace("_", "-"): value for name, value in headers.items()}}
        auth = httpx.BasicAuth(self._user, self.password)
        if keep:
            return await self._kept.request(method, path, headers=sent, auth=auth)
        async with self._client() as client:
            return await client.request(method, path, headers=sent | {"connection": "close"}, auth=auth)

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self._port}", timeout=_PATIENCE, trust_env=False, verify=False
        )

    async def scrape(self, way: int) -> str:
        """Scrape the page and check it; return the name of the way to scrape."""
        name, headers, keep = WAYS[way % len(WAYS)]
        answer = await self.ask("/metrics", keep=keep, **headers)
        end = b"# EOF\n" if "accept" in headers else b"\n"
        if answer.status_code != 200 or not answer.content.endswith(end):
            raise Unsatisfied(f"{name}: {answer.status_code}, and the end is {answer.content[-20:]!r}")
        try:
            check(answer.text)
        except ValueError as error:
            raise Unsatisfied(f"{name}: {error}") from None
        return name

    async def leave_amid(self) -> None:
        """Request the page, and disconnect when its first bytes arrive."""
        reader, writer = await self._small_connection()
        await reader.read(100)
        writer.transport.abort()

    async def read_slowly(self) -> None:
        """Read the page in small pieces, for a minute."""
        reader, writer = await self._small_connection()
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
        await self._kept.aclose()
        self._kept = self._client()

    async def _small_connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Request the page with a buffer of a few kilobytes, so that the server must wait for its reader."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
        login = base64.b64encode(f"{self._user}:{self.password}".encode()).decode()
        writer.write(f"GET /metrics HTTP/1.1\r\nhost: x\r\nauthorization: Basic {login}\r\n\r\n".encode())
        return reader, writer
