"""CloudMonitor in trouble: polls too short for all, answers that lead nowhere, outages while jobs end."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Answer, Cloud, FleetOf, at, job, metric, point
from tests.support.clock import START
from tests.support.fleet import Fleet

DAY = 86400.0
CYCLE = 120.0
QUIET = "job_counts: {enabled: false}, pods: {enabled: false}, pool_workloads: {enabled: false}, "
CPU, MEMORY = metric("JOB_CPU_UTIL", "%"), metric("JOB_MEMORY_UTIL", "%")
DOWN = httpx.Response(503, json={"Code": "ServiceUnavailable"})


def usage_by(source: str) -> str:
    """The config with this source of usage."""
    return CONFIG.replace("{usage: {source: job_metrics}}", f"{{{QUIET}usage: {{source: {source}}}}}")


@pytest.fixture
def config() -> str:
    """The config of the fleet."""
    return usage_by("cloudmonitor")


def points_page(points: list[object], **further: object) -> httpx.Response:
    page = {"Code": "200", "Success": True, "Datapoints": json.dumps(points), **further}
    return httpx.Response(200, json=page)


def answering(points: Callable[[dict[str, str]], httpx.Response | None]) -> Answer:
    """An answer to DescribeMetricLast alone."""
    return lambda operation, query: points(query) if operation == "DescribeMetricLast" else None


def by_name(value: float = 50) -> Callable[[dict[str, str]], httpx.Response]:
    """A fresh point of each job that Dimensions name; without them, a refusal."""

    def points(query: dict[str, str]) -> httpx.Response:
        if "Dimensions" not in query:
            return httpx.Response(400, json={"Code": "ParameterInvalid", "Message": "Dimensions", "RequestId": "r"})
        named = [one["jobId"] for one in json.loads(query["Dimensions"])]
        return points_page([point(job_id, value, age=START - time.time() + 60) for job_id in named])

    return points


@pytest.mark.long
async def test_short_polls_show_batches_of_jobs_by_metric(fleet_of: FleetOf) -> None:
    """4,000 jobs are 80 calls for each metric; at 5 a second a poll of 50 s has time for three metrics of eight."""
    cloud = Cloud()
    cloud.jobs = [job(f"j{number:04}") for number in range(4000)]
    families = {
        "JOB_CPU_UTIL": "job_cpu_utilization_ratio",
        "JOB_MEMORY_UTIL": "job_memory_utilization_ratio",
        "JOB_GPU_ACCELERATOR_DUTTY_UTIL": "job_accelerator_utilization_ratio",
        "JOB_GPU_ACCELERATOR_MEMORY_UTIL": "job_accelerator_memory_utilization_ratio",
        "JOB_NETWORK_RECEVICE_RATE": "job_network_receive_bytes_per_second",
        "JOB_NETWORK_TRANSMIT_RATE": "job_network_transmit_bytes_per_second",
        "JOB_DISK_READ_RATE": "job_disk_read_bytes_per_second",
        "JOB_DISK_WRITE_RATE": "job_disk_write_bytes_per_second",
    }
    cloud.catalogue = [metric(name, "%" if name.endswith("UTIL") else "KB/s") for name in families]
    cloud.answer = answering(by_name())

    async def shown(fleet: Fleet) -> Counter[str]:
        names = (line.partition("{")[0].removeprefix("trainfleet_") for line in await fleet.lines("job_"))
        return Counter(name for name in names if name in families.values())

    config = usage_by("cloudmonitor").replace("{requests_per_second: 1000, concurrency: 8}", "{}")
    async with fleet_of(cloud, config) as fleet:
        for collector in ("workspaces", "pools", "jobs"):
            await fleet.runner(collector).tick()
        usage = fleet.runner("usage")
        read_at: dict[str, float] = {}
        for polls in range(1, 9):
            begun = asyncio.get_running_loop().time()
            await usage.tick()
            if polls == 5:
                assert await shown(fleet) == dict.fromkeys(families.values(), 4000)
            await asyncio.sleep(max(0.0, begun + CYCLE - asyncio.get_running_loop().time()))
            usage.expire()
        assert await shown(fleet) == dict.fromkeys(families.values(), 4000)  # and none was lost again
        for query in cloud.called("DescribeMetricLast"):
            if json.loads(query.get("Dimensions", "[]"))[-1:] == [{"jobId": "j3999"}]:
                read_at[query["MetricName"]] = float(query["StartTime"]) / 1000 + 900
        assert min(read_at.values()) > time.time() - 4 * CYCLE  # each in turn, not the same ones again and again
        assert fleet.own("collector_success", collector="usage") == 0  # and it is logged that not all fit


async def test_names_that_fail_once_prove_nothing_and_are_tried_again(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", GmtCreateTime=at(-3600), GmtRunningTime=at(-3600))]
    cloud.catalogue = [CPU]
    down = True

    def points(query: dict[str, str]) -> httpx.Response:
        if "Dimensions" not in query:
            return points_page([])
        return DOWN if down else by_name()(query)

    cloud.answer = answering(points)
    async with fleet_of(cloud) as fleet:
        assert not await fleet.exporter.poll_once()
        assert await fleet.lines("job_cpu_utilization_ratio") == []
        assert fleet.own("collector_success", collector="usage") == 0
        down = False
        await asyncio.sleep(CYCLE)
        await fleet.runner("usage").tick()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5
        assert fleet.own("collector_success", collector="usage") == 1
        calls = len(cloud.called("DescribeMetricLast"))
        await asyncio.sleep(CYCLE)
        await fleet.runner("usage").tick()
        assert len(cloud.called("DescribeMetricLast")) == calls + 1  # by name only, now that this is known to help


@pytest.mark.parametrize("source", ["cloudmonitor", "job_metrics"])
async def test_readings_stay_while_polls_are_stretched(fleet_of: FleetOf, source: str) -> None:
    """They are as old as the interval that there is by then allows, not as the one that they were published in."""
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point("a", 50)]
    value = {"Time": int((START - 60) * 1000), "Value": 50}
    cloud.metrics[("a", "CpuCoreUsage")] = [{"PodId": "a-worker-0", "Metrics": [value]}]
    async with fleet_of(cloud, usage_by(source)) as fleet:
        assert await fleet.exporter.poll_once()
        runner = fleet.runner("usage" if source == "cloudmonitor" else source)
        assert len(await fleet.lines("job_cpu_utilization_ratio", "job_usage_info")) == 2
        runner.state.interval = 1800  # as a budget makes it
        for _ in range(3500):
            await asyncio.sleep(1)
            runner.expire()
        assert len(await fleet.lines("job_cpu_utilization_ratio", "job_usage_info")) == 2
        await asyncio.sleep(60)
        runner.expire()
        assert await fleet.lines("job_cpu_utilization_ratio", "job_usage_info") == []


async def test_usage_of_a_job_that_ended_goes_while_cloudmonitor_fails(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    cloud.catalogue = [CPU, MEMORY]
    for name in ("JOB_CPU_UTIL", "JOB_MEMORY_UTIL"):
        cloud.points[name] = [point("a", 50), point("b", 50)]
    async with fleet_of(cloud) as fleet:
        fleet.schedule.start()
        await asyncio.sleep(30)
        assert len(await fleet.lines("job_cpu_utilization_ratio", "job_memory_util", "job_usage_info")) == 6
        cloud.answer = answering(lambda query: DOWN)
        cloud.jobs[0] |= {"Status": "Succeeded", "GmtFinishTime": at(30)}
        await asyncio.sleep(2 * CYCLE)
        left = await fleet.lines("job_cpu_utilization_ratio", "job_memory_util", "job_usage_info")
        assert len(left) == 3
        assert all('job_id="b"' in line for line in left)  # its last good answer is kept for three polls


async def test_usage_goes_with_jobs_that_could_not_be_listed_for_long(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point("a", 50)]
    async with fleet_of(cloud) as fleet:
        fleet.schedule.start()
        await asyncio.sleep(30)
        assert len(await fleet.lines("job_info", "job_cpu_utilization_ratio", "job_usage_info")) == 3
        cloud.answer = lambda operation, query: DOWN if operation == "ListJobs" else None
        await asyncio.sleep(3.5 * CYCLE)
        assert await fleet.lines("job_") == []


@pytest.mark.parametrize("refused", ["DescribeMetricLast", "DescribeMetric"], ids=["points", "everything"])
@pytest.mark.parametrize("begins", [0, 1], ids=["always", "later"])
async def test_a_refusal_is_a_failure_that_no_other_source_hides(fleet_of: FleetOf, refused: str, begins: int) -> None:
    """Under `auto` GetJobMetrics serves its own jobs on, and no others: those of CloudMonitor have no usage."""
    cloud = Cloud()
    pay_as_you_go = {"PaymentType": "PostPaid", "ResourceType": "ECS", "ResourceId": ""}
    cloud.jobs = [job("lingjun"), job("general", **pay_as_you_go)]
    cloud.catalogue = [CPU, MEMORY]
    denied = httpx.Response(403, json={"Code": "NoPermission", "Message": "cms:DescribeMetricLast"})

    def answer(operation: str, query: dict[str, str]) -> httpx.Response | None:
        if operation.startswith(refused) and time.time() >= START + begins * 60:
            return denied
        return points_page([point("lingjun", 50, age=START - time.time() + 60)]) if "Last" in operation else None

    cloud.answer = answer
    async with fleet_of(cloud, usage_by("auto")) as fleet:
        fleet.schedule.start()
        for _ in range(8):
            value = {"Time": int(time.time() * 1000), "Value": 40.0}
            cloud.metrics["general", "CpuCoreUsage"] = [{"PodId": "general-0", "Metrics": [value]}]
            await asyncio.sleep(CYCLE)
        assert fleet.own("collector_success", collector="usage") == 0
        assert (fleet.own("collector_parts_failed", collector="usage") or 0) > 0
        succeeded = fleet.own("collector_last_success_timestamp_seconds", collector="usage") or 0
        assert succeeded < START + CYCLE
        sources = await fleet.lines("job_usage_info")
        assert [line.partition("{")[2] for line in sources] == ['provider="p",job_id="general",source="job_metrics"} 1']
        assert fleet.own("collector_success", collector="job_metrics") == 1


async def test_an_empty_catalogue_does_not_replace_a_good_one(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.catalogue = [CPU]

    def points(query: dict[str, str]) -> httpx.Response:
        return points_page([point("a", 50, age=START - time.time() + 60)])

    cloud.answer = answering(points)

    async def tick(fleet: Fleet) -> int:
        """How often the catalogue of jobs has been read after one more poll, which shows the family."""
        await fleet.runner("usage").tick()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5
        assert fleet.own("collector_success", collector="usage") == 1
        return len([query for query in cloud.called("DescribeMetricMetaList") if query["Namespace"] == "acs_pai_dlc"])

    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        cloud.catalogue = []
        await asyncio.sleep(DAY)
        assert await tick(fleet) == 2
        await asyncio.sleep(CYCLE)
        assert await tick(fleet) == 2
        await asyncio.sleep(600)
        assert await tick(fleet) == 3  # and the question is not left for a day
        assert any(line.startswith("CloudMonitor lists no metrics") for line in fleet.log)
        cloud.catalogue = [CPU]
        await asyncio.sleep(600)
        assert await tick(fleet) == 4
        await asyncio.sleep(DAY / 2)
        assert await tick(fleet) == 4


@pytest.mark.parametrize(("empty", "calls", "shown"), [(2, 3, 1), (3, 3, 0)])
async def test_empty_pages_with_a_next_token_are_not_followed_forever(
    fleet_of: FleetOf, empty: int, calls: int, shown: int
) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.catalogue = [CPU]

    def points(query: dict[str, str]) -> httpx.Response:
        place = int(query.get("NextToken", "0"))
        return points_page([], NextToken=str(place + 1)) if place < empty else points_page([point("a", 50)])

    cloud.answer = answering(points)
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == shown
        assert fleet.own("collector_errors_total", collector="usage", reason="bad_answer") == (None if shown else 1)
        assert len(cloud.called("DescribeMetricLast")) == calls
