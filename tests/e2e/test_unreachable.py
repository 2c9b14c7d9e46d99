"""Clouds out of reach, in stepped time: served at once, ready after first failures, logged once, recovered soon.

And that an exporter whose polls fail all day holds no more tasks, threads and file descriptors than after ten polls.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.configs import exporter_of
from tests.support.ports import held_port
from trainfleet_conformance.page import check
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator

COLLECTORS = 11
"""Of how many names the logs tell at least: the others wait for these."""


def _load(folder: Path, url: str, *, interval: str = "10s", timeout: str = "8s") -> Exporter:
    path = folder / "config.yaml"
    text = Simulator(clouds=CLOUDS).config_yaml(url)
    text = text.replace("poll_interval: 10s", f"poll_interval: {interval}").replace(
        "timeout: 8s", f"timeout: {timeout}"
    )
    path.write_text(text, encoding="utf-8")
    return exporter_of(path)


@asynccontextmanager
async def _polling(exporter: Exporter) -> AsyncIterator[None]:
    schedule = Schedule(exporter.runners)
    try:
        schedule.start()
        yield
    finally:
        await schedule.stop()
        await exporter.aclose()


def _up(exporter: Exporter) -> set[float]:
    found = [family for family in exporter.telemetry.registry.collect() if family.name == "trainfleet_provider_up"]
    return {sample.value for family in found for sample in family.samples}


def _logged(caplog: pytest.LogCaptureFixture) -> Counter[tuple[str, str, str]]:
    """How often each failure of each collector was logged."""
    records = [getattr(record, "fields", {}) for record in caplog.records if record.levelno >= logging.WARNING]
    return Counter((fields["provider"], fields["collector"], fields["error"].reason) for fields in records)


@contextmanager
def _away(way: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The address and port of a cloud that cannot be reached yet."""
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        if way == "black hole":
            sock.listen(0)  # a full queue: the kernel answers no more connections, and refuses none
            for _ in range(2):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", port))
        if way != "unresolvable":
            yield "127.0.0.1", port
            return
        known = socket.getaddrinfo

        def resolve(host: str, *args: object, **kwargs: object) -> object:
            if host == "cloud.test":
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return known(host, *args, **kwargs)  # type: ignore[arg-type]  # passed on as they came

        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", resolve)
            yield "cloud.test", port


@pytest.mark.parametrize(("way", "minutes"), [("refused", 60), ("black hole", 15), ("unresolvable", 15)])
async def test_a_while_without_a_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: str, minutes: int
) -> None:
    caplog.set_level(logging.INFO, "trainfleet_exporter")

    with _away(way, monkeypatch) as (host, port):
        exporter = _load(tmp_path, f"http{'s' if way == 'unresolvable' else ''}://{host}:{port}")
        async with _polling(exporter):
            await asyncio.sleep(35)
            assert exporter.waiting_for() == []
            assert _up(exporter) == {0.0}
            await asyncio.sleep(60 * minutes)
            assert _up(exporter) == {0.0}
    reported = _logged(caplog)
    assert len({collector for _, collector, _ in reported}) >= COLLECTORS
    assert set(reported.values()) == {1}
    assert {reason for _, _, reason in reported} <= {"network", "timeout", "not_ready", "deadline"}
    assert not [record for record in caplog.records if record.exc_info]


async def test_exporter_serves_without_the_cloud_and_recovers(tmp_path: Path) -> None:
    with held_port() as port:
        exporter = _load(tmp_path, f"http://127.0.0.1:{port}")
        await exporter.aclose()
        daemon = Daemon(exporter.config, installed_platforms(), WebSettings(addresses=("127.0.0.1:0",)))
        async with httpx.AsyncClient(base_url=f"http://{daemon.server.addresses[0]}", trust_env=False) as client:
            try:
                await daemon.start()
                answer = await client.get("/metrics")
                assert answer.status_code == 200
                assert check(answer.text)
                await asyncio.sleep(35)
                assert (await client.get("/-/ready")).status_code == 200
                async with Simulator(clouds=CLOUDS).serve("127.0.0.1", port):
                    await asyncio.sleep(45)  # an interval, and half a minute in which it is left alone
                    text = (await client.get("/metrics")).text
                    check(text)
                    for name in ("sim-pai-hangzhou", "sim-modelarts-north4", "sim-sagemaker-us-east-1"):
                        assert f'trainfleet_provider_up{{provider="{name}"}} 1.0' in text
                    assert "trainfleet_jobs{" in text
                    await client.aclose()
                    await daemon.stop()
            finally:
                await daemon.stop()
