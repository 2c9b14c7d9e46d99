"""Four exporters that share a fleet show together what one shows alone, and ask for little more."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.clock import run_stepped
from tests.support.sharded import calls, fleet_samples, fleet_yaml, load, shard_exporter, together
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.sharding import WHOLE, Shard
from trainfleet_simulator import Simulator

pytestmark = pytest.mark.long
_SHARDS = 4
_ACCOUNTS = 2
_POLLED = 1195.0
"""Simulated seconds: other shards' looks at lists are within them, and no poll begins just then."""
_ROUNDING = 0.001
"""Seconds by which a phase that lasts may differ: it counts until its list was read, in all of them at one time."""


@dataclass(frozen=True, slots=True)
class _Polled:
    """What came of some minutes: pages of the one that was alone and of the shards, and the calls of each."""

    alone: dict[str, float]
    shards: list[dict[str, float]]
    calls_alone: Counter[tuple[str, str]]
    calls_shared: Counter[tuple[str, str]]

    @property
    def calls_ratio(self) -> float:
        return self.calls_shared.total() / self.calls_alone.total()


def _poll(folder: Path, more: str = "") -> _Polled:
    async def main() -> _Polled:
        simulator = Simulator(seed=3, clouds=("pai", "modelarts"), still=True)
        async with simulator.serve() as url:
            text = fleet_yaml(simulator, url, _ACCOUNTS, more=more)
            with_v1 = r"\1      jobs_v1: {enabled: true}\n"
            text = re.sub(r"(platform: huawei_modelarts\n(?:.*\n)*?    collectors:\n)", with_v1, text)
            config = load(text, folder)
            exporters = [
                shard_exporter(config, shard) for shard in (WHOLE, *(Shard(n, _SHARDS) for n in range(_SHARDS)))
            ]
            schedules = [Schedule(exporter.runners) for exporter in exporters]
            try:
                for schedule in schedules:
                    schedule.start()
                await asyncio.sleep(_POLLED)
                pages = [fleet_samples((await exporter.text()).decode()) for exporter in exporters]
            finally:
                for schedule, exporter in zip(schedules, exporters, strict=True):
                    await schedule.stop()
                    await exporter.aclose()
            for exporter in exporters:
                _succeeded(exporter)
            made = [calls(exporter) for exporter in exporters]
            return _Polled(pages[0], pages[1:], made[0], sum(made[1:], Counter[tuple[str, str]]()))

    return run_stepped(main)


def _succeeded(exporter: Exporter) -> None:
    for runner in exporter.runners:
        assert runner.state.success, (runner.state.provider, runner.state.collector, runner.errors)


def _is_the_same(polled: _Polled) -> None:
    assert any('job_id="' in series and "/" in series.partition('job_id="')[2][:20] for series in polled.alone)  # of v1
    union = together(polled.shards)
    assert sorted(polled.alone.keys() - union.keys()) == []
    assert sorted(union.keys() - polled.alone.keys()) == []
    other = {
        series: (value, union[series])
        for series, value in polled.alone.items()
        if value != union[series] and "timestamp_seconds" not in series and "duration_seconds" not in series
        if not (series.startswith("trainfleet_job_phase_seconds{") and abs(value - union[series]) < _ROUNDING)
    }
    assert other == {}  # in a still world nothing but time goes on


def test_workspaces_and_pools_are_divided(tmp_path: Path) -> None:
    polled = _poll(tmp_path)
    _is_the_same(polled)
    assert polled.calls_ratio <= 1.1, polled.calls_shared - polled.calls_alone
    assert min(map(len, polled.shards)) > 0  # all of them have something to do


def test_a_provider_that_is_not_spread_costs_no_call_more(tmp_path: Path) -> None:
    polled = _poll(tmp_path, more="    sharding: {spread: 1}\n")
    _is_the_same(polled)
    assert polled.calls_shared == polled.calls_alone


def test_large_workspaces_are_divided_job_by_job(tmp_path: Path) -> None:
    polled = _poll(tmp_path, more="    sharding: {split_workspaces_above: 20, spread: 16}\n")
    _is_the_same(polled)
    shown_by: dict[str, set[int]] = {}
    for number, page in enumerate(polled.shards):
        for series in page:
            if series.startswith("trainfleet_job_info{") and 'provider="sim-pai-hangzhou-0"' in series:
                workspace = series.partition('workspace_id="')[2].partition('"')[0]
                shown_by.setdefault(workspace, set()).add(number)
    assert max(map(len, shown_by.values())) > 1, shown_by
    # Lists are asked for by each shard, and nothing else is asked for by more of them than before: but for the first
    # cycle over jobs, which begins at another moment where there are more or fewer of them.
    lists = {"ListJobs", "ListTrainingJobs", "ListWorkspaces", "ListPools", "ListQuotas", "ListEcsSpecs"}
    others = [
        sum(count for (_, operation), count in made.items() if operation not in lists)
        for made in (polled.calls_alone, polled.calls_shared)
    ]
    assert others[1] <= 1.01 * others[0]
