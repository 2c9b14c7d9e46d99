"""Ending a connection amid its answer."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.clock import run_stepped
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import WebServer, abort_of

MB = 1_000_000


class _Mark:
    """What a scope has, to see whether it is still there."""


class Endless:
    """An application whose answer is aborted after a second, when there is much to come."""

    def __init__(self) -> None:
        self.ended = 0
        self.marks: weakref.WeakSet[_Mark] = weakref.WeakSet()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mark = _Mark()
        scope["state"]["mark"] = mark
        self.marks.add(mark)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % (50 * MB))]})
        await send({"type": "http.response.body", "body": b"x" * MB, "more_body": True})
        asyncio.get_running_loop().call_later(1, abort_of(scope))
        await send({"type": "http.response.body", "body": b"x" * 49 * MB, "more_body": True})
        await send({"type": "http.response.body"})  # waits for what will never be taken
        self.ended += 1


@pytest.mark.parametrize("requests", [1, 3])
def test_abort_breaks_the_connection_and_ends_the_handler(requests: int, caplog: pytest.LogCaptureFixture) -> None:
    app = Endless()

    async def main() -> None:
        server = WebServer(app, listen("127.0.0.1:0"))
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.addresses[0].rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * requests)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(2)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(50 * MB)
        writer.close()
        await server.stop()

    with caplog.at_level(logging.WARNING):
        run_stepped(main)
    assert app.ended == 1
    assert not caplog.records


def test_a_request_leaves_no_reference_cycle() -> None:
    app = Endless()

    async def main() -> None:
        server = WebServer(app, listen("127.0.0.1:0"))
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.addresses[0].rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.sleep(2)
        writer.close()
        await server.stop()
        del reader, writer

    gc.disable()
    try:
        run_stepped(main)
        assert app.ended == 1
        assert not app.marks
    finally:
        gc.enable()


def test_another_server_knows_no_such_thing() -> None:
    abort_of({"type": "http"})()
    abort_of({"type": "http", "extensions": {"http.response.push": {}}})()
