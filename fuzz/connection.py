"""One client's connection with any bytes in any pieces: the target `http`.

The pages, the application and the protocol are the real ones. The loop's time is stepped, and the socket is a transport
that keeps the written bytes. The first byte of an input defines how the client sends the others (`_Manner`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from functools import cache
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


class _Clock:
    """Replaces the wall clock, which does not matter here."""

    def shift(self, seconds: float) -> None:
        """Move the clock forward."""


class _Loop(SteppedLoop):
    """A loop with a larger clock resolution. A run takes years of its time: asyncio's nanosecond is smaller than the
    precision of such a float, so a timer would never be due."""

    def __init__(self) -> None:
        super().__init__(_Clock())
        self._clock_resolution = 1e-6


class _Manner:
    """How a client behaves: one byte."""

    def __init__(self, byte: int) -> None:
        self.size = 1 << (byte & 0b111) if byte & 0b1000 else 1 << 20
        """Size in bytes of the pieces that it sends."""
        self.is_slow = bool(byte & 0b1_0000)
        """Whether it waits two seconds between them."""
        self.reads = not byte & 0b10_0000
        """Whether it reads the responses."""
        self.leaves = bool(byte & 0b100_0000)
        """Whether it disconnects after it has sent everything."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Return the pieces in order."""
        for at in range(0, len(data), self.size):
            yield data[at : at + self.size]


class _Transport(asyncio.Transport):
    """The other side of a socket."""

    def __init__(self, protocol: Connection, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": ("192.0.2.1", 40000), "sockname": ("192.0.2.2", 10075)})
        self._protocol = protocol
        self._loop = loop
        self._is_stuck = False
        self._is_closing = False
        self.is_lost = False
        self.written = bytearray()

    def stick(self) -> None:
        """Accept no more bytes."""
        self._is_stuck = True
        self._protocol.pause_writing()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.is_lost, "written to nobody"
        self.written += data

    def get_write_buffer_size(self) -> int:
        return int(self._is_stuck)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._is_stuck:  # else there are bytes left to send
                self._loop.call_soon(self._lose)

    def abort(self) -> None:
        self._is_closing = True
        self._loop.call_soon(self._lose)

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._protocol.connection_lost(None)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _Witness(logging.Handler):
    """Collects unexpected errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


class _Place:
    """A server without a socket, with a page of each kind."""

    def __init__(self) -> None:
        self.loop = _Loop()
        self.witness = _Witness()
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
        pages = Pages(page_store=page_store, telemetry=telemetry)
        self.config = protocol_config(make_app(pages))
        self.config.load()

    async def visit(self, manner: _Manner, data: bytes) -> _Transport:
        """Serve one client, and check that no state of it is left."""
        loop = asyncio.get_running_loop()
        protocol = Connection(self.config, self.state, self.steps)
        transport = _Transport(protocol, loop)
        protocol.connection_made(transport)
        if not manner.reads:
            transport.stick()
        for piece in manner.pieces(data):
            if transport.is_closing():
                break
            protocol.data_received(piece)
            await asyncio.sleep(2.0 if manner.is_slow else 0)
        if manner.leaves:
            transport.abort()
        await asyncio.sleep(_PATIENCE)
        return transport


@cache
def _place() -> _Place:
    return _Place()


def http(data: bytes) -> None:
    """Feed a client's bytes: the server responds or rejects them without internal errors, and disconnects."""
    place = _place()
    place.witness.seen.clear()
    wrong: list[dict[str, Any]] = []
    place.loop.set_exception_handler(lambda _, context: wrong.append(context))
    asyncio.set_event_loop(place.loop)
    logs = [logging.getLogger(), logging.getLogger("uvicorn.error")]
    for log in logs:
        log.addHandler(place.witness)
    try:
        transport = place.loop.run_until_complete(place.visit(_Manner(data[0] if data else 0), data[1:]))
    finally:
        for log in logs:
            log.removeHandler(place.witness)
    assert not wrong, wrong
    assert not place.witness.seen, place.witness.seen
    assert not transport.written or transport.written.startswith(b"HTTP/1.1 ")
    assert all(int(status) < 500 for status in _STATUS.findall(transport.written)), transport.written
    assert transport.is_lost
    assert not place.steps
    assert not place.state.connections
    assert not place.state.tasks
