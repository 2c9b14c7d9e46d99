"""Jobs on stepped time: live lists, how jobs end, filters and pods."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx

from tests.providers.alibaba_pai.cloud import CONFIG, RUNNING, Cloud, FleetOf, at, job
from tests.support.clock import START
from tests.support.hang import at_most


async def test_how_a_job_ends_is_learned_by_its_finish_time(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('jobs_finished_total{workspace_id="1",status="failed"}') == 0
        await asyncio.sleep(60)
        cloud.jobs[0] |= {"Status": "Failed", "ReasonCode": "OOM", "GmtFinishTime": at(30)}
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="failed"}') == 1
        assert await fleet.value('job_status_reason{job_id="a",reason="OOM"}') == 1
        assert await fleet.value('job_finished_timestamp_seconds{job_id="a"}') == START + 30
        assert await fleet.value('jobs_finished_total{workspace_id="1",status="failed"}') == 1
        assert await fleet.value(RUNNING) == 1
        last = cloud.called("GetJob")[2:]  # the first two were for pods
        assert [query["path"].rpartition("/")[2] for query in last] == ["a"]
        await fleet.runner("jobs").tick()
        assert cloud.called("GetJob")[3:] == []
        await asyncio.sleep(3601)
        await fleet.runner("jobs").tick()
        assert await fleet.lines('job_status{provider="p",job_id="a"') == []
        assert await fleet.value('jobs_finished_total{workspace_id="1",status="failed"}') == 1


async def test_unlisted_jobs_are_looked_up_and_dropped_if_unknown(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}", GmtCreateTime=at(-7200)) for number in range(120)]
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        before = len(cloud.calls)
        for row in cloud.jobs:  # ended, and the list by finish time does not know it
            row |= {"Status": "Succeeded", "GmtFinishTime": None}
        gone = cloud.jobs.pop()
        await fleet.runner("jobs").tick()
        assert Counter(name for name, _ in cloud.calls[before:]) == {"GetJob": 20, "ListJobs": 15}
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value('jobs_finished_total{workspace_id="1",status="succeeded"}') == 119
        assert await fleet.lines(f'job_info{{provider="p",job_id="{gone["JobId"]}"') == []
        for word in ("Running", "Succeeded"):  # a list that is not up to date
            await asyncio.sleep(60)
            cloud.jobs[0]["Status"] = word
            await fleet.runner("jobs").tick()
        assert await fleet.value('jobs_finished_total{workspace_id="1",status="succeeded"}') == 119


async def test_gpus_that_cannot_be_read_are_unknown(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    roles = [{"PodCount": 1, "ResourceConfig": {"CPU": "8", "GPU": gpus}} for gpus in ("4", {"count": 8})]
    cloud.jobs = [job("a", JobSpecs=roles[:1]), job("b", JobSpecs=roles, GmtCreateTime=at(-60), NodeCount={})]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        (shown,) = await fleet.lines("job_requested_accelerators")  # not 4 of `b`
        assert 'job_id="a"' in shown
        assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 2  # each once


async def test_job_that_changes_during_a_sweep_has_its_latest_state(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", "Queuing"), *(job(job_id, GmtCreateTime=at(-60)) for job_id in "bcd")]

    def move(operation: str, query: dict[str, str]) -> httpx.Response | None:
        if query.get("Status") == "Bidding":
            cloud.jobs[0]["Status"] = "Running"
        elif operation == "ListJobs" and not query.keys() & {"Status", "TimeRangeField"}:  # the last list
            if cloud.jobs[2]["Status"] == "Failed":  # the list is not up to date any more: an end stays
                rows = [*cloud.jobs[:2], cloud.jobs[2] | {"Status": "Running"}]
                return httpx.Response(200, json={"TotalCount": 3, "Jobs": rows})
            cloud.jobs[1]["Status"] = "Queuing"
            cloud.jobs[3]["Status"] = "Stopped"  # an end without its time: the next poll looks it up
            cloud.jobs[2] |= {"Status": "Failed", "GmtFinishTime": at(0)}
        return None

    cloud.answer = move
    async with fleet_of(cloud) as fleet:
        for stopped in range(2):
            assert await fleet.exporter.poll_once()
            assert len(await fleet.lines('job_status{provider="p",job_id="a"')) == 1
            for job_id, status in ("a", "running"), ("b", "queued"), ("c", "failed"):
                assert await fleet.value(f'job_status{{job_id="{job_id}",status="{status}"}}') == 1
            assert await fleet.value(RUNNING) == 2 - stopped
            assert await fleet.value('jobs{workspace_id="1",status="queued",platform_status="Queuing"}') == 1
            assert await fleet.value('jobs_finished_total{workspace_id="1",status="failed"}') == 1


async def test_live_statuses_are_swept_in_the_order_of_a_jobs_life(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    async with fleet_of(cloud) as fleet:
        for name in ("workspaces", "jobs"):
            await fleet.runner(name).tick()
        asked = [query.get("Status", "-") for query in cloud.called("ListJobs")]
        assert asked == [
            *("Creating", "Queuing", "Bidding", "EnvPreparing", "SanityChecking", "Running", "Restarting", "Stopping"),
            *("SucceededReserving", "FailedReserving", "-", "-"),
        ]
        assert cloud.called("ListJobs")[-2]["TimeRangeField"] == "GmtFinishTime"


async def test_every_status_that_the_platform_knows_has_a_series(fleet_of: FleetOf) -> None:
    async with fleet_of(Cloud()) as fleet:
        await fleet.exporter.poll_once()
        words = {line.split('platform_status="')[1].split('"')[0] for line in await fleet.lines("jobs{")}
        assert len(words) == 15  # thirteen that are documented now, two that were
        assert all(line.endswith(" 0") for line in await fleet.lines("jobs{"))


async def test_finished_jobs_are_counted_within_the_window(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    day = 86400
    cloud.jobs = [
        job(f"j{n}", "Succeeded", GmtCreateTime=at(-n * day), GmtFinishTime=at(-n * day)) for n in range(1, 60)
    ]
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('jobs{workspace_id="1",status="succeeded",platform_status="Succeeded"}') == 30
        assert await fleet.lines("job_info") == []  # all ended before the retention of an hour


FILTERS = """    jobs:
      include: {name: ["train-.*"], user_id: [u1, u2]}
      exclude: {job_type: [TFJob]}
"""


BACKTRACKING = """    jobs:
      include: {name: ["([a-z0-9]+-?)+"]}
"""


async def test_filters_hide_jobs_and_not_counts(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [
        job("a", DisplayName="train-1", UserId="u1"),
        job("b", DisplayName="train-2", UserId="u3"),
        job("c", DisplayName="my-train-3", UserId="u1"),
        job("d", DisplayName="train-4", UserId="u2", JobType="TFJob"),
    ]
    async with fleet_of(cloud, CONFIG.replace("    limits", FILTERS + "    limits")) as fleet:
        assert await fleet.exporter.poll_once()
        assert [line.split('job_id="')[1][0] for line in await fleet.lines("job_info")] == ["a"]
        assert await fleet.value(RUNNING) == 4
        assert [query["path"] for query in cloud.called("GetJob")] == ["/api/v1/jobs/a"]


async def test_pattern_that_backtracks_does_not_stop_the_process(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", DisplayName="a" * 34 + "_"), job("b", DisplayName="train-1"), job("c", DisplayName="\ud800")]
    async with fleet_of(cloud, CONFIG.replace("    limits", BACKTRACKING + "    limits")) as fleet:
        with at_most(seconds=20):
            assert await fleet.exporter.poll_once()
        assert [line.split('job_id="')[1][0] for line in await fleet.lines("job_info")] == ["b"]


async def test_pods_stop_at_max_jobs_those_that_hold_resources_first(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [
        job("old", GmtCreateTime=at(-900)),
        job("wait", "Queuing", GmtCreateTime=at(-10)),
        job("new", GmtCreateTime=at(-100)),
    ]
    async with fleet_of(cloud, CONFIG.replace("{usage:", "{pods: {max_jobs: 2}, usage:")) as fleet:
        await fleet.exporter.poll_once()
        assert [query["path"][-3:] for query in cloud.called("GetJob")] == ["new", "old"]
        assert any("collector=pods jobs_left_out=1" in line for line in fleet.log)


async def test_unknown_state_is_not_looked_up_forever(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    async with fleet_of(cloud) as fleet:
        fleet.schedule.start()
        await asyncio.sleep(30)
        cloud.jobs[0]["Status"] = "SubmitFailed"
        await asyncio.sleep(120)
        assert await fleet.value('job_status{job_id="a",status="unknown"}') == 1
        await asyncio.sleep(3700)
        assert await fleet.lines("job_status") == []
        before = len(cloud.called("GetJob"))
        await asyncio.sleep(600)
        assert len(cloud.called("GetJob")) == before
