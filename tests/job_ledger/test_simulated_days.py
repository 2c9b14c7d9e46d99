"""The report on simulated days of each cloud, held against what happened in the world behind it."""

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

DAYS = {"pai": 1, "modelarts": 2, "sagemaker": 1}
INTERVALS = {"pai": 1800, "modelarts": 120, "sagemaker": 120}
"""Seconds between polls. PAI lists ended jobs with their accelerators; on the others, a poll has to see a job live."""
CAUSES = ("accelerator", "node", "process", "hang", "degraded", "preempted", "other")
PHASES = ("queued", "preparing", "running", "recovering", "checking", "finishing")
NEVER = {
    "pai": {"finishing_hours", "other_faults"},
    "modelarts": {"checking_hours", "finishing_hours", "preempted_faults", "other_faults"},
    "sagemaker": {"checking_hours", *(f"{cause}_faults" for cause in CAUSES if cause != "preempted")},
}
"""What no job of a cloud has."""
THRESHOLDS = Path(__file__).parents[2] / "deploy/prometheus/thresholds.yaml"
PRICES: Mapping[str, float] = {
    **yaml.safe_load(THRESHOLDS.read_text(encoding="utf-8"))["prices"],
    "H100": 30.0,
    "A100": 20.0,
    "A10G": 8.0,
    "L4": 5.0,
    "Trainium": 6.0,
}
SEEN = {workspace.workspace_id for workspace in WORKSPACES if workspace.member}
GROUPS: Mapping[str, Callable[[str, Job], str]] = {
    "all": lambda cloud, job: "",
    "user": lambda cloud, job: "" if cloud == "sagemaker" else job.draft.user.name,
    "pool": lambda cloud, job: job.draft.pool_id,
    "label:team": lambda cloud, job: dict(job.draft.tags).get("team", ""),
}


@dataclass
class Sums:
    """Of some jobs of a cloud, by what happened in its world."""

    figures: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: list[float] = field(default_factory=list)

    def add(self, cloud: str, job: Job) -> None:
        assert job.finished is not None
        phases, cards = truth.phases(cloud, job, job.finished), truth.cards(job)
        held, lost = truth.held(cloud, job), truth.lost(cloud, job)
        prices = {model.lower(): price for model, price in PRICES.items()}
        cost = sum(role.count * role.cards * prices[role.card_type.lower()] for role in job.draft.roles if role.cards)
        self.figures["jobs"] += 1
        self.figures["failed_jobs"] += job.status == "Failed"
        self.figures["accelerator_hours"] += cards * held / 3600
        self.figures["cost"] += cost * held / 3600
        self.figures["lost_accelerator_hours"] += cards * lost / 3600
        for phase in PHASES:
            self.figures[f"{phase}_hours"] += phases.get(phase, 0) / 3600
        found = truth.faults(cloud, job)
        for cause in CAUSES:
            self.figures[f"{cause}_faults"] += found[cause]
        self.waits.append(phases.get("queued", 0))

    def expected(self) -> Mapping[str, float]:
        return {**self.figures, "median_wait_seconds": median(self.waits), "longest_wait_seconds": max(self.waits)}


def _truth(cloud: str, simulator: Simulator, start: float, end: float) -> dict[tuple[str, str], Sums]:
    found: defaultdict[tuple[str, str], Sums] = defaultdict(Sums)
    world = simulator.worlds[cloud]
    world.advance(end)
    for job in world.jobs.values():
        is_seen = cloud != "pai" or job.draft.workspace_id in SEEN
        if is_seen and job.finished is not None and start < job.finished <= end:
            for by, name_of in GROUPS.items():
                found[by, name_of(cloud, job)].add(cloud, job)
    return found


async def _live(cloud: str, folder: Path) -> tuple[dict[tuple[str, str], Sums], float]:
    """Poll the cloud for some days. Returns what was true, and the time of the end."""
    simulator = Simulator(seed=5, clouds=(cloud,), patience=40)
    async with simulator.serve() as url:
        path = folder / "config.yaml"
        text = simulator.config_yaml(url).replace("global:\n", "global:\n  ledger_file: ledger.jsonl\n")
        path.write_text(text.replace("[team, project, cost-center]", "[team]"), encoding="utf-8")
        start = time.time()
        exporter = exporter_of(path)
        runners = {runner.state.collector: runner for runner in exporter.runners}
        intervals = {"workspaces": 86400 * DAYS[cloud] * 2, "pools": 21600, "jobs": INTERVALS[cloud]}
        try:
            for seconds in range(0, DAYS[cloud] * 86400 + 1, INTERVALS[cloud]):
                await asyncio.sleep(max(0.0, start + seconds - time.time()))
                for name in [name for name in intervals if name in runners and not seconds % intervals[name]]:
                    await runners[name].tick()
                    assert runners[name].state.success, runners[name].state.error
            end = time.time()
        finally:
            await exporter.aclose()
        return _truth(cloud, simulator, start, end), end


@pytest.mark.long
@pytest.mark.parametrize("cloud", INTERVALS)
def test_the_report_on_some_days_is_true(cloud: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected, end = run_stepped(lambda: _live(cloud, tmp_path))
    (tmp_path / "prices.yaml").write_text(yaml.safe_dump({"prices": dict(PRICES)}), encoding="utf-8")
    files = [f"--ledger={tmp_path / 'ledger.jsonl'}", f"--prices={tmp_path / 'prices.yaml'}"]
    with time_machine.travel(end, tick=False):
        assert cli.main(["report", f"--days={DAYS[cloud]}", "--format=csv", *files]) == 0
    rows = {(row["by"], row["name"]): row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert rows.keys() == expected.keys()
    figures = expected["all", ""].figures
    assert figures["jobs"] > 50
    assert {name for name, value in figures.items() if not value} == NEVER[cloud]
    wrong = []
    for key, sums in expected.items():
        for column, value in sums.expected().items():
            found = float(rows[key][column] or 0)
            if found != pytest.approx(value, rel=0.01):
                wrong.append((*key, column, found, round(value, 3)))
    assert not wrong, "\n".join(map(str, wrong))
