"""The clouds count the calls of three exporters with one lease: as many as one exporter makes alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.lease.api_server import ApiServer, stepped
from tests.support.accounts import usual_config
from tests.support.clock import run_stepped
from tests.support.configs import loaded, written
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator

MINUTES = 20


def _calls(folder: Path, exporters: int, *, leased: bool, ends: float | None = None) -> int:
    """What the clouds count in some minutes. The leader ends after `ends` seconds."""

    async def main() -> int:
        simulator = Simulator(seed=5, clouds=("pai", "modelarts"))
        async with simulator.serve() as url:
            config, platforms = loaded(written(folder, usual_config(url, "pai", "modelarts"))), installed_platforms()
            web, server = WebSettings(addresses=("127.0.0.1:0",)), ApiServer()
            daemons = [
                Daemon(config, platforms, web, lease=stepped(server) if leased else None) for _ in range(exporters)
            ]
            for daemon in daemons:
                await daemon.start()
            rest = MINUTES * 60.0
            if ends is not None:
                await asyncio.sleep(ends)
                rest -= ends
                (leader,) = [daemon for daemon in daemons if daemon.exporter.runners]
                await leader.stop()
            await asyncio.sleep(rest)
            for daemon in daemons:
                await daemon.stop()
            async with httpx.AsyncClient(trust_env=False) as client:
                counts = (await client.get(f"{url}/truth")).json()["calls"]
            return sum(count for api in counts.values() for outcomes in api.values() for count in outcomes.values())

    return run_stepped(main)


@pytest.mark.long
def test_three_exporters_with_a_lease_make_the_calls_of_one(tmp_path: Path) -> None:
    for name in ("alone", "leased", "handed over"):
        (tmp_path / name).mkdir()
    alone = _calls(tmp_path / "alone", 1, leased=False)
    leased = _calls(tmp_path / "leased", 3, leased=True)
    handed_over = _calls(tmp_path / "handed over", 3, leased=True, ends=635)
    print(f"calls in 20 minutes: alone {alone}, with a lease {leased}, with one handover {handed_over}")
    assert alone > 500
    assert 0.9 * alone < leased <= 1.02 * alone
    assert handed_over <= 1.02 * alone
