"""A server behind a web config file, and those who come to it: for the tests of access."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt
from starlette.types import Receive, Scope, Send

from trainfleet_exporter.web.access import Access, AccessControl
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import WebServer

ANNA = bcrypt.hashpw(b"annas-secret", bcrypt.gensalt(4)).decode()
BERT = bcrypt.hashpw(b"berts-secret", bcrypt.gensalt(4)).decode()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str] = field(repr=False)
    body: str


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs: `reached` has the requests that came through to the application, `rejected` the others."""

    port: int
    reached: list[str]
    rejected: Counter[str]

    async def get(self, *headers: str, tls: ssl.SSLContext | None = None, method: str = "GET") -> Answer:
        """One request by a connection of its own. OSError or EOFError if there is no answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        try:
            lines = [f"{method} /page HTTP/1.1", "host: x", "connection: close", *headers, "", ""]
            writer.write("\r\n".join(lines).encode("latin-1"))
            raw = await reader.read()
        finally:
            writer.transport.abort()
        if not raw:
            raise EOFError
        head, _, body = raw.decode("latin-1").partition("\r\n\r\n")
        status, *rest = head.split("\r\n")
        return Answer(int(status.split()[1]), {k.lower(): v for k, _, v in (row.partition(": ") for row in rest)}, body)


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Served]:
    """An application that says hi, behind this web config file."""
    reached: list[str] = []

    async def hello(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["scheme"])
        headers = [(b"content-length", b"2"), (b"x-frame-options", b"sameorigin")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hi"})

    access = Access(path)
    rejected = Counter[str]()

    def count(reason: str) -> None:
        rejected[reason] += 1

    application = AccessControl(hello, access, count)
    server = WebServer(application, listen("127.0.0.1:0"), tls=lambda: access.config.context, rejected=count)
    await server.start()
    following = asyncio.create_task(access.follow())
    try:
        yield Served(int(server.addresses[0].rpartition(":")[2]), reached, rejected)
    finally:
        following.cancel()
        await server.stop()


def basic(user: str, password: str) -> str:
    """The header of a login."""
    return f"authorization: Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def trusting(authority: Path, *certificate: Path) -> ssl.SSLContext:
    """A client that trusts an authority, and shows a certificate if it is given one with its key."""
    context = ssl.create_default_context(cafile=str(authority))
    if certificate:
        context.load_cert_chain(*map(str, certificate))
    return context


ANNAS = basic("anna", "annas-secret")
"""Her login."""


def write(path: Path, text: str, at: float | None = None) -> None:
    """Write a file at once, as a check in its thread may read it now; `at`: its time, in seconds since 1970."""
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    os.utime(draft, None if at is None else (at, at))
    draft.replace(path)


async def later(seconds: float = 1.5) -> None:
    """Wait until a changed file has been noticed."""
    await asyncio.sleep(seconds)
