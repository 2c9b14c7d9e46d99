"""One client's connection with any bytes in any pieces: the target `http`.

The pages, the application and the protocol are the real ones, on a pair of sockets. The loop's time is stepped. The
first byte of an input defines how the client sends the others.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from functools import cache
from types import SimpleNamespace

from tests.support.clock import SteppedLoop
from uvicorn.server import ServerState

from trainfleet_exporter.page import PageStore
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.server import ANSWER_SECONDS, HEAD_SECONDS, IDLE_SECONDS, Connection, protocol_config

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_PATIENCE = HEAD_SECONDS + ANSWER_SECONDS + IDLE_SECONDS + 30
"""Seconds after which the server has closed every silent connection."""
_PIECES, _PAUSES, _READS_NOT, _LEAVES = 0b1000, 0b1_0000, 0b10_0000, 0b100_0000
"""Bits of the first byte: the client sends pieces (of 1 to 128 bytes by the lowest bits), pauses between them, reads no
response, disconnects at the end."""


class _Server(logging.Handler):
    """A server with the pages of an exporter without providers. `wrong` has its internal errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        for name in ("", "uvicorn.error"):
            logging.getLogger(name).addHandler(self)
        self.wrong: list[object] = []
        self.loop = SteppedLoop(SimpleNamespace(shift=lambda seconds: None))
        self.loop.set_exception_handler(lambda _, context: self.wrong.append(context))
        telemetry = Telemetry()
        self._config = protocol_config(
            make_app(Pages(page_store=PageStore(standing=telemetry.standing), telemetry=telemetry))
        )
        self._config.load()
        self.state, self.steps = ServerState(), dict[Connection, None]()

    def emit(self, record: logging.LogRecord) -> None:
        self.wrong.append(logging.Formatter().format(record))

    async def serve(self, behavior: int, data: bytes) -> tuple[bytes, bool]:
        """Serve one client. Return what it read, and whether the server has closed the connection."""
        ours, theirs = socket.socketpair()
        transport, _ = await self.loop.connect_accepted_socket(
            lambda: Connection(self._config, self.state, self.steps), ours
        )
        reader, writer = await asyncio.open_connection(sock=theirs)
        if behavior & _READS_NOT:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # that of a socket has it
        size = 1 << (behavior & 0b111) if behavior & _PIECES else 1 << 20
        for at in range(0, len(data), size):
            if transport.is_closing():
                break
            writer.write(data[at : at + size])
            await asyncio.sleep(2.0 if behavior & _PAUSES else 0.0)
        if behavior & _LEAVES:
            writer.transport.abort()
        await asyncio.sleep(_PATIENCE)
        is_closed = transport.is_closing()
        writer.transport.abort()
        await asyncio.sleep(0)
        return bytes(reader._buffer), is_closed  # type: ignore[attr-defined]  # what it read, without waiting


_server = cache(_Server)


def http(data: bytes) -> None:
    """Feed a client's bytes: the server responds or rejects them without internal errors, and disconnects."""
    server = _server()
    server.wrong.clear()
    server.loop._elapsed = 0.0  # with years of it, timers would be smaller than the precision of a float
    read, is_closed = server.loop.run_until_complete(server.serve(data[0] if data else 0, data[1:]))
    assert not server.wrong, server.wrong
    assert not read or read.startswith(b"HTTP/1.1 ")
    assert all(int(status) < 500 for status in _STATUS.findall(read)), read
    assert is_closed
    assert not server.steps
    assert not server.state.connections
    assert not server.state.tasks
