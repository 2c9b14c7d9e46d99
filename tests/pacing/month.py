"""A simulated month with `monthly_calls`, counted by the simulated cloud: `python -m tests.pacing.month`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from unittest import mock

import httpx

from tests.support.accounts import config_text, provider
from tests.support.clock import run_stepped
from tests.support.configs import loaded, written
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator

ALLOWED = (1_000, 43_200)
HOUR, MONTH = 3600.0, 30 * 86400.0
_SELDOM = 30.0
"""Seconds between two looks at expired parts. A month has too many seconds to look each second."""

_OFF = {name: {"enabled": False} for name in ("job_counts", "pods", "pools", "pool_workloads")}
_DENIED = ["trainfleet_device_power_watts", "trainfleet_*_cpu_usage_cores"]
"""20 metrics are left."""


def _config(url: str, allowed: int) -> str:
    """Return a config of one provider that may make `allowed` calls of CloudMonitor, and other APIs once."""
    limits = {"requests_per_second": 50, "concurrency": 8, "monthly_calls": {"cloudmonitor": allowed}}
    usage = {"interval": "60s", "source": "cloudmonitor"}
    found = provider("pai", url, limits=limits, collectors={"usage": usage, **_OFF})
    return config_text([found], poll_interval="30d", metrics={"deny": _DENIED})


def calls_of_a_month(allowed: int, *, restart: float = MONTH) -> int:
    """Return the calls of CloudMonitor in 30 days, as the cloud counts them. An exporter lives `restart` seconds."""

    async def main() -> int:
        simulator = Simulator(seed=3, clouds=("pai",), population=10, still=True)
        async with simulator.serve() as url:
            with tempfile.TemporaryDirectory() as folder:
                config = loaded(written(Path(folder), _config(url, allowed)))
            for _ in range(round(MONTH / restart)):
                exporter = Exporter(config, installed_platforms())
                schedule = Schedule(exporter.runners)
                schedule.start()
                await asyncio.sleep(restart)
                await schedule.stop()
                await exporter.aclose()
            async with httpx.AsyncClient(trust_env=False) as client:
                counts = (await client.get(f"{url}/truth")).json()["calls"]["cloudmonitor"]
        return sum(count for outcomes in counts.values() for count in outcomes.values())

    with mock.patch("trainfleet_exporter.polling.schedule._EXPIRY_INTERVAL", _SELDOM):
        return run_stepped(main)


def main() -> None:
    """Print the calls of a month, with one exporter and with a restart every hour."""
    for allowed in ALLOWED:
        whole, restarted = calls_of_a_month(allowed), calls_of_a_month(allowed, restart=HOUR)
        print(f"monthly_calls {allowed:,}: {whole:,} calls in 30 days; with a restart every hour {restarted:,}")


if __name__ == "__main__":
    main()
