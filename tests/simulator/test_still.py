"""Still worlds: nothing happens in them, so that what an exporter shows of them does not change."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.simulator.client import START
from tests.simulator.modelarts.client import V2
from tests.simulator.modelarts.client import Caller as ModelArtsCaller
from tests.support.clock import run_stepped
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.page import Format
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator

SOURCES = {  # the first ones are all of them but those of the second
    "auto": ("auto", "auto"),
    "per job": ("job_metrics", "task_metrics"),
}
_PHASE = "trainfleet_job_phase_seconds{"


def exporter_of(simulator: Simulator, url: str, folder: Path, sources: tuple[str, str]) -> Exporter:
    """The simulator's own config, with every collector, calmer intervals, and a source of usage for each cloud."""
    text = simulator.config_yaml(url).replace("poll_interval: 10s", "poll_interval: 1h")
    text = re.sub(r"interval: (15|20)s", "interval: 1h", text)
    for source in sources:
        text = text.replace("usage: {interval: 1h}", f"usage: {{interval: 1h, source: {source}}}", 1)
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    platforms = installed_platforms()
    return Exporter(
        load_config(path, environ={}, platforms={name: one.config for name, one in platforms.items()}), platforms
    )


async def shown(exporter: Exporter) -> dict[str, str]:
    """Every sample of the fleet but the times of readings, by its series."""
    text = exporter.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
    samples = dict(line.rpartition(" ")[::2] for line in text.splitlines() if line.startswith("trainfleet_"))
    passing = ("trainfleet_exporter_", "trainfleet_job_usage_timestamp_seconds")
    return {series: value for series, value in samples.items() if not series.startswith(passing)}


@pytest.mark.long
@pytest.mark.parametrize("sources", SOURCES)
def test_an_exporter_shows_the_same_an_hour_later(tmp_path: Path, sources: str) -> None:
    async def main() -> tuple[dict[str, str], dict[str, str]]:
        simulator = Simulator(3, clouds=("pai", "modelarts"), population=12, still=True)
        async with simulator.serve_listeners(["all"]) as listeners:
            exporter = exporter_of(simulator, listeners["all"].url, tmp_path, SOURCES[sources])
            schedule = Schedule(exporter.runners)
            try:
                schedule.start()
                await asyncio.sleep(3600 + 590)  # in the first polls not every collector knows every job yet
                first = await shown(exporter)
                await asyncio.sleep(3600)
                second = await shown(exporter)
            finally:
                await schedule.stop()
                await exporter.aclose()
            states = [runner.state for runner in exporter.runners]
            assert [(state.provider, state.collector) for state in states if not state.success] == []
        return first, second

    first, second = run_stepped(main)
    assert len(first) > 1000
    families = {series.partition("{")[0] for series in first}
    assert families >= {
        "trainfleet_job_accelerator_utilization_ratio",
        "trainfleet_pod_cpu_utilization_ratio",
        "trainfleet_pool_cpu_utilization_ratio",
        "trainfleet_node_allocated_cpu_cores",
        "trainfleet_job_duration_seconds",
        "trainfleet_job_queue_position",
    }
    assert second.keys() == first.keys()
    differing = {series: (value, second[series]) for series, value in first.items() if second[series] != value}
    assert {series: values for series, values in differing.items() if not series.startswith(_PHASE)} == {}
    # The exporter's own clock goes on: the phase that lasts grew by the hour, one of each job with a history.
    grown = {series: float(after) - float(before) for series, (before, after) in differing.items()}
    assert grown == {series: pytest.approx(3600, abs=0.001) for series in grown}
    jobs = sorted(map(_job, grown))
    assert len(jobs) == len(set(jobs))
    with_phases = {_job(series) for series in first if series.startswith(_PHASE)}
    assert set(jobs) >= with_phases & _in_status(first, "creating", "queued", "starting", "running", "restarting")
    assert not set(jobs) & _in_status(first, "succeeded", "failed", "stopped", "unknown")  # some clouds: stopping, too


def _in_status(samples: dict[str, str], *statuses: str) -> set[str]:
    """The jobs that are in one of these statuses."""
    ends = tuple(f'status="{status}"}}' for status in statuses)
    shown = (series for series, value in samples.items() if value == "1" and series.endswith(ends))
    return {_job(series) for series in shown if series.startswith("trainfleet_job_status{")}


def _job(series: str) -> str:
    """The labels of a job."""
    return series.partition("{")[2].partition('",phase="')[0].partition('",status="')[0]


def test_the_times_of_readings_go_on() -> None:
    caller = ModelArtsCaller(still=True)
    before, world = len(caller.metrics("gpu-steady")["cpuUsage"]), caller.world
    assert world.present == START
    assert world.now < START
    states = {job_id: (job.status, job.duration(world.now)) for job_id, job in world.jobs.items()}
    caller.clock.now += 3600
    after = caller.metrics("gpu-steady")["cpuUsage"]
    assert len(after) == before + 60
    assert len({value for value in after if value != -1}) == 1
    assert {job_id: (job.status, job.duration(world.now)) for job_id, job in world.jobs.items()} == states
    monitor = caller.body(f"{V2}/pools/{next(iter(world.pools))}/monitor")
    newest = monitor["metrics"][0]["dataPoints"][-1]["timestamp"]
    assert 0 <= caller.clock.now * 1000 - newest < 60_000


def test_a_world_is_not_still_unless_it_is_told_so() -> None:
    caller = ModelArtsCaller(population=10)
    before = len(caller.world.jobs)
    caller.world.advance(START + 3600)
    assert len(caller.world.jobs) > before
