"""A day of each cloud, backfilled: the real promtool makes blocks of it, a real Prometheus answers what was true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import httpx
import pytest

from tests.backfill.rig import MIDNIGHT, WHOLE_DAY, Rig, simulated, truth
from tests.deploy.history_server import create_blocks, prometheus_on
from trainfleet_exporter.providers.history import DAY
from trainfleet_simulator.world.jobs import Job

INSTANTS = [MIDNIGHT + 1800 + 4200 * number + 60 * (number % 7) for number in range(20)]
"""Whole minutes, all over the day."""
_EDGE = 240
"""Seconds after the beginning of a job, and before its end, in which readings may not be there yet or any more."""
Truth = Callable[[Job, int], Mapping[tuple[str, ...], float]]


def _of_job(cloud: str, metric: str, factor: float, *, summed: bool = False) -> Truth:
    def told(job: Job, at: int) -> Mapping[tuple[str, ...], float]:
        pods = truth(cloud, job, metric, at)
        return {(job.job_id,): (sum if summed else fmean)(pods.values()) * factor} if pods else {}

    return told


def _of_pods(cloud: str, metric: str, factor: float) -> Truth:
    def told(job: Job, at: int) -> Mapping[tuple[str, ...], float]:
        return {(job.job_id, pod): value * factor for pod, value in truth(cloud, job, metric, at).items()}

    return told


def _steady(job: Job, at: int) -> bool:
    """Whether a job surely has readings: it runs for a while, and no pod of it is being replaced."""
    ended = job.work_ended
    if job.running is None or at < job.running + _EDGE or (ended is not None and at > ended - _EDGE):
        return False
    moments = [
        moment
        for pod in job.pods
        for one in (*pod.history, pod)
        for moment in (one.started, one.finished)
        if moment is not None
    ]
    return not any(abs(moment - at) < _EDGE for moment in moments)


def _check_instant(url: str, cloud: str, jobs: list[Job], at: int) -> int:
    """How many values were compared."""
    compared = 0
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        for family, told in _families(cloud).items():
            answer = client.get("/api/v1/query", params={"query": f"trainfleet_{family}", "time": at}).json()
            assert answer["status"] == "success", answer
            labels = ("job_id", "pod_id") if family.startswith("pod") else ("job_id",)
            found = {
                tuple(row["metric"][label] for label in labels): float(row["value"][1])
                for row in answer["data"]["result"]
            }
            assert len(found) == len(answer["data"]["result"]), family
            expected = {key: value for job in jobs if _steady(job, at) for key, value in told(job, at).items()}
            if "network" in family and cloud == "modelarts":  # task metrics have no network
                expected = {key: value for key, value in expected.items() if _is_pooled(jobs, key[0])}
            assert expected.keys() <= found.keys(), (family, at)
            for key, value in expected.items():
                assert found[key] == pytest.approx(value, rel=1e-4, abs=1e-5), (family, key, at)
            compared += len(expected)
            ended = {job.job_id for job in jobs if job.work_ended is not None and job.work_ended + 240 < at}
            assert not {key for key in found if key[0] in ended}, (family, at)
    return compared


def _is_pooled(jobs: list[Job], job_id: str) -> bool:
    return any(job.job_id == job_id and job.draft.pool_id for job in jobs)


def _families(cloud: str) -> Mapping[str, Truth]:
    return {
        "job_cpu_utilization_ratio": _of_job(cloud, "CpuCoreUsage", 0.01),
        "job_memory_utilization_ratio": _of_job(cloud, "MemoryUsage", 0.01),
        "job_accelerator_utilization_ratio": _of_job(cloud, "GpuCoreUsage", 0.01),
        "job_network_receive_bytes_per_second": _of_job(cloud, "NetworkInputRate", 1e6, summed=True),
        "pod_cpu_utilization_ratio": _of_pods(cloud, "CpuCoreUsage", 0.01),
        "pod_accelerator_utilization_ratio": _of_pods(cloud, "GpuCoreUsage", 0.01),
    }


def _check_records(url: str, jobs: list[Job], at: int) -> int:
    """What records prove; how many jobs were looked at."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:

        def values(query: str) -> dict[str, tuple[dict[str, str], float]]:
            answer = client.get("/api/v1/query", params={"query": query, "time": at}).json()
            rows = answer["data"]["result"]
            assert len({row["metric"]["job_id"] for row in rows}) == len(rows), query
            return {row["metric"]["job_id"]: (row["metric"], float(row["value"][1])) for row in rows}

        info, status = values("trainfleet_job_info"), values("trainfleet_job_status == 1")
        created, started = (
            values("trainfleet_job_created_timestamp_seconds"),
            values("trainfleet_job_started_timestamp_seconds"),
        )
        finished = values("trainfleet_job_finished_timestamp_seconds")
        asked = values("sum by (job_id) (trainfleet_job_requested_accelerators)")
        looked_at = 0
        for job in jobs:
            if job.created > at - 60 or job.job_id not in info:
                assert job.created > at - 60 or (job.finished or at) < at - 3500
                continue
            looked_at += 1
            assert info[job.job_id][0]["job_name"] == job.draft.name
            assert info[job.job_id][0]["pool_id" if job.draft.pool_id else "job_id"] == job.draft.pool_id or job.job_id
            assert created[job.job_id][1] == job.created
            assert (job.job_id in started) == (job.running is not None and job.running <= at // 60 * 60)
            if job.finished is not None and job.finished < at - 60:
                assert finished[job.job_id][1] == pytest.approx(job.finished, abs=60)
                assert job.job_id not in asked
                assert status[job.job_id][0]["status"] == job.status.lower()
            elif _steady(job, at):
                assert job.job_id not in finished
                assert status[job.job_id][0]["status"] == "running"
                cards = sum(role.count * role.cards for role in job.draft.roles)
                assert asked[job.job_id][1] == cards
    return looked_at


def _fewer(config: str) -> str:
    """Cards, and most of what pods have, are not looked at here: promtool reads a file once for each block."""
    deny = "deny: [trainfleet_device_*, trainfleet_pod_*_bytes*, trainfleet_job_*_bytes, trainfleet_*_cores]"
    return config.replace("    job_labels:", f"    {deny}\n    job_labels:")


@pytest.mark.long
@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
def test_a_real_prometheus_answers_what_was_true(cloud: str, tmp_path: Path) -> None:
    jobs: list[Job] = []

    async def work(rig: Rig) -> None:
        outcome, words = await rig.backfill(tmp_path / "out", WHOLE_DAY, labels={"instance": "exporter:10075"})
        assert [path.name for path in outcome.files] == [f"{rig.provider}-2026-01-02.om"]
        assert "promtool tsdb create-blocks-from openmetrics" in words
        jobs.extend(rig.jobs())

    simulated(cloud, work, tmp_path, change=_fewer)
    blocks = tmp_path / "tsdb"
    (file,) = (tmp_path / "out").glob("*.om")
    create_blocks("openmetrics", "--quiet", str(file), str(blocks))
    compared = looked_at = 0
    with prometheus_on(blocks, tmp_path) as url:
        for at in INSTANTS:
            assert MIDNIGHT < at < MIDNIGHT + DAY
            compared += _check_instant(url, cloud, jobs, at)
            looked_at += _check_records(url, jobs, at)
        answer = httpx.get(f"{url}/api/v1/label/instance/values", trust_env=False).json()
        assert answer["data"] == ["exporter:10075"]
    assert compared > 20 * 6 * 3
    assert looked_at > 20 * 4
