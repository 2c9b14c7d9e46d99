"""Usage job by job (GetJobMetrics): what is called, and which readings are shown how long."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, FleetOf, at, job
from tests.providers.alibaba_pai.worlds import MS, rich_cloud
from tests.support.clock import START


async def test_usage_asks_only_for_what_can_be_had(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [
        job("post", ResourceId="", ResourceType="ECS", RequestGPU="1"),
        job("cpu", ResourceId="", ResourceType="ECS", RequestGPU="0"),
        job("pre", RequestGPU="1"),
        job("wait", "Queuing", ResourceId=""),
    ]
    for job_id in ("post", "cpu", "pre"):
        cloud.metrics[(job_id, "CpuCoreUsage")] = [
            {"PodId": f"{job_id}-worker-0", "Metrics": [{"Time": int(START * MS), "Value": 10}]}
        ]
    deny = 'global: {metrics: {deny: ["trainfleet_*_disk_*"]}}\nproviders:'
    config = CONFIG.replace("source: job_metrics", "source: auto").replace("providers:", deny)
    async with fleet_of(cloud, config) as fleet:
        await fleet.exporter.poll_once()
        asked = Counter(query["path"].split("/")[-2] for query in cloud.called("GetJobMetrics"))
        assert asked == {"post": 6, "cpu": 4}


async def test_a_job_keeps_the_source_of_its_first_row(fleet_of: FleetOf) -> None:
    """A later row may lack what decides, and no job is read from two sources."""
    cloud = Cloud()
    cloud.jobs = [job("a", "Queuing")]
    async with fleet_of(cloud, CONFIG.replace("source: job_metrics", "source: auto")) as fleet:
        for collector in ("workspaces", "jobs", "job_metrics"):
            await fleet.runner(collector).tick()
        cloud.jobs = [job("a", ResourceId="", ResourceType="ECS")]
        await asyncio.sleep(600)
        for collector in ("jobs", "job_metrics"):
            await fleet.runner(collector).tick()
        assert cloud.called("GetJobMetrics") == []
        cloud.jobs[0]["GmtCreateTime"] = at(700)  # another job with the same id
        await asyncio.sleep(600)
        for collector in ("jobs", "job_metrics"):
            await fleet.runner(collector).tick()
        assert cloud.called("GetJobMetrics") != []


@pytest.mark.parametrize(
    ("source", "metrics", "rate"),
    [
        ("job_metrics", "{pod_network_receive_bytes_per_second: {unit: MiB/s}}", 2**20),
        ("auto", "{job_network_receive_bytes_per_second: {unit: KB/s}}", 1000),
        ("auto", "{job_network_receive_bytes_per_second: {name: JOB_X, unit: KB/s}}", 1e6),
        ("job_metrics", "{job_network_receive_bytes_per_second: {name: JOB_X, unit: KB/s}}", 1000),
    ],
)
async def test_the_unit_of_the_config_reaches_get_job_metrics(
    fleet_of: FleetOf, source: str, metrics: str, rate: float
) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceId="", ResourceType="ECS")]
    for name in ("CpuCoreUsage", "NetworkInputRate"):
        cloud.metrics["a", name] = [{"PodId": f"a-{n}", "Metrics": [{"Time": START * MS, "Value": 3}]} for n in (0, 1)]
    async with fleet_of(
        cloud, CONFIG.replace("{source: job_metrics}", f"{{source: {source}, metrics: {metrics}}}")
    ) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('pod_network_receive_bytes_per_second{job_id="a",pod_id="a-0"}') == 3 * rate
        assert await fleet.value('job_network_receive_bytes_per_second{job_id="a"}') == 6 * rate
        assert await fleet.value('pod_cpu_utilization_ratio{job_id="a",pod_id="a-1"}') == 0.03


async def test_a_usage_part_with_one_failed_type_is_not_replaced(fleet_of: FleetOf) -> None:
    cloud = rich_cloud()
    memory = 'job_memory_utilization_ratio{job_id="run1"}'
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        before = await fleet.lines("pod_cpu", "pod_memory")
        cloud.metrics[("run1", "CpuCoreUsage")][0]["Metrics"][0]["Value"] = 99.0
        cloud.answer = lambda name, query: (
            httpx.Response(500, json={"Code": "InternalError"}) if query.get("MetricType") == "MemoryUsage" else None
        )
        await fleet.runner("job_metrics").tick()
        assert await fleet.lines("pod_cpu", "pod_memory") == before
        assert await fleet.value(memory) is not None
        assert fleet.own("collector_parts_failed", collector="job_metrics") == 1


async def test_old_readings_go_even_while_nothing_newer_comes(fleet_of: FleetOf) -> None:
    cloud = rich_cloud()
    async with fleet_of(cloud) as fleet:
        fleet.schedule.start()
        await asyncio.sleep(20)
        assert len(await fleet.lines("pod_cpu")) == 2
        await asyncio.sleep(900 - 45 - 20 - 1)  # the older pod's reading is 45 s old at the start
        assert len(await fleet.lines("pod_cpu")) == 2
        await asyncio.sleep(3.5)  # what expires is looked for every second
        assert await fleet.lines("pod_cpu") == []


async def test_a_pod_that_fell_silent_counts_no_more_for_its_job(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", GmtCreateTime=at(-3600))]
    points = {"a-worker-0": (30, 80.0), "a-worker-1": (800, 0.0)}
    for metric in ("CpuCoreUsage", "NetworkInputRate"):
        cloud.metrics[("a", metric)] = [
            {"PodId": pod, "Metrics": [{"Time": int((START - age) * MS), "Value": value}]}
            for pod, (age, value) in points.items()
        ]
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.8
        assert await fleet.value('job_network_receive_bytes_per_second{job_id="a"}') == 80e6
        assert await fleet.value('pod_cpu_utilization_ratio{job_id="a",pod_id="a-worker-1"}') == 0


@pytest.mark.parametrize("unreadable", [{"PodId": None}, 7, {"PodId": "a-worker-0"}])
async def test_an_unreadable_pod_leaves_a_mean_and_no_sum(fleet_of: FleetOf, unreadable: object) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    for metric in ("CpuCoreUsage", "NetworkInputRate"):
        points = [{"Time": int((START - 30) * MS), "Value": 80.0}]
        cloud.metrics[("a", metric)] = [{"PodId": "a-worker-0", "Metrics": points}, unreadable]
    cloud.metrics[("a", "MemoryUsage")] = [{"PodId": "a-worker-1", "Metrics": points}]  # which the others lack
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.8
        assert await fleet.value('job_network_receive_bytes_per_second{job_id="a"}') is None


@pytest.mark.long
async def test_a_long_first_cycle_keeps_what_it_has_read(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{n:03}", RequestGPU="8") for n in range(400)]
    for row in cloud.jobs:
        for metric in ("CpuCoreUsage", "GpuCoreUsage"):
            cloud.metrics[(row["JobId"], metric)] = [
                {"PodId": "w", "Metrics": [{"Time": int((START + 3600) * MS), "Value": 10}]}
            ]
    config = CONFIG.replace("requests_per_second: 1000", "requests_per_second: 5").replace(
        "{usage: {", "{pods: {enabled: false}, usage: {"
    )

    def dated_now(name: str, query: dict[str, str]) -> None:
        for (job_id, _), pods in cloud.metrics.items():
            if name == "GetJobMetrics" and job_id in query["path"]:
                pods[0]["Metrics"][0]["Time"] = int(time.time() * MS)

    cloud.answer = dated_now
    async with fleet_of(cloud, config) as fleet:
        fleet.schedule.start()
        shown = 0
        for _ in range(14):  # 400 jobs × 8 calls at less than 5 a second: some 11 minutes
            await asyncio.sleep(60)
            now = len(await fleet.lines("job_usage_info"))
            assert now >= shown, "a cycle may not lose what it has not come back to"
            shown = now
        assert shown == 400
        interval = fleet.own("collector_interval_seconds", collector="job_metrics")
        assert interval is not None
        assert interval > 600
