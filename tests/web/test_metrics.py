"""How /metrics is handed to the server."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from tests.support.clock import run_stepped
from trainfleet_exporter.exposition import Board, Format
from trainfleet_exporter.exposition.families import FAMILIES
from trainfleet_exporter.exposition.piece import PIECE_LIMIT
from trainfleet_exporter.slices import give_way
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.metrics import MetricsEndpoint

FAMILY = FAMILIES[1].name


async def _receive() -> Message:
    raise AssertionError


@pytest.mark.parametrize(("scheme", "most"), [("http", PIECE_LIMIT), ("https", PIECE_LIMIT // 4)])
def test_it_leaves_in_pieces_and_in_small_ones_where_they_are_held_several_times(scheme: str, most: int) -> None:
    board = Board()
    for part in range(3):
        board.put(part, {FAMILY: [b'%s{part="%d"} 1\n' % (FAMILY.encode(), part) * 30_000]})
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "scheme": scheme, "headers": []}
    asyncio.run(MetricsEndpoint(board, Telemetry())(scope, _receive, send))
    sizes = [len(message.get("body", b"")) for message in sent]
    kept = board.snapshot().pieces(Format.TEXT)
    assert most // 2 < max(sizes) <= most
    assert int(dict(sent[0]["headers"])[b"content-length"]) == sum(sizes) > sum(map(len, kept))
    assert b"".join(message.get("body", b"") for message in sent).startswith(b"".join(kept))


def test_long_work_waits_while_an_answer_is_sent() -> None:
    async def main() -> None:
        loop, worked_at = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        async def work() -> None:
            await give_way()
            worked_at.set_result(loop.time())

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                working = asyncio.create_task(work())
                await asyncio.sleep(0.1)
                await asyncio.sleep(0)
                assert not working.done()

        scope = {"type": "http", "method": "GET", "scheme": "http", "headers": []}
        began = loop.time()
        await MetricsEndpoint(Board(), Telemetry())(scope, _receive, send)
        assert await worked_at == began + 0.1

    run_stepped(main)
