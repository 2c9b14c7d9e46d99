"""A fleet of 200 accounts with 500 jobs each on 1, 4 and 16 shards: `python -m benchmarks.scale --write`.

Half of the accounts are on each of two simulated clouds. Every exporter is a process that polls the clouds over
loopback HTTP for some minutes of stepped time. All accounts of a cloud have the same jobs under different names of
providers. The response to one account is kept for a minute and sent to the others, because their requests are the same.
So calls, series, memory and ages are realistic. Samples of the stack give the exporter's share of the CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from types import FrameType
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.support.clock import run_stepped

from benchmarks.report import machine, write_measured
from benchmarks.rig import load
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.sharding import Shard, apportioned
from trainfleet_exporter.transport import Attempt
from trainfleet_simulator import Simulator

DOCUMENT = Path(__file__).parent.parent / "docs" / "evidence" / "shards.md"
TOTALS = (1, 4, 16)
"""Numbers of shards."""
ACCOUNTS, JOBS = 200, 500
_SETTLE = 325.0
"""Simulated seconds before counting begins: the first polls, and the first cycles over all jobs."""
_COUNTED = 300.0
"""Simulated seconds that are counted: one cycle of the slowest collectors."""
_LOOKS = 10
_CLOUDS = {"pai": 1.0, "modelarts": 0.6}
"""Share of a simulator's population on each cloud."""
_PER_LIVE = 1.64
"""Ratio of a world's `population` to its live jobs."""
_SAMPLE_SECONDS = 0.01
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Measured:
    """One exporter's figures. Seconds are simulated, except in `processor`. Ages are by collector."""

    calls: int
    series: int
    providers: int
    memory: int
    """Resident bytes without those of the simulated clouds."""
    processor: float
    """CPU seconds in a simulated minute."""
    ages: Mapping[str, Sequence[float]]
    """Ages of the oldest part of a collector, at each reading and for each provider."""
    intervals: Mapping[str, float]
    """The longest interval of any provider."""
    failed: int


class _Kept:
    """Keeps responses of a cloud for a minute. It does not check signatures again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._minute = 0
        self._answers: dict[tuple[str, str, bytes, bytes], list[Message]] = {}
        self.kept = 0
        """Bytes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (minute := int(time.time()) // 60) != self._minute:
            self._minute, self._answers, self.kept = minute, {}, 0
        request = await receive()
        body = request.get("body", b"")
        key = scope["method"], scope["path"], scope["query_string"], body
        known = self._answers.get(key)
        if known is None:
            known = []

            async def again() -> Message:
                return request

            async def note(message: MutableMapping[str, Any]) -> None:
                known.append(message)
                self.kept += len(message.get("body", b""))

            await self._app(scope, again, note)
            self._answers[key] = known
        for message in known:
            await send(message)


class _Sampler:
    """Estimates from samples of this thread's stack the exporter's share of its time."""

    _CLOUDS = ("/uvicorn/", "/trainfleet_simulator/")

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self._found: Counter[bool] = Counter()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def share(self) -> float:
        """Stop the sampling; return the exporter's share, 0 to 1."""
        self._over.set()
        self._sampler.join()
        return self._found[True] / max(1, self._found.total())

    def _sample(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            frame: FrameType | None = sys._current_frames().get(self._thread)
            is_clouds = False
            while frame is not None and not is_clouds:
                is_clouds = any(room in frame.f_code.co_filename for room in self._CLOUDS)
                frame = frame.f_back
            self._found[not is_clouds] += 1


class _Cloud(Simulator):
    @property
    def app(self) -> ASGIApp:
        """Return the application, which keeps its responses."""
        return self.keeping

    def keep(self) -> None:
        self.keeping = _Kept(super().app)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The polled fleet, and its shards."""

    accounts: int
    jobs: int


def measure(shard: Shard, fleet: Fleet) -> Measured:
    """Poll for some minutes as one of the shards."""
    return run_stepped(lambda: _measure(shard, fleet))


async def _measure(shard: Shard, fleet: Fleet) -> Measured:
    clouds = []
    for name, size in _CLOUDS.items():
        population = max(round(fleet.jobs * _PER_LIVE / size), 8)
        clouds.append(_Cloud(seed=7, clouds=(name,), population=population, still=True, patience=60))
        clouds[-1].keep()
    async with clouds[0].serve() as pai, clouds[1].serve() as modelarts:
        config = _config([(clouds[0], pai), (clouds[1], modelarts)], fleet)
        gc.collect()
        before = _resident()
        attempts: list[float] = []
        loop = asyncio.get_running_loop()

        def observe(_: str, __: Attempt) -> None:
            attempts.append(loop.time())

        platforms = installed_platforms()
        own = apportioned(config, shard)
        exporter = Exporter(own, platforms, observe=observe, shard=shard)
        schedule = Schedule(exporter.runners)
        ages: defaultdict[str, list[float]] = defaultdict(list)
        try:
            schedule.start()
            await asyncio.sleep(_SETTLE)
            began, sampler = time.process_time(), _Sampler()
            for _ in range(_LOOKS):
                await asyncio.sleep(_COUNTED / _LOOKS)
                await exporter.text()
                for runner in exporter.runners:
                    if runner.state.oldest_part is not None and runner.state.series:
                        ages[runner.state.collector].append(time.time() - runner.state.oldest_part)
            took = (time.process_time() - began) * sampler.share()
            gc.collect()
            memory = _resident() - before - sum(cloud.keeping.kept for cloud in clouds)
        finally:
            await schedule.stop()
            await exporter.aclose()
    intervals: dict[str, float] = {}
    for runner in exporter.runners:
        name = runner.state.collector
        intervals[name] = max(intervals.get(name, 0.0), runner.state.interval)
    return Measured(
        calls=sum(at >= _SETTLE for at in attempts),
        series=sum(runner.state.series for runner in exporter.runners),
        providers=len(own.providers),
        memory=memory,
        processor=took / (_COUNTED / 60),
        ages=dict(ages),
        intervals=intervals,
        failed=sum(not runner.state.success for runner in exporter.runners),
    )


def _config(clouds: Sequence[tuple[Simulator, str]], fleet: Fleet) -> Config:
    """Return the same number of accounts of each cloud, with the default intervals and limits."""
    providers = []
    for simulator, url in clouds:
        _, text = re.split(r"(?m)^  - name: ", simulator.config_yaml(url))
        name, rest = text.split("\n", 1)
        rest = re.sub(r"    (collectors|limits):\n(?:      .*\n)+", "", rest)
        providers += [f"  - name: {name}-{number}\n{rest}" for number in range(fleet.accounts // len(clouds))]
    return load("providers:\n" + "".join(providers))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_SIZE


def _run(shard: Shard, fleet: Fleet) -> Measured:
    """Measure in a separate process."""
    flags = [f"--shard={shard.ordinal}", f"--total-shards={shard.total}"]
    flags += [f"--{name}={value}" for name, value in asdict(fleet).items()]
    command = [sys.executable, "-m", "benchmarks.scale", *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603 - ourselves
    return Measured(**json.loads(done.stdout))


def table(found: Mapping[int, Sequence[Measured]], accounts: int, jobs: int) -> str:
    """Return the table of docs/evidence/shards.md."""
    minutes = _COUNTED / 60
    base = sum(one.calls for one in found[min(found)])
    names = ("jobs", "pods", "usage", "pools")
    which = f"{accounts} accounts with {jobs} live jobs each: half on PAI, half on ModelArts."
    when = f"Measured: {minutes:.0f} simulated minutes after the first {_SETTLE / 60:.0f}."
    lines = [
        f"{which} Intervals and limits are the defaults. {when}",
        "",
        "| shards | " + " | ".join(map(str, found)) + " |",
        "|---|" + "---|" * len(found),
    ]

    def row(title: str, cells: Sequence[str]) -> None:
        lines.append(f"| {title} | " + " | ".join(cells) + " |")

    runs = list(found.values())
    row("calls a minute, total", [f"{sum(one.calls for one in run) / minutes:,.0f}" for run in runs])
    row("compared with one exporter", [f"{sum(one.calls for one in run) / base:.3f}" for run in runs])
    row("calls a minute, the busiest shard", [f"{max(one.calls for one in run) / minutes:,.0f}" for run in runs])
    row("accounts that a shard polls", [_span([one.providers for one in run]) for run in runs])
    row("series, total", [f"{sum(one.series for one in run):,}" for run in runs])
    row("series, the largest shard", [f"{max(one.series for one in run):,}" for run in runs])
    row("memory, the largest shard", [f"{max(one.memory for one in run) / (1 << 20):,.0f} MiB" for run in runs])
    row("memory, total", [f"{sum(one.memory for one in run) / (1 << 20):,.0f} MiB" for run in runs])
    row("CPU seconds a minute, the busiest shard", [f"{max(one.processor for one in run):.1f}" for run in runs])
    for name in names:
        ages = [[age for one in run for age in one.ages.get(name, ())] for run in runs]
        cells = [f"{statistics.median(each):.0f} s, {max(each):.0f} s" for each in ages]
        row(f"age of `{name}`: median, oldest", cells)
    row("longest interval of `pods`", [f"{max(one.intervals.get('pods', 0.0) for one in run):.0f} s" for run in runs])
    row("collectors that fail", [str(sum(one.failed for one in run)) for run in runs])
    return "\n".join(lines) + "\n"


def _span(values: Sequence[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def main() -> None:
    """Measure one shard, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--shard", type=int)
    parser.add_argument("--total-shards", type=int)
    parser.add_argument("--accounts", type=int, default=ACCOUNTS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--at-once", type=int, default=2, help="number of processes at a time")
    parser.add_argument("--write", action="store_true", help="write the table into docs/evidence/shards.md")
    options = parser.parse_args()
    fleet = Fleet(options.accounts, options.jobs)
    if options.shard is not None:
        print(json.dumps(asdict(measure(Shard(options.shard, options.total_shards), fleet))))
        return
    found: dict[int, list[Measured]] = {}
    with ThreadPoolExecutor(options.at_once) as pool:
        for total in TOTALS:
            began = time.perf_counter()
            found[total] = list(pool.map(_run, [Shard(n, total) for n in range(total)], repeat(fleet)))
            print(f"{total} shards: measured in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    made = f"{table(found, options.accounts, options.jobs)}\nMeasured on {machine()}.\n"
    print(made)
    if options.write:
        write_measured(DOCUMENT, made)


if __name__ == "__main__":
    main()
