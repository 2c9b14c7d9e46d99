"""Slow clients of a whole process: scrapes are answered meanwhile, and the slow clients are closed."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.processes import ExporterProcess, running_cloud, running_exporter
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.web.server import HEAD_SECONDS
from trainfleet_simulator import Simulator

HEAD = b"GET /metrics HTTP/1.1\r\nhost: x\r\nuser-agent: a very slow one\r\naccept: */*\r\n\r\n"
SLOW, IDLE = 500, 50
STRANGERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_cloud(seed=1, clouds=CLOUDS) as (_, address):
        path = tmp_path_factory.mktemp("door") / "config.yaml"
        path.write_text(Simulator(clouds=CLOUDS).config_yaml(address), encoding="utf-8")
        yield path


async def _come(port: int, number: int, *, drip: bytes) -> bytes:
    """Send a byte a second of it, till there is no more or the connection ends; what was answered."""
    loop = asyncio.get_running_loop()

    async def read() -> bytes:
        answer = b""
        with suppress(ConnectionError):  # after the answer: a byte that the server had not read resets the connection
            while more := await loop.sock_recv(sock, 1000):
                answer += more
        return answer

    with socket.socket() as sock:
        sock.setblocking(False)
        sock.bind((STRANGERS[number % len(STRANGERS)], 0))
        await loop.sock_connect(sock, ("127.0.0.1", port))
        reading = asyncio.create_task(read())
        with suppress(ConnectionError):
            for byte in drip:
                await loop.sock_sendall(sock, bytes((byte,)))
                if (await asyncio.wait([reading], timeout=1))[0]:
                    break
        return await reading


async def _scrape(exporter: ExporterProcess) -> list[int]:
    """Scrape once a second, each time by a new connection, as long as anybody could still be there."""
    statuses: list[int] = []
    for _ in range(int(HEAD_SECONDS) + 5):
        async with httpx.AsyncClient(base_url=exporter.url, trust_env=False, timeout=10) as client:
            statuses.append((await client.get("/metrics")).status_code)
        await asyncio.sleep(1)
    return statuses


@pytest.mark.long
@pytest.mark.parametrize("limit", [2000, 100])
def test_scrapes_are_answered_despite_slow_clients(config: Path, tmp_path: Path, limit: int) -> None:
    arguments = [f"--config.file={config}", f"--web.max-connections={limit}"]
    with running_exporter(arguments, tmp_path / "log") as exporter:
        exporter.wait_until_ready()
        port = int(exporter.url.rpartition(":")[2])

        async def visit() -> tuple[list[int], list[bytes]]:
            clients = [_come(port, number, drip=HEAD if number < SLOW else b"") for number in range(SLOW + IDLE)]
            async with asyncio.timeout(120):
                return await asyncio.gather(_scrape(exporter), asyncio.gather(*clients))

        statuses, answers = asyncio.run(visit())
        assert set(statuses) == {200}
        assert len(answers) == SLOW + IDLE  # every connection has ended
        assert set(answers[SLOW:]) == {b""}
        assert not [answer for answer in answers if answer and not answer.startswith(b"HTTP/1.1 408 ")]
        refused = sum(map(bool, answers))
        # At the limit, the oldest connections are closed for newer ones, without an answer.
        assert refused == SLOW if limit == 2000 else 0 < refused < SLOW
        assert exporter.log.count("connection limit reached") == (limit < SLOW + IDLE)
        assert exporter.end(signal=signal.SIGTERM) == 0
