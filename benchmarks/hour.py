"""Drives an exporter through a stepped hour of both simulated clouds, troubles included, and writes every page.

`python -m benchmarks.hour FOLDER --checkout PATH` runs the code of another checkout (default: this one). Seed, clock
and jitter are fixed, so two runs of the same code write the same pages: `python -m benchmarks.pages` compares them. Of
the checkout only its config, daemon, `/metrics`, simulator and stepped clock are used. Pages are scraped every half
minute, as text and OpenMetrics, plain and as gzip (written inflated).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import math
import os
import random
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from unittest import mock

import httpx

import trainfleet_exporter
from benchmarks.processes import become
from benchmarks.troubles import WARPS, Gate, Trouble, timetable
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.simulator import Door, Simulator
from trainfleet_exporter.simulator.modelarts import catalog
from trainfleet_exporter.simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET
from trainfleet_exporter.testing.clock import START, SteppedLoop, run_stepped

_SEED = 7
_START = START + 0.25
"""Unix time. Polls begin between whole seconds, so that rounding never changes what second they begin in."""
_TICKS = 2.0**22
"""Ticks of the stepped clock in a second. Times are exact floats, however many steps lead to them."""
_EVERY = 30.0
_OFFSET = 25.25
"""Seconds after a multiple of `_EVERY` at which pages are scraped, when no poll begins."""
_SHUT_BEFORE = 2.0
"""Seconds for which the clouds do not answer before a scrape. Builders of pages have finished by then."""
_BUILD_SECONDS = 0.03
"""Seconds of real time that threads have in addition."""
_PAI_APIS = ("dlc", "paistudio", "aiworkspace", "cloudmonitor")
_MODELARTS_APIS = ("modelarts", "iam", "aom")
_OPENMETRICS = "application/openmetrics-text;version=1.0.0"

_LIMITS = "limits: {requests_per_second: 1000, concurrency: 200, monthly_calls: {%s: 2000000}}"
"""So many that no call waits for another one: waiting calls would depend on the order in which they came."""
_GLOBAL = """\
global:
  poll_interval: 30s
  poll_timeout: 25s
  keep_last_good_polls: 1
  finished_job_retention: 590s
  metrics: {job_labels: [team, project, cost-center]}
providers:
"""
_PAI = f"""platform: alibaba_pai
    region: cn-hangzhou
    credentials: {{access_key_id: {ACCESS_KEY_ID}, access_key_secret: {ACCESS_KEY_SECRET}}}
    endpoints: {{ENDPOINTS}}
    {_LIMITS % "cloudmonitor"}"""
_MODELARTS = f"""platform: huawei_modelarts
    region: {catalog.REGION}
    project_id: {catalog.PROJECT_ID}
    credentials: {{access_key: {catalog.ACCESS_KEY}, secret_key: {catalog.SECRET_KEY}}}
    endpoints: {{ENDPOINTS}}
    {_LIMITS % "modelarts"}"""
_PROVIDERS = {
    "pai": f"""\
  - name: pai
    {_PAI}
    collectors:
      job_counts: {{interval: 60s}}
      pods: {{interval: 60s}}
      usage: {{interval: 60s, source: auto}}
      nodes: {{enabled: true, interval: 60s}}
""",
    "pai-dlc-metrics": f"""\
  - name: pai-dlc-metrics
    {_PAI}
    workspaces: ["12345"]
    collectors:
      job_counts: {{enabled: false}}
      pods: {{interval: 60s}}
      usage: {{interval: 60s, source: dlc_metrics}}
      pools: {{enabled: false}}
      pool_workloads: {{enabled: false}}
""",
    "modelarts": f"""\
  - name: modelarts
    {_MODELARTS}
    collectors:
      job_counts: {{interval: 60s}}
      usage: {{interval: 60s, source: auto}}
      jobs_v1: {{enabled: true, interval: 60s}}
      nodes: {{enabled: true, interval: 60s}}
""",
    "modelarts-task-metrics": f"""\
  - name: modelarts-task-metrics
    {_MODELARTS}
    collectors:
      job_counts: {{enabled: false}}
      usage: {{interval: 60s, source: task_metrics}}
      pools: {{enabled: false}}
      pool_workloads: {{enabled: false}}
      pool_usage: {{enabled: false}}
""",
}
_APIS = {name: _PAI_APIS if name.startswith("pai") else _MODELARTS_APIS for name in _PROVIDERS}
_Gates = Mapping[tuple[str, str], Gate]
"""By provider and API."""


class _Middle(random.Random):
    """Jitter that is the same however many others draw theirs before."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def _jump(loop: SteppedLoop, seconds: float) -> None:
    """Move both clocks to the next tick; replaces `SteppedLoop.jump`, whose rounding errors add up."""
    loop._elapsed = math.ceil((loop._elapsed + seconds) * _TICKS) / _TICKS
    loop._traveller.move_to(_START + loop._elapsed)


async def drive(folder: Path, seconds: float) -> None:
    """Poll for so long, in stepped time, and write the pages."""
    loop = asyncio.get_running_loop()
    simulator = Simulator(_SEED, clouds=("pai", "modelarts"), population=24)
    is_open = asyncio.Event()
    is_open.set()
    gates = {
        (provider, api): Gate(simulator.app, f"{provider} {api}", is_open)
        for provider, apis in _APIS.items()
        for api in apis
    }
    async with _daemon(gates) as daemon, asyncio.TaskGroup() as tasks, _client(daemon) as client:
        origin = loop.time()
        troubles = [tasks.create_task(_make(trouble, simulator, gates, origin)) for trouble in timetable(seconds)]
        for number in range(int(seconds // _EVERY)):
            at = number * _EVERY + _OFFSET
            await asyncio.sleep(origin + at - _SHUT_BEFORE - loop.time())
            is_open.clear()
            await asyncio.sleep(origin + at - loop.time())
            await loop.run_in_executor(None, _let_threads_run)
            await _scrape(client, folder / f"{int(at) // 60:02}m{int(at) % 60:02}s")
            is_open.set()
        for task in troubles:
            task.cancel()


def _let_threads_run() -> None:
    began = perf_counter()
    while perf_counter() - began < _BUILD_SECONDS:
        os.sched_yield()


async def _make(trouble: Trouble, simulator: Simulator, gates: _Gates, origin: float) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(origin + trouble.start - loop.time())
    if trouble.kind not in WARPS:
        simulator.faults.add(trouble.fault())
        return
    affected = [gate for (_, api), gate in gates.items() if api == trouble.api]
    for gate in affected:
        gate.warp = trouble.kind
    await asyncio.sleep(origin + trouble.end - loop.time())
    for gate in affected:
        gate.warp = ""


async def _scrape(client: httpx.AsyncClient, stem: Path) -> None:
    for name, accept in (("text", "text/plain"), ("openmetrics", _OPENMETRICS)):
        for encoding in ("identity", "gzip"):
            answer = await client.get("/metrics", headers={"accept": accept, "accept-encoding": encoding})
            answer.raise_for_status()
            if answer.headers.get("content-encoding", "identity") != encoding:
                raise RuntimeError(f"{encoding} was asked for: {answer.headers}")
            stem.with_suffix(f".{name}.{encoding}").write_bytes(answer.content)


@asynccontextmanager
async def _daemon(gates: _Gates) -> AsyncIterator[Daemon]:
    async with AsyncExitStack() as stack:
        doors = {place: Door(gate) for place, gate in gates.items()}
        for door in doors.values():
            stack.push_async_callback(door.aclose)
        with mock.patch("random.SystemRandom", return_value=_Middle(_SEED)):
            daemon = Daemon(_config(doors), installed_platforms(), WebSettings(addresses=("127.0.0.1:0",)))
        stack.push_async_callback(daemon.stop)
        await daemon.start()
        yield daemon


def _config(doors: Mapping[tuple[str, str], Door]) -> Config:
    blocks = [
        provider.replace("ENDPOINTS", ", ".join(f"{api}: {doors[name, api].url}" for api in _APIS[name]))
        for name, provider in _PROVIDERS.items()
    ]
    text = _GLOBAL + "".join(blocks)
    with TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(text, encoding="utf-8")
        platforms = {name: platform.config for name, platform in installed_platforms().items()}
        return load_config(path, environ={}, platforms=platforms)


def _client(daemon: Daemon) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{daemon.server.addresses[0]}", trust_env=False, timeout=60)


def main() -> int:
    """Drive; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hour", description=__doc__)
    parser.add_argument("folder", type=Path, help="where pages are written; it must not exist")
    parser.add_argument("--checkout", type=Path, help="the checkout whose exporter is driven")
    parser.add_argument("--minutes", type=float, default=60.0)
    asked = parser.parse_args()
    if asked.checkout is not None:
        become("benchmarks.hour", [str(asked.folder), f"--minutes={asked.minutes}"], asked.checkout)
    asked.folder.mkdir(parents=True)
    logging.basicConfig(filename=asked.folder / "log", level=logging.INFO)
    began = perf_counter()
    numbers = itertools.count()
    with (
        mock.patch.object(SteppedLoop, "jump", _jump),
        # APScheduler starts what is due at one moment in the order of random ids: in the order of the config here.
        mock.patch("os.urandom", lambda size: next(numbers).to_bytes(6, "big").ljust(size, b"\0")[:size]),
    ):
        run_stepped(lambda: drive(asked.folder, asked.minutes * 60.0), start=_START)
    pages = len(list(asked.folder.glob("*.text.*")))
    print(f"{pages} pages by {trainfleet_exporter.__file__} in {perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
