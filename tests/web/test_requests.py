"""What a connection may send and how long it may take, over real sockets on the stepped clock."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.certificates import Authority
from tests.support.clock import run_stepped
from tests.web.secured import serving, trusting
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
HI = b"HTTP/1.1 200 OK"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers `hi`."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


async def much(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers more than any buffer of the system takes."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"90000000")]})
    for _ in range(90):
        await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
    await send({"type": "http.response.body"})


class Visitor:
    """A client of one connection, on the clock of the loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.since = asyncio.get_running_loop().time()

    @property
    def seconds(self) -> float:
        """Since it came."""
        return asyncio.get_running_loop().time() - self.since

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def drip(self, data: bytes, *, times: int = 1_000_000) -> None:
        """Send a byte a second, until the other side has had enough."""
        for _ in range(times):
            for byte in data:
                if self.reader.at_eof() or self.writer.is_closing():
                    return
                self.writer.write(bytes((byte,)))
                await asyncio.sleep(1)

    async def rest(self) -> bytes:
        """What comes until the connection ends."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b"<reset>"


def meet(visit: Callable[[Visitor], Awaitable[None]], app: object = hello) -> None:
    """Run a client of a server with this application. What it does is nothing to warn of."""

    async def main() -> None:
        server = WebServer(app, listen("127.0.0.1:0"))
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.addresses[0].rpartition(":")[2]))
        try:
            await visit(Visitor(reader, writer))
        finally:
            writer.close()
            await server.stop()
        assert not server.connections

    run_stepped(main)


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> object:
    """Strangers do not fill the log."""
    with caplog.at_level(logging.WARNING):
        yield
    assert not caplog.records


@pytest.mark.parametrize("head", [ASK[:10] + b"x" * 100, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100])
def test_a_byte_a_second_is_too_slow(head: bytes) -> None:
    async def visit(visitor: Visitor) -> None:
        dripping = asyncio.create_task(visitor.drip(head))
        answer = await visitor.rest()
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert HEAD_SECONDS <= visitor.seconds < HEAD_SECONDS + 3
        dripping.cancel()

    meet(visit)


def test_a_kept_connection_ends_when_it_was_idle_for_long() -> None:
    async def visit(visitor: Visitor) -> None:
        for _ in range(3):
            visitor.say(ASK)
            assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
            await asyncio.sleep(60)  # as Prometheus does
        assert await visitor.rest() == b""
        assert 120 + IDLE_SECONDS <= visitor.seconds < 120 + IDLE_SECONDS + 1

    meet(visit)


LONG = b"a: " + b"b" * 1000 + b"\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + LONG * 60 + b"\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n" + LONG * 80, b"431 "),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * (HEADERS_AT_MOST - 1) + b"\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (HEADERS_AT_MOST + 2), b"431 "),
        (b"GET /" + b"x" * (REQUEST_BYTES + 1), b"431 "),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 65000\r\n\r\n" + b"x" * 65000, b"200 OK"),
        (b"GET / HTTP/1.1\r\na: " + b"b" * 1_000_000, b"431 "),
        (b"nonsense\r\n\r\n", b"400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400 "),  # TLS where there is none
        (b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n\r\n", b"200 OK"),
        (b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHOST: y\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.0\r\nhost: x\r\nhost: y\r\n\r\n", b"400 "),
        (b"GET / HTTP/1.0\r\n\r\n", b"200 OK"),
    ],
)
def test_requests_that_are_answered_and_refused(request_: bytes, status: bytes) -> None:
    async def visit(visitor: Visitor) -> None:
        visitor.say(request_)
        assert (await visitor.reader.readline()).startswith(b"HTTP/1.1 " + status)
        await visitor.rest()
        assert visitor.seconds < (IDLE_SECONDS + 1 if status == b"200 OK" else 3)

    meet(visit)


def test_a_body_without_end_is_not_read_to_its_end() -> None:
    async def visit(visitor: Visitor) -> None:
        visitor.say(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
        for _ in range(100):
            if visitor.writer.is_closing() or visitor.reader.at_eof():
                break
            visitor.say(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            await asyncio.sleep(0.01)
        assert await visitor.rest() in (b"", b"<reset>")
        assert visitor.seconds < HEAD_SECONDS

    meet(visit)


@pytest.mark.parametrize("kind", [b"content-length: 1000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"])
def test_a_body_that_never_comes_keeps_no_connection(kind: bytes) -> None:
    async def visit(visitor: Visitor) -> None:
        visitor.say(b"POST / HTTP/1.1\r\nhost: x\r\n" + kind)
        assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
        assert await visitor.rest() == b""
        assert IDLE_SECONDS <= visitor.seconds < IDLE_SECONDS + 1

    meet(visit)


def test_many_small_headers_take_little_memory() -> None:
    async def visit(visitor: Visitor) -> None:
        gc.collect()
        tracemalloc.start()
        try:
            visitor.say(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 15_000)
            answer = await visitor.rest()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert peak < 1_000_000  # of which a quarter is what the system gives in one read

    meet(visit)


def test_nothing_is_written_to_a_client_that_left() -> None:
    written = 0

    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal written
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"90000000")]})
        for _ in range(90):
            await asyncio.sleep(0.1)
            await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
            written += 1

    async def visit(visitor: Visitor) -> None:
        visitor.say(ASK * 2)
        await visitor.reader.readuntil(b"\r\n\r\n")
        visitor.writer.transport.abort()
        await asyncio.sleep(HEAD_SECONDS)
        assert written == 90  # to a closed client: every test here checks asyncio's warnings

    meet(visit, long)


def test_a_body_that_is_no_body_is_no_second_answer() -> None:
    async def visit(visitor: Visitor) -> None:
        visitor.say(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
        visitor.say(b"nonsense\r\n")
        assert await visitor.rest() in (b"", b"<reset>")
        assert visitor.seconds < 1

    meet(visit)


def test_nonsense_behind_a_request_is_no_part_of_its_response() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"wh", "more_body": True})
        await asyncio.sleep(1)
        await send({"type": "http.response.body", "body": b"at"})

    async def visit(visitor: Visitor) -> None:
        visitor.say(ASK + b"nonsense\r\n\r\n" + ASK)
        assert (await visitor.rest()).count(b"HTTP/1.1") <= 1
        assert visitor.seconds < 2

    meet(visit, slow)


def test_requests_in_a_row_are_answered_in_a_row_up_to_a_number() -> None:
    async def visit(visitor: Visitor) -> None:
        visitor.say(ASK * (PIPELINED + 1))
        for _ in range(PIPELINED + 1):
            assert (await visitor.reader.readuntil(b"hi")).startswith(HI)
        visitor.say(ASK * 5000)
        assert (await visitor.rest()).count(HI) <= PIPELINED + 1
        assert visitor.seconds < 2

    meet(visit)


@pytest.mark.parametrize("requests", [1, 2])
def test_a_client_that_does_not_read_is_cut_off(requests: int) -> None:
    async def visit(visitor: Visitor) -> None:
        visitor.say(ASK * requests)
        await visitor.reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(ANSWER_SECONDS - 1)
        assert not visitor.reader.at_eof()
        await asyncio.sleep(2)
        assert len(await visitor.rest()) < 90_000_000

    meet(visit, much)


def test_an_answer_that_was_the_last_is_not_kept_for_ever_either() -> None:
    async def last(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"30000000")]})
        await send({"type": "http.response.body", "body": bytes(30_000_000)})

    async def visit(visitor: Visitor) -> None:
        visitor.say(ASK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        await asyncio.sleep(60)
        assert len(await visitor.rest()) < 30_000_000

    meet(visit, last)


@pytest.mark.parametrize(
    ("said", "begins", "seconds"),
    [
        (b"", b"", HEAD_SECONDS),
        (b"GET / HT", b"HTTP/1.1 408", HEAD_SECONDS),
        (b"GET /" + b"x" * 100_000, b"HTTP/1.1 431", 0),
        (ASK, HI, IDLE_SECONDS),
    ],
)
def test_the_same_limits_by_tls(tmp_path: Path, said: bytes, begins: bytes, seconds: float) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    (tmp_path / "web.yaml").write_text(
        "tls_server_config:\n  cert_file: authority-server.pem\n  key_file: authority-server-key.pem\n",
        encoding="utf-8",
    )

    async def main() -> None:
        async with serving(tmp_path / "web.yaml") as served:
            visitor = Visitor(*await asyncio.open_connection("127.0.0.1", served.port, ssl=trusting(authority.file)))
            visitor.say(said)
            assert (await visitor.rest()).startswith(begins)
            assert seconds <= visitor.seconds < seconds + 3
            visitor.writer.close()

    run_stepped(main)
