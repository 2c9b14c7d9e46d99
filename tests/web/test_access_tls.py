"""A web config file in use: certificates that are renewed, authorities of clients, and answers by TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.certificates import Authority
from tests.support.clock import run_stepped
from tests.support.logs import line_of
from tests.web.secured import (
    Answer,
    Served,
    later,
    serve,
    trusting,
    write,
)
from trainfleet_exporter.web import access as access_module
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import HEAD_SECONDS, WebServer


class Site:
    """A web config file with TLS, and its authority."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "web.yaml"
        self.authority = Authority(folder)
        self.cert, self.key = self.authority.issue("server")
        self.next = self.authority.issue("next")  # now: OpenSSL's clock cannot be stepped
        self.write()

    def renew(self) -> None:
        """Put another certificate and its key in the place of those that are there."""
        for old, new in zip((self.cert, self.key), self.next, strict=True):
            old.write_bytes(new.read_bytes())

    def write(self, more: str = "") -> None:
        own = f"cert_file: {self.cert.name}, key_file: {self.key.name}"
        write(self.path, f"tls_server_config: {{{own}{more}}}\n")

    def client(self) -> ssl.SSLContext:
        return trusting(self.authority.file)

    async def shown(self, served: Served) -> bytes | None:
        """The certificate that a new connection is shown."""
        _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=self.client())
        try:
            found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
        return found

    def expected(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.cert.read_text(encoding="utf-8"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_missing_file_is_used_when_it_comes(site: Site) -> None:
    """The web config names new files before they are there, and does not change when they come."""
    new = [path.with_name(f"new-{path.name}") for path in (site.cert, site.key)]

    async def visit(served: Served) -> None:
        before = site.expected()
        write(site.path, f"tls_server_config: {{cert_file: {new[0].name}, key_file: {new[1].name}}}\n")
        await later()
        assert await site.shown(served) == before
        for source, path in zip(site.next, new, strict=True):
            path.write_bytes(source.read_bytes())
        await later()
        assert await site.shown(served) == ssl.PEM_cert_to_DER_cert(new[0].read_text(encoding="utf-8")) != before

    serve(site.path, visit)


def test_other_authorities_of_clients_count_a_second_later(site: Site, tmp_path: Path) -> None:
    clients = Authority(tmp_path, "clients")
    pair = clients.issue("client", host="prometheus")
    others = Authority(tmp_path, "others")
    site.write(", client_auth_type: RequireAndVerifyClientCert, client_ca_file: clients.pem")

    async def visit(served: Served) -> None:
        client = trusting(site.authority.file, *pair)
        assert (await served.get(tls=client)).status == 200
        clients.file.write_bytes(others.file.read_bytes())
        await later()
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await served.get(tls=client)

    serve(site.path, visit)


async def _status(served: Served, tls: ssl.SSLContext | None) -> Answer | None:
    try:
        return await served.get(tls=tls)
    except (ssl.SSLError, ConnectionError, EOFError):
        return None


def test_tls_is_switched_by_a_restart_only(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async def off(served: Served) -> None:
        client = site.client()
        write(site.path, "{}\n")
        await later()
        assert (await served.get(tls=client)).status == 200
        assert await _status(served, None) is None
        site.write()
        await later()
        assert (await served.get(tls=client)).status == 200

    async def on(served: Served) -> None:
        site.write()
        await later()
        assert (await served.get()).status == 200
        assert await _status(served, site.client()) is None

    serve(site.path, off)
    write(site.path, "{}\n")
    serve(site.path, on)
    reported = [line_of(record) for record in caplog.records if record.name == access_module.__name__]
    assert all("tls_server_config: restart the exporter to switch TLS on or off" in line for line in reported)
    assert len(reported) == 2


def test_a_large_page_arrives_whole_by_tls(site: Site) -> None:
    """And a client that takes no more of it holds up neither others nor the end."""
    pieces = [bytes([number]) * 1_000_000 for number in range(20)]

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"20000000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def main() -> None:
        access = access_module.Access(site.path)
        server = WebServer(
            access_module.AccessControl(page, access), listen("127.0.0.1:0"), tls=lambda: access.config.context
        )
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        request = b"GET / HTTP/1.0\r\n\r\n"
        lazy, writer = await asyncio.open_connection("127.0.0.1", port, ssl=site.client())
        writer.write(request)
        await lazy.readexactly(1)
        reader, other = await asyncio.open_connection("127.0.0.1", port, ssl=site.client())
        other.write(request)
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        assert body == b"".join(pieces)
        began = asyncio.get_running_loop().time()
        await server.stop()
        assert asyncio.get_running_loop().time() - began < 3
        for each in (writer, other):
            each.transport.abort()

    run_stepped(main)


def test_a_last_answer_that_is_taken_slowly_arrives_whole_by_tls(site: Site) -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"20000000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(20_000_000)})

    async def main() -> None:
        access = access_module.Access(site.path)
        server = WebServer(
            access_module.AccessControl(page, access), listen("127.0.0.1:0"), tls=lambda: access.config.context
        )
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=site.client())
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(HEAD_SECONDS - 2)
        assert len(await reader.read(-1)) == 20_000_000
        await server.stop()
        writer.transport.abort()

    run_stepped(main)
