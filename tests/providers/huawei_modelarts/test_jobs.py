"""The sweep of jobs: who shows a job that several workspaces list, and what a poll leaves as it is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import Cloud, job, ms
from tests.providers.huawei_modelarts.usage.usage_rig import FleetOf
from tests.support.clock import START

POOL = {"pool_id": "pool-1"}


async def test_a_job_that_two_workspaces_list_at_once_is_shown_by_one(fleet_of: FleetOf) -> None:
    """Rows that name no workspace come in both lists, and both lists are gone through at the same time."""
    async with fleet_of() as (cloud, fleet):
        cloud.workspaces.append({"id": "1", "name": "second"})
        cloud.jobs = [job(f"job-{number}") for number in range(120)]
        for row in cloud.jobs:
            row["metadata"]["workspace_id"] = ""
        for polls in (1, 2):
            for collector in ("workspaces", "jobs"):
                await fleet.runner(collector).tick()
            shown = [line.partition('job_id="')[2].partition('"')[0] for line in await fleet.lines("job_info")]
            assert sorted(shown) == sorted({row["metadata"]["id"] for row in cloud.jobs})
            assert fleet.own("dropped_readings_total", collector="jobs", reason="duplicate") == 120 * polls


@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_a_failing_look_up_of_ended_jobs_loses_no_live_job(fleet_of: FleetOf, status: int) -> None:
    """What became of jobs that are not live any more is asked by their ids; live jobs do not depend on the answer."""
    refused = httpx.Response(status, json={"error_code": "ModelArts.0104", "error_msg": "unknown filter"})

    def answer(path: str, request: httpx.Request) -> httpx.Response | None:
        if not path.endswith("/training-job-searches"):
            return None
        filters = json.loads(request.content)["filters"]
        return refused if any(one["key"] == "id" and "job-0" in one["value"] for one in filters) else None

    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [job(f"job-{number}") for number in range(12)]
        await fleet.runner("workspaces").tick()
        await fleet.runner("jobs").tick()
        cloud.answer = answer
        for row in cloud.jobs[:11]:
            row["status"] |= {"phase": "Completed", "end_time": ms(30)}
        cloud.jobs.append(job("new"))
        running = 'jobs{workspace_id="0",status="running",platform_status="Running"}'
        succeeded = 'jobs_finished_total{workspace_id="0",status="succeeded"}'
        for _ in range(6):
            await asyncio.sleep(60)
            await fleet.runner("jobs").tick()
        shown = [line.partition('job_id="')[2].partition('"')[0] for line in await fleet.lines("job_info")]
        assert sorted(shown) == ["job-10", "job-11", "new"]  # ten ids go into one search
        assert await fleet.value(running) == 2
        assert await fleet.value(succeeded) == 1
        assert fleet.own("collector_success", collector="jobs") == 0
        assert fleet.own("collector_parts_failed", collector="jobs") == 1
        assert len([line for line in fleet.log if line.startswith("poll failed")]) <= 2  # and of an open circuit
        cloud.answer = lambda path, request: None
        await asyncio.sleep(100)
        await fleet.runner("jobs").tick()
        assert await fleet.value(succeeded) == 11
        assert await fleet.value('job_status{job_id="job-0",status="succeeded"}') == 1
        assert fleet.own("collector_success", collector="jobs") == 1


async def test_a_malformed_row_of_a_look_up_is_no_lost_job(fleet_of: FleetOf) -> None:
    malformed = httpx.Response(200, json={"total": 2, "items": [job("b", "Completed"), {"metadata": {"id": 7.5}}]})
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [job("a"), job("b")]
        await fleet.runner("workspaces").tick()
        for is_known in (True, False, True):
            await fleet.runner("jobs").tick()
            cloud.jobs = [job("a", "Failed"), job("b", "Completed")]
            cloud.answer = lambda path, request, known=is_known: (
                malformed if known and b'"id"' in request.content else None
            )  # type: ignore[misc]
        assert await fleet.value('jobs_finished_total{workspace_id="0",status="succeeded"}') == 1
        assert await fleet.value('jobs_finished_total{workspace_id="0",status="failed"}') == 1


async def test_hanging_look_ups_take_no_live_job_of_any_workspace(
    fleet_of: FleetOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [str(number) for number in range(20)]
    quick = Cloud.__call__

    def of(workspace_id: str, job_id: str, phase: str = "Running") -> dict[str, Any]:
        row = job(job_id, phase)
        row["metadata"]["workspace_id"] = workspace_id
        return row

    async def answer(self: Cloud, request: httpx.Request) -> httpx.Response:
        if b'"id"' in request.content:
            await asyncio.sleep(1000)
        return await quick(self, request)

    async with fleet_of() as (cloud, fleet):
        cloud.workspaces = [{"id": one, "name": one} for one in ids]
        cloud.jobs = [of(one, "old-" + one) for one in ids]
        await fleet.runner("workspaces").tick()
        await fleet.runner("jobs").tick()
        monkeypatch.setattr(Cloud, "__call__", answer)
        for poll in range(3):
            cloud.jobs = [of(one, f"{poll}-{one}") for one in ids]
            await asyncio.sleep(60)
            await fleet.runner("jobs").tick()
            shown = [line.partition('job_id="')[2].partition('"')[0] for line in await fleet.lines("job_info")]
            assert sorted(shown) == sorted(f"{poll}-{one}" for one in ids)
            assert fleet.own("collector_success", collector="jobs") == 0


async def test_a_job_that_no_poll_saw_live_is_shown_and_counted_once(fleet_of: FleetOf) -> None:
    failed = 'jobs_finished_total{workspace_id="0",status="failed"}'
    async with fleet_of() as (cloud, fleet):
        await fleet.exporter.poll_once()
        cloud.answer = lambda path, request: httpx.Response(500, json={}) if b"between" in request.content else None
        cloud.jobs.append(job("quick", "Failed", made=10, running_records=[{"end_at": int(START) + 30}]))
        for _ in range(20):
            await asyncio.sleep(60)
            await fleet.runner("jobs").tick()
        assert (await fleet.value(failed), fleet.own("collector_parts_failed", collector="jobs")) == (0, 1)
        cloud.answer = lambda path, request: None
        await fleet.exporter.poll_once()
        await fleet.runner("jobs").tick()
        assert await fleet.value(failed) == await fleet.value('job_status{job_id="quick",status="failed"}') == 1
        assert await fleet.value('job_finished_timestamp_seconds{job_id="quick"}') == START + 30


async def test_an_id_that_is_used_again_is_a_new_job(fleet_of: FleetOf) -> None:
    """Nothing of the earlier job is shown with it: no fault, no restart, no end."""
    hang = {"recover_start_at": ms(-200) // 1000, "fault_scenario": "job_hanged", "recover_result": "success"}
    first = {"start_at": ms(-300) // 1000, "end_at": ms(-200) // 1000, "recover_records": [hang]}
    faults = 'job_faults_total{job_id="a",cause="hang",platform_cause="job_hanged"}'
    waited = 'job_queue_wait_seconds_count{pool_id="pool-1"}'
    async with fleet_of() as (cloud, fleet):
        await fleet.runner("workspaces").tick()
        cloud.jobs = [job("a", "Pending", resource=POOL, start_time=0)]
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="queued"}') == 1
        assert await fleet.value('job_phase_seconds{job_id="a",phase="queued"}') == pytest.approx(7200, abs=1)
        hang["recover_start_at"] = ms(10) // 1000
        first.update(start_at=ms(5) // 1000, end_at=ms(10) // 1000)
        cloud.jobs = [job("a", resource=POOL, running_records=[first, {"start_at": ms(30) // 1000}])]
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert await fleet.value(faults) == 1
        assert await fleet.value('job_restarts_total{job_id="a"}') == 1
        assert await fleet.value(waited) == 1
        cloud.jobs = [job("a", "Completed", resource=POOL, running_records=[first, {"start_at": ms(30) // 1000}])]
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert await fleet.value('jobs_finished_total{workspace_id="0",status="succeeded"}') == 1
        assert await fleet.value('job_finished_timestamp_seconds{job_id="a"}') is None  # the last run has no end
        cloud.jobs = [job("a", resource=POOL, running_records=[{"start_at": ms(150) // 1000}])]
        cloud.jobs[0]["metadata"]["create_time"] = ms(140)
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="running"}') == 1
        assert not await fleet.value(faults)
        assert await fleet.value('job_restarts_total{job_id="a"}') == 0
        assert await fleet.value('job_phase_seconds{job_id="a",phase="queued"}') == pytest.approx(10, abs=1)
        assert await fleet.value(waited) == 2
        cloud.jobs = []
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="running"}') is None


async def test_a_job_that_ends_in_the_queue_has_no_end_of_a_run(fleet_of: FleetOf) -> None:
    finished = 'job_finished_timestamp_seconds{job_id="a"}'
    async with fleet_of() as (cloud, fleet):
        await fleet.runner("workspaces").tick()
        for phase in ("Pending", "Failed", "Failed"):
            run = {"start_at": ms(-500) // 1000, "end_at": ms(-300) // 1000}
            cloud.jobs = [job("a", phase, made=-560, running_records=[run])]
            await fleet.runner("jobs").tick()
            assert await fleet.value('job_phase_seconds{job_id="a",phase="queued"}') == pytest.approx(360, abs=1)
        assert await fleet.value('job_status{job_id="a",status="failed"}') == 1
        assert await fleet.value(finished) is None
        cloud.jobs = [job("b", "Pending", running_records=[run])]
        await fleet.runner("jobs").tick()
        cloud.jobs = [job("b", "Failed", made=-400, running_records=[run])]  # a new job with this id
        await fleet.runner("jobs").tick()
        assert await fleet.value(finished.replace('"a"', '"b"')) == ms(-300) // 1000


async def test_a_run_between_two_polls_ends_with_its_failed_recovery(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        await fleet.runner("workspaces").tick()
        start, end, late = (ms(-at) // 1000 for at in (500, 300, 200))
        tried = {"recover_start_at": end, "recover_end_at": late, "recover_result": "failed"}
        for phase, run in ("Pending", {}), ("Failed", {"start_at": start, "end_at": end, "recover_records": [tried]}):
            cloud.jobs = [job("a", phase, running_records=[run])]
            await fleet.runner("jobs").tick()
        assert await fleet.value('job_finished_timestamp_seconds{job_id="a"}') == late
        runs = [{"start_at": start, "end_at": start}, {"start_at": start, "end_at": end}]  # of one second
        cloud.jobs = [job("b", "Completed", made=-560, running_records=runs)]
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_finished_timestamp_seconds{job_id="b"}') == end


@pytest.mark.parametrize(
    ("strategy", "ended", "queued", "recovering"),
    [
        ("job_reschedule", -470, 40, 0),
        ("job_reschedule", -471, 40, 0),
        ("job_reschedule_with_taint", -480, 20, 20),
        ("pod_reschedule", -470, 10, 30),
        ("pod_reschedule", -480, 20, 20),
        ("proc_restart", -480, 10, 30),
    ],
)
async def test_a_restart_in_place_does_not_wait_for_capacity(
    fleet_of: FleetOf, strategy: str, ended: int, queued: int, recovering: int
) -> None:
    """The record of a recovery ends with the next run, or before."""

    def at(offset: float) -> int:
        return ms(offset) // 1000

    async with fleet_of() as (cloud, fleet):
        attempt = {"recover_start_at": at(-500), "recover": strategy, "fault_scenario": "node_fault"}
        first = {"start_at": at(-590), "end_at": at(-500), "end_recover": strategy, "recover_records": [attempt]}
        attempt |= {"recover_end_at": at(ended), "recover_result": "success"}
        cloud.jobs = [job("a", resource=POOL, made=-600, running_records=[first, {"start_at": at(-470)}])]
        await fleet.exporter.poll_once()
        assert await fleet.value('job_phase_seconds{job_id="a",phase="queued"}') == queued
        assert (await fleet.value('job_phase_seconds{job_id="a",phase="recovering"}') or 0) == recovering


async def test_a_job_in_a_new_phase_is_unknown_and_has_series(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        await fleet.runner("workspaces").tick()
        cloud.jobs = [job("a")]
        await fleet.runner("jobs").tick()
        cloud.jobs = [job("a", "Suspended")]
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="unknown"}') == 1
        assert await fleet.value('job_platform_status{job_id="a",platform_status="Suspended"}') == 1
        assert await fleet.value('job_holds_resources{job_id="a"}') is None


async def test_calls_do_not_grow_with_jobs_that_ended(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.slow = 0
        cloud.jobs = [job(f"job-{number}") for number in range(10)]
        await fleet.exporter.poll_once()
        before, most = len(cloud.calls), []
        for _ in range(2):
            await fleet.exporter.poll_once()
            most.append(len(cloud.calls) - before)
            before = len(cloud.calls)
            cloud.jobs += [job(f"old-{number}", "Completed") for number in range(5000)]
        assert most[0] == most[1]
