"""A machine with a wrong clock shows the same usage, phases and counts as one with the right clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from email.utils import format_datetime

import httpx
import pytest

from tests.providers.aws_sagemaker.cloud import CONFIG, Cloud, Row, Run, failed, job, stage
from tests.support.clock import START
from tests.support.fleet import Fleet

SAME = ("jobs", "job_phase_seconds", "job_cpu", "job_accelerator", "pod_cpu", "pod_accelerator", "job_status")
_TIMES = ("CreationTime", "TrainingStartTime", "TrainingEndTime", "LastModifiedTime", "StartTime", "EndTime")
_ACCEPTED = 300.0


def _moved(row: Row, seconds: float) -> Row:
    """A row of a cloud whose clock is `seconds` ahead."""
    moved = {name: value + seconds if name in _TIMES else value for name, value in row.items()}
    if stages := row.get("SecondaryStatusTransitions"):
        moved["SecondaryStatusTransitions"] = [_moved(one, seconds) for one in stages]
    return moved


def _pages(run: Run, off: float) -> list[list[str]]:
    """What a machine shows whose clock is `off` seconds behind, after each of some polls."""
    cloud = Cloud()
    cloud.jobs = [_moved(job(name), off) for name in "ab"]
    found: list[list[str]] = []

    def there(request: httpx.Request) -> httpx.Response:
        now = time.time() + off
        signed = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        date = format_datetime(datetime.fromtimestamp(now, UTC), usegmt=True)
        if abs(signed - now) > _ACCEPTED:
            return failed("InvalidSignatureException", "Signature expired", 403, Date=date)
        answer = cloud(request)
        answer.headers["date"] = date
        return answer

    def points() -> None:
        for host in ("a/algo-1", "a/algo-2", "b/algo-1", "b/algo-2"):
            for metric in ("CPUUtilization", "GPUUtilization"):
                cloud.points.setdefault((host, metric), []).append((time.time() + off - 60, 400.0))

    async def steps(fleet: Fleet) -> None:
        async def poll() -> None:
            for name in ("jobs", "job_counts", "usage"):
                await fleet.runner(name).tick()
                assert fleet.own("collector_success", collector=name) == 1
            found.append(await fleet.lines(*SAME))

        points()
        await poll()
        await asyncio.sleep(60)
        points()
        ended: Row = {"TrainingEndTime": START + 30, "LastModifiedTime": START + 30}
        history = [stage("Starting", -600, -500), stage("Training", -500, 30), stage("Failed", 30, 30)]
        words: Row = {"primary": "Failed", "secondary": "Failed", "SecondaryStatusTransitions": history}
        cloud.jobs[1] = _moved(job("b", **ended, **words), off)
        short: Row = {"CreationTime": START + 5, "TrainingStartTime": START + 10}  # between two polls
        cloud.jobs.append(_moved(job("c", **ended, **short, **words), off))
        await poll()
        for wait in (600, 400):  # readings of 15 minutes are not shown
            await asyncio.sleep(wait)
            await fleet.runner("usage").expire()
            found.append(await fleet.lines(*SAME))

    run(there, steps, "global: {keep_last_good_polls: 100}\n" + CONFIG)
    return found


@pytest.mark.parametrize("off", [200, -200, 400, -400, 3600, -3600, 7200, -7200])
def test_wrong_clock_changes_no_value(run: Run, off: float) -> None:
    right, wrong = _pages(run, 0), _pages(run, off)
    first, second, kept, last = (" ".join(page) for page in right)
    assert 'job_accelerator_utilization_ratio{provider="p",job_id="a",accelerator="gpu"} 0.5' in first
    assert 'jobs_finished_total{provider="p",workspace_id="default",status="failed"} 2' in second
    assert 'job_phase_seconds{provider="p",job_id="a",phase="running"} 560' in second
    assert "utilization_ratio" in kept
    assert "utilization_ratio" not in last
    assert wrong == right
