"""How /metrics is handed to the server."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from tests.support.clock import run_stepped
from trainfleet_exporter.exposition import Board, Format
from trainfleet_exporter.exposition.piece import PIECE_LIMIT
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.slices import give_way
from trainfleet_exporter.telemetry import CollectorState, Telemetry
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


def test_what_is_said_of_polls_is_as_old_as_the_page_that_shows_them() -> None:
    telemetry = Telemetry()
    board = Board(beside=telemetry.standings)
    state = CollectorState("p", "jobs", 60.0)
    telemetry.watch(state)
    endpoint = MetricsEndpoint(board, telemetry)

    def poll(number: int, size: int) -> None:
        board.put("part", {FAMILY: [b'%s{poll="%d"} %d\n' % (FAMILY.encode(), n, number) for n in range(size)]})
        state.success, state.last_success = True, float(number)

    async def scrape() -> tuple[set[float], float]:
        """The polls that are shown, and the one that is said to be the latest."""
        got = bytearray()

        async def send(message: Message) -> None:
            got.extend(message.get("body", b""))

        await endpoint({"type": "http", "method": "GET", "scheme": "http", "headers": []}, _receive, send)
        values = [line.rsplit(" ", 1) for line in got.decode().splitlines() if not line.startswith("#")]
        stamps = [float(value) for name, value in values if "collector_last_success" in name]
        return {float(value) for name, value in values if name.startswith(FAMILY)}, stamps[0]

    async def main() -> None:
        keeping = asyncio.create_task(board.keep_ready())
        await asyncio.sleep(0)
        assert await scrape() == (set(), 0.0)
        poll(1, 10)  # little is made ready by the scrape itself
        assert await scrape() == ({1.0}, 1.0)
        poll(2, PIECE_LIMIT // 20)
        assert await scrape() == ({1.0}, 1.0)
        await board.settled()
        assert await scrape() == ({2.0}, 2.0)
        state.last_success = 3.0  # a poll that found the same
        assert await scrape() == ({2.0}, 3.0)
        poll(4, PIECE_LIMIT // 10)
        assert await scrape() == ({2.0}, 3.0)  # never what is older than before
        await board.settled()
        assert await scrape() == ({4.0}, 4.0)
        keeping.cancel()

    asyncio.run(main())
