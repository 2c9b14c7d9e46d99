"""Several exporters with one lease, in stepped time: one polls, and another takes over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.rig import Site, config
from tests.lease.api_server import ApiServer, lease_on
from tests.support.clock import run_stepped


@contextlib.asynccontextmanager
async def site(folder: Path, exporters: int = 2) -> AsyncIterator[list[Site]]:
    """Daemons of one config file that were started one after the other: the first one leads."""
    found: list[Site] = []
    server = ApiServer()
    try:
        for _ in range(exporters):
            found.append(Site(folder, lease=lease_on(server.answer)))
            await found[-1].daemon.start()
            await asyncio.sleep(0.5)
        yield found
    finally:
        for exporter in found:
            await exporter.daemon.stop()


async def test_one_of_two_exporters_polls(tmp_path: Path) -> None:
    async with site(tmp_path) as (first, second):
        assert (await first.get("/-/ready")).status_code == 503
        await asyncio.sleep(12)
        assert (first.leads, second.leads) == (1, 0)
        assert (first.calls, second.calls) == (5, 0)
        assert [(await each.get("/-/ready")).status_code for each in (first, second)] == [200, 200]
        assert "stands by" in (await second.get("/-/ready")).text
        assert len(await first.of()) > 10
        assert await second.of() == []
        assert "trainfleet_exporter_leader 0.0" in (await second.get("/metrics")).text
        assert "is on standby" in (await second.get("/")).text
        assert "standby" not in (await first.get("/")).text
        await asyncio.sleep(60)
        assert (first.calls, second.calls) == (10, 0)


async def test_series_of_clouds_disappear_with_the_lease(tmp_path: Path) -> None:
    async with site(tmp_path, 1) as (only,):
        await asyncio.sleep(20)
        assert len(await only.of()) > 10
        await only.usurp()
        await asyncio.sleep(2.1)
        assert only.leads == 0
        assert await only.of() == []
        assert only.world.closed == {"a": 1}
        before = only.calls
        await asyncio.sleep(7)
        assert only.calls == before
        await asyncio.sleep(5)  # the usurper has not renewed it
        assert only.leads == 1
        assert only.calls == before + 5
        assert len(await only.of()) > 10


async def test_a_leader_is_not_ready_before_its_first_polls(tmp_path: Path) -> None:
    async with site(tmp_path, 1) as (only,):
        for _ in range(2):
            await asyncio.sleep(20)
            assert (await only.get("/-/ready")).status_code == 200
            for runner in only.exporter.runners:
                assert runner.first_poll_done.is_set()
            await only.usurp()
            await asyncio.sleep(3)
            assert "stands by" in (await only.get("/-/ready")).text
            assert only.exporter.waiting_for() == []
        only.world.slow.add("a")
        await asyncio.sleep(12)
        assert only.leads == 1
        assert "waiting for the first poll" in (await only.get("/-/ready")).text
        await asyncio.sleep(60)
        assert (await only.get("/-/ready")).status_code == 200


async def test_a_standby_checks_a_config_and_uses_it_later(tmp_path: Path) -> None:
    async with site(tmp_path) as (first, second):
        await asyncio.sleep(20)
        refused = await second.post(config("name: b, unfit: true"))
        assert (refused.status_code, "it is out of order" in refused.text) == (500, True)
        accepted = await second.post(config("name: b"))
        assert accepted.status_code == 200
        assert second.calls == 0
        assert await second.of() == []
        assert "name: b" in (await second.get("/config")).text
        await first.daemon.stop()
        await asyncio.sleep(3)
        assert second.world.calls == {"b": 5}


async def test_a_lease_that_is_lost_during_a_reload_leaves_a_standby(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path, 1) as (only,):
        await asyncio.sleep(20)
        read = only.reloader._read_in_time

        async def slowly() -> Any:
            found = await read()
            await only.usurp()
            await asyncio.sleep(2.5)
            assert only.leads == 0
            return found

        monkeypatch.setattr(only.reloader, "_read_in_time", slowly)
        assert (await only.post(config("name: b"))).status_code == 200
        assert await only.of() == []
        await asyncio.sleep(5)
        assert only.world.calls == {"a": 5}
        assert only.world.closed == {"a": 1}
        await asyncio.sleep(10)
        assert only.leads == 1
        assert only.world.calls == {"a": 5, "b": 5}


def test_a_provider_that_cannot_be_built_at_a_takeover_ends_the_exporter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with site(tmp_path, 1) as (only,):
            only.exporter._platforms["small"] = None  # type: ignore[index]
            await asyncio.sleep(30)

    with pytest.raises(SystemExit):
        run_stepped(main)
    assert "cannot poll with the lease; the exporter exits" in [record.getMessage() for record in caplog.records]
