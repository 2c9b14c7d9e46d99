"""The job of docs/goodput.md, from a simulated cloud through the exporter and the shipped rules in Prometheus.

`deploy/prometheus/tests/goodput.yaml` tests the rules with the same job.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.deploy.history import SCRAPE_INTERVAL, START, History, stamped
from tests.deploy.history_server import serving_history
from tests.support.clock import run_stepped
from tests.support.configs import exporter_of
from tests.support.programs import need
from trainfleet_simulator import Simulator, server
from trainfleet_simulator.modelarts import drafts as modelarts
from trainfleet_simulator.modelarts.drafts import SETTING as MODELARTS
from trainfleet_simulator.pai import drafts as pai
from trainfleet_simulator.pai.drafts import SETTING as PAI
from trainfleet_simulator.world.fleet import Setting, World
from trainfleet_simulator.world.jobs import Draft, Plan, Restart
from trainfleet_simulator.world.nouns import SUCCEEDED

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules" / "trainfleet-recording.yaml"
HOUR, MINUTE = 3600, 60
WORKSPACE = "12345"
SUBMITTED = int(START) + 63
"""The Unix time of submission. At this time, the simulated world chooses a node fault for the job."""
FAULT = 10 * HOUR
"""Seconds from the submission to the fault. docs/goodput.md has the other times."""
LIFETIME = 20 * HOUR
POLLED = {"workspaces": HOUR, "pools": HOUR, "jobs": MINUTE, "pods": MINUTE}
"""Seconds between polls of each collector that runs."""
PROVIDERS = ("sim-pai-hangzhou", "sim-modelarts-north4")
FIGURES = {
    "job:trainfleet_scheduling_goodput:ratio": 0.900,
    "job:trainfleet_runtime_goodput:ratio": 0.954,
    "job:trainfleet_ettr_without_queue:ratio": 0.926,
    "job:trainfleet_ettr:ratio": 0.833,
    # The provider has only one job, so it has the same ratios. Its scheduling goodput differs, because the first minute
    # in the queue was before the first poll.
    "provider:trainfleet_runtime_goodput:ratio": 0.954,
    "provider:trainfleet_goodput:ratio": 0.926,
}


def _plan(begins: int, *, queuing: int, preparing: int, as_sub_status: bool) -> Plan:
    """Return the plan of the job. `begins` is the second at which the platform reports it as running."""
    return Plan(
        creating=5,
        queuing=queuing,
        preparing=preparing,
        loading=10 * MINUTE,
        running=LIFETIME - begins,
        restarts=(Restart(FAULT - begins, 30 * MINUTE, evicted=False, as_sub_status=as_sub_status),),
        outcome="Succeeded",
        reason=SUCCEEDED,
    )


def _drafts() -> dict[str, Draft]:
    """Return the job of each cloud. Preparation is a status on PAI; on ModelArts it ends when accelerators start."""
    roles = pai.public_roles("ecs.gn6v-c8g1.16xlarge", 4)
    plan = _plan(2 * HOUR + 10 * MINUTE, queuing=2 * HOUR - 5, preparing=10 * MINUTE, as_sub_status=False)
    of_pai = replace(pai.draft(Random(1)), pool_id="", payment="PostPaid", resource_type="ECS", roles=roles, plan=plan)
    assert of_pai.workspace_id == WORKSPACE
    roles = modelarts.public_roles("modelarts.kat1.8xlarge", 4)
    plan = _plan(2 * HOUR, queuing=2 * HOUR - 6, preparing=1, as_sub_status=True)
    of_modelarts = replace(modelarts.draft(Random(1)), pool_id="", roles=roles, plan=plan)
    return {"pai": of_pai, "modelarts": of_modelarts}


def _submit_one_job_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulators have one job for each cloud."""
    drafts = _drafts()
    submissions = {PAI: [(SUBMITTED, drafts["pai"])], MODELARTS: [(SUBMITTED, drafts["modelarts"])]}

    def world(setting: Setting, seed: int, now: float, **_: Any) -> World:
        jobs = submissions.get(setting, [])
        return World(replace(setting, history=0, earlier=lambda *_: jobs), seed, now, closed=True)

    monkeypatch.setattr(server, "World", world)


def _record(folder: Path) -> History:
    """Poll and scrape every minute until the job has ended, and write the samples about jobs and clouds."""
    path = folder / "history.om"

    async def main() -> History:
        simulator = Simulator(clouds=("pai", "modelarts"))
        async with simulator.serve() as url:
            config = folder / "config.yaml"
            text = simulator.config_yaml(url)
            # Jobs are listed by workspace and status: two thirds of the calls would be for workspaces without the job.
            text = text.replace("region: cn-hangzhou\n", f"region: cn-hangzhou\n    workspaces: ['{WORKSPACE}']\n")
            config.write_text(text, encoding="utf-8")
            exporter = exporter_of(config)
            try:
                with path.open("w", encoding="utf-8") as stream:
                    for when in range(int(START), SUBMITTED + LIFETIME + 2 * SCRAPE_INTERVAL, SCRAPE_INTERVAL):
                        await asyncio.sleep(when - time.time())
                        for runner in exporter.runners:
                            interval = POLLED.get(runner.state.collector)
                            if interval and (when - int(START)) % interval == 0:
                                await runner.tick()
                                assert runner.state.success, runner.state
                        stream.writelines(stamped(_shown((await exporter.text()).decode()), when))
                    stream.write("# EOF\n")
            finally:
                await exporter.aclose()
            return History(path, int(START), when)

    return run_stepped(main, start=START)


def _shown(page: str) -> str:
    lines = page.splitlines(keepends=True)
    return "".join(line for line in lines if line[0] != "#" and not line.startswith("trainfleet_exporter_"))


@pytest.mark.long
def test_job_of_the_docs_has_the_figures_of_the_docs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in ("prometheus", "promtool"):
        need(program)
    _submit_one_job_each(monkeypatch)
    history = _record(tmp_path)
    with serving_history(history, [RULES], tmp_path) as prometheus:
        found = {
            (figure, series.labels["provider"]): round(value, 3)
            for figure in FIGURES
            for series in prometheus.instant(figure)
            for value in series.values.values()
        }
    assert found == {(figure, provider): value for figure, value in FIGURES.items() for provider in PROVIDERS}
