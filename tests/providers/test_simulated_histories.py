"""Histories of half a simulated hour of both clouds, held against what happened in the worlds behind them."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from tests.support import simulated_jobs
from tests.support.configs import exporter_of, written
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import NODE_FAULT
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job

MINUTES = 30
DETAIL_AGE = 120
"""Seconds that the detail of a live job may be old, at the simulator's intervals."""
SERIES = re.compile(r"^trainfleet_(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
LISTS = ("workspaces", "pools", "jobs", "pods")
Sample = tuple[str, dict[str, str], float]


async def _scrape(cloud: str, folder: Path) -> tuple[World, float, list[Sample]]:
    """Poll a cloud every minute. Returns its world, the time of the first poll of jobs, and the samples at the end."""
    simulator = Simulator(seed=11, clouds=(cloud,))
    async with simulator.serve() as url:
        exporter = exporter_of(written(folder, simulator.config_yaml(url)))
        try:
            runners = {runner.state.collector: runner for runner in exporter.runners}
            first = 0.0
            for minute in range(MINUTES + 1):
                for name in LISTS:
                    if name in runners:
                        await runners[name].tick()
                        assert runners[name].state.success, name
                first = first or time.time()
                if minute < MINUTES:
                    await asyncio.sleep(60 - time.time() % 60)
            await runners["jobs"].tick()
            text = (await exporter.text()).decode()
        finally:
            await exporter.aclose()
    samples = [(name, dict(LABEL.findall(labels)), float(value)) for name, labels, value in SERIES.findall(text)]
    return simulator.worlds[cloud], first, samples


def _changed(job: Job) -> float:
    """When a job's history changed last."""
    lost = [at for loss in job.losses for at in (loss.at, loss.over or float("inf"))]
    return max([job.statuses[-1][1], *lost])


@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
async def test_histories_are_those_of_the_simulated_world(cloud: str, tmp_path: Path) -> None:
    began = time.time()
    world, first, samples = await _scrape(cloud, tmp_path)
    now = time.time()
    phases: dict[str, dict[str, float]] = {}
    for name, labels, value in samples:
        if name == "job_phase_seconds":
            phases.setdefault(labels["job_id"], {})[labels["phase"]] = value
    compared, recovered = 0, 0
    for job_id, found in phases.items():
        job = world.jobs[job_id]
        if job.live and (job.status == "Stopping" or _changed(job) > now - (DETAIL_AGE if cloud == "pai" else 0)):
            continue  # what has happened since its detail was read is not known yet
        expected = simulated_jobs.phases(cloud, job, now)
        for phase in found.keys() | {phase for phase, seconds in expected.items() if seconds}:
            assert abs(found.get(phase, 0) - expected.get(phase, 0)) <= 2, (job_id, job.status, found, expected)
        compared += 1
        recovered += expected.get("recovering", 0) > 0
    assert compared > 40
    assert recovered > 3
    listed = {labels["job_id"] for name, labels, _ in samples if name == "job_info"}
    for job_id in listed:
        lost = [loss for loss in world.jobs[job_id].losses if loss.at >= began]
        fatal = cloud == "modelarts" and world.jobs[job_id].reason[0] == NODE_FAULT
        count = sum(value for name, of, value in samples if name == "job_faults_total" and of["job_id"] == job_id)
        assert len([loss for loss in lost if loss.over is not None]) <= count <= len(lost) + fatal, job_id
    started = [
        job
        for job in world.jobs.values()
        if job.running is not None
        and first < job.running < (now - DETAIL_AGE if cloud == "pai" and job.live else now)
        and job.job_id in phases
    ]
    waits = sum(value for name, _, value in samples if name == "job_queue_wait_seconds_count")
    assert len(started) > 5
    assert len(started) <= waits <= sum((job.running or 0) > first for job in world.jobs.values())
