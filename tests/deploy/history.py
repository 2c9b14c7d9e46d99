"""Scrapes of two hours of the demo's clouds in stepped time, as samples with timestamps.

The exporter is scraped over HTTP. In these hours jobs start, hang, fail and wait. For some minutes each, calls are
throttled, a cloud is down and readings are invalid.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from tests.support.clock import run_stepped
from tests.support.configs import loaded, written
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator
from trainfleet_simulator.faults import Fault
from trainfleet_simulator.modelarts import catalog

SCRAPE_INTERVAL = 60
DURATION = 2 * 60 * 60
START = datetime.fromisoformat("2026-01-02T04:00:00+00:00").timestamp()
"""A multiple of two hours, the length of a block of Prometheus, so that all samples are in one block."""
INSTANCE = "demo.example.com:10075"
_TARGET = f'instance="{INSTANCE}",job="trainfleet-exporter"'

FAULTS = (
    Fault({"operation": "ListJobs"}, kind="throttled", after=4000, lasts=180),
    Fault({"api": "modelarts"}, kind="server_error", after=4800, lasts=400),
    Fault({"operation": "DescribeMetricLast"}, kind="negative", after=5700, lasts=200),
)
"""Faults of the clouds, in seconds from the start. All are in the second hour and end before its end."""


@dataclass(frozen=True, slots=True)
class History:
    """A file of OpenMetrics samples with timestamps, and the Unix times of the first and last scrape."""

    samples: Path
    start: int
    end: int


def record_history(folder: Path) -> History:
    """Run the demo for two hours of stepped time and write the samples of every scrape."""
    path = folder / "history.om"

    async def main() -> History:
        simulator = Simulator(seed=1, clouds=("pai", "modelarts", "sagemaker"), population=30)
        for fault in FAULTS:
            simulator.faults.add(fault)
        async with simulator.serve() as cloud:
            config = _config(simulator.config_yaml(cloud), folder)
            daemon = Daemon(config, installed_platforms(), WebSettings(addresses=("127.0.0.1:0",)))
            await daemon.start()
            try:
                return await _scrape(f"http://{daemon.server.addresses[0]}/metrics", path)
            finally:
                await daemon.stop()

    return run_stepped(main, start=START)


async def _scrape(url: str, path: Path) -> History:
    first = int(START) + SCRAPE_INTERVAL // 2  # between polls, which begin on the minute
    accept = {"accept": "application/openmetrics-text;version=1.0.0"}
    with path.open("w", encoding="utf-8") as stream:
        async with httpx.AsyncClient(trust_env=False, headers=accept) as client:
            for number in range(DURATION // SCRAPE_INTERVAL):
                when = first + number * SCRAPE_INTERVAL
                await asyncio.sleep(when - time.time())
                answer = await client.get(url)
                answer.raise_for_status()
                stream.writelines(stamped(answer.text, when))
        stream.write("# EOF\n")
    return History(path, first, when)


def stamped(page: str, when: int) -> Iterator[str]:
    """Yield the samples of a page with timestamps and target labels, and the samples that Prometheus adds."""
    count = 0
    for line in page.removesuffix("\n").split("\n"):
        if line.startswith("#"):
            continue
        count += 1
        name, brace, rest = line.partition("{")
        if brace:
            yield f"{name}{{{_TARGET},{rest} {when}\n"
        else:
            name, _, value = line.partition(" ")
            yield f"{name}{{{_TARGET}}} {value} {when}\n"
    yield f"up{{{_TARGET}}} 1 {when}\n"
    yield f"scrape_samples_scraped{{{_TARGET}}} {count} {when}\n"


def _config(text: str, folder: Path) -> Config:
    """Return the demo's config with the intervals of a real cloud, a budget of calls and credentials that expire.

    Profiling and other features that cost more calls are on.
    """
    user = (
        f"      username: {catalog.USER_NAME}\n      password: {catalog.PASSWORD}\n"
        f"      domain_name: {catalog.DOMAIN_NAME}\n"
    )
    for pattern, replacement in (
        (r"      access_key: .*\n      secret_key: .*\n", user),
        (r"  poll_interval: 10s\n  poll_timeout: 8s\n", "  poll_interval: 60s\n  poll_timeout: 50s\n"),
        (
            r"usage: {interval: 15s}(?=\n      pool_users)",
            "usage: {interval: 3m}\n      pool_workloads: {interval: 5m}",
        ),
        (r"usage: {interval: 15s}", "usage: {interval: 3m}"),
        (r"interval: (15|20)s", "interval: 5m"),
        (r"(alibaba_pai\n(?:.*\n)*?      usage: {)", r"\1profiling: [sm, tensor, dram, flops, nvlink, pcie, health], "),
        (r"(huawei_modelarts\n(?:.*\n)*?      usage: {)", r"\1profiling: [health], "),
        (
            r"    limits:\n(?=(.*\n){2}  - name: sim-modelarts)",
            "    limits:\n      monthly_calls: {cloudmonitor: 1000000}\n",
        ),
    ):
        text, changed = re.subn(pattern, replacement, text)
        assert changed, pattern
    return loaded(written(folder, text))
