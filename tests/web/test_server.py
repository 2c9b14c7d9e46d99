"""Listening: addresses, and one clear line where it cannot be done."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.clock import run_stepped
from tests.support.logs import lines_of
from tests.support.ports import held_port
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import WebServer


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def test_sockets_say_that_they_are_tcp() -> None:
    sockets = listen("127.0.0.1:0")
    assert [sock.proto for sock in sockets] == [socket.IPPROTO_TCP]
    assert WebServer(None, sockets).addresses == [f"127.0.0.1:{sockets[0].getsockname()[1]}"]
    _close(sockets)


def test_every_interface() -> None:
    sockets = listen(":0")
    port = sockets[0].getsockname()[1]
    assert WebServer(None, sockets).addresses[0] in {f"[::]:{port}", f"0.0.0.0:{port}"}
    _close(sockets)


def test_a_taken_port() -> None:
    taken = listen("127.0.0.1:0")
    address = f"127.0.0.1:{taken[0].getsockname()[1]}"
    with pytest.raises(StartError, match=f"cannot listen on {address}: Address already in use"):
        listen(address)
    _close(taken)


@pytest.mark.parametrize("address", ["", "10075", "localhost", "localhost:", ":x", ":70000", "::1:80", "host:-1"])
def test_malformed_addresses(address: str) -> None:
    with pytest.raises(StartError, match=r"allowed: HOST:PORT or :PORT|allowed for an IPv6"):
        listen(address)


@pytest.mark.parametrize("address", ["a..b:80", "é" * 70 + ":80"])
def test_what_can_be_no_host_name(address: str) -> None:
    with pytest.raises(StartError, match=r"not a host name; choose another --web.listen-address"):
        listen(address)


def test_a_name_that_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(StartError, match=r"cannot listen on no\.test:80: name or service not known; choose another"):
        listen("no.test:80")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EADDRNOTAVAIL, errno.EMFILE])
def test_what_the_system_denies(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", fail)
    hint = "raise the limit" if number == errno.EMFILE else "choose another --web.listen-address"
    with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:80: {os.strerror(number)}; {hint}"):
        listen("127.0.0.1:80")


def test_one_taken_address_releases_the_other() -> None:
    taken = listen("127.0.0.1:0")
    with held_port() as port:
        first = f"127.0.0.1:{port}"
        with pytest.raises(StartError, match="Address already in use"):
            listen(first, f"127.0.0.1:{taken[0].getsockname()[1]}")
        _close(listen(first))
    _close(taken)


def test_stop_closes_clients_that_do_not_read_after_2_seconds(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def endless(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        finally:
            ended.append("ended")

    async def main() -> None:
        server = WebServer(endless, listen("127.0.0.1:0"))
        await server.start()
        host, _, port = server.addresses[0].partition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            await server.stop()
            assert 1.9 < asyncio.get_running_loop().time() - began < 3

    with caplog.at_level(logging.WARNING):
        run_stepped(main)
    assert ended == ["ended"]
    assert lines_of(caplog.records) == [
        "closed connections at shutdown before clients had read their responses connections=1"
    ]


@pytest.mark.parametrize("requests", [1, 2])
def test_clients_that_do_not_read_leave_room_for_a_scraper(requests: int) -> None:
    async def much(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"19000000")]})
        for _ in range(19):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        await send({"type": "http.response.body"})

    async def scrape(port: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            return len((await reader.read()).partition(b"\r\n\r\n")[2])
        finally:
            writer.close()

    async def main() -> None:
        server = WebServer(much, listen("127.0.0.1:0"), max_connections=12)
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        with ExitStack() as stack:
            for _ in range(8):  # two more than there may be
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * requests)
                await asyncio.sleep(0.1)
            for _ in range(25):  # also while none has been slow for long
                assert await scrape(port) == 19_000_000
                await asyncio.sleep(1)
        await server.stop()

    run_stepped(main)


def test_an_internal_error_frees_the_slot_of_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    def context() -> ssl.SSLContext:
        raise RuntimeError("not to be had")

    async def main() -> None:
        server = WebServer(None, listen("127.0.0.1:0"), tls=context, max_connections=2)
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        for _ in range(5):  # more than there are places
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
        await server.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    reported = [record for record in caplog.records if record.name.startswith("trainfleet_exporter")]
    assert [record.getMessage() for record in reported] == ["cannot open a connection: internal error"] * 5
    assert all(record.exc_info for record in reported)


def test_the_connection_whose_step_began_first_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    rejected: list[str] = []

    async def hello(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"hi"})

    async def main() -> None:
        server = WebServer(hello, listen("127.0.0.1:0"), max_connections=2, rejected=rejected.append)
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        kept, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(1)
        silent, second = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(1)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")  # its step is younger now
        await kept.readuntil(b"hi")
        _, third = await asyncio.open_connection("127.0.0.1", port)
        assert await silent.read() == b""
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await kept.readuntil(b"hi")).startswith(b"HTTP/1.1 200 OK")
        assert server.connections == 2
        for each in (writer, second, third):
            each.close()
        await server.stop()

    with caplog.at_level(logging.WARNING):
        run_stepped(main)
    assert rejected == ["busy"]
    assert lines_of(caplog.records) == ["connection limit reached limit=2 count=1"]
