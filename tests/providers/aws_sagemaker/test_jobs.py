"""Jobs on stepped time: live lists, how jobs end, warm pools, and a denied Search."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.providers.aws_sagemaker.cloud import CONFIG, RUNNING, Cloud, FleetOf, Row, failed, job, stage
from tests.support.clock import START


async def test_live_jobs_come_from_searches_of_100(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(250)] + [job("s", "Stopping", "Stopping")]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        assert await fleet.value(RUNNING) == 250
        assert await fleet.value('job_status{job_id="s",status="stopping"}') == 1
        assert await fleet.value('job_requested_nodes{job_id="j0"}') == 2
        lines = await fleet.lines('job_requested_accelerators{provider="p",job_id="j0"')
        assert lines[0].endswith('accelerator="gpu",accelerator_model="H100"} 16')
        assert await fleet.value('job_requested_cpu_cores{job_id="j0"}') == 384
        assert len(await fleet.lines('pod_info{provider="p",job_id="j0"')) == 2
        assert await fleet.lines("workspace_info") == [
            'trainfleet_workspace_info{provider="p",workspace_id="default",workspace_name="default"} 1'
        ]
        # Three pages of live ones, and one of what ended.
        assert Counter(name for name, _ in cloud.calls) == {"Search": 4}


async def test_how_a_job_ends_is_learned_by_its_last_change(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        await asyncio.sleep(60)
        live = dict(cloud.jobs[0])
        ended = {"SecondaryStatusTransitions": [stage("Starting", -60, 30)], "LastModifiedTime": START + 30}
        cloud.jobs[0] |= {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", **ended}
        cloud.jobs[0]["FailureReason"] = "AlgorithmError: ExecuteUserScriptError: no such file /secret"
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="failed"}') == 1
        assert await fleet.value('job_status_reason{job_id="a",reason="AlgorithmError"}') == 1
        assert await fleet.value('job_finished_timestamp_seconds{job_id="a"}') == START + 30
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="failed"}') == 1
        assert await fleet.lines('job_requested_accelerators{provider="p",job_id="a"') == []
        assert cloud.called("DescribeTrainingJob") == []
        for answer in (live, cloud.jobs[0]):  # an index that is behind still has the job as it was
            cloud.jobs[0] = answer
            await fleet.runner("jobs").tick()
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="failed"}') == 1
        await asyncio.sleep(3601)
        await fleet.runner("jobs").tick()
        assert await fleet.lines('job_status{provider="p",job_id="a"') == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (failed("ThrottlingException", "Rate exceeded"), "throttled"),
        (failed("InternalFailure", status=500), "server"),
        (failed("AccessDeniedException"), "auth"),
        (httpx.Response(200, json={"TrainingJobName": "another"}), "bad_answer"),
        (httpx.Response(200, text="<html>"), "bad_answer"),
    ],
)
async def test_unlisted_job_is_looked_up_until_its_end_is_known(
    fleet_of: FleetOf, answer: httpx.Response, reason: str
) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    finished = 'jobs_finished_total{workspace_id="default",status="failed"}'
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        cloud.jobs[0] |= {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "LastModifiedTime": START - 9e5}
        cloud.answer = lambda operation, asked: answer if operation == "DescribeTrainingJob" else None
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 0
        assert (fleet.own("collector_errors_total", collector="jobs", reason=reason) or 0) >= 1
        assert await fleet.value(RUNNING) == 1
        assert await fleet.value(finished) == 0
        assert await fleet.lines('job_status{provider="p",job_id="a"') == []
        cloud.answer = lambda operation, asked: None
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value(finished) == 1
        assert await fleet.value('job_status{job_id="a",status="failed"}') == 1


async def test_job_with_a_warm_pool_holds_its_accelerators(fleet_of: FleetOf, tmp_path: Path) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", "Completed", "Completed", WarmPoolStatus={"Status": "Available"}, LastModifiedTime=START)]
    cloud.jobs[0] |= {"Tags": [{"Key": "team", "Value": "llm"}], "TrainingEndTime": START}
    cloud.is_of_models = False  # their patterns of tags are those of Java
    config = f"global: {{ledger_file: {tmp_path / 'ledger'}, metrics: {{job_labels: [team]}}}}\n{CONFIG}"
    async with fleet_of(cloud, config) as fleet:
        for _ in range(3):
            await fleet.runner("jobs").tick()
            await asyncio.sleep(1000)
        assert await fleet.value('job_status{job_id="a",status="succeeded"}') == 1
        assert await fleet.value('job_holds_resources{job_id="a"}') == 1
        assert await fleet.value('job_requested_nodes{job_id="a"}') == 2
        assert len(cloud.called("DescribeTrainingJob")) == 1  # once its end is too old to be in the search
        assert await fleet.value('job_labels{job_id="a",label_team="llm"}') == 1  # which that response lacks
        cloud.jobs[0]["WarmPoolStatus"] = {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 1800}
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_holds_resources{job_id="a"}') == 0
        assert await fleet.value('job_requested_nodes{job_id="a"}') is None
    ended = json.loads((tmp_path / "ledger").read_text())
    assert (ended["ended"], ended["held_seconds"]) == ("2026-01-02T03:34:05Z", 500.0 + 1800)


async def test_finished_jobs_are_counted_by_three_calls(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}", "Completed", "Completed") for number in range(7)]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("job_counts").tick()
        series = 'jobs{workspace_id="default",status="succeeded",platform_status="Completed"}'
        assert await fleet.value(series) == 7
        assert await fleet.value('jobs{workspace_id="default",status="failed",platform_status="Failed"}') == 0
        assert [asked["MaxResults"] for asked in cloud.called("Search")] == [1, 1, 1]
        cloud.relation = "GreaterThanOrEqualTo"  # a number of at least so many is not how many there are
        await fleet.runner("job_counts").tick()
        assert await fleet.lines("jobs{") == []
        assert fleet.own("dropped_readings_total", collector="job_counts", reason="no_data") == 3


@pytest.mark.parametrize("status", [400, 403])
async def test_denied_search_fails_by_its_permission(fleet_of: FleetOf, status: int) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b", "Completed", "Completed", LastModifiedTime=START)]

    def deny(operation: str, asked: Row) -> httpx.Response | None:
        message = "User: me is not authorized to perform: sagemaker:Search on resource: *"
        return failed("AccessDeniedException", message, status) if operation == "Search" else None

    async with fleet_of(cloud) as fleet:
        jobs, counts = fleet.runner("jobs"), fleet.runner("job_counts")
        await jobs.tick()
        await counts.tick()
        before = await fleet.lines("job")
        assert await fleet.value(RUNNING) == 1
        cloud.answer = deny
        cloud.calls.clear()
        await jobs.tick()
        await counts.tick()
        assert Counter(name for name, _ in cloud.calls) == {"Search": 2}
        assert [fleet.own("collector_success", collector=name) for name in ("jobs", "job_counts")] == [0, 0]
        assert await fleet.lines("job") == before  # the last good values
        lines = [line for line in fleet.log if "poll failed" in line]
        assert [("Search" in line, "sagemaker:Search" in line) for line in lines] == [(True, True)] * 2


async def test_denied_search_for_ended_jobs_keeps_live_jobs(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(40)]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        cloud.jobs[0] |= {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "LastModifiedTime": START - 9e5}

        def deny(operation: str, asked: Row) -> httpx.Response | None:
            filters = asked["SearchExpression"]["Filters"] if operation == "Search" else []
            is_live = {each["Name"] for each in filters} <= {"TrainingJobStatus"}
            return None if is_live else failed("AccessDeniedException", "not authorized")

        cloud.answer = deny
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 0
        assert await fleet.value(RUNNING) == 39
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="failed"}') == 1  # by its name
