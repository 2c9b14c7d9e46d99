"""Slow clients of /metrics, over real sockets: what they keep in use is bounded, and who is cut off for it."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from tests.support.certificates import Authority
from tests.support.clock import run_stepped
from tests.web.secured import trusting
from trainfleet_exporter.exposition import Board, Format
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.metrics import MetricsEndpoint
from trainfleet_exporter.web.readers import Readers
from trainfleet_exporter.web.security import Gate, Guard
from trainfleet_exporter.web.server import WebServer, listen

FAMILY = FAMILIES[1].name
MB = 1_000_000
PARTS = 8
"""Of a page, of 1 MB each."""
PAGE = PARTS * MB
BUFFER = 1 << 16
"""Bytes that the system keeps for a connection, on either side of it."""


def show(board: Board, version: int, parts: range = range(PARTS)) -> None:
    """Put the parts of a page, which take 1 MB each."""
    for part in parts:
        line = b'%s{part="%d",version="%d",pad="%s"} 1\n' % (FAMILY.encode(), part, version, b"x" * 900)
        board.put(part, {FAMILY: [line * (MB // len(line))]})


@dataclass
class Client:
    """One that has asked for /metrics, and reads when it is told to."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    length: int = 0
    got: bytearray = field(default_factory=bytearray)

    async def head(self) -> None:
        """Read the head of an answer: its body has begun then."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        self.length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])

    async def read(self, size: int) -> None:
        """Read so many bytes of the body, or up to its end."""
        end = min(len(self.got) + size, self.length)
        while len(self.got) < end:
            data = await self.reader.read(end - len(self.got))
            if not data:
                raise asyncio.IncompleteReadError(bytes(self.got[:100]), self.length)
            self.got += data

    async def versions(self) -> set[bytes]:
        """The versions of the parts that it is shown, once all of the answer is there."""
        await self.read(self.length)
        found = set(re.findall(rb'version="(-?[0-9]+)",', self.got))
        self.got.clear()
        return found


@dataclass
class Site:
    """A board and a server for it."""

    board: Board
    port: int
    tls: ssl.SSLContext | None
    clients: list[Client] = field(default_factory=list)

    async def ask(self, times: int = 1) -> Client:
        """A new client, which has read the head of its (first) answer."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        host = "127.0.0.1" if self.tls else None
        client = Client(*await asyncio.open_connection(sock=sock, ssl=self.tls, server_hostname=host, limit=BUFFER))
        self.clients.append(client)
        client.writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * times)
        await client.head()
        return client


@asynccontextmanager
async def serving(
    allowance: int, web_config: Path | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    board = Board()
    app: ASGIApp = MetricsEndpoint(board, Telemetry(), allowance)
    gate = Gate(web_config) if web_config else None
    if gate:
        app = Guard(app, gate)
    sockets = listen("127.0.0.1:0")
    for sock in sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)  # connections have it from here
    server = WebServer(app, sockets, tls=gate.context if gate and gate.has_tls else None)
    await server.start()
    site = Site(board, int(server.addresses[0].rpartition(":")[2]), tls)
    try:
        yield site
    finally:
        for client in site.clients:
            client.writer.transport.abort()
        await server.stop()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


TOLD = "connection(s) cut off: slow clients keep too much memory in use for old pages; told once while it lasts"


def test_memory_is_bounded_and_the_newest_have_their_answers(caplog: pytest.LogCaptureFixture) -> None:
    allowance, count = 20 * MB, 10

    async def main() -> None:
        async with serving(allowance) as site:
            show(site.board, -1)
            await (await site.ask()).versions()  # whatever is made once
            tracemalloc.start()
            for version in range(count):
                show(site.board, version)
                await site.ask()
                await asyncio.sleep(0.1)
                # the page, and what is allowed; and what connections have taken, of which three are left
                assert tracemalloc.get_traced_memory()[0] < PAGE + allowance + 4 * 1.2 * MB
            newest = site.clients[-3:]
            for version, client in enumerate(newest, count - 3):
                assert await client.versions() == {b"%d" % version}
            for client in site.clients[1:-3]:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await client.versions()

    try:
        run_stepped(main)
    finally:
        tracemalloc.stop()
    assert warnings(caplog) == [f"1 {TOLD}"]


def test_what_is_sent_is_let_go_of() -> None:
    async def main() -> None:
        async with serving(PAGE) as site:
            show(site.board, -1)
            await (await site.ask()).versions()
            tracemalloc.start()
            show(site.board, 0)
            client = await site.ask()
            await client.read(6 * MB)
            client.got.clear()
            show(site.board, 1)
            await (await site.ask()).versions()
            # the new page, and of the old one what is still to come, a part of which the connection has taken
            assert tracemalloc.get_traced_memory()[0] < PAGE + 2 * MB + 2 * 1.2 * MB

    try:
        run_stepped(main)
    finally:
        tracemalloc.stop()


def test_one_slow_client_keeps_its_page_however_many_follow(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(0) as site:
            show(site.board, 0)
            slow = await site.ask()
            for version in range(1, 6):
                show(site.board, version)
                assert await (await site.ask()).versions() == {b"%d" % version}
                await slow.read(MB // 2)
            assert await slow.versions() == {b"0"}

    run_stepped(main)
    assert warnings(caplog) == []


def test_what_pages_share_is_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(PAGE) as site:
            show(site.board, 0)
            for version in range(1, PARTS - 1):  # clients on pages that differ in one part each
                await site.ask()
                show(site.board, version, range(version, version + 1))
            await site.ask()
            for number, client in enumerate(site.clients):
                assert await client.versions() == {b"%d" % version for version in range(number + 1)}

    run_stepped(main)
    assert warnings(caplog) == []


def test_through_tls_and_a_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    web = tmp_path / "web.yaml"
    web.write_text(f"tls_server_config: {{cert_file: {cert.name}, key_file: {key.name}}}\n", encoding="utf-8")

    async def main() -> None:
        async with serving(0, web, trusting(authority.file)) as site:
            for version in range(3):
                show(site.board, version)
                await site.ask()
            first, *others = site.clients
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)):
                await first.versions()
            assert [await client.versions() for client in others] == [{b"1"}, {b"2"}]

    run_stepped(main)
    assert warnings(caplog) == [f"1 {TOLD}"]


def test_with_requests_that_wait_behind_the_one_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(0) as site:
            for version in range(3):
                show(site.board, version)
                await site.ask(times=3)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await site.clients[0].versions()
            for number in (2, 1):  # the second is the one that keeps an old page
                client = site.clients[number]
                assert await client.versions() == {b"%d" % number}
                for _ in range(2):
                    await client.head()
                    assert await client.versions() == {b"2"}

    run_stepped(main)
    assert warnings(caplog) == [f"1 {TOLD}"]


class Ledger:
    """Answers under way without connections."""

    def __init__(self, allowance: int) -> None:
        self.readers = Readers(allowance)
        self.board = Board()
        self.cut_off: list[int] = []

    async def read(
        self, version: int, until: Callable[[], Awaitable[object]], zipped: list[bytes] | None = None
    ) -> None:
        """An answer of a page as it is now that gets stuck until somebody lets it go on."""
        page = self.board.snapshot()
        with self.readers.answer(page, lambda: self.cut_off.append(version)) as answer:
            self.readers.give(answer, page.pieces(Format.TEXT) if zipped is None else zipped, Format.TEXT)
            del page
            await until()


def test_it_is_told_again_when_it_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        ledger = Ledger(0)

        async def stuck(versions: range) -> None:
            end = asyncio.Event()
            tasks = []
            for version in versions:
                show(ledger.board, version)
                tasks.append(asyncio.create_task(ledger.read(version, end.wait)))
                await asyncio.sleep(1)
            end.set()
            await asyncio.gather(*tasks)

        await stuck(range(5))
        assert ledger.cut_off == [0, 1, 2]
        assert len(warnings(caplog)) == 1
        await stuck(range(5, 6))
        await stuck(range(6, 9))
        assert ledger.cut_off == [0, 1, 2, 6]
        assert len(warnings(caplog)) == 2

    run_stepped(main)


def test_what_the_newest_page_has_is_held_against_nobody() -> None:
    async def main() -> None:
        ledger, end = Ledger(PAGE), asyncio.Event()
        shared = [bytes([48 + n]) * MB for n in range(5)]
        tasks = []
        for version in range(4):  # gzipped: five pieces are those of every page, and as much is of each alone
            show(ledger.board, version)
            zipped = [*shared, bytes([58 + version]) * (5 * MB)]
            tasks.append(asyncio.create_task(ledger.read(version, end.wait, zipped)))
            await asyncio.sleep(1)
        assert ledger.cut_off == [0, 1]
        end.set()
        await asyncio.gather(*tasks)

    run_stepped(main)


def test_nor_where_it_is_read_in_another_coding() -> None:
    async def main() -> None:
        ledger, end = Ledger(0), asyncio.Event()
        tasks = []
        show(ledger.board, 0)
        for version in range(1, 4):
            show(ledger.board, version, range(version, version + 1))
            zipped = [b"z" * MB] if version == 3 else None
            tasks.append(asyncio.create_task(ledger.read(version, end.wait, zipped)))
            await asyncio.sleep(1)
        assert ledger.cut_off == []
        end.set()
        await asyncio.gather(*tasks)

    run_stepped(main)
