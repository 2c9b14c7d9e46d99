"""The calls of polls: `make cost` rewrites docs/evidence/calls.md.

Each row is a world with a number of live jobs. The real exporter polls it over loopback HTTP for ten simulated minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
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

DOCUMENT = Path(__file__).parent.parent / "docs" / "evidence" / "calls.md"
SIZES = (10, 1_000, 10_000)

_SETTLE = 299.5
"""Simulated seconds before counting begins, just before polls of every interval. First polls also read catalogues."""
_COUNTED = 600.0
"""Simulated seconds that are counted: two cycles of the slowest collector."""
_JOB_LIFE = 60
"""Jobs live so many times as long as in the demo. There, they end after minutes, and the ends would cause most of the
calls."""
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
    """The calls of one world. `polls` is the number of counted polls by collector. Seconds are simulated."""

    live: int
    pods: int
    calls: Mapping[str, int]
    polls: Mapping[str, int]
    seconds: Mapping[str, float]
    intervals: Mapping[str, float]

    def each(self, collector: str) -> float:
        """Return the calls of one poll."""
        return self.calls.get(collector, 0) / max(self.polls.get(collector, 0), 1)


def measure(cloud: Cloud, live: int) -> Measured:
    """Poll a world with about so many live jobs, and count the calls."""
    return run_stepped(lambda: _measure(cloud, live))


async def _measure(cloud: Cloud, live: int) -> Measured:
    loop = asyncio.get_running_loop()
    simulator = Simulator(
        seed=7, clouds=(cloud.name,), population=max(round(live * _PER_LIVE / cloud.size), 8), patience=_JOB_LIFE
    )
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
        if failed := [state.collector for state in states if not state.success]:
            raise SystemExit(f"{cloud.name}, {live} jobs: these collectors fail: {', '.join(failed)}")
    jobs = simulator.worlds[cloud.name].live()
    return Measured(
        live=len(jobs),
        pods=sum(len(job.pods) for job in jobs),
        # With the stepped clock, a kept connection can end in the moment of its next use. Such a call never reaches a
        # cloud.
        calls=Counter(
            attempt.caller for at, attempt in attempts if at >= _SETTLE and attempt.outcome != Unreachable.outcome
        ),
        polls={state.collector: round(_COUNTED / state.interval) for state in states},
        seconds={state.collector: state.duration or 0.0 for state in states},
        intervals={state.collector: state.interval for state in states},
    )


def _exporter(simulator: Simulator, url: str, cloud: Cloud, observe: Callable[[Any, Attempt], None]) -> Exporter:
    """Return an exporter with its default intervals, and the collectors and limits of the measurement."""
    config = yaml.safe_load(simulator.config_yaml(url))
    del config["global"]
    (provider,) = config["providers"]
    provider["collectors"] = dict(cloud.collectors)
    provider["limits"] = {"requests_per_second": RATE, "concurrency": 8}
    return Exporter(load(yaml.safe_dump(config)), installed_platforms(), observe=observe)


def table(cloud: Cloud, measured: Sequence[Measured]) -> str:
    """One cloud's table: calls of a poll for each collector, by the number of live jobs."""
    worlds = ", ".join(f"{found.live:,} live jobs with {found.pods:,} pods" for found in measured)
    sizes = " | ".join(f"{size:,} jobs" for size in SIZES[: len(measured)])
    lines = [
        f"**{cloud.title}** ({RATE} requests a second; {worlds})",
        "",
        f"| collector | every | {sizes} | takes at most |",
        "|---|---|" + "---|" * (len(measured) + 1),
    ]
    intervals = measured[0].intervals
    for collector, interval in intervals.items():
        cells = [_number(found.each(collector)) for found in measured]
        longest = max(found.seconds[collector] for found in measured)
        lines.append(f"| `{collector}` | {interval:.0f} s | {' | '.join(cells)} | {longest:.0f} s |")
    totals = [sum(found.each(name) * 60 / interval for name, interval in intervals.items()) for found in measured]
    lines.append("| calls a minute | | " + " | ".join(map(_number, totals)) + " | |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value - round(value)) < 0.05 else f"{value:,.1f}"


def main() -> None:
    """Measure everything and rewrite the document."""
    argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__).parse_args()
    tables = []
    for cloud in CLOUDS:
        rows = []
        for live in SIZES:
            began = perf_counter()
            rows.append(measure(cloud, live))
            print(f"{cloud.title}, {live:,} jobs: measured in {perf_counter() - began:.0f} s", file=sys.stderr)
        tables.append(table(cloud, rows))
    print("\n".join(tables))
    write_measured(DOCUMENT, "\n".join(tables))


if __name__ == "__main__":
    main()
