"""The calls of polls: `make cost` rewrites docs/evidence/calls.md.

Each column is a world with so many live jobs, and others that ended. The exporter polls it for ten simulated minutes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import yaml
from tests.support.clock import run_stepped

from benchmarks.report import write_measured
from benchmarks.rig import load
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.errors import Unreachable
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.transport import Attempt
from trainfleet_simulator import Simulator
from trainfleet_simulator.world.fleet import World

DOCUMENT = Path(__file__).parent.parent / "docs" / "evidence" / "calls.md"
SIZES = (10, 1_000, 10_000)
ENDED = 5_000
"""Jobs that ended more than a day ago, in the second world of each size."""
WORLDS = [(live, ended) for live in SIZES for ended in (0, ENDED)]

_SETTLE = 299.5
"""Simulated seconds before counting begins, just before polls of every interval. First polls also read catalogues."""
_COUNTED = 600.0
"""Simulated seconds that are counted: two cycles of the slowest collector."""
_JOB_LIFE = 60
"""Jobs live so many times as long as in the demo, or their ends would cause most of the calls."""
_PER_LIVE = 1.64
"""Ratio of a world's `population` to its live jobs."""
_ON = {"enabled": True}


@dataclass(frozen=True, slots=True)
class Cloud:
    """One cloud of the measurement. `collectors` replace the simulator's in the config."""

    name: str
    title: str
    page: int
    size: float
    """Share of a simulator's population on this cloud."""
    collectors: Mapping[str, Mapping[str, Any]]


CLOUDS = (
    Cloud("pai", "Alibaba PAI", 100, 1.0, {"usage": {"source": "cloudmonitor"}, "nodes": _ON}),
    Cloud("modelarts", "Huawei ModelArts", 50, 0.6, {"usage": {"source": "aom"}, "nodes": _ON, "maintenance": _ON}),
    Cloud("sagemaker", "AWS SageMaker", 100, 0.6, {"nodes": _ON}),
)
RATE = 20
"""limits.requests_per_second of every row: polls of 10,000 jobs then finish in half their interval."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The calls of one world. Seconds are simulated."""

    live: int
    pods: int
    calls: Mapping[str, int]
    seconds: Mapping[str, float]
    intervals: Mapping[str, float]

    def each(self, collector: str) -> float:
        """Return the calls of one poll."""
        return self.calls.get(collector, 0) * self.intervals[collector] / _COUNTED


def measure(cloud: Cloud, live: int, ended: int = 0) -> Measured:
    """Poll a world with about so many live jobs, and so many more that ended long ago, and count the calls."""
    return run_stepped(lambda: _measure(cloud, live, ended))


def _add_ended(world: World, count: int) -> None:
    """Add copies of jobs that ended long ago. No live job and no later event changes."""
    past = [job for job in world.jobs.values() if job.finished is not None and job.finished < world.started - 86_400]
    for number, job in zip(range(count), cycle(past), strict=False):
        copied = replace(job, job_id=f"{job.job_id[:-5]}{number:05}")
        world.jobs[copied.job_id] = copied


async def _measure(cloud: Cloud, live: int, ended: int) -> Measured:
    loop = asyncio.get_running_loop()
    population = max(round(live * _PER_LIVE / cloud.size), 8)
    simulator = Simulator(seed=7, clouds=(cloud.name,), population=population, patience=_JOB_LIFE)
    _add_ended(simulator.worlds[cloud.name], ended)
    attempts: list[tuple[float, Attempt]] = []
    async with simulator.serve() as url:
        exporter = _exporter(simulator, url, cloud, lambda _, attempt: attempts.append((loop.time(), attempt)))
        schedule = Schedule(exporter.runners)
        try:
            schedule.start()
            await asyncio.sleep(_SETTLE + _COUNTED)
        finally:
            await schedule.stop()
            await exporter.aclose()
        states = [runner.state for runner in exporter.runners]
        newest = max(each.last_success for each in states)  # a list that changes while it is read fails one poll
        if failed := [each.collector for each in states if newest - each.last_success > 3 * each.interval]:
            raise SystemExit(f"{cloud.name}, {live} jobs: these collectors fail: {', '.join(failed)}")
    jobs = simulator.worlds[cloud.name].live()
    return Measured(
        live=len(jobs),
        pods=sum(len(job.pods) for job in jobs),
        # With the stepped clock, a kept connection can end in the moment of its next use: no call reaches a cloud.
        calls=Counter(each.caller for at, each in attempts if at >= _SETTLE and each.outcome != Unreachable.outcome),
        seconds={state.collector: state.duration or 0.0 for state in states},
        intervals={state.collector: state.interval for state in states},
    )


def _exporter(simulator: Simulator, url: str, cloud: Cloud, observe: Callable[[Any, Attempt], None]) -> Exporter:
    """Return an exporter with its default intervals, and the collectors and limits of the measurement."""
    config = yaml.safe_load(simulator.config_yaml(url))
    del config["global"]
    (provider,) = config["providers"]
    provider |= {"collectors": dict(cloud.collectors), "limits": {"requests_per_second": RATE, "concurrency": 8}}
    return Exporter(load(yaml.safe_dump(config)), installed_platforms(), observe=observe)


def table(cloud: Cloud, measured: Sequence[Measured]) -> str:
    """One cloud's table: calls of a poll for each collector in the first of WORLDS, with the ended jobs."""
    alone, shown, intervals = measured[::2], measured[1::2], measured[0].intervals
    worlds = ", ".join(f"{found.live:,} live jobs with {found.pods:,} pods" for found in shown)
    sizes = " | ".join(f"{size:,} jobs" for size in SIZES[: len(shown)])
    lines = [
        f"**{cloud.title}** ({RATE} requests a second; {worlds})",
        "",
        f"| collector | every | {sizes} | takes at most |",
        "|---|---|" + "---|" * (len(shown) + 1),
    ]
    for collector, interval in intervals.items():
        cells = [_number(found.each(collector)) for found in shown]
        longest = max(found.seconds[collector] for found in measured)
        lines.append(f"| `{collector}` | {interval:.0f} s | {' | '.join(cells)} | {longest:.0f} s |")
    totals = [sum(found.each(name) * 60 / interval for name, interval in intervals.items()) for found in shown]
    lines.append("| calls a minute | | " + " | ".join(map(_number, totals)) + " | |")
    more = max(abs(a.each(name) - b.each(name)) for a, b in zip(alone, shown, strict=True) for name in intervals)
    lines += ["", f"The ended jobs change a poll by at most {_number(more)} calls."]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value - round(value)) < 0.05 else f"{value:,.1f}"


def main() -> None:
    """Measure everything and rewrite the document."""
    with ProcessPoolExecutor() as pool:
        found = [pool.map(measure, repeat(cloud), *zip(*WORLDS, strict=True)) for cloud in CLOUDS]
        write_measured(DOCUMENT, "\n".join(table(cloud, list(of)) for cloud, of in zip(CLOUDS, found, strict=True)))


if __name__ == "__main__":
    main()
