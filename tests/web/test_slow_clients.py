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
from random import Random

import pytest
from starlette.types import ASGIApp

from tests.support.certificates import Authority
from tests.support.clock import run_stepped
from tests.web.secured import trusting
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Format, PageStore
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.access import Access, AccessControl
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.metrics import MetricsEndpoint, SlowClientLimit
from trainfleet_exporter.web.server import WebServer

MB = 1_000_000
PARTS = 8
"""Of a page, of 1 MB each."""
PAGE = PARTS * MB
BUFFER = 1 << 16
"""Bytes that the system keeps for a connection, on either side of it."""


def show(page_store: PageStore, version: int, parts: range = range(PARTS)) -> None:
    """Put the parts of a page, which take 1 MB each, of a family each."""
    for part in parts:
        family = FAMILIES[part].name
        line = b'%s{part="%d",version="%d",pad="%s"} 1\n' % (family.encode(), part, version, b"x" * 900)
        page_store.put(part, {family: [line * (MB // len(line))]})


@dataclass
class Client:
    """One that has requested /metrics, and reads when the test says so."""

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
    """A page store and a server for it."""

    page_store: PageStore
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
async def serving(limit: int, web_config: Path | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    page_store = PageStore()
    app: ASGIApp = MetricsEndpoint(page_store, Telemetry(), limit)
    access = Access(web_config) if web_config else None
    if access:
        app = AccessControl(app, access)
    sockets = listen("127.0.0.1:0")
    for sock in sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)  # connections have it from here
    server = WebServer(app, sockets, tls=access.context if access and access.has_tls else None)
    await server.start()
    site = Site(page_store, int(server.addresses[0].rpartition(":")[2]), tls)
    try:
        yield site
    finally:
        for client in site.clients:
            client.writer.transport.abort()
        await server.stop()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


TOLD = "connection(s) cut off: slow clients keep too much memory in use for old pages; logged once while it lasts"


def test_memory_is_bounded_and_the_newest_have_their_answers(caplog: pytest.LogCaptureFixture) -> None:
    limit, count = 17 * MB, 10  # two old pages, of which a quarter has been written

    async def main() -> None:
        async with serving(limit) as site:
            show(site.page_store, -1)
            await (await site.ask()).versions()  # whatever is made once
            tracemalloc.start()
            for version in range(count):
                show(site.page_store, version)
                await site.ask()
                await asyncio.sleep(0.1)
                # The page, and what is allowed; and what connections, of which three are left, have taken, with the
                # chunk that is written last.
                assert tracemalloc.get_traced_memory()[0] < PAGE + limit + 4 * 2.2 * MB
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
            show(site.page_store, -1)
            await (await site.ask()).versions()
            tracemalloc.start()
            show(site.page_store, 0)
            client = await site.ask()
            await client.read(6 * MB)
            client.got.clear()
            show(site.page_store, 1)
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
            show(site.page_store, 0)
            slow = await site.ask()
            for version in range(1, 6):
                show(site.page_store, version)
                assert await (await site.ask()).versions() == {b"%d" % version}
                await slow.read(MB // 2)
            assert await slow.versions() == {b"0"}

    run_stepped(main)
    assert warnings(caplog) == []


def test_what_pages_share_is_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(PAGE) as site:
            show(site.page_store, 0)
            for version in range(1, PARTS - 1):  # clients on pages that differ in one part each
                await site.ask()
                show(site.page_store, version, range(version, version + 1))
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
                show(site.page_store, version)
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
                show(site.page_store, version)
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

    def __init__(self, limit: int) -> None:
        self.slow_clients = SlowClientLimit(limit)
        self.page_store = PageStore()
        self.aborted: list[int] = []

    async def read(self, version: int, until: Callable[[], Awaitable[object]], *, gzip: bool = False) -> None:
        """An answer of the present page that is stuck until the test lets it go on."""
        page = self.page_store.current()
        body = page.body(Format.TEXT, b"", gzip=gzip)
        with self.slow_clients.answer(page, body, lambda: self.aborted.append(version)):
            del page, body
            await until()


def test_the_limit_is_logged_again_when_it_is_reached_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        ledger = Ledger(0)

        async def stuck(versions: range) -> None:
            end = asyncio.Event()
            tasks = []
            for version in versions:
                show(ledger.page_store, version)
                tasks.append(asyncio.create_task(ledger.read(version, end.wait)))
                await asyncio.sleep(1)
            end.set()
            await asyncio.gather(*tasks)

        await stuck(range(5))
        assert ledger.aborted == [0, 1, 2]
        assert len(warnings(caplog)) == 1
        await stuck(range(5, 6))
        await stuck(range(6, 9))
        assert ledger.aborted == [0, 1, 2, 6]
        assert len(warnings(caplog)) == 2

    run_stepped(main)


def test_blocks_of_the_newest_page_do_not_count() -> None:
    random = Random(1)

    async def main() -> None:
        ledger, end = Ledger(0), asyncio.Event()
        for family in FAMILIES[:5]:  # what every page has; nothing can be compressed
            ledger.page_store.put(family, {family.name: [random.randbytes(MB)]})
        tasks = []
        for version in range(4):  # a page takes 9 MB, of which 4 are of it alone
            ledger.page_store.put("alone", {FAMILIES[5].name: [random.randbytes(4 * MB)]})
            tasks.append(asyncio.create_task(ledger.read(version, end.wait, gzip=True)))
            await asyncio.sleep(1)
        assert ledger.aborted == [0]
        end.set()
        await asyncio.gather(*tasks)

    run_stepped(main)


def test_nor_where_it_is_read_in_another_coding() -> None:
    async def main() -> None:
        ledger, end = Ledger(0), asyncio.Event()
        tasks = []
        show(ledger.page_store, 0)
        for version in range(1, 4):
            show(ledger.page_store, version, range(version, version + 1))
            tasks.append(asyncio.create_task(ledger.read(version, end.wait, gzip=version == 3)))
            await asyncio.sleep(1)
        assert ledger.aborted == []
        end.set()
        await asyncio.gather(*tasks)

    run_stepped(main)
