"""How PAI jobs ended, while the queries that find it out are refused or fail: live jobs never depend on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, RUNNING, Cloud, FleetOf, at, job
from tests.support.fleet import Fleet

SUCCEEDED = 'jobs_finished_total{workspace_id="1",status="succeeded"}'
JOBS = "/api/v1/jobs"
REFUSED = httpx.Response(400, json={"Code": "InvalidParameter", "Message": "TimeRangeField is not supported"})
BROKEN = httpx.Response(500, json={"Code": "InternalError", "Message": "sorry"})
DENIED = httpx.Response(403, json={"Code": "NoPermission", "Message": "paidlc:GetJob is missing"})

OfTwo = Callable[[], AbstractAsyncContextManager[tuple[Cloud, Fleet]]]


@pytest.fixture
def of_two(fleet_of: FleetOf) -> OfTwo:
    """Open a fleet of two jobs, of which the first has just been seen to run."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Cloud, Fleet]]:
        cloud = Cloud()
        cloud.jobs = [job("a"), job("b")]
        async with fleet_of(cloud) as fleet:
            assert await fleet.exporter.poll_once()
            cloud.calls.clear()
            yield cloud, fleet

    return opened


async def shown(fleet: Fleet, job_id: str) -> str | None:
    """The status that a job is shown in."""
    of = f'job_status{{job_id="{job_id}",status='
    return next(iter([word for word in ("running", "succeeded") if await fleet.value(f'{of}"{word}"}}')]), None)


async def poll_jobs(fleet: Fleet, times: int = 1) -> None:
    for _ in range(times):
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()


def end(cloud: Cloud, number: int, moment: float = 30) -> None:
    """A job ends so many seconds after the start of stepped time."""
    cloud.jobs[number] |= {"Status": "Succeeded", "GmtFinishTime": at(moment)}


def slow_ends(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the list of ended jobs take so long from now on."""
    quick = Cloud.__call__

    async def answer(self: Cloud, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(seconds if "TimeRangeField" in request.url.params else 0)
        return quick(self, request)

    monkeypatch.setattr(Cloud, "__call__", answer)


async def test_a_refused_time_range_loses_no_job(of_two: OfTwo) -> None:
    async with of_two() as (cloud, fleet):
        cloud.answer = lambda operation, query: REFUSED if query["path"] + query.get("Status", "") == JOBS else None
        end(cloud, 0)
        cloud.jobs.append(job("c"))
        await poll_jobs(fleet, 6)
        assert [await shown(fleet, job_id) for job_id in "abc"] == ["succeeded", "running", "running"]
        assert await fleet.value(RUNNING) == 2
        assert await fleet.value(SUCCEEDED) == 1
        # The ends are found out another way, so that nothing fails; what the cloud refuses is counted.
        assert fleet.own("collector_success", collector="jobs") == 1
        assert fleet.own("collector_errors_total", collector="jobs", reason="client") == 12
        assert cloud.called("ListJobs")[-1]["StartTime"] == at(-240)  # ten minutes, however long ends are unknown
        (line,) = [line for line in fleet.log if line.startswith("poll ")]
        assert line.startswith("poll failed: ListJobs: HTTP 400 InvalidParameter TimeRangeField is not supported ")
        assert [query["path"].rpartition("/")[2] for query in cloud.called("GetJob")] == ["a"]
        cloud.answer = lambda operation, query: None
        await poll_jobs(fleet)
        assert await fleet.value(SUCCEEDED) == 1
        assert fleet.log[-1].endswith("reasons=client")


@pytest.mark.parametrize("answer", [BROKEN, DENIED, httpx.Response(200, json={"TotalCount": 3})])
async def test_a_failing_query_for_ends_fails_alone(of_two: OfTwo, answer: httpx.Response) -> None:
    async with of_two() as (cloud, fleet):
        cloud.answer = lambda operation, query: answer if "TimeRangeField" in query else None
        end(cloud, 0)
        cloud.jobs += [job("c"), job("short", "Succeeded", GmtFinishTime=at(40))]
        await poll_jobs(fleet, 6)
        assert [await shown(fleet, job_id) for job_id in "abc"] == ["succeeded", "running", "running"]
        assert await fleet.value(RUNNING) == 2
        assert await fleet.value(SUCCEEDED) == 1
        assert fleet.own("collector_success", collector="jobs") == 0
        assert fleet.own("collector_parts_failed", collector="jobs") == 1
        cloud.answer = lambda operation, query: None
        await poll_jobs(fleet)
        # A job that was never seen live ended while the query failed: it is looked for from then on.
        assert await shown(fleet, "short") == "succeeded"
        assert await fleet.value(SUCCEEDED) == 2
        assert fleet.own("collector_success", collector="jobs") == 1
        assert fleet.own("collector_parts_failed", collector="jobs") == 0


async def test_an_end_without_its_last_history_is_shown(of_two: OfTwo) -> None:
    async with of_two() as (cloud, fleet):
        last = {"/api/v1/jobs/a": httpx.Response(404, json={"Code": "NotFound"}), "/api/v1/jobs/b": DENIED}
        cloud.answer = lambda operation, query: last.get(query["path"])
        end(cloud, 0)
        end(cloud, 1)
        await poll_jobs(fleet)
        assert [await shown(fleet, job_id) for job_id in "ab"] == ["succeeded", "succeeded"]
        assert fleet.own("collector_errors_total", collector="jobs", reason="auth") == 1  # of b: a is gone


async def test_a_malformed_row_of_a_look_up_is_no_lost_job(of_two: OfTwo) -> None:
    async with of_two() as (cloud, fleet):
        cloud.jobs = [job(f"j{number}") for number in range(12)]
        await poll_jobs(fleet)
        rows = [job(f"j{number}", "Succeeded") for number in range(12)]
        malformed = httpx.Response(200, json={"TotalCount": 12, "Jobs": [{"JobId": 7.5}, *rows[1:]]})
        cloud.jobs, cloud.answer = [], lambda operation, query: malformed if "JobIds" in query else None
        await poll_jobs(fleet)
        assert await fleet.value(SUCCEEDED) == 11
        assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 1
        cloud.jobs, cloud.answer = rows, lambda operation, query: None
        await poll_jobs(fleet)
        assert await fleet.value(SUCCEEDED) == 12


@pytest.mark.parametrize("answer", [REFUSED, BROKEN, DENIED])
async def test_a_failing_look_up_is_made_again_and_loses_itself(of_two: OfTwo, answer: httpx.Response) -> None:
    async with of_two() as (cloud, fleet):

        def refuse(operation: str, query: dict[str, str]) -> httpx.Response | None:
            return answer if "TimeRangeField" in query or query["path"].endswith("/a") else None

        cloud.answer = refuse
        end(cloud, 0)
        end(cloud, 1)
        cloud.jobs.append(job("c"))
        await poll_jobs(fleet, 6)
        # Nothing is known of how `a` ended, and it is not live.
        assert [await shown(fleet, job_id) for job_id in "abc"] == [None, "succeeded", "running"]
        assert await fleet.value(RUNNING) == 1
        assert await fleet.value(SUCCEEDED) == 1
        assert fleet.own("collector_success", collector="jobs") == 0
        assert fleet.own("collector_parts_failed", collector="jobs") == 1
        cloud.answer = lambda operation, query: REFUSED if "TimeRangeField" in query else None
        await asyncio.sleep(40)  # what opened a circuit is over
        await poll_jobs(fleet)
        assert await shown(fleet, "a") == "succeeded"
        assert await fleet.value(SUCCEEDED) == 2
        assert fleet.own("collector_success", collector="jobs") == 1


async def test_a_look_up_that_always_fails_ends_with_the_retention(of_two: OfTwo) -> None:
    async with of_two() as (cloud, fleet):
        cloud.answer = lambda operation, query: DENIED if operation == "GetJob" else None
        del cloud.jobs[0]
        await poll_jobs(fleet, 55)
        assert len(cloud.called("GetJob")) >= 50
        assert await fleet.value(RUNNING) == 1
        await poll_jobs(fleet, 10)
        asked = len(cloud.called("GetJob"))
        await poll_jobs(fleet)
        assert len(cloud.called("GetJob")) == asked
        assert fleet.own("collector_success", collector="jobs") == 1


@pytest.mark.parametrize("workspaces", [6, 20])
async def test_hanging_ends_take_no_live_job_of_any_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, workspaces: int
) -> None:
    ids = [str(number) for number in range(workspaces)]
    cloud = Cloud()
    cloud.workspaces = [dict(cloud.workspaces[0], WorkspaceId=one) for one in ids]
    cloud.jobs = [job("first-" + one, WorkspaceId=one) for one in ids]
    config = CONFIG.replace("concurrency: 8", "concurrency: 5")
    async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
        assert await fleet.exporter.poll_once()
        slow_ends(monkeypatch, 1000)
        for poll in range(4):
            cloud.jobs += [job(f"{poll}-{one}", WorkspaceId=one) for one in ids]
            await poll_jobs(fleet)
            assert [await shown(fleet, f"{poll}-{one}") for one in ids] == ["running"] * workspaces
            assert fleet.own("collector_success", collector="jobs") == 0


async def test_a_job_that_ends_between_the_lists_is_shown_once(of_two: OfTwo) -> None:
    """It is in the list of live jobs, and then in that of finished ones."""
    async with of_two() as (cloud, fleet):

        def answer(operation: str, query: dict[str, str]) -> None:
            if "TimeRangeField" in query:
                end(cloud, 0, 60)

        cloud.answer = answer
        await poll_jobs(fleet)
        (of_a,) = [line for line in await fleet.lines("job_info") if 'job_id="a"' in line]
        assert [await shown(fleet, job_id) for job_id in "ab"] == ["succeeded", "running"]
        assert await fleet.value(RUNNING) == 1
        assert await fleet.value(SUCCEEDED) == 1
        one, two = cloud.workspaces[0], cloud.workspaces[0] | {"WorkspaceId": "2"}
        for cloud.workspaces in ([two], [one, two]):
            await fleet.runner("workspaces").tick()
            await poll_jobs(fleet)
        assert sum(line.startswith("job ended") for line in fleet.log) == 1
        cloud.jobs[0]["WorkspaceId"] = "2"
        await poll_jobs(fleet)
        assert [line for line in await fleet.lines("job_info") if 'job_id="a"' in line] == [of_a]


async def test_an_ended_job_is_shown_until_its_end_is_known(of_two: OfTwo, monkeypatch: pytest.MonkeyPatch) -> None:
    running = 'job_phase_seconds{job_id="a",phase="running"}'
    async with of_two() as (cloud, fleet):
        cloud.jobs[0]["StatusHistory"] = [{"Status": "Running", "StartTime": at(-500)}]
        await poll_jobs(fleet)
        slow_ends(monkeypatch, 5)
        end(cloud, 0, 90)
        cloud.jobs.append(job("c"))
        await asyncio.sleep(60)
        polling = asyncio.create_task(fleet.runner("jobs").tick())
        await asyncio.sleep(3)
        assert [await shown(fleet, job_id) for job_id in "abc"] == ["running"] * 3
        assert await fleet.value(RUNNING) == 3
        assert await fleet.value(SUCCEEDED) == 0
        assert await fleet.value(running) == 560
        await polling
        assert await fleet.value(running) == 590
        assert [await shown(fleet, job_id) for job_id in "abc"] == ["succeeded", "running", "running"]
        assert await fleet.value(RUNNING) == 2
        assert await fleet.value(SUCCEEDED) == 1


async def test_ends_of_a_gap_that_nothing_saw_are_counted(of_two: OfTwo) -> None:
    """Jobs that began and ended while the list of ended jobs failed for half an hour."""
    async with of_two() as (cloud, fleet):
        cloud.answer = lambda operation, query: BROKEN if "TimeRangeField" in query else None
        await poll_jobs(fleet, 30)
        cloud.jobs.append(job("c", "Succeeded", GmtCreateTime=at(60), GmtFinishTime=at(120)))
        cloud.answer = lambda operation, query: None
        await poll_jobs(fleet)
        assert await fleet.value(SUCCEEDED) == 1


@pytest.mark.parametrize("refuses", [False, True])
async def test_each_of_many_workspaces_learns_how_jobs_ended(fleet_of: FleetOf, refuses: bool) -> None:
    """A poll has calls for the live jobs of all workspaces, and for the ends of some."""
    cloud, ids = Cloud(), [str(number) for number in range(30)]
    cloud.answer = lambda operation, query: REFUSED if refuses and "TimeRangeField" in query else None
    cloud.workspaces = [{"WorkspaceId": key, "WorkspaceName": key, "Status": "ENABLED"} for key in ids]
    cloud.jobs = [job(f"job-{key}", WorkspaceId=key) for key in ids]
    off = "{enabled: false}"
    chosen = f"{{usage: {off}, pods: {off}, pools: {off}, pool_workloads: {off}, job_counts: {off}}}"
    config = CONFIG.replace("{requests_per_second: 1000, concurrency: 8}", "{}")
    async with fleet_of(cloud, config.replace("{usage: {source: job_metrics}}", chosen)) as fleet:
        fleet.schedule.start()
        await asyncio.sleep(300)
        for number in range(30):
            end(cloud, number, 300)
        await asyncio.sleep(900)
        found = [line for line in await fleet.lines("jobs_finished_total") if line.endswith(" 1")]
        assert len(found) == 30
