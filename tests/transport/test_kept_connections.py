"""Kept connections that the other side closes while they are idle, over real sockets on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.support.clock import run_stepped
from tests.transport.rig import JSON_OK, RawServer, Rig, Serve, answering, raw_server, resetting
from trainfleet_exporter.errors import Unreachable

WAYS = {"close": answering(b""), "reset": resetting()}


def once(then: Serve, *, together: int = 1) -> Serve:
    """Answer one request of each connection, when so many have come, and end it `then` at the second."""
    waiting = asyncio.Semaphore(0)
    came = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        if came == together:
            for _ in range(together):
                waiting.release()
        if came <= together:
            await waiting.acquire()
        writer.write(JSON_OK)
        with suppress(asyncio.IncompleteReadError):  # the client closed it first
            await reader.readuntil(b"\r\n\r\n")
            await then(reader, writer)

    return serve


def against(serve: Serve, check: Callable[[Rig, RawServer], Awaitable[None]]) -> None:
    """Run a check with a client and a server."""

    async def main() -> None:
        async with raw_server(serve) as server, Rig(base_url=f"http://{server.address}") as rig:
            await check(rig, server)

    run_stepped(main)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_call_on_a_closed_kept_connection_is_made_again(method: str, way: str) -> None:
    async def check(rig: Rig, server: RawServer) -> None:
        await rig.call(method=method)
        assert await rig.call(method=method) == {"Jobs": []}
        assert rig.outcomes == ["ok", "network", "ok"]  # none is hidden: each one is billed
        assert server.connections == 2
        assert rig.dialect.signed == ["signature-1", "signature-2", "signature-3"]
        assert b"signature-3" in server.heads[1]

    against(once(WAYS[way]), check)


def test_a_server_that_closes_idle_connections_costs_no_call() -> None:
    async def impatient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(JSON_OK)
        with suppress(TimeoutError, asyncio.IncompleteReadError):  # while the next request is on its way
            while True:
                async with asyncio.timeout(5):
                    await reader.readuntil(b"\r\n\r\n")
                writer.write(JSON_OK)

    async def check(rig: Rig, server: RawServer) -> None:
        for _ in range(40):
            await rig.call(method="POST")
            await asyncio.sleep(5)
        assert rig.outcomes.count("ok") == 40
        assert set(rig.outcomes) <= {"ok", "network"}

    against(impatient, check)


def test_a_new_connection_that_is_closed_is_a_failure() -> None:
    async def check(rig: Rig, _: RawServer) -> None:
        assert isinstance(await rig.failure(method="POST"), Unreachable)
        assert rig.outcomes == ["network"]

    against(answering(b""), check)


def test_a_second_kept_connection_is_not_tried_for_free() -> None:
    async def check(rig: Rig, _: RawServer) -> None:
        await asyncio.gather(rig.call(), rig.call())
        assert isinstance(await rig.failure(), Unreachable)
        assert rig.outcomes == ["ok", "ok", "network", "network"]

    against(once(WAYS["close"], together=2), check)


def test_a_kept_connection_that_ends_in_an_answer_is_a_failure() -> None:
    async def check(rig: Rig, _: RawServer) -> None:
        await rig.call()
        assert "closed the connection before an answer came" in (await rig.failure()).message
        assert rig.outcomes == ["ok", "network"]

    against(once(answering(b"HTTP/1.1 200 OK\r\nContent-Le")), check)


def test_many_closed_connections_do_not_open_the_breaker() -> None:
    async def check(rig: Rig, server: RawServer) -> None:
        await asyncio.gather(*(rig.call() for _ in range(8)))
        assert server.connections == 8
        await asyncio.gather(*(rig.call() for _ in range(8)))
        assert sorted(rig.outcomes) == ["network"] * 8 + ["ok"] * 16

    against(once(WAYS["close"], together=8), check)


def test_the_call_is_made_again_without_savings_or_waiting() -> None:
    async def check(rig: Rig, _: RawServer) -> None:
        await rig.call()
        began = asyncio.get_running_loop().time()
        await rig.call()
        assert asyncio.get_running_loop().time() == pytest.approx(began, abs=0.01)

    against(once(WAYS["close"]), check)
