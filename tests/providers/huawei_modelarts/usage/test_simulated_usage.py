"""Usage on the simulated cloud, over real loopback HTTP: a mixed world, in which each job is served once."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.providers.huawei_modelarts.usage.usage_rig import Page
from tests.support.configs import exporter_of, written
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.exposition import Format
from trainfleet_exporter.polling import Schedule
from trainfleet_simulator import Simulator

_LATE = 600
"""Seconds after which a job is surely served: AOM is waited for two sweeps, and a cycle may just have begun."""
_SAMPLE = re.compile(r"trainfleet_(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@asynccontextmanager
async def exporter(simulator: Simulator, url: str, folder: Path, *, usage: str) -> AsyncIterator[Exporter]:
    """The simulator's own config, with calmer intervals and another collector `usage`."""
    text = simulator.config_yaml(url).replace("poll_interval: 10s", "poll_interval: 60s")
    text = re.sub(r"usage: \{.*\}", f"usage: {usage}", text)
    text = re.sub(r"interval: (15|20)s", "interval: 2m", text)
    text = re.sub(r"jobs_v1: \{.*\}", "jobs_v1: {}", text)
    found = exporter_of(written(folder, text))
    try:
        yield found
    finally:
        await found.aclose()


async def samples(found: Exporter) -> Samples:
    """Everything that is published, by name and labels but for the provider."""
    text = found.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
    matches = [_SAMPLE.fullmatch(line) for line in text.splitlines() if not line.startswith("#")]
    return {
        (match[1], frozenset(pair for pair in _LABEL.findall(match[2]) if pair[0] != "provider")): float(match[3])
        for match in matches
        if match is not None
    }


def by_job(found: Samples, family: str, label: str = "") -> Mapping[str, str | float]:
    """The values of a family by job, or the values of one of its labels."""
    chosen = [(dict(labels), value) for (name, labels), value in found.items() if name == family]
    assert len({labels["job_id"] for labels, _ in chosen}) == len(chosen)
    return {labels["job_id"]: labels[label] if label else value for labels, value in chosen}


@pytest.mark.long
async def test_an_hour_of_a_mixed_world(tmp_path: Path) -> None:
    simulator = Simulator(seed=5, clouds=("modelarts",))
    async with simulator.serve() as url, exporter(simulator, url, tmp_path, usage="{}") as found:
        page = Page(found)
        schedule = Schedule(found.runners)
        schedule.start()
        seen = set()
        for _ in range(8):
            await asyncio.sleep(450)
            shown = await samples(found)
            pools = by_job(shown, "job_info", "pool_id")
            sources = by_job(shown, "job_usage_info", "source")
            begun = by_job(shown, "job_started_timestamp_seconds")
            latest = max(float(time) for time in begun.values())
            running = {key: value for key, value in shown.items() if ("status", "running") in key[1]}
            for job_id in by_job(running, "job_status"):
                if latest - float(begun[job_id]) > _LATE:
                    assert sources[job_id] == ("aom" if pools[job_id] else "task_metrics")
                    seen.add(sources[job_id])
        assert seen == {"aom", "task_metrics"}
        assert page.faults == []
        await schedule.stop()


async def test_both_sources_report_the_same(tmp_path: Path) -> None:
    simulator = Simulator(seed=7, clouds=("modelarts",))
    simulator.aom.lag = 0
    async with simulator.serve() as url:
        await asyncio.sleep(1800 - time.time() % 60)  # AOM has samples of whole minutes
        async with exporter(simulator, url, tmp_path, usage="{source: aom}") as found:
            assert await found.poll_once()
            by_aom = await samples(found)
        async with exporter(simulator, url, tmp_path, usage="{source: task_metrics}") as found:
            assert await found.poll_once()
            by_tasks = await samples(found)
    assert set(by_job(by_aom, "job_usage_info", "source").values()) >= {"aom"}
    reported = [
        abs(value - by_tasks[key]) < 1e-5
        for key, value in by_aom.items()
        if re.match("pod_.*_utilization_ratio", key[0]) and key in by_tasks
    ]
    # The newest minutes of some task metrics are not there yet; of most they are.
    assert len(reported) > 40
    assert sum(reported) > len(reported) / 2
