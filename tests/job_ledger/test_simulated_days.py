"""The report on two simulated days of two clouds, held against what happened in the worlds behind them."""

from __future__ import annotations

import asyncio
import csv
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
import time_machine
import yaml

from tests.support import simulated_jobs as truth
from tests.support.clock import run_stepped
from tests.support.configs import exporter_of
from trainfleet_exporter import cli
from trainfleet_simulator import Simulator
from trainfleet_simulator.pai.catalog import WORKSPACES
from trainfleet_simulator.world.jobs import Job

DAYS = 2
INTERVALS = {"jobs": {"pai": 1800, "modelarts": 120}, "pools": {"pai": 21600, "modelarts": 21600}}
"""Seconds between polls. PAI lists what ended; on ModelArts a job has to be seen while it lives."""
CAUSES = ("accelerator", "node", "process", "hang", "degraded", "preempted", "other")
THRESHOLDS = Path(__file__).parents[2] / "deploy/prometheus/thresholds.yaml"
PRICES: Mapping[str, float] = yaml.safe_load(THRESHOLDS.read_text(encoding="utf-8"))["prices"]
PHASES = ("queued", "preparing", "running", "recovering", "checking", "finishing")
SEEN = {workspace.workspace_id for workspace in WORKSPACES if workspace.member}


@dataclass
class Sums:
    """Of some jobs, by what happened in the worlds."""

    figures: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: list[float] = field(default_factory=list)

    def add(self, cloud: str, job: Job) -> None:
        assert job.finished is not None
        phases, cards = truth.phases(cloud, job, job.finished), truth.cards(job)
        self.figures["jobs"] += 1
        self.figures["failed_jobs"] += job.status == "Failed"
        self.figures["accelerator_hours"] += cards * truth.held(job) / 3600
        prices = [role.count * role.cards * PRICES[role.card_type] for role in job.draft.roles if role.cards]
        self.figures["cost"] += sum(prices) * truth.held(job) / 3600
        lost = sum(phases.get(phase, 0) for phase in ("preparing", "checking", "recovering", "finishing"))
        self.figures["lost_accelerator_hours"] += cards * lost / 3600
        for phase in PHASES:
            self.figures[f"{phase}_hours"] += phases.get(phase, 0) / 3600
        found = truth.faults(cloud, job)
        for cause in CAUSES:
            self.figures[f"{cause}_faults"] += found[cause]
        self.waits.append(phases.get("queued", 0))

    def expected(self) -> Mapping[str, float]:
        return {**self.figures, "median_wait_seconds": median(self.waits), "longest_wait_seconds": max(self.waits)}


GROUPS: Mapping[str, Callable[[Job], str]] = {
    "all": lambda job: "",
    "user": lambda job: job.draft.user.name,
    "pool": lambda job: job.draft.pool_id,
    "label:team": lambda job: dict(job.draft.tags).get("team", ""),
}


def _truth(simulator: Simulator, start: float, end: float) -> dict[tuple[str, str], Sums]:
    found: defaultdict[tuple[str, str], Sums] = defaultdict(Sums)
    for cloud in ("pai", "modelarts"):
        world = simulator.worlds[cloud]
        world.advance(end)
        for job in world.jobs.values():
            is_seen = cloud == "modelarts" or job.draft.workspace_id in SEEN
            if is_seen and job.finished is not None and start < job.finished <= end:
                for by, name_of in GROUPS.items():
                    found[by, name_of(job)].add(cloud, job)
    return found


async def _live(folder: Path) -> tuple[dict[tuple[str, str], Sums], float]:
    """Poll both clouds for two days. Returns what was true, and the time of the end."""
    simulator = Simulator(seed=5, clouds=("pai", "modelarts"), patience=40)
    async with simulator.serve() as url:
        path = folder / "config.yaml"
        text = simulator.config_yaml(url).replace("global:\n", "global:\n  ledger_file: ledger.jsonl\n")
        path.write_text(text.replace("[team, project, cost-center]", "[team]"), encoding="utf-8")
        start = time.time()
        exporter = exporter_of(path)
        try:
            for runner in exporter.runners:
                if runner.state.collector in {"workspaces", "pools"}:
                    await runner.tick()
            for minutes in range(0, DAYS * 1440 + 1, 2):
                await asyncio.sleep(max(0.0, start + 60 * minutes - time.time()))
                for runner in exporter.runners:
                    cloud = "pai" if "pai" in runner.state.provider else "modelarts"
                    interval = INTERVALS.get(runner.state.collector, {}).get(cloud)
                    if interval and 60 * minutes % interval == 0:
                        await runner.tick()
                        assert runner.state.success, runner.state.error
            end = time.time()
        finally:
            await exporter.aclose()
        return _truth(simulator, start, end), end


@pytest.mark.long
def test_the_report_on_two_days_is_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected, end = run_stepped(lambda: _live(tmp_path))
    with time_machine.travel(end, tick=False):
        flags = [f"--days={DAYS}", f"--ledger={tmp_path / 'ledger.jsonl'}", "--format=csv", f"--prices={THRESHOLDS}"]
        assert cli.main(["report", *flags]) == 0
    rows = {(row["by"], row["name"]): row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert rows.keys() == expected.keys()
    figures = expected["all", ""].figures
    assert figures["jobs"] > 400
    assert [name for name, value in figures.items() if not value] == [
        "finishing_hours",
        "other_faults",
    ]  # no world has any
    wrong = []
    for key, sums in expected.items():
        for column, value in sums.expected().items():
            found = float(rows[key][column] or 0)
            if found != pytest.approx(value, rel=0.01):
                wrong.append((*key, column, found, round(value, 3)))
    assert not wrong, "\n".join(map(str, wrong))
