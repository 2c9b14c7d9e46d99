"""How /metrics is handed to the server."""

from __future__ import annotations

import asyncio

from starlette.types import Message

from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import PageStore
from trainfleet_exporter.telemetry import CollectorState, Telemetry
from trainfleet_exporter.web.app import MetricsEndpoint

FAMILY = FAMILIES[1].name


async def _receive() -> Message:
    raise AssertionError


def test_collector_states_are_as_old_as_their_page() -> None:
    telemetry = Telemetry()
    store = PageStore(standing=telemetry.standing)
    state = CollectorState("p", "jobs", 60.0)
    telemetry.watch(state)
    endpoint = MetricsEndpoint(store, telemetry)

    def poll(number: int) -> None:
        store.put("part", {FAMILY: [b'%s{poll="%d"} %d\n' % (FAMILY.encode(), n, number) for n in range(10)]})
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
        keeping = asyncio.create_task(store.keep_built())
        await asyncio.sleep(0)
        assert await scrape() == (set(), 0.0)
        poll(1)
        assert await scrape() == (set(), 0.0)
        store.build()
        assert await scrape() == ({1.0}, 1.0)
        state.last_success = 2.0  # a poll that found the same
        assert await scrape() == ({1.0}, 1.0)
        store.build()
        assert await scrape() == ({1.0}, 2.0)
        keeping.cancel()

    asyncio.run(main())
