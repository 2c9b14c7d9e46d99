"""No job is lost between lists that are asked for one after another, nor is a list that is refused an empty one."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.backfill.rig import EVENING, MIDNIGHT, RANGES, samples, simulated
from tests.support.logs import line_of
from trainfleet_exporter.backfill.work import Unfinished
from trainfleet_exporter.providers.huawei_modelarts import jobs
from trainfleet_simulator.faults import Fault

BEGINS = MIDNIGHT
LISTS = {"pai": "ListJobs", "modelarts": "ListTrainingJobs", "sagemaker": "Search"}
LIVE = {"pai": {"Status": "Running"}, "modelarts": {"phase": ",".join(jobs.LIVE)}, "sagemaker": {}}


def _jobs(folder: Path) -> set[str]:
    (path,) = folder.glob("*.om")
    return {labels["job_id"] for family, labels, _, _ in samples(path) if family == "trainfleet_job_info"}


@pytest.mark.long
@pytest.mark.parametrize("cloud", LISTS)
async def test_a_job_that_ends_between_two_searches_is_found(cloud: str, tmp_path: Path) -> None:
    async with simulated(cloud, tmp_path, hours=24.4) as rig:
        rig.simulator.faults.add(Fault({"operation": LISTS[cloud], **LIVE[cloud]}, kind="server_error"))
        with pytest.raises(Unfinished, match="cannot find all jobs"):
            await rig.backfill(tmp_path / "out", EVENING)
        first = time.time()
        rig.simulator.faults.clear()
        await asyncio.sleep(24 * 3600)
        await rig.backfill(tmp_path / "whole", EVENING)
        ended = {
            rig.id_of(job)
            for job in rig.jobs()
            if job.running is not None and job.running < EVENING.end and job.finished is not None
            if job.finished > first
        }
        assert ended  # jobs that ran in the range, and ended after the first search
        await rig.backfill(tmp_path / "out", EVENING)
        assert ended <= _jobs(tmp_path / "out")
        assert _jobs(tmp_path / "out") == _jobs(tmp_path / "whole")


@pytest.mark.parametrize("cloud", LISTS)
async def test_a_list_that_is_not_found_is_not_empty(
    cloud: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with simulated(cloud, tmp_path) as rig:
        rig.simulator.faults.add(_not_found(LISTS[cloud]))
        with pytest.raises(Unfinished, match="cannot find all jobs"):
            await rig.backfill(tmp_path / "out", EVENING)
        rig.simulator.faults.clear()
        rig.simulator.faults.add(_not_found(RANGES[cloud]))
        outcome, words = await rig.backfill(tmp_path / "out", EVENING)
        assert [*outcome.failures] == ["2026-01-02"]
        assert f"{RANGES[cloud]}: HTTP 40" in words
        assert not list((tmp_path / "out").glob("*.om"))
    running = [line_of(record) for record in caplog.records if record.getMessage() == "backfill is running"]
    assert re.search(r'stage="finding jobs" calls=\d+$', running[0])
    assert re.search(r"stage=2026-01-02 calls=\d+ expected=\d+", running[-1])


def _not_found(operation: str, **match: Any) -> Fault:
    return Fault({"operation": operation, **match}, kind="not_found")
