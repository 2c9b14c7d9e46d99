"""Listening: addresses, and one clear line where it cannot be done."""

from __future__ import annotations

import socket

import pytest

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.web.server import WebServer, listen


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
    assert WebServer(None, sockets).addresses[0].startswith("localhost:")
    _close(sockets)


def test_a_taken_port() -> None:
    taken = listen("127.0.0.1:0")
    address = f"127.0.0.1:{taken[0].getsockname()[1]}"
    with pytest.raises(StartError, match=f"cannot listen on {address}: Address already in use"):
        listen(address)
    _close(taken)


@pytest.mark.parametrize("address", ["", "10075", "localhost", "localhost:", ":x", ":70000", "::1:80", "host:-1"])
def test_malformed_addresses(address: str) -> None:
    with pytest.raises(StartError, match=r"allowed are HOST:PORT|write an IPv6"):
        listen(address)
