"""Usage, queues and nodes of the simulated cloud over real loopback HTTP, held against the world behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clock import run_stepped
from tests.support.configs import exporter_of, written
from trainfleet_simulator import Simulator
from trainfleet_simulator.pai.monitor_points import served
from trainfleet_simulator.world.usage import reading

SERIES = re.compile(r"trainfleet_(\w+)\{([^}]*)\} (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
FIRST = ("workspaces", "pools", "jobs")
"""What the others build on."""
Check = Callable[[Simulator, "Page"], None]


class Page:
    """A scraped page: values by family and labels."""

    def __init__(self, text: str) -> None:
        found = [(name, dict(LABEL.findall(labels)), float(value)) for name, labels, value in SERIES.findall(text)]
        self.series = [(name, tuple(sorted(labels.items())), value) for name, labels, value in found]
        self._found = found

    def by(self, family: str, label: str = "job_id") -> dict[str, float]:
        """The values of a family by one of its labels."""
        return {labels[label]: value for name, labels, value in self._found if name == family}

    def labels(self, family: str) -> list[dict[str, str]]:
        return [labels for name, labels, _ in self._found if name == family]


def _poll(folder: Path, source: str, check: Check, without_dimensions: str = "all") -> None:
    """Poll a simulated account once, each collector after those that it builds on, and hand over what is published."""

    async def main() -> None:
        simulator = Simulator(seed=7, clouds=("pai",))
        simulator.monitor.without_dimensions = without_dimensions
        async with simulator.serve() as url:
            text = simulator.config_yaml(url).replace("usage: {interval: 15s}", f"usage: {{source: {source}}}")
            exporter = exporter_of(written(folder, text.replace("poll_timeout: 8s", "poll_timeout: 9s")))
            try:
                runners = {runner.state.collector: runner for runner in exporter.runners}
                for runner in sorted(runners.values(), key=lambda runner: runner.state.collector not in FIRST):
                    await runner.tick()
                    assert runner.state.success, runner.state.collector
                page = Page((await exporter.text()).decode())
            finally:
                await exporter.aclose()
            check(simulator, page)

    run_stepped(main)


def _mixed(simulator: Simulator, page: Page) -> None:
    repeated = [key for key, count in Counter(key[:2] for key in page.series).items() if count > 1]
    assert repeated == []
    sources = {labels["job_id"]: labels["source"] for labels in page.labels("job_usage_info")}
    jobs = {job.job_id: job for job in simulator.world.live()}
    assert sources.keys() <= jobs.keys()
    for job_id, source in sources.items():
        assert source == ("cloudmonitor" if served(jobs[job_id]) else "job_metrics")
    assert set(sources.values()) == {"cloudmonitor", "job_metrics"}
    _held_against_the_world(simulator, page)


def _held_against_the_world(simulator: Simulator, page: Page) -> None:
    """What a job uses is what its pods use in the simulated world at that time."""
    jobs = {job.job_id: job for job in simulator.world.live()}
    times, cpu = page.by("job_usage_timestamp_seconds"), page.by("job_cpu_utilization_ratio")
    received = page.by("job_network_receive_bytes_per_second")
    assert len(cpu) > 10
    agreeing = 0
    for job_id, value in cpu.items():
        at = int(times[job_id])
        pods = jobs[job_id].pods
        percents = [reading("CpuCoreUsage", jobs[job_id], pod, at) for pod in pods]
        rates = [reading("NetworkInputRate", jobs[job_id], pod, at) for pod in pods]
        if None in percents:
            continue  # a pod was replaced a moment ago, and its forerunner's last reading counts for a while
        agreeing += 1
        assert value == pytest.approx(sum(filter(None, percents)) / len(percents) / 100, abs=1e-5)
        assert received[job_id] == pytest.approx(sum(filter(None, rates)) * 1e6, rel=1e-3)
    assert agreeing > len(cpu) / 2


def test_each_job_is_shown_once_and_as_simulated(tmp_path: Path) -> None:
    _poll(tmp_path, "auto", _mixed)


@pytest.mark.long
@pytest.mark.parametrize("without_dimensions", ["refused", "empty"])
def test_page_is_the_same_if_lists_need_a_name(tmp_path: Path, without_dimensions: str) -> None:
    pages: list[Page] = []
    _poll(tmp_path, "cloudmonitor", lambda simulator, page: pages.append(page))
    _poll(tmp_path, "cloudmonitor", lambda simulator, page: pages.append(page), without_dimensions)
    bulk, named = pages
    for family in ("job_cpu_utilization_ratio", "job_accelerator_utilization_ratio", "job_usage_info"):
        assert bulk.by(family) == named.by(family)
        assert bulk.by(family)
    assert bulk.by("pool_cpu_utilization_ratio", "pool_id") == named.by("pool_cpu_utilization_ratio", "pool_id")


def test_a_poll_of_everything_is_a_call_for_each_metric(tmp_path: Path) -> None:
    def check(simulator: Simulator, page: Page) -> None:
        spent = {
            (labels["operation"], labels["outcome"]): value
            for name, pairs, value in page.series
            if name == "exporter_api_requests_total" and (labels := dict(pairs))["api"] == "cloudmonitor"
        }
        assert spent == {
            ("DescribeMetricMetaList", "ok"): 2,
            ("DescribeMetricLast", "ok"): 8 + 11 + 3 + 5,  # of jobs, pods, cards and quotas
        }

    _poll(tmp_path, "auto", check)


def test_queues_and_nodes_add_up(tmp_path: Path) -> None:
    def check(simulator: Simulator, page: Page) -> None:
        world = simulator.world
        waiting = {
            (labels["pool_id"], labels["workload_type"]): value
            for name, pairs, value in page.series
            if name == "pool_workloads" and (labels := dict(pairs))["status"] == "queued"
        }
        for pool_id in page.by("pool_info", "pool_id"):
            family = {pool.spec.pool_id for pool in world.family(pool_id)}
            queued = [job for job in world.live() if job.draft.pool_id in family and job.status == "Queuing"]
            assert waiting[pool_id, "dlc"] == len(queued)
        positions = page.by("job_queue_position")
        assert positions.keys() <= {job.job_id for job in world.live() if job.status == "Queuing"}
        nodes = Counter(labels["pool_id"] for labels in page.labels("node_info"))
        assert nodes
        for pool_id, count in nodes.items():
            assert count == sum(len(pool.nodes) for pool in world.family(pool_id))

    _poll(tmp_path, "auto", check)
