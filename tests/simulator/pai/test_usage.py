"""Usage: within its range, believable, and the hung job's accelerators idle."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, pstdev

import pytest

from tests.simulator.client import START, Caller
from trainfleet_simulator.pai.past import SETTING
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.usage import METRIC_TYPES, reading

NOW = int(START)


@pytest.fixture(scope="module")
def world() -> World:
    return World(SETTING, 1, START)


def named(world: World, name: str) -> Job:
    return next(job for job in world.jobs.values() if job.draft.name == name)


@pytest.mark.parametrize("metric", METRIC_TYPES)
def test_in_range_at_any_moment_of_every_pod(world: World, metric: str) -> None:
    top = 100 if metric.endswith("Usage") else 10_000
    count = 0
    for job in world.jobs.values():
        for pod in job.pods:
            for at in range(pod.created - 60, pod.created + 1200, 61):
                value = reading(metric, job, pod, at)
                if value is not None:
                    count += 1
                    assert 0 <= value <= top
                    assert pod.started is not None
                    assert pod.started <= at <= (pod.finished or at)
    assert count > 1000


def test_it_depends_on_nothing_but_pod_and_time(world: World) -> None:
    again = World(SETTING, 1, START)
    for name in ("asr-steady", "features-cpu"):
        for metric in METRIC_TYPES:
            one, two = named(world, name), named(again, name)
            assert reading(metric, one, one.pods[0], NOW) == reading(metric, two, two.pods[0], NOW)


def test_a_working_job_works_with_pauses_for_checkpoints(world: World) -> None:
    job = named(world, "asr-steady")
    values = [reading("GpuCoreUsage", job, job.pods[0], at) or 0.0 for at in range(NOW - 3600, NOW, 5)]
    assert mean(values) > 50
    assert min(values) < 15
    assert pstdev(values) > 1
    assert sum(value < 15 for value in values) < len(values) * 0.1


def test_pods_of_one_job_are_alike_and_not_the_same(world: World) -> None:
    job = named(world, "asr-steady")
    one, two = ([reading("GpuCoreUsage", job, pod, at) or 0.0 for at in range(NOW - 600, NOW, 30)] for pod in job.pods)
    assert one != two
    assert abs(mean(one) - mean(two)) < 15


def test_hung_job_worked_once_and_then_idles() -> None:
    caller = Caller()
    caller.clock.now += 2 * 3600
    job_id = caller.job("asr-hangs")["JobId"]
    assert caller.job("asr-hangs")["Status"] == "Running"
    path = f"/api/v1/jobs/{job_id}/metrics"
    worked = {"StartTime": "2026-01-02T00:30:00Z", "EndTime": "2026-01-02T02:30:00Z", "TimeStep": "1m"}
    since = {"StartTime": "2026-01-02T02:40:00Z", "TimeStep": "1m"}

    def values(metric: str, span: dict[str, str]) -> list[float]:
        pods = caller.body("dlc", "GetJobMetrics", path, MetricType=metric, **span)["PodMetrics"]
        assert len(pods) == 2
        return [point["Value"] for pod in pods for point in pod["Metrics"]]

    assert mean(values("GpuCoreUsage", worked)) > 50
    idle = values("GpuCoreUsage", since)
    assert len(idle) > 2 * 120
    assert set(idle) == {0.0}
    assert min(values("GpuMemoryUsage", since)) > 30, "its memory stays taken"
    assert max(values("CpuCoreUsage", since)) < 2


def test_a_job_that_only_holds_resources_idles(world: World) -> None:
    job = named(world, "holds-after-success")
    assert job.succeeded is not None
    assert reading("GpuCoreUsage", job, job.pods[0], job.succeeded - 100) != 0
    assert reading("GpuCoreUsage", job, job.pods[0], NOW) == 0


def test_it_changes_smoothly(world: World) -> None:
    job = named(world, "features-cpu")
    values = [reading("MemoryUsage", job, job.pods[0], at) or 0.0 for at in range(NOW - 600, NOW)]
    assert max(abs(one - two) for one, two in pairwise(values)) < 1
