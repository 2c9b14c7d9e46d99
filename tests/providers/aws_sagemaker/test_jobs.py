"""Jobs on stepped time: live lists, how jobs end, warm pools, and a denied Search."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from tests.providers.aws_sagemaker.cloud import RUNNING, Cloud, Row, Run, failed, job, stage
from tests.support.clock import START
from tests.support.fleet import Fleet


def test_live_jobs_come_from_searches_of_100(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(250)] + [job("s", "Stopping", "Stopping")]

    async def steps(fleet: Fleet) -> None:
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
        # Three pages of InProgress, one of Stopping, one of what ended.
        assert Counter(name for name, _ in cloud.calls) == {"Search": 5}

    run(cloud, steps)


def test_how_a_job_ends_is_learned_by_its_last_change(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        await asyncio.sleep(60)
        ended = {"TrainingEndTime": START + 30, "LastModifiedTime": START + 30}
        cloud.jobs[0] |= {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", **ended}
        cloud.jobs[0]["FailureReason"] = "AlgorithmError: ExecuteUserScriptError: no such file /secret"
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="failed"}') == 1
        assert await fleet.value('job_status_reason{job_id="a",reason="AlgorithmError"}') == 1
        assert await fleet.value('job_finished_timestamp_seconds{job_id="a"}') == START + 30
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="failed"}') == 1
        assert await fleet.lines('job_requested_accelerators{provider="p",job_id="a"') == []
        assert cloud.called("DescribeTrainingJob") == []
        await asyncio.sleep(3601)
        await fleet.runner("jobs").tick()
        assert await fleet.lines('job_status{provider="p",job_id="a"') == []

    run(cloud, steps)


@pytest.mark.parametrize(("count", "described", "searches"), [(3, 4, 0), (40, 0, 3)])
def test_unlisted_jobs_are_looked_up_and_dropped_if_unknown(
    run: Run, count: int, described: int, searches: int
) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(count + 1)]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        for row in cloud.jobs:  # ended, and the search by the last change does not know it
            row |= {"TrainingJobStatus": "Completed", "SecondaryStatus": "Completed", "LastModifiedTime": START - 9e5}
        gone = cloud.jobs.pop()["TrainingJobName"]
        await fleet.runner("jobs").tick()
        assert len(cloud.called("DescribeTrainingJob")) == described
        names = [
            asked for asked in cloud.called("Search") if asked["SearchExpression"]["Filters"][0]["Operator"] == "In"
        ]
        assert len(names) == searches
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="succeeded"}') == count
        assert await fleet.lines(f'job_info{{provider="p",job_id="{gone}"') == []

    run(cloud, steps)


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
def test_unlisted_job_is_looked_up_until_its_end_is_known(run: Run, answer: httpx.Response, reason: str) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    finished = 'jobs_finished_total{workspace_id="default",status="failed"}'

    async def steps(fleet: Fleet) -> None:
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

    run(cloud, steps)


def test_job_with_a_warm_pool_holds_its_accelerators(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", "Completed", "Completed", WarmPoolStatus={"Status": "Available"}, LastModifiedTime=START)]

    async def steps(fleet: Fleet) -> None:
        for _ in range(3):
            await fleet.runner("jobs").tick()
            await asyncio.sleep(1000)
        assert await fleet.value('job_status{job_id="a",status="succeeded"}') == 1
        assert await fleet.value('job_holds_resources{job_id="a"}') == 1
        assert await fleet.value('job_requested_nodes{job_id="a"}') == 2
        assert len(cloud.called("DescribeTrainingJob")) == 1  # once its end is too old to be in the search
        cloud.jobs[0]["WarmPoolStatus"] = {"Status": "Terminated"}
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_holds_resources{job_id="a"}') == 0
        assert await fleet.value('job_requested_nodes{job_id="a"}') is None

    run(cloud, steps)


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped"])
def test_job_with_a_warm_pool_is_counted_once(run: Run, status: str) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}", status, status, LastModifiedTime=START) for number in range(5)]
    cloud.jobs[0]["WarmPoolStatus"] = {"Status": "Available"}

    async def steps(fleet: Fleet) -> None:
        assert await fleet.exporter.poll_once()
        counts = [line for line in await fleet.lines("jobs{") if f'platform_status="{status}"' in line]
        assert [line.rpartition(" ")[2] for line in counts] == ["5"]
        assert await fleet.value('job_holds_resources{job_id="j0"}') == 1
        assert await fleet.value('job_holds_resources{job_id="j1"}') == 0

    run(cloud, steps)


def test_finished_jobs_are_counted_by_three_calls(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}", "Completed", "Completed") for number in range(7)]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("job_counts").tick()
        series = 'jobs{workspace_id="default",status="succeeded",platform_status="Completed"}'
        assert await fleet.value(series) == 7
        assert await fleet.value('jobs{workspace_id="default",status="failed",platform_status="Failed"}') == 0
        assert [asked["MaxResults"] for asked in cloud.called("Search")] == [1, 1, 1]
        cloud.relation = "GreaterThanOrEqualTo"  # a number of at least so many is not how many there are
        await fleet.runner("job_counts").tick()
        assert await fleet.lines("jobs{") == []
        assert fleet.own("dropped_readings_total", collector="job_counts", reason="no_data") == 3

    run(cloud, steps)


@pytest.mark.parametrize("status", [400, 403])
def test_denied_search_fails_and_its_series_go(run: Run, status: int) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b", "Completed", "Completed", LastModifiedTime=START)]

    def deny(operation: str, asked: Row) -> httpx.Response | None:
        message = "User: me is not authorized to perform: sagemaker:Search on resource: *"
        return failed("AccessDeniedException", message, status) if operation == "Search" else None

    async def steps(fleet: Fleet) -> None:
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
        await asyncio.sleep(3600)
        await jobs.expire()
        await counts.expire()
        await jobs.tick()
        await counts.tick()
        assert await fleet.lines("job", "pod") == []
        cloud.answer = lambda operation, asked: None
        await jobs.tick()
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value(RUNNING) == 1

    run(cloud, steps)


def test_denied_search_for_ended_jobs_keeps_live_jobs(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(40)]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        cloud.jobs[0] |= {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "LastModifiedTime": START - 9e5}

        def deny(operation: str, asked: Row) -> httpx.Response | None:
            filters = asked["SearchExpression"]["Filters"] if operation == "Search" else []
            is_live = not filters or (len(filters) == 1 and filters[0]["Operator"] == "Equals")
            return None if is_live else failed("AccessDeniedException", "not authorized")

        cloud.answer = deny
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 0
        assert await fleet.value(RUNNING) == 39
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="failed"}') == 1  # by its name

    run(cloud, steps)


def test_time_without_capacity_grows_as_queued(run: Run) -> None:
    cloud = Cloud()
    stages = [stage("Starting", -600, -500), stage("Pending", -500, None)]
    cloud.jobs = [job("a", "Pending", SecondaryStatusTransitions=stages)]
    del cloud.jobs[0]["TrainingStartTime"]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        await asyncio.sleep(100)
        await fleet.runner("jobs").tick()
        phases = {line.partition('phase="')[2] for line in await fleet.lines("job_phase_seconds")}
        assert phases == {'preparing"} 100', 'queued"} 600'}
        assert await fleet.value('job_status{job_id="a",status="starting"}') == 1
        assert await fleet.value('job_holds_resources{job_id="a"}') == 0

    run(cloud, steps)


def test_history_of_an_interrupted_spot_job(run: Run) -> None:
    cloud = Cloud()
    stages = [stage("Starting", -600, -500), stage("Training", -500, 10), stage("Interrupted", 10, 20)]
    stages += [stage("Starting", 20, 40), stage("Training", 40, None)]
    cloud.jobs = [job("a", SecondaryStatusTransitions=stages[:2], EnableManagedSpotTraining=True)]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        await asyncio.sleep(100)
        cloud.jobs[0]["SecondaryStatusTransitions"] = stages
        await fleet.runner("jobs").tick()
        phases = {line.partition('phase="')[2] for line in await fleet.lines("job_phase_seconds")}
        assert phases == {'preparing"} 120', 'running"} 570', 'recovering"} 10'}
        assert await fleet.value('job_faults_total{job_id="a",cause="preempted",platform_cause="Interrupted"}') == 1
        assert await fleet.value('job_recoveries_total{job_id="a",strategy="restart",result="success"}') == 1
        assert await fleet.value('job_recovery_seconds_total{job_id="a"}') == 30
        assert await fleet.value('job_restarts_total{job_id="a"}') == 1
        (info,) = await fleet.lines("job_info")
        assert 'payment_type="Spot"' in info
        assert 'resource_type="ml.p5.48xlarge"' in info

    run(cloud, steps)


def test_a_page_without_its_list_fails_and_keeps_the_last_good_answer(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        cloud.answer = lambda operation, asked: httpx.Response(200, json={})
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 0
        assert await fleet.value(RUNNING) == 1

    run(cloud, steps)


def test_a_token_that_repeats_ends_the_list(run: Run) -> None:
    cloud = Cloud()
    page = {"Results": [], "NextToken": "again"}
    cloud.answer = lambda operation, asked: httpx.Response(200, json=page)

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        assert any("the same page came twice" in line for line in fleet.log)
        assert len(cloud.calls) == 2

    run(cloud, steps)
