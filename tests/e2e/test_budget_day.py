"""A day of a monthly budget over real HTTP: paced, restarted at noon, and counted as the cloud counts it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.transport import Attempt
from trainfleet_simulator import Simulator
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

BUDGET = 100_000
METRICS = 20
DAY = 86400.0
EVEN = 31 * DAY / BUDGET * METRICS
"""Seconds between polls that spend the budget evenly over January."""

CONFIG = """
global:
  state_file: state.json
  metrics: {{deny: [trainfleet_device_power_watts, "trainfleet_*_cpu_usage_cores"]}}   # 20 metrics are left
providers:
  - name: p
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {{access_key_id: {key}, access_key_secret: {secret}}}
    endpoints: {{dlc: {url}, paistudio: {url}, aiworkspace: {url}, cloudmonitor: {url}}}
    collectors:
      jobs: {{interval: 10m}}
      usage: {{interval: 60s, source: cloudmonitor}}
      job_counts: {{enabled: false}}
      pods: {{enabled: false}}
      pools: {{enabled: false}}
      pool_workloads: {{enabled: false}}
    limits: {{requests_per_second: 50, concurrency: 8, monthly_calls: {{cloudmonitor: {budget}}}}}
"""


def test_a_day_of_a_month_s_budget(tmp_path: Path) -> None:
    polls: list[float] = []

    async def half_a_day(url: str) -> float:
        """Run the exporter for twelve hours; what was left of the budget before it stopped."""
        loop = asyncio.get_running_loop()

        def watch(_: str, attempt: Attempt) -> None:
            if attempt.api == "cloudmonitor" and (not polls or loop.time() - polls[-1] > 5):
                polls.append(loop.time())

        path = tmp_path / "config.yaml"
        text = CONFIG.format(key=ACCESS_KEY_ID, secret=ACCESS_KEY_SECRET, url=url, budget=BUDGET)
        path.write_text(text, encoding="utf-8")
        platforms = installed_platforms()
        configs = {name: platform.config for name, platform in platforms.items()}
        exporter = Exporter(load_config(path, environ={}, platforms=configs), platforms, observe=watch)
        schedule = Schedule(exporter.runners)
        try:
            schedule.start()
            await asyncio.sleep(DAY / 2)
            state = next(runner.state for runner in exporter.runners if runner.state.collector == "usage")
            assert state.success
            assert state.interval == pytest.approx(EVEN, rel=0.05)
            left = exporter.telemetry.registry.get_sample_value(
                "trainfleet_exporter_api_budget_remaining_calls", {"provider": "p", "api": "cloudmonitor"}
            )
        finally:
            await schedule.stop()
            await exporter.aclose()
        assert left is not None
        return left

    async def main() -> None:
        simulator = Simulator(seed=3, patience=20)
        async with simulator.serve() as url:
            at_noon = await half_a_day(url)
            at_night = await half_a_day(url)
            async with httpx.AsyncClient(trust_env=False) as client:
                reported = (await client.get(f"{url}/truth")).json()["calls"]["cloudmonitor"]
        spent = sum(sum(outcomes.values()) for outcomes in reported.values())
        # A day's share of the month, and a first poll after each start; the restart has not forgotten the morning.
        assert BUDGET / 31 * 0.97 <= spent <= BUDGET / 31 + 2 * METRICS + 4
        assert at_noon - at_night == pytest.approx(BUDGET / 62, rel=0.03)
        gaps = [later - earlier for earlier, later in pairwise(polls)]
        first, last = gaps[1:20], gaps[-20:]
        assert max(last) <= max(first) * 1.01 + 1
        assert max(gaps) <= EVEN * 21 / 20 * 1.01  # the first polls count the catalogue, and are thought to cost 21

    run_stepped(main)
