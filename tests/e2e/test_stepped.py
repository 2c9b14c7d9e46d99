"""An hour of both clouds over real loopback HTTP, in stepped time: every call accounted for, tokens renewed."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import httpx

from tests.support.clock import run_stepped
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts import catalog

TOKEN_LIFETIME = 1200.0


def _config(text: str, folder: Path) -> Exporter:
    """The simulator's own config, but with ModelArts by password, its project by name, and calmer intervals."""
    keys = re.compile(r"      access_key: .*\n      secret_key: .*\n")
    user = (
        f"      username: {catalog.USER_NAME}\n      password: {catalog.PASSWORD}\n"
        f"      domain_name: {catalog.DOMAIN_NAME}\n"
    )
    text, changed = keys.subn(user, text)
    assert changed == 1
    text = re.sub(r"    project_id: .*\n", "", text)
    text = text.replace("poll_interval: 10s", "poll_interval: 60s")
    text = re.sub(r"interval: (15|20)s", "interval: 5m", text)
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    platforms = installed_platforms()
    configs = {name: platform.config for name, platform in platforms.items()}
    return Exporter(load_config(path, environ={}, platforms=configs), platforms)


def test_an_hour_of_both_clouds(tmp_path: Path) -> None:
    async def main() -> None:
        simulator = Simulator(seed=5, clouds=("pai", "modelarts"), token_lifetime=TOKEN_LIFETIME)
        async with simulator.serve() as url:
            exporter = _config(simulator.config_yaml(url), tmp_path)
            schedule = Schedule(exporter.runners)
            try:
                schedule.start()
                await asyncio.sleep(3590)  # between polls
            finally:
                await schedule.stop()
                await exporter.aclose()
            states = {(r.state.provider, r.state.collector): r.state for r in exporter.runners}
            assert [key for key, state in states.items() if not state.success] == []
            async with httpx.AsyncClient(trust_env=False) as client:
                reported = (await client.get(f"{url}/truth")).json()["calls"]
            _compare_calls(exporter, reported)

    run_stepped(main)


def _compare_calls(exporter: Exporter, reported: dict[str, dict[str, dict[str, int]]]) -> None:
    counted: Counter[tuple[str, str, str]] = Counter()
    for family in exporter.telemetry.registry.collect():
        for sample in family.samples:
            if sample.name == "trainfleet_exporter_api_requests_total":
                labels = sample.labels
                counted[(labels["api"], labels["operation"], labels["outcome"])] += int(sample.value)
            assert sample.name != "trainfleet_exporter_collector_errors_total" or sample.value == 0, sample
    answered = Counter(
        {
            (api, operation, outcome): count
            for api, operations in reported.items()
            for operation, outcomes in operations.items()
            for outcome, count in outcomes.items()
        }
    )
    # A kept connection that the server closes in the very moment in which it is used again never carried the call: an
    # attempt of ours, and no answer of the cloud's. The stepped clock makes many such moments; each call is retried.
    reached = Counter({key: count for key, count in counted.items() if key[2] != "network"})
    assert reached == answered
    assert counted.total() - reached.total() <= counted.total() / 100
    # Half of its life at the latest: a token is never older than ten minutes here.
    assert 6 <= counted[("iam", "KeystoneCreateUserTokenByPassword", "ok")] <= 8
    assert {outcome for _, _, outcome in reached} <= {"ok", "no_data"}
    assert {api for api, _, _ in reached} == {
        "dlc",
        "paistudio",
        "aiworkspace",
        "cloudmonitor",
        "modelarts",
        "aom",
        "iam",
    }
