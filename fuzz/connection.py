"""One client's connection with any bytes in any pieces: the target `http`.

The pages, the application and the protocol are the real ones, on a pair of sockets. The loop's time is stepped. The
first byte of an input defines how the client sends the others (`_ClientBehavior`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from functools import cache
from types import SimpleNamespace
from typing import Any

from tests.support.clock import SteppedLoop
from uvicorn.server import ServerState

from trainfleet_exporter.model import FinishedCount, JobCount, Status, Workspace
from trainfleet_exporter.page import PageStore, Renderer, RenderSettings
from trainfleet_exporter.telemetry import CollectorState, Telemetry
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.server import ANSWER_SECONDS, HEAD_SECONDS, IDLE_SECONDS, Connection, protocol_config

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_PATIENCE = HEAD_SECONDS + ANSWER_SECONDS + IDLE_SECONDS + 30
"""Seconds after which the server has closed every silent connection."""


class _ClientBehavior:
    """How a client behaves: one byte."""

    def __init__(self, byte: int) -> None:
        self.size = 1 << (byte & 0b111) if byte & 0b1000 else 1 << 20
        """Size in bytes of the pieces that it sends."""
        self.pause = 2.0 if byte & 0b1_0000 else 0.0
        """Seconds between them."""
        self.reads = not byte & 0b10_0000
        """Whether it reads the responses."""
        self.leaves = bool(byte & 0b100_0000)
        """Whether it disconnects after it has sent everything."""


class _ErrorLog(logging.Handler):
    """Collects unexpected errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []
        self.setFormatter(logging.Formatter())
        for name in ("", "uvicorn.error"):
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


class _Server:
    """A server with a page of each kind. The wall clock does not matter."""

    def __init__(self) -> None:
        self.loop = SteppedLoop(SimpleNamespace(shift=lambda seconds: None))
        self.loop.set_exception_handler(lambda _, context: self.wrong.append(context))
        self.wrong: list[dict[str, Any]] = []
        self.errors = _ErrorLog()
        self.steps: dict[Connection, None] = {}
        self.state = ServerState()
        telemetry = Telemetry()
        page_store = PageStore(standing=telemetry.standing)
        objects = [
            Workspace("1", "one"),
            JobCount("1", Status.RUNNING, "Running", 3),
            FinishedCount("1", Status.FAILED, 2),
        ]
        page_store.put("part", Renderer(RenderSettings()).render("p", objects).lines)
        telemetry.watch(CollectorState("p", "jobs", 60.0, success=True))
        self.config = protocol_config(make_app(Pages(page_store=page_store, telemetry=telemetry)))
        self.config.load()

    async def serve(self, behavior: _ClientBehavior, data: bytes) -> tuple[bytes, bool]:
        """Serve one client. Return what it read, and whether the server has closed the connection."""
        ours, theirs = socket.socketpair()
        transport, _ = await self.loop.connect_accepted_socket(
            lambda: Connection(self.config, self.state, self.steps), ours
        )
        reader, writer = await asyncio.open_connection(sock=theirs)
        if not behavior.reads:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # that of a socket has it
        for at in range(0, len(data), behavior.size):
            if transport.is_closing():
                break
            writer.write(data[at : at + behavior.size])
            await asyncio.sleep(behavior.pause)
        if behavior.leaves:
            writer.transport.abort()
        await asyncio.sleep(_PATIENCE)
        is_closed = transport.is_closing()
        writer.transport.abort()
        await asyncio.sleep(0)
        return bytes(reader._buffer), is_closed  # type: ignore[attr-defined]  # what it read, without waiting


@cache
def _server() -> _Server:
    return _Server()


def http(data: bytes) -> None:
    """Feed a client's bytes: the server responds or rejects them without internal errors, and disconnects."""
    server = _server()
    server.errors.seen.clear()
    server.wrong.clear()
    server.loop._elapsed = 0.0  # with years of it, timers would be smaller than the precision of a float
    read, is_closed = server.loop.run_until_complete(server.serve(_ClientBehavior(data[0] if data else 0), data[1:]))
    assert not server.wrong, server.wrong
    assert not server.errors.seen, server.errors.seen
    assert not read or read.startswith(b"HTTP/1.1 ")
    assert all(int(status) < 500 for status in _STATUS.findall(read)), read
    assert is_closed
    assert not server.steps
    assert not server.state.connections
    assert not server.state.tasks
