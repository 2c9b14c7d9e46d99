"""The server: where it listens, what a connection may send, and how long it may take, on the stepped clock."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.certificates import Authority
from tests.support.logs import lines_of
from tests.web.secured import serving, trusting
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import (
    ANSWER_SECONDS,
    HEAD_SECONDS,
    HEADERS_AT_MOST,
    IDLE_SECONDS,
    PIPELINED,
    REQUEST_BYTES,
    WebServer,
)

ASK = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
HI = b"HTTP/1.1 200 OK"
MB = 1_000_000


def answering(*bodies: bytes, pause: float = 0) -> Any:
    """An application that answers these pieces, with a pause after each."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        size = b"%d" % sum(map(len, bodies))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size)]})
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            if pause:
                await asyncio.sleep(pause)
        await send({"type": "http.response.body"})

    return app


HELLO = answering(b"hi")
MUCH = answering(*[bytes(MB)] * 90)
"""More than any buffer of the system takes."""


class Visitor:
    """A client of one connection, on the clock of the loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: WebServer | None) -> None:
        self.reader = reader
        self.server = server
        self.writer = writer
        self.since = asyncio.get_running_loop().time()

    @property
    def seconds(self) -> float:
        """Since it came."""
        return asyncio.get_running_loop().time() - self.since

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def rest(self) -> bytes:
        """What comes until the connection ends."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b"<reset>"


@asynccontextmanager
async def running(
    app: object = HELLO, *, sock: socket.socket | None = None, **settings: Any
) -> AsyncIterator[WebServer]:
    """A server with this application."""
    server = WebServer(app, [sock] if sock else listen("127.0.0.1:0"), **settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def met(app: object = HELLO, **settings: Any) -> AsyncIterator[Visitor]:
    """A client of a server with this application."""
    async with running(app, **settings) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        try:
            yield Visitor(reader, writer, server)
        finally:
            writer.close()
    assert not server.connections


def port_of(server: WebServer | None) -> int:
    assert server is not None
    return int(server.addresses[0].rpartition(":")[2])


@pytest.fixture
def _silent(caplog: pytest.LogCaptureFixture) -> object:
    """Strangers do not fill the log."""
    with caplog.at_level(logging.WARNING):
        yield
    assert not caplog.records


# Listening


@pytest.mark.parametrize(
    ("function", "error", "reason"),
    [
        (
            "getaddrinfo",
            socket.gaierror(socket.EAI_NONAME, "Name unknown"),
            "name unknown; choose another --web.listen",
        ),
        ("socket.bind", OSError(errno.EACCES, os.strerror(errno.EACCES)), "Permission denied; choose another --web.li"),
        ("socket.bind", OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files; raise the limit"),
    ],
)
def test_what_the_system_denies(monkeypatch: pytest.MonkeyPatch, function: str, error: OSError, reason: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"socket.{function}", fail)
    with pytest.raises(StartError, match=f"cannot listen on no.test:80: {reason}|127.0.0.1:80: {reason}"):
        listen("no.test:80" if function == "getaddrinfo" else "127.0.0.1:80")


# Requests

LONG = b"a: " + b"b" * 1000 + b"\r\n"


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + LONG * 60 + b"\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n" + LONG * 80, b"431 "),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * (HEADERS_AT_MOST - 1) + b"\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (HEADERS_AT_MOST + 2), b"431 "),
        (b"GET /" + b"x" * (REQUEST_BYTES + 1), b"431 "),
        (POST + b"content-length: 65000\r\n\r\n" + b"x" * 65000, b"200 OK"),
        (b"GET / HTTP/1.1\r\na: " + b"b" * 1_000_000, b"431 "),
        (b"nonsense\r\n\r\n", b"400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400 "),  # TLS where there is none
        (b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n\r\n", b"200 OK"),
        (b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHOST: y\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.0\r\nhost: x\r\nhost: y\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.0\r\n\r\n", b"200 OK"),
    ],
)
async def test_requests_that_are_answered_and_refused(request_: bytes, status: bytes) -> None:
    async with met() as visitor:
        visitor.say(request_)
        assert (await visitor.reader.readline()).startswith(b"HTTP/1.1 " + status)
        await visitor.rest()
        assert visitor.seconds < (IDLE_SECONDS + 1 if status == b"200 OK" else 3)


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize(
    ("head", "behind", "seconds"),
    [
        (POST + CHUNKED, b"2710\r\n" + b"x" * 10_000 + b"\r\n", 0),  # a body without end
        (POST + CHUNKED, b"nonsense\r\n", 0),
        (POST + CHUNKED, b"", IDLE_SECONDS),  # a body that never comes
        (POST + b"content-length: 1000\r\n\r\n", b"", IDLE_SECONDS),
    ],
)
async def test_a_body_keeps_no_connection_and_gets_no_response(head: bytes, behind: bytes, seconds: float) -> None:
    async with met() as visitor:
        visitor.say(head)
        assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
        for _ in range(100):
            if not behind or visitor.writer.is_closing() or visitor.reader.at_eof():
                break
            visitor.say(behind)
            await asyncio.sleep(0.01)
        assert await visitor.rest() in (b"", b"<reset>")
        assert seconds <= visitor.seconds < seconds + 2


@pytest.mark.usefixtures("_silent")
async def test_requests_in_a_row_are_answered_in_a_row_up_to_a_number() -> None:
    async with met() as visitor:
        visitor.say(ASK * (PIPELINED + 1))
        for _ in range(PIPELINED + 1):
            assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
        visitor.say(ASK * 5000)
        assert (await visitor.rest()).count(HI) <= PIPELINED + 1
        assert visitor.seconds < 2


# Time. `test_promises` has the heads.


@pytest.mark.usefixtures("_silent")
async def test_a_kept_connection_ends_when_it_was_idle_for_long() -> None:
    async with met() as visitor:
        for _ in range(3):
            visitor.say(ASK)
            assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
            await asyncio.sleep(60)  # as Prometheus does
        assert await visitor.rest() == b""
        assert 120 + IDLE_SECONDS <= visitor.seconds < 120 + IDLE_SECONDS + 1


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize(
    ("said", "seconds"),
    [(ASK, ANSWER_SECONDS), (ASK * 2, ANSWER_SECONDS), (ASK[:-2] + b"connection: close\r\n\r\n", ANSWER_SECONDS)],
)
async def test_a_client_that_does_not_read_is_cut_off(said: bytes, seconds: float) -> None:
    async with met(MUCH) as visitor:
        visitor.say(said)
        await visitor.reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(seconds - 1)
        assert not visitor.reader.at_eof()
        await asyncio.sleep(HEAD_SECONDS)
        assert len(await visitor.rest()) < 90 * MB


@pytest.mark.parametrize(
    ("said", "begins", "seconds"),
    [
        (b"", b"", HEAD_SECONDS),
        (b"GET / HT", b"HTTP/1.1 408", HEAD_SECONDS),
        (b"GET /" + b"x" * 100_000, b"HTTP/1.1 431", 0),
        (ASK, HI, IDLE_SECONDS),
    ],
)
async def test_the_same_limits_by_tls(tmp_path: Path, said: bytes, begins: bytes, seconds: float) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    (tmp_path / "web.yaml").write_text(
        "tls_server_config:\n  cert_file: authority-server.pem\n  key_file: authority-server-key.pem\n",
        encoding="utf-8",
    )

    async with serving(tmp_path / "web.yaml") as served:
        tls = trusting(authority.file)
        visitor = Visitor(*await asyncio.open_connection("127.0.0.1", served.port, ssl=tls), None)
        visitor.say(said)
        assert (await visitor.rest()).startswith(begins)
        assert seconds <= visitor.seconds < seconds + 3
        visitor.writer.close()


# Connections


async def test_the_connection_whose_step_began_first_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    rejected: list[str] = []
    with caplog.at_level(logging.WARNING):
        async with met(max_connections=2, rejected=rejected.append) as kept:
            port = port_of(kept.server)
            await asyncio.sleep(1)
            silent, second = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(1)
            kept.say(ASK)  # its step is younger now
            await kept.reader.readuntil(b"hi")
            _, third = await asyncio.open_connection("127.0.0.1", port)
            assert await silent.read() == b""
            kept.say(ASK)
            assert (await kept.reader.readuntil(b"hi")).startswith(HI)
            second.close()
            third.close()
    assert rejected == ["busy"]
    assert lines_of(caplog.records) == ["connection limit reached limit=2 count=1"]


@pytest.mark.parametrize("requests", [1, 2])
async def test_clients_that_do_not_read_leave_room_for_a_scraper(requests: int) -> None:
    async def scrape(port: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(ASK[:-2] + b"connection: close\r\n\r\n")
            return len((await reader.read()).partition(b"\r\n\r\n")[2])
        finally:
            writer.close()

    async with met(answering(*[bytes(MB)] * 19), max_connections=12) as visitor:
        port = port_of(visitor.server)
        with ExitStack() as stack:
            for _ in range(14):  # more than there may be
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                client.sendall(ASK * requests)
                await asyncio.sleep(0.1)
            for _ in range(9):  # also while none has been slow for long
                assert await scrape(port) == 19 * MB
                await asyncio.sleep(3)


async def test_an_internal_error_frees_the_slot_of_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    def context() -> ssl.SSLContext:
        raise RuntimeError("not to be had")

    with caplog.at_level(logging.WARNING):
        async with met(tls=context, max_connections=2) as visitor:
            for _ in range(4):  # more than there are places, with the visitor's own
                reader, writer = await asyncio.open_connection("127.0.0.1", port_of(visitor.server))
                assert await reader.read() == b""
                writer.close()
    reported = [record for record in caplog.records if record.name.startswith("trainfleet_exporter")]
    assert [record.getMessage() for record in reported] == ["cannot open a connection: internal error"] * 5
    assert all(record.exc_info for record in reported)


async def test_stop_closes_clients_that_do_not_read_after_2_seconds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with met(MUCH) as visitor:
            visitor.say(ASK)
            await asyncio.sleep(1)
            assert visitor.server is not None
            await visitor.server.stop()
            assert 2.9 < visitor.seconds < 4
    assert lines_of(caplog.records) == [
        "closed connections at shutdown before clients had read their responses connections=1"
    ]
