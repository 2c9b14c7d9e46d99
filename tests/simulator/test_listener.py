"""Several addresses of the same clouds: one is shut, the others are not."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import httpx
import pytest

from tests.simulator.client import Clock
from tests.support.clock import START, run_stepped
from trainfleet_simulator import Fault, Simulator


async def get(client: httpx.AsyncClient, url: str) -> str:
    """How an address answers."""
    try:
        answer = await client.get(f"{url}/truth")
    except httpx.HTTPError as error:
        return type(error).__name__
    return str(answer.status_code)


def test_closed_listener_opens_at_the_same_address() -> None:
    async def main() -> None:
        simulator = Simulator(1, clock=Clock(START), population=5)
        async with (
            simulator.serve_listeners(["dlc", "sts"]) as listeners,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            dlc, sts = listeners["dlc"], listeners["sts"]
            assert dlc.url != sts.url
            for _ in range(3):
                assert [await get(client, listener.url) for listener in (dlc, sts)] == ["200", "200"]
                dlc.shut()
                dlc.shut()
                assert [await get(client, listener.url) for listener in (dlc, sts)] == ["ConnectError", "200"]
                url = dlc.url
                dlc.open()
                dlc.open()
                assert dlc.url == url
        async with httpx.AsyncClient(trust_env=False) as client:
            assert [await get(client, listener.url) for listener in (dlc, sts)] == ["ConnectError"] * 2

    run_stepped(main)


def test_all_listeners_serve_the_same_clouds() -> None:
    async def main() -> None:
        simulator = Simulator(1, clock=Clock(START), population=5)
        async with simulator.serve_listeners("ab") as listeners, httpx.AsyncClient(trust_env=False) as client:
            await client.get(f"{listeners['a'].url}/api/v1/jobs", headers={"x-acs-version": "2020-12-03"})
            reported = (await client.get(f"{listeners['b'].url}/truth")).json()
            assert reported["calls"] == {"dlc": {"unknown": {"auth": 1}}}

    run_stepped(main)


def test_connections_that_stand_are_cut() -> None:
    async def main() -> None:
        simulator = Simulator(1, clock=Clock(START), population=5)
        simulator.faults.add(Fault({}, kind="hang"))
        async with simulator.serve_listeners(["all"]) as listeners:
            listener = listeners["all"]
            host, port = listener.url.removeprefix("http://").split(":")
            idle, first = await asyncio.open_connection(host, int(port))
            busy, second = await asyncio.open_connection(host, int(port))
            second.write(b"GET /api/v1/jobs HTTP/1.1\r\nhost: x\r\n\r\n")
            await asyncio.sleep(1)
            assert listener.connections == 2
            listener.shut()
            for reader, writer in ((idle, first), (busy, second)):
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
            assert listener.connections == 0

    run_stepped(main)


def test_an_idle_connection_outlasts_the_exporter_s_patience() -> None:
    async def main() -> None:
        simulator = Simulator(1, clock=Clock(START), population=5)
        async with simulator.serve_listeners(["all"]) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(listeners["all"].url.rpartition(":")[2]))
            for _ in range(2):
                writer.write(b"GET /truth HTTP/1.1\r\nHost: a\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
                await asyncio.sleep(60)
            writer.close()

    run_stepped(main)


def test_whoever_is_just_coming_in_is_cut_too() -> None:
    async def main() -> None:
        async with Simulator(1, clock=Clock(START), population=5).serve_listeners(["all"]) as listeners:
            listener = listeners["all"]
            loop = asyncio.get_running_loop()
            for steps_inside in range(6):
                with socket.create_connection(("127.0.0.1", int(listener.url.rpartition(":")[2]))) as client:
                    client.setblocking(False)
                    for _ in range(steps_inside):
                        await asyncio.sleep(0)
                    listener.shut()
                    with contextlib.suppress(ConnectionResetError):
                        assert await loop.sock_recv(client, 100) == b""
                await asyncio.sleep(0.1)
                assert listener.connections == 0
                listener.open()

    run_stepped(main)


def test_address_of_a_closed_listener_stays_taken() -> None:
    async def main() -> None:
        async with Simulator(1, clock=Clock(START), population=5).serve_listeners(["all"]) as listeners:
            listener = listeners["all"]
            listener.shut()
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", int(listener.url.rpartition(":")[2])))
            listener.open()
            async with httpx.AsyncClient(trust_env=False) as client:
                assert await get(client, listener.url) == "200"

    run_stepped(main)
