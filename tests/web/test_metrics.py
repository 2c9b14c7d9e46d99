"""How /metrics is handed to the server."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from tests.support.clock import run_stepped
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Format, PageStore
from trainfleet_exporter.page.blocks import CHUNK_BYTES
from trainfleet_exporter.telemetry import CollectorState, Standing, Telemetry
from trainfleet_exporter.web.app import MetricsEndpoint

FAMILY = FAMILIES[1].name


async def _receive() -> Message:
    raise AssertionError


def test_pages_are_sent_in_chunks() -> None:
    store = PageStore()
    for part in range(3):
        store.put(part, {FAMILY: [b'%s{part="%d"} 1\n' % (FAMILY.encode(), part) * 30_000]})
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "scheme": "http", "headers": []}
    telemetry = Telemetry()
    store.standing = telemetry.standing
    asyncio.run(MetricsEndpoint(store, telemetry)(scope, _receive, send))
    sizes = [len(message.get("body", b"")) for message in sent]
    kept = store.current().body(Format.TEXT, b"", gzip=False).joined()
    assert CHUNK_BYTES // 2 < max(sizes) <= CHUNK_BYTES
    assert int(dict(sent[0]["headers"])[b"content-length"]) == sum(sizes) > len(kept)
    assert b"".join(message.get("body", b"") for message in sent).startswith(kept)


@pytest.mark.parametrize("coding", [b"gzip", b"identity"])
def test_head_gives_the_length_of_the_body(coding: bytes) -> None:
    store = PageStore(standing=Standing)
    store.put("a", {FAMILY: [b"%s 1\n" % FAMILY.encode() * 100]})

    def ask(method: str) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "scheme": "http", "headers": [(b"accept-encoding", coding)]}
        asyncio.run(MetricsEndpoint(store, _Silent())(scope, _receive, send))
        return sent

    (head, end), (got, *body) = ask("HEAD"), ask("GET")
    assert head["headers"] == got["headers"]
    assert end.get("body", b"") == b""
    assert int(dict(got["headers"])[b"content-length"]) == sum(len(each.get("body", b"")) for each in body) > 0


class _Silent(Telemetry):
    """Says the same each time."""

    def exposition(self, *_: object) -> bytes:
        return b"own 1\n"


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


@pytest.mark.parametrize("accept", [b"text/plain", b"application/openmetrics-text"])
def test_own_metrics_are_made_once_a_second(accept: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry, made = Telemetry(), 0
    exposition = telemetry.exposition
    store = PageStore(standing=telemetry.standing)
    endpoint = MetricsEndpoint(store, telemetry)

    def counted(*given: object) -> bytes:
        nonlocal made
        made += 1
        return exposition(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(telemetry, "exposition", counted)

    async def refusals() -> str:
        got = bytearray()

        async def send(message: Message) -> None:
            got.extend(message.get("body", b""))

        scope = {"type": "http", "method": "GET", "scheme": "http", "headers": [(b"accept", accept)]}
        await endpoint(scope, _receive, send)
        (line,) = [line for line in got.decode().splitlines() if line.startswith("trainfleet_exporter_http_rejected")][
            3:
        ]
        return line.rpartition(" ")[2]

    async def main() -> None:
        store.is_kept_built = True  # by a task that has nothing to build
        store.current()
        assert [await refusals() for _ in range(10)] == ["0.0"] * 10
        telemetry.rejected("invalid")
        await asyncio.sleep(0.9)
        assert (await refusals(), made) == ("0.0", 1)
        await asyncio.sleep(0.1)
        assert (await refusals(), made) == ("1.0", 2)
        store.current()
        assert (await refusals(), made) == ("1.0", 3)

    run_stepped(main)
