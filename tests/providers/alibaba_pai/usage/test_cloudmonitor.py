"""Usage by CloudMonitor on scripted answers: what is shown, what it costs, and when it goes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import Cloud, FleetOf, at, job, metric, point
from tests.providers.alibaba_pai.worlds import CPU, DAY, MONITORED, asked, monitored_world, refresh, usage
from tests.support.clock import START
from tests.support.golden import check_golden_samples

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def config() -> str:
    """The config of the fleet."""
    return MONITORED


async def test_golden_page_of_all_cloudmonitor_metrics(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        suffixes = ("utilization", "usage", "bytes_per_second", "capacity", "power")
        shown = [line for line in await fleet.lines("") if any(suffix in line.split("{")[0] for suffix in suffixes)]
        check_golden_samples(GOLDEN / "cloudmonitor.txt", shown)
        assert not [name for name in ("CARD_GPU_SM_UTIL", "QUOTA_CPU_REQUEST") if asked(cloud)[name]]


async def test_without_a_catalogue_no_units_are_made_up(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    denied = httpx.Response(403, json={"Code": "NoPermission", "Message": "cms:DescribeMetricMetaList"})
    cloud.answer = lambda name, _: denied if name == "DescribeMetricMetaList" else None
    async with fleet_of(cloud) as fleet:
        assert not await fleet.exporter.poll_once()
        assert await fleet.lines("job_cpu", "job_usage", "pool_cpu") == []
        assert asked(cloud) == {}
        assert fleet.own("collector_success", collector="usage") == 0
        assert fleet.own("collector_parts_failed", collector="usage") == 2
        assert fleet.own("collector_errors_total", collector="usage", reason="auth") == 2
        cloud.answer = lambda *_: None
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == 2
        assert fleet.own("collector_parts_failed", collector="usage") == 0


async def test_old_catalogue_is_used_until_a_newer_one_is_read(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    refresh(cloud)
    fresh = cloud.answer

    def refuse(operation: str, query: dict[str, str]) -> httpx.Response | None:
        fresh(operation, query)
        return httpx.Response(403, json={"Code": "NoPermission"}) if operation == "DescribeMetricMetaList" else None

    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        cloud.answer = refuse
        await asyncio.sleep(DAY)
        for success in (0, 0, 1):
            cloud.answer = fresh if success else refuse
            await fleet.runner("usage").tick()
            assert len(await fleet.lines("job_cpu_utilization_ratio")) == 2
            assert fleet.own("collector_success", collector="usage") == success
            await asyncio.sleep(120)


async def test_points_are_dropped_when_they_are_too_old(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(job_id, GmtCreateTime=at(-3600)) for job_id in ("old", "new", "ahead")]
    cloud.catalogue = [CPU]
    ages = {"old": 901, "new": 800, "ahead": -901}
    cloud.points["JOB_CPU_UTIL"] = [point(job_id, 50, age=age) for job_id, age in ages.items()]
    async with fleet_of(cloud) as fleet:
        fleet.schedule.start()
        await asyncio.sleep(10)
        (line,) = await fleet.lines("job_cpu_utilization_ratio")
        assert 'job_id="new"' in line
        assert fleet.own("dropped_readings_total", collector="usage", reason="stale") == 1
        assert fleet.own("dropped_readings_total", collector="usage", reason="malformed") == 1
        await asyncio.sleep(88)
        assert len(await fleet.lines("job_cpu_utilization_ratio", "job_usage_info")) == 2
        await asyncio.sleep(4)  # 901 s old, between two polls
        assert await fleet.lines("job_cpu_utilization_ratio", "job_usage") == []


async def test_slow_polls_let_readings_grow_older(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", GmtCreateTime=at(-3600))]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point("a", 50, age=1700)]
    async with fleet_of(cloud, usage(interval="15m")) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5


async def test_unlisted_jobs_and_jobs_of_other_sources_are_not_shown(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("quota"), job("post", ResourceId="", ResourceType="ECS"), job("wait", "Queuing")]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point(name, 50) for name in ("quota", "post", "wait", "ended", "of another region")]
    async with fleet_of(cloud, usage(source="auto")) as fleet:
        await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == 1
        assert await fleet.value('job_cpu_utilization_ratio{job_id="quota"}') == 0.5
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 2


async def test_a_job_that_is_left_out_or_just_ended_is_listed(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b"), job("c", "Succeeded", GmtFinishTime=at(-60))]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point("a", 50), point("b", 50), point("c", 50)]
    async with fleet_of(
        cloud, MONITORED.replace("    limits", "    jobs: {exclude: {name: [name-b]}}\n    limits")
    ) as fleet:
        for collector in ("workspaces", "pools", "jobs", "usage"):
            await fleet.runner(collector).tick()
        assert len(await fleet.lines("job_cpu_utilization_ratio", "job_usage_info")) == 2
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 0


async def test_strange_points_lose_only_themselves(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(name) for name in "abcdef"]
    cloud.catalogue = [metric("JOB_MEMORY_UTIL", "%")]
    cloud.points["JOB_MEMORY_UTIL"] = [
        point("a", 50),
        point("a", 60, age=30),  # newer, and the same thing
        point("b", 640),
        point("c", "55.5"),
        point("d", None),
        point("e", True),
        {**point("f", 1), "timestamp": "soon"},
        {**point("f", 1), "timestamp": -(10**400)},
        "text",
        None,
    ]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_memory_utilization_ratio")) == 2
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.6
        assert await fleet.value('job_memory_utilization_ratio{job_id="c"}') == 0.555
        reasons = {reason: fleet.own("dropped_readings_total", collector="usage", reason=reason) for reason in REASONS}
        assert reasons == {"duplicate": 1, "out_of_range": 1, "malformed": 6, "stale": 0, "unlisted": 0, "no_data": 0}


REASONS = ("duplicate", "out_of_range", "malformed", "stale", "unlisted", "no_data")


async def test_pod_metric_feeds_the_job_without_a_job_metric(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job(name) for name in "abcef"]
    cloud.catalogue = [metric("POD_CPU_UTIL", "%"), metric("POD_DISK_READ_RATE", "KB/s")]
    cloud.points["POD_CPU_UTIL"] = [
        point("a", 40, pod="a-0"),
        point("b", 40, pod="b-0"),
        point("a", 80, pod="a-1"),
        point("b", 0, pod="b-1", age=400),  # silent since: likely gone
        point("e", 40, pod="e-0", age=120),
        point("f", 40, pod="f-0"),
        point("f", 40, pod="f-1", age=120),
    ]
    cloud.points["POD_DISK_READ_RATE"] = [
        point("a", 1, pod="a-0"),
        point("a", 2, pod="a-1"),
        point("c", 1, pod="c-0"),
        point("c", -1, pod="c-1"),
        point("b", 1),  # of which pod?
        point("e", 1, pod="e-0"),
        point("e", 1),
        {**point("of another region", 1, pod="d-0"), "timestamp": None},
    ]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert asked(cloud) == {"POD_CPU_UTIL": 1, "POD_DISK_READ_RATE": 1}
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.6
        assert await fleet.value('job_cpu_utilization_ratio{job_id="b"}') == 0.4
        assert await fleet.value('pod_cpu_utilization_ratio{job_id="b",pod_id="b-1"}') == 0
        assert await fleet.value('job_disk_read_bytes_per_second{job_id="a"}') == 3000
        assert await fleet.value('job_disk_read_bytes_per_second{job_id="c"}') is None  # one pod of it is not known
        assert await fleet.value('pod_disk_read_bytes_per_second{job_id="c",pod_id="c-0"}') == 1000
        assert await fleet.value('job_disk_read_bytes_per_second{job_id="e"}') is None  # it has a pod without a name
        newest = [await fleet.value(f'job_usage_timestamp_seconds{{job_id="{name}"}}') for name in "aef"]
        assert newest[0] == newest[1] == newest[2] is not None  # of all metrics and pods
        assert fleet.own("dropped_readings_total", collector="usage", reason="malformed") == 3


@pytest.mark.parametrize("key", ["gpuId", "gpu", "card", "deviceIndex", "npu_id"])
async def test_cards_are_identified_by_the_catalogues_names(fleet_of: FleetOf, key: str) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    dimensions = f"userId,regionId,workspaceId,jobId,pod,nodeName,nodeGpuType,{key}"
    cloud.catalogue = [metric("CARD_GPU_DUTY_CYCLE", "%", Dimensions=dimensions)]
    further = {"pod": "a-0", "nodeName": "n", "nodeGpuType": "GU8T"}
    cloud.points["CARD_GPU_DUTY_CYCLE"] = [
        {**point("a", None), **further, key: card, "Value": 50} for card in ("0", 1, "")
    ]
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        for card in (0, 1):
            labels = f'job_id="a",pod_id="a-0",device="{card}",accelerator="gpu"'
            assert await fleet.value(f"device_utilization_ratio{{{labels}}}") == 0.5
        assert len(await fleet.lines("device_")) == 2
        assert fleet.own("dropped_readings_total", collector="usage", reason="malformed") == 1


async def test_unknown_unit_is_not_guessed_and_logged_once(fleet_of: FleetOf) -> None:
    cloud = monitored_world()
    for row in cloud.catalogue:
        if row["MetricName"] == "JOB_NETWORK_RECEVICE_RATE":
            row["Unit"] = "Count"
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        await asyncio.sleep(DAY)  # the catalogue is read again
        await fleet.runner("usage").tick()
        assert await fleet.lines("job_network_receive") == []
        assert asked(cloud)["JOB_NETWORK_RECEVICE_RATE"] == 0
        reported = [line for line in fleet.log if "JOB_NETWORK_RECEVICE_RATE" in line]
        (line,) = reported
        assert "reading=job_network_receive_bytes_per_second source=CloudMonitor" in line
        assert line.endswith("its unit 'Count' is not known for it")


async def test_the_config_names_metrics_units_and_statistics(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.catalogue = [CPU, metric("JOB_NETWORK_RECEVICE_RATE", "Count"), metric("CARD_GPU_POWER_USAGE", "W")]
    cloud.points["JOB_CPU_UTIL"] = [point("a", 50, Maximum=80)]
    cloud.points["JOB_NETWORK_RECEVICE_RATE"] = [point("a", 3)]
    cloud.points["CARD_GPU_POWER_USAGE"] = [point("a", None, pod="a-0", gpuId=str(n), Value=300) for n in range(8)]
    metrics = (
        "{job_cpu_utilization_ratio: {statistic: Maximum}, job_network_receive_bytes_per_second: {unit: KiB/s}, "
        "job_accelerator_power_watts: {name: CARD_GPU_POWER_USAGE}, pod_cpu_usage_cores: {name: POD_CORES}, "
        "pod_accelerator_power_watts: {name: JOB_CPU_UTIL}}"
    )
    async with fleet_of(cloud, usage(metrics=metrics)) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.8
        assert await fleet.value('job_network_receive_bytes_per_second{job_id="a"}') == 3072
        assert await fleet.value('job_accelerator_power_watts{job_id="a"}') == 2400
        assert len(await fleet.lines("device_power_watts")) == 8
        assert asked(cloud) == dict.fromkeys(cloud.points, 1)
        absent, too_coarse = [line for line in fleet.log if line.startswith("cannot use a metric of the source ")]
        assert absent.endswith(
            "reading=pod_cpu_usage_cores source=CloudMonitor source_metric=POD_CORES "
            "cause=the catalogue does not have it"
        )
        assert "reading=pod_accelerator_power_watts source=CloudMonitor source_metric=JOB_CPU_UTIL " in too_coarse
        assert too_coarse.endswith("cause=its dimensions do not match the family")


async def test_a_catalogue_that_changes_never_shows_a_family_twice(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.catalogue = [metric("POD_CPU_UTIL", "%")]
    cloud.points = {"POD_CPU_UTIL": [point("a", 40, pod="a-0")], "JOB_CPU_UTIL": [point("a", 45)]}
    refresh(cloud)
    fresh = cloud.answer

    def pods_fail(operation: str, query: dict[str, str]) -> httpx.Response | None:
        fresh(operation, query)
        return httpx.Response(500, json={}) if query.get("MetricName") == "POD_CPU_UTIL" else None

    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.4
        cloud.catalogue.append(CPU)
        await asyncio.sleep(DAY - 60)
        await fleet.runner("usage").tick()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.4  # by the catalogue of yesterday
        await asyncio.sleep(120)
        cloud.answer = pods_fail
        await fleet.runner("usage").tick()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.45


async def test_pools_come_by_id_or_by_a_name_that_only_one_has(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    names = {"q1": "one", "q2": "two", "q3": "twin", "q4": "twin"}
    cloud.quotas = [{"QuotaId": quota_id, "QuotaName": name} for quota_id, name in names.items()]
    cloud.catalogue = [metric("QUOTA_CPU_UTIL", "%"), metric("NODE_CPU_UTIL", "%", Dimensions="quotaId,nodeId")]
    cloud.points["QUOTA_CPU_UTIL"] = [
        {"timestamp": int((START - 60) * 1000), "Average": 50, **dimensions}
        for dimensions in ({"quotaId": "q1"}, {"quotaName": "two"}, {"quotaName": "twin"}, {"quotaId": "elsewhere"})
    ]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("pool_cpu_utilization_ratio")) == 2
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="q1"}') == 0.5
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="q2"}') == 0.5
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 2
        assert await fleet.lines("job_usage_info") == []


async def test_quotas_of_other_regions_have_the_same_names(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.quotas = [{"QuotaId": "q1", "QuotaName": "one"}]
    cloud.catalogue = [metric("QUOTA_CPU_UTIL", "%", Dimensions="regionId,quotaName")]
    cloud.points["QUOTA_CPU_UTIL"] = [
        {"timestamp": int((START - age) * 1000), "Average": 50 + age, "quotaName": "one", "regionId": region}
        for region, age in (("cn-hangzhou", 20), ("cn-beijing", 10))
    ]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="q1"}') == 0.7
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 1


@pytest.mark.parametrize(
    ("listed", "named"), [("userId,quotaId", {"quotaId": "q1"}), ("quotaName,regionId", {"quotaName": "one"})]
)
async def test_quotas_are_named_as_the_catalogue_does(fleet_of: FleetOf, listed: str, named: dict[str, str]) -> None:
    cloud = Cloud()
    cloud.quotas = [{"QuotaId": "q1", "QuotaName": "one"}]
    cloud.catalogue = [metric("QUOTA_CPU_UTIL", "%", Dimensions=listed)]
    cloud.points["QUOTA_CPU_UTIL"] = [{"timestamp": int((START - 60) * 1000), "Average": 50, **named}]

    def refuse(operation: str, query: dict[str, str]) -> httpx.Response | None:
        is_refused = operation == "DescribeMetricLast" and "Dimensions" not in query
        return httpx.Response(400, json={"Code": "MissingDimensions"}) if is_refused else None

    cloud.answer = refuse
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="q1"}') == 0.5
        assert [json.loads(query.get("Dimensions", "0")) for query in cloud.called("DescribeMetricLast")] == [
            0,
            [named],
        ]


async def test_jobs_without_gpus_have_no_calls_for_them(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", RequestGPU="0")]
    cloud.catalogue = [CPU, metric("JOB_GPU_ACCELERATOR_DUTTY_UTIL", "%")]
    cloud.points["JOB_CPU_UTIL"] = [point("a", 40)]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert asked(cloud) == {"JOB_CPU_UTIL": 1}
        assert fleet.own("dropped_readings_total", collector="usage", reason="no_data") == 0


@pytest.mark.parametrize("source", ["cloudmonitor", "job_metrics"])
async def test_an_id_used_again_has_no_older_usage(fleet_of: FleetOf, source: str) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", GmtCreateTime=at(-30))]
    cloud.catalogue, cloud.points["JOB_CPU_UTIL"] = [CPU], [point("a", 40)]
    values = [{"Time": int((START - 60) * 1000), "Value": 40}]
    cloud.metrics["a", "CpuCoreUsage"] = [{"PodId": "a-0", "Metrics": values}]
    async with fleet_of(cloud, usage(source=source)) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.lines("job_cpu_utilization_ratio", "pod_cpu_utilization_ratio", "job_usage_info") == []
        cloud.points["JOB_CPU_UTIL"], values[0]["Time"] = [point("a", 40, age=0)], int(START * 1000)
        await fleet.exporter.poll_once()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.4
        # Made again between two polls: what is shown of the first life goes with it, even if usage cannot be read.
        cloud.jobs = [job("a", GmtCreateTime=at(200))]
        cloud.answer = lambda operation, query: httpx.Response(500) if "Metric" in operation else None
        await asyncio.sleep(240)
        await fleet.exporter.poll_once()
        for runner in fleet.exporter.runners:
            runner.expire()
        assert await fleet.lines("job_cpu_utilization_ratio", "pod_cpu_utilization_ratio", "job_usage_info") == []


async def test_new_quota_of_an_old_name_has_no_older_usage(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.quotas = [{"QuotaId": "new", "QuotaName": "one", "GmtCreatedTime": at(-30)}]
    cloud.catalogue = [metric("QUOTA_CPU_UTIL", "%", Dimensions="quotaName")]
    point = {"timestamp": int((START - 60) * 1000), "Average": 50, "quotaName": "one"}
    cloud.points["QUOTA_CPU_UTIL"] = [point]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="new"}') is None
        point["timestamp"] = int(START * 1000)
        assert await fleet.exporter.poll_once()
        assert await fleet.value('pool_cpu_utilization_ratio{pool_id="new"}') == 0.5


async def test_each_job_has_one_source_in_a_mixed_world(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    kinds: list[dict[str, Any]] = [
        {},  # on a quota
        {"ResourceId": "", "ResourceType": "ECS"},  # pay-as-you-go general computing
        {"ResourceId": "", "ResourceType": "Lingjun"},
        {"ResourceId": "", "ResourceType": "ECS", "JobSpecs": [{"UseSpotInstance": True}]},
        {"ResourceType": "ECS"},
    ]
    cloud.jobs = [job(f"j{n}", **kind) for n, kind in enumerate(kinds * 4)]
    cloud.catalogue = [CPU, metric("POD_CPU_UTIL", "%")]
    for row in cloud.jobs:  # both services answer for every job, which no real one does
        job_id, pod = row["JobId"], f"{row['JobId']}-worker-0"
        cloud.points.setdefault("JOB_CPU_UTIL", []).append(point(job_id, 50))
        cloud.points.setdefault("POD_CPU_UTIL", []).append(point(job_id, 50, pod=pod))
        value = {"Time": int((START - 60) * 1000), "Value": 50}
        cloud.metrics[(job_id, "CpuCoreUsage")] = [{"PodId": pod, "Metrics": [value]}]
    post_paid = {f"j{n}" for n in range(1, 20, 5)}
    async with fleet_of(cloud, usage(source="auto")) as fleet:
        for _ in range(3):
            assert await fleet.exporter.poll_once()
            for prefix in ("job_usage_info", "job_cpu_utilization_ratio", "pod_cpu_utilization_ratio"):
                jobs = Counter(line.split('job_id="')[1].split('"')[0] for line in await fleet.lines(prefix))
                assert jobs == {row["JobId"]: 1 for row in cloud.jobs}, prefix
            for row in cloud.jobs:
                source = "job_metrics" if row["JobId"] in post_paid else "cloudmonitor"
                assert await fleet.value(f'job_usage_info{{job_id="{row["JobId"]}",source="{source}"}}') == 1
            for row in cloud.jobs[5:]:  # a row that differs later on moves nothing
                row["ResourceId"] = "quota1"
        assert {query["path"].split("/")[-2] for query in cloud.called("GetJobMetrics")} == post_paid


async def test_a_job_that_ends_while_its_usage_is_read_is_not_shown(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    cloud.catalogue = [CPU]
    cloud.points["JOB_CPU_UTIL"] = [point("a", 50), point("b", 50)]

    answered = asyncio.Event()
    answered.set()

    async def slow(request: httpx.Request) -> httpx.Response:
        answer = cloud(request)
        if request.headers["x-acs-action"] == "DescribeMetricLast":
            await answered.wait()
        return answer

    async with fleet_of(slow) as fleet:
        await fleet.exporter.poll_once()
        cloud.jobs[0] |= {"Status": "Succeeded", "GmtFinishTime": at(0)}
        answered.clear()
        usage = asyncio.create_task(fleet.runner("usage").tick())
        await asyncio.sleep(1)
        await fleet.runner("jobs").tick()
        answered.set()
        await usage
        (line,) = await fleet.lines("job_cpu_utilization_ratio")
        assert 'job_id="b"' in line
        (line,) = await fleet.lines("job_usage_info")
        assert 'job_id="b"' in line
