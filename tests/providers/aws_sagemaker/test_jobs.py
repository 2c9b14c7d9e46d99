"""Jobs on stepped time: live lists, how jobs end, warm pools, and the way without Search."""

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


def test_without_search_jobs_are_described_when_they_change(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b"), job("c", "Starting")]

    def refuse(operation: str, asked: Row) -> httpx.Response | None:
        return (
            failed("AccessDeniedException", "not authorized to perform: sagemaker:Search")
            if operation == "Search"
            else None
        )

    cloud.answer = refuse

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value(RUNNING) == 2
        await asyncio.sleep(60)
        cloud.jobs[0] |= {"TrainingJobStatus": "Stopped", "SecondaryStatus": "MaxRuntimeExceeded"}
        cloud.jobs[0] |= {"TrainingEndTime": START + 50, "LastModifiedTime": START + 50}
        await fleet.runner("jobs").tick()
        assert await fleet.value(RUNNING) == 1
        assert await fleet.value('job_status_reason{job_id="a",reason="MaxRuntimeExceeded"}') == 1
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="stopped"}') == 1
        named = Counter(asked["TrainingJobName"] for asked in cloud.called("DescribeTrainingJob"))
        assert named == {"a": 2, "b": 1, "c": 1}
        assert len(cloud.called("Search")) == 1
        await asyncio.sleep(3600)
        cloud.answer = lambda operation, asked: None
        await fleet.runner("jobs").tick()
        assert len(cloud.called("Search")) == 4

    run(cloud, steps)


@pytest.mark.parametrize("hidden", [{"a", "b", "c", "d"}, {"a"}])
def test_job_whose_description_is_not_found_is_shown_as_listed(run: Run, hidden: set[str]) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b"), job("c", "Starting"), job("d", "Failed", "Failed", TrainingEndTime=START)]

    def answer(operation: str, asked: Row) -> httpx.Response | None:
        if operation == "Search":
            return failed("AccessDeniedException", "not authorized to perform: sagemaker:Search")
        is_hidden = operation == "DescribeTrainingJob" and asked["TrainingJobName"] in hidden
        return failed("ResourceNotFound", "Requested resource not found.") if is_hidden else None

    cloud.answer = answer

    async def steps(fleet: Fleet) -> None:
        for _ in range(3):
            await fleet.runner("jobs").tick()
            await asyncio.sleep(60)
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value(RUNNING) == 2
        described = {"a", "b", "c"} - hidden
        for name in ("a", "b", "c"):
            status = "starting" if name == "c" else "running"
            assert await fleet.value(f'job_status{{job_id="{name}",status="{status}"}}') == 1
            assert await fleet.value(f'job_requested_nodes{{job_id="{name}"}}') == (2 if name in described else None)
            (info,) = await fleet.lines(f'job_info{{provider="p",job_id="{name}"')
            assert ('job_type="TrainingJob"' in info) is (name in described)
        # The list does not say since when a starting job has had its instances.
        assert await fleet.value('job_holds_resources{job_id="c"}') == (1 if "c" in described else None)
        assert await fleet.value('job_holds_resources{job_id="a"}') == 1
        assert await fleet.value('job_finished_timestamp_seconds{job_id="d"}') == START
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="failed"}') == 1
        assert any("DescribeTrainingJob" in line for line in fleet.log)
        hidden.clear()
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_requested_nodes{job_id="a"}') == 2

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


def _without_search(cloud: Cloud, spared: str = "") -> None:
    """Refuse Search, except for one operator of its first filter."""

    def refuse(operation: str, asked: Row) -> httpx.Response | None:
        if operation != "Search" or asked["SearchExpression"]["Filters"][0]["Operator"] == spared:
            return None
        return failed("AccessDeniedException", "not authorized to perform: sagemaker:Search")

    cloud.answer = refuse


def test_without_search_finished_jobs_are_not_counted_and_nothing_fails(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", "Completed", "Completed")]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("job_counts").tick()
        assert len(await fleet.lines("jobs{")) == 3
        _without_search(cloud)
        await fleet.runner("job_counts").tick()
        assert fleet.own("collector_success", collector="job_counts") == 1
        assert await fleet.lines("jobs{") == []  # what was counted before is old
        assert any("not authorized to perform: sagemaker:Search" in line for line in fleet.log)
        cloud.answer = lambda operation, asked: failed("UnrecognizedClientException")  # of the key
        await fleet.runner("job_counts").tick()
        assert fleet.own("collector_success", collector="job_counts") == 0

    run(cloud, steps)


@pytest.mark.parametrize("count", [3, 40])
def test_ends_are_found_where_only_their_search_is_refused(run: Run, count: int) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(count)]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        _without_search(cloud, spared="Equals")
        for row in cloud.jobs:
            row |= {"TrainingJobStatus": "Completed", "SecondaryStatus": "Completed", "LastModifiedTime": START - 9e5}
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="succeeded"}') == count

    run(cloud, steps)


def test_names_are_described_where_only_their_search_is_refused(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(40)]

    async def steps(fleet: Fleet) -> None:
        await fleet.runner("jobs").tick()
        for row in cloud.jobs:
            row |= {"TrainingJobStatus": "Completed", "SecondaryStatus": "Completed", "LastModifiedTime": START - 9e5}

        def refuse(operation: str, asked: Row) -> httpx.Response | None:
            filters = asked["SearchExpression"]["Filters"] if operation == "Search" else []
            return failed("AccessDeniedException") if filters and filters[0]["Operator"] == "In" else None

        cloud.answer = refuse
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value('jobs_finished_total{workspace_id="default",status="succeeded"}') == 40
        assert len(cloud.called("DescribeTrainingJob")) == 40

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
