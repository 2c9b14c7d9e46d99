"""CloudMonitor: what is called, how often, and where the service refuses or needs dimensions."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import Cloud, FleetOf, at, job, point
from tests.providers.alibaba_pai.worlds import CPU, DAY, MONITORED, asked, monitored_world, refresh, usage
from tests.support.clock import START


@pytest.fixture
def config() -> str:
    """The config of the fleet."""
    return MONITORED


@pytest.mark.parametrize(("jobs", "calls"), [(10, 1), (1440, 1), (1441, 2), (3000, 3)])
async def test_calls_grow_by_pages_of_points_and_nothing_else(fleet_of: FleetOf, jobs: int, calls: int) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{n}") for n in range(jobs)]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point(f"j{n}", 50) for n in range(jobs)]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert asked(cloud) == {"JOB_CPU_UTIL": calls}
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == jobs
        assert len(await fleet.lines("job_usage_info")) == jobs
        (first, *_) = cloud.called("DescribeMetricLast")
        assert (first["path"], first["Length"], first["Period"]) == ("/", "1440", "60")
        assert float(first["StartTime"]) == pytest.approx((time.time() - 900) * 1000)  # else it looks back two hours
        assert "Dimensions" not in first
        assert first["host"] == "metrics.cn-hangzhou.aliyuncs.com"


async def test_no_call_is_made_without_a_job_to_measure(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("wait", "Queuing")]
    cloud.catalogue = [CPU]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert asked(cloud) == {}


async def test_the_catalogue_is_read_once_a_day(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    refresh(cloud)
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        for _ in range(2):
            await asyncio.sleep(DAY / 2 - 60)
            await fleet.runner("usage").tick()
        namespaces = [query["Namespace"] for query in cloud.called("DescribeMetricMetaList")]
        assert sorted(namespaces) == ["acs_pai_dlc", "acs_pai_quota"]
        await asyncio.sleep(120)
        await fleet.runner("usage").tick()
        assert len(cloud.called("DescribeMetricMetaList")) == 4


def _refuse_without_dimensions(operation: str, query: dict[str, str]) -> httpx.Response | None:
    if operation != "DescribeMetricLast" or "Dimensions" in query:
        return None
    return httpx.Response(400, json={"Code": "ParameterInvalid", "Message": "Dimensions", "RequestId": "r"})


async def test_required_dimensions_are_sent_for_fifty_jobs_a_call(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{n:03}") for n in range(120)]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point(row["JobId"], 50) for row in cloud.jobs]
    refresh(cloud)
    fresh = cloud.answer

    def answer(operation: str, query: dict[str, str]) -> httpx.Response | None:
        fresh(operation, query)
        return _refuse_without_dimensions(operation, query)

    cloud.answer = answer
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == 120
        sizes = [len(json.loads(q["Dimensions"])) for q in cloud.called("DescribeMetricLast") if "Dimensions" in q]
        assert sizes == [50, 50, 20]
        assert asked(cloud) == {"JOB_CPU_UTIL": 4}
        await fleet.runner("usage").tick()
        assert asked(cloud) == {"JOB_CPU_UTIL": 7}  # what was learnt is remembered
        await asyncio.sleep(DAY)
        await fleet.runner("usage").tick()
        assert asked(cloud) == {"JOB_CPU_UTIL": 11}
        lines = [line for line in fleet.log if "Dimensions" in line]
        assert ["namespace=acs_pai_dlc names_per_call=50" in line for line in lines] == [True, True]  # one a day


async def test_a_metric_that_is_refused_either_way_is_a_failure(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.catalogue = [CPU]
    refusal = httpx.Response(400, json={"Code": "ParameterInvalid", "Message": "the metric is gone"})
    cloud.answer = lambda name, _: refusal if name == "DescribeMetricLast" else None
    async with fleet_of(cloud) as fleet:
        assert not await fleet.exporter.poll_once()
        assert fleet.own("collector_errors_total", collector="usage", reason="client") == 1
        assert not [line for line in fleet.log if "Dimensions" in line]


@pytest.mark.parametrize("helps", [True, False])
async def test_empty_answer_for_long_running_jobs_is_retried_by_name(fleet_of: FleetOf, helps: bool) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", GmtCreateTime=at(-660), GmtRunningTime=at(-590))]
    cloud.catalogue = [CPU]

    def empty(operation: str, query: dict[str, str]) -> httpx.Response | None:
        points = [point("a", 50, age=START - time.time() + 60)] if "Dimensions" in query and helps else []
        page = {"Code": "200", "Success": True, "Datapoints": json.dumps(points)}
        return httpx.Response(200, json=page) if operation == "DescribeMetricLast" else None

    cloud.answer = empty
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert asked(cloud) == {"JOB_CPU_UTIL": 1}  # it may have no readings yet
        assert fleet.own("dropped_readings_total", collector="usage", reason="no_data") == 1
        labels = {"api": "cloudmonitor", "operation": "DescribeMetricLast", "outcome": "no_data"}
        assert fleet.own("api_requests_total", **labels) == 1
        await asyncio.sleep(60)
        await fleet.runner("usage").tick()
        assert asked(cloud) == {"JOB_CPU_UTIL": 3}
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == helps
        await fleet.runner("usage").tick()
        assert asked(cloud) == {"JOB_CPU_UTIL": 4}  # by name if that helped, else without, and never both
        assert ("Dimensions" in cloud.called("DescribeMetricLast")[-1]) is helps
        await asyncio.sleep(DAY)
        await fleet.runner("usage").tick()
        assert asked(cloud) == {"JOB_CPU_UTIL": 6}
        assert len([line for line in fleet.log if "it returns no points without them" in line]) == 2 * helps  # a day


async def test_what_is_not_exposed_is_not_paid_for(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    deny = 'global: {metrics: {deny: ["trainfleet_device_*", trainfleet_pod_cpu_usage_cores, "trainfleet_*_memory_*"]}}'
    async with fleet_of(cloud, usage().replace("providers:", f"{deny}\nproviders:")) as fleet:
        assert await fleet.exporter.poll_once()
        asked = {query["MetricName"] for _, query in cloud.calls if "MetricName" in query}
        assert not [name for name in asked if "CARD" in name or "MEMORY" in name]
        assert {"JOB_CPU_UTIL", "POD_CPU_UTIL", "POD_CPU_USED"} <= asked  # the last for the job alone
        assert await fleet.lines("pod_cpu_usage_cores") == []
        assert len(await fleet.lines("job_cpu_usage_cores")) == 1


async def test_more_metrics_than_fit_into_a_poll_take_turns(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    refresh(cloud)
    async with fleet_of(cloud, MONITORED.replace("requests_per_second: 1000", "requests_per_second: 0.3")) as fleet:
        for collector in ("workspaces", "pools", "jobs", "usage"):
            await fleet.runner(collector).tick()
        assert fleet.own("collector_success", collector="usage") == 0
        assert 10 < len(asked(cloud)) < 21
        await asyncio.sleep(60)
        await fleet.runner("usage").tick()
        assert len(asked(cloud)) == 21


async def test_after_a_slow_poll_metrics_are_read_together_again(fleet_of: FleetOf) -> None:
    cloud, seconds = monitored_world(), 15.0
    refresh(cloud)

    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(seconds if request.headers["x-acs-action"] == "DescribeMetricLast" else 0)
        return cloud(request)

    async with fleet_of(slow, MONITORED.replace("concurrency: 8", "concurrency: 4")) as fleet:
        for collector in ("workspaces", "pools", "jobs", "usage"):
            await fleet.runner(collector).tick()
        assert fleet.own("collector_success", collector="usage") == 0
        seconds = 5.0  # one at a time, 21 metrics do not fit into a poll
        for _ in range(2):
            await fleet.runner("usage").tick()
        assert fleet.own("collector_success", collector="usage") == 1


async def test_polls_by_job_stop_at_max_jobs_newest_first(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{n}", GmtCreateTime=at(-1000 - n)) for n in range(5)]
    cloud.catalogue = [CPU]
    async with fleet_of(cloud, usage(source="job_metrics", max_jobs="2")) as fleet:
        await fleet.exporter.poll_once()
        await fleet.exporter.poll_once()
        asked = [query["path"].split("/")[-2] for query in cloud.called("GetJobMetrics")]
        assert asked == ["j0", "j1", "j0", "j1"]
        assert len([line for line in fleet.log if "jobs_left_out=3" in line]) == 1


@pytest.mark.parametrize("config", [MONITORED.replace("concurrency: 8", "concurrency: 1")])
async def test_a_job_that_ends_during_a_poll_fails_no_metric(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    refresh(cloud)

    async def slowly(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(request.headers["x-acs-action"] == "DescribeMetricLast")
        return cloud(request)

    async with fleet_of(slowly) as fleet:
        assert await fleet.exporter.poll_once()
        await asyncio.sleep(120)
        cloud.jobs[1] |= {"Status": "Succeeded", "GmtFinishTime": at(0)}
        await asyncio.gather(fleet.runner("usage").tick(), fleet.runner("jobs").tick())
        assert await fleet.value('job_status{job_id="b",status="succeeded"}') == 1
        assert fleet.own("collector_success", collector="usage") == 1
