"""Several exporters with one lease, in stepped time: one polls, and another takes over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.reload_rig import SmallConfig, World, config
from tests.lease.api_server import ApiServer, stepped
from tests.support.clock import run_stepped
from trainfleet_conformance.page import check
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.lease import elector as elector_module


@pytest.fixture(autouse=True)
def _stepped_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elector_module, "steady_clock", lambda: asyncio.get_running_loop().time())


class Exporter:
    """A daemon of its own folder or of a shared one, with the lease of the site."""

    def __init__(self, folder: Path, server: ApiServer) -> None:
        self.path = folder / "config.yaml"
        self.world = World()
        self.lease = stepped(server)
        self.daemon = Daemon(
            self.load(),
            {"small": self.world.platform},
            WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True),
            load=self.load,
            lease=self.lease,
        )

    def load(self) -> Config:
        return load_config(self.path, environ={}, platforms={"small": SmallConfig})

    @property
    def calls(self) -> int:
        return self.world.calls.total()

    @property
    def leads(self) -> float | None:
        return self.daemon.exporter.telemetry.registry.get_sample_value("trainfleet_exporter_leader")

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=f"http://{self.daemon.server.addresses[0]}", trust_env=False) as client:
            return await client.get(path)

    async def reload(self, text: str) -> httpx.Response:
        self.path.write_text(text, encoding="utf-8")
        async with httpx.AsyncClient(base_url=f"http://{self.daemon.server.addresses[0]}", trust_env=False) as client:
            return await client.post("/-/reload")

    async def cloud_lines(self) -> list[str]:
        """Lines of the page that are about a provider."""
        text = (await self.get("/metrics")).text
        check(text)
        return [line for line in text.splitlines() if 'provider="' in line]

    async def usurp(self) -> None:
        """Have the lease name another exporter, which never renews it."""
        seen = await self.lease.read()
        await self.lease.write(seen, "usurper", seen.term + 1)


@contextlib.asynccontextmanager
async def site(tmp_path: Path, text: str, exporters: int = 2, *, shared: bool = True) -> AsyncIterator[list[Exporter]]:
    """Daemons that were started one after the other: the first one leads."""
    found: list[Exporter] = []
    server = ApiServer()
    try:
        for number in range(exporters):
            folder = tmp_path if shared else tmp_path / str(number)
            folder.mkdir(exist_ok=True)
            (folder / "config.yaml").write_text(text, encoding="utf-8")
            found.append(Exporter(folder, server))
            await found[-1].daemon.start()
            await asyncio.sleep(0.5)
        yield found
    finally:
        for exporter in found:
            await exporter.daemon.stop()


def test_one_of_two_exporters_polls(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path, config("name: a")) as (first, second):
            assert (await first.get("/-/ready")).status_code == 503
            await asyncio.sleep(12)
            assert (first.leads, second.leads) == (1, 0)
            assert (first.calls, second.calls) == (5, 0)
            assert [(await each.get("/-/ready")).status_code for each in (first, second)] == [200, 200]
            assert "stands by" in (await second.get("/-/ready")).text
            assert len(await first.cloud_lines()) > 10
            assert await second.cloud_lines() == []
            assert "trainfleet_exporter_leader 0.0" in (await second.get("/metrics")).text
            assert "is on standby" in (await second.get("/")).text
            assert "standby" not in (await first.get("/")).text
            await asyncio.sleep(60)
            assert (first.calls, second.calls) == (10, 0)

    run_stepped(main)


def test_series_of_clouds_disappear_with_the_lease(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path, config("name: a"), 1) as (only,):
            await asyncio.sleep(20)
            assert len(await only.cloud_lines()) > 10
            await only.usurp()
            await asyncio.sleep(2.1)
            assert only.leads == 0
            assert await only.cloud_lines() == []
            assert only.world.closed == {"a": 1}
            before = only.calls
            await asyncio.sleep(7)
            assert only.calls == before
            await asyncio.sleep(5)  # the usurper has not renewed it
            assert only.leads == 1
            assert only.calls == before + 5
            assert len(await only.cloud_lines()) > 10

    run_stepped(main)


def test_a_leader_is_not_ready_before_its_first_polls(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path, config("name: a"), 1) as (only,):
            for _ in range(2):
                await asyncio.sleep(20)
                assert (await only.get("/-/ready")).status_code == 200
                for runner in only.daemon.exporter.runners:
                    assert runner.first_poll_done.is_set()
                await only.usurp()
                await asyncio.sleep(3)
                assert "stands by" in (await only.get("/-/ready")).text
                assert only.daemon.exporter.waiting_for() == []
            only.world.slow.add("a")
            await asyncio.sleep(12)
            assert only.leads == 1
            assert "waiting for the first poll" in (await only.get("/-/ready")).text
            await asyncio.sleep(60)
            assert (await only.get("/-/ready")).status_code == 200

    run_stepped(main)


def test_a_standby_checks_a_config_and_uses_it_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path, config("name: a")) as (first, second):
            await asyncio.sleep(20)
            refused = await second.reload(config("name: b, unfit: true"))
            assert (refused.status_code, "it is out of order" in refused.text) == (500, True)
            accepted = await second.reload(config("name: b"))
            assert accepted.status_code == 200
            assert second.calls == 0
            assert await second.cloud_lines() == []
            assert "name: b" in (await second.get("/config")).text
            await first.daemon.stop()
            await asyncio.sleep(3)
            assert second.world.calls == {"b": 5}

    run_stepped(main)


def test_a_lease_that_is_lost_during_a_reload_leaves_a_standby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with site(tmp_path, config("name: a"), 1) as (only,):
            await asyncio.sleep(20)
            reloader = only.daemon._reloader
            assert reloader is not None
            read = reloader._read_in_time

            async def slowly() -> Any:
                found = await read()
                await only.usurp()
                await asyncio.sleep(2.5)
                assert only.leads == 0
                return found

            monkeypatch.setattr(reloader, "_read_in_time", slowly)
            assert (await only.reload(config("name: b"))).status_code == 200
            assert await only.cloud_lines() == []
            await asyncio.sleep(5)
            assert only.world.calls == {"a": 5}
            assert only.world.closed == {"a": 1}
            await asyncio.sleep(10)
            assert only.leads == 1
            assert only.world.calls == {"a": 5, "b": 5}

    run_stepped(main)


def test_a_provider_that_cannot_be_built_at_a_takeover_ends_the_exporter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with site(tmp_path, config("name: a"), 1) as (only,):
            only.daemon.exporter._platforms["small"] = None  # type: ignore[index]
            await asyncio.sleep(30)

    with pytest.raises(SystemExit):
        run_stepped(main)
    assert "cannot poll with the lease; the exporter exits" in [record.getMessage() for record in caplog.records]
