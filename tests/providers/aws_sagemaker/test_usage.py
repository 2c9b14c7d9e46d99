"""Usage by CloudWatch: ratios by instance counts, the number of calls, and what fails alone."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.providers.aws_sagemaker.cloud import CONFIG, Cloud, FleetOf, Row, failed, job
from tests.support.clock import START
from tests.support.fleet import Fleet


def _point(cloud: Cloud, host: str, metric: str, value: float, age: float = 60) -> None:
    cloud.points.setdefault((host, metric), []).append((START - age, value))


async def _poll(fleet: Fleet) -> None:
    await fleet.runner("jobs").tick()
    await fleet.runner("usage").tick()


async def test_percent_of_all_parts_becomes_the_ratio_of_one(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]  # two hosts of 192 vCPUs and 8 GPUs
    for host, busy in (("a/algo-1", 400.0), ("a/algo-2", 800.0)):
        _point(cloud, host, "GPUUtilization", 100.0, age=300)
        _point(cloud, host, "GPUUtilization", busy)
        _point(cloud, host, "GPUMemoryUtilization", 640.0)
        _point(cloud, host, "CPUUtilization", 4800.0)
        _point(cloud, host, "MemoryUtilization", 12.5)
    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        assert fleet.own("collector_success", collector="usage") == 1
        gpu = 'accelerator="gpu"'
        assert await fleet.value(f'pod_accelerator_utilization_ratio{{job_id="a",pod_id="algo-1",{gpu}}}') == 0.5
        assert await fleet.value(f'pod_accelerator_utilization_ratio{{job_id="a",pod_id="algo-2",{gpu}}}') == 1
        assert await fleet.value(f'job_accelerator_utilization_ratio{{job_id="a",{gpu}}}') == 0.75
        assert await fleet.value(f'job_accelerator_memory_utilization_ratio{{job_id="a",{gpu}}}') == 0.8
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.25
        assert await fleet.value('pod_memory_utilization_ratio{job_id="a",pod_id="algo-2"}') == 0.125
        assert await fleet.value('job_usage_info{job_id="a",source="cloudwatch"}') == 1
        assert await fleet.value('job_usage_timestamp_seconds{job_id="a"}') == START - 60


async def test_what_an_instance_does_not_have_is_not_asked_for(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    types = {"cpu": "ml.m5.large", "npu": "ml.trn1.32xlarge", "new": "ml.z99.odd"}
    cloud.jobs = [job(name, ResourceConfig={"InstanceType": kind, "InstanceCount": 1}) for name, kind in types.items()]
    groups = [
        {"InstanceType": kind, "InstanceCount": 1, "InstanceGroupName": kind}
        for kind in ("ml.p4d.24xlarge", "ml.c5.xlarge")
    ]
    cloud.jobs.append(job("mixed", ResourceConfig={"InstanceGroups": groups}))
    cloud.is_of_models = False  # they do not know ml.z99.odd
    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        asked = {
            (query["MetricStat"]["Metric"]["Dimensions"][0]["Value"], query["MetricStat"]["Metric"]["MetricName"])
            for call in cloud.called("GetMetricData")
            for query in call["MetricDataQueries"]
        }
        both = {"CPUUtilization", "MemoryUtilization"}
        wanted = {"cpu/algo-1": both, "npu/algo-1": both, "new/algo-1": {"MemoryUtilization"}}
        wanted |= {"mixed/algo-1": {"MemoryUtilization"}, "mixed/algo-2": {"MemoryUtilization"}}
        assert asked == {(host, metric) for host, metrics in wanted.items() for metric in metrics}
        assert await fleet.lines('job_requested_accelerators{provider="p",job_id="new"') == []
        (npu,) = await fleet.lines('job_requested_accelerators{provider="p",job_id="npu"')
        assert npu.endswith('accelerator="npu",accelerator_model="Trainium"} 16')
        (gpu,) = await fleet.lines('job_requested_accelerators{provider="p",job_id="mixed"')
        assert gpu.endswith('accelerator="gpu",accelerator_model="A100"} 8')
        assert await fleet.value('job_requested_cpu_cores{job_id="mixed"}') == 96 + 4


@pytest.mark.parametrize(("jobs", "calls"), [(0, 0), (10, 1), (63, 2), (1000, 16)])
async def test_calls_are_the_metrics_divided_by_500(fleet_of: FleetOf, jobs: int, calls: int) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"j{number}") for number in range(jobs)]  # of two hosts, with four metrics each
    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        made = cloud.called("GetMetricData")
        assert len(made) == calls
        assert sum(len(call["MetricDataQueries"]) for call in made) == jobs * 8


async def test_denied_families_cost_nothing(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    deny = "global: {metrics: {deny: ['trainfleet_*_cpu_*', 'trainfleet_*_memory_utilization_ratio']}}\n"
    async with fleet_of(cloud, deny + CONFIG) as fleet:
        await _poll(fleet)
        (call,) = cloud.called("GetMetricData")
        assert {query["MetricStat"]["Metric"]["MetricName"] for query in call["MetricDataQueries"]} == {
            "GPUUtilization"
        }


async def test_a_metric_fails_alone_and_keeps_its_last_good_values(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [
        job(f"j{number}", ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 10})
        for number in range(50)
    ]
    for number in range(50):
        for host in range(1, 11):
            for metric in ("CPUUtilization", "MemoryUtilization"):
                _point(cloud, f"j{number}/algo-{host}", metric, 50.0)

    def refuse(operation: str, asked: Row) -> httpx.Response | None:
        names = [query["MetricStat"]["Metric"]["MetricName"] for query in asked.get("MetricDataQueries", [])]
        return failed("InternalServiceFault", status=500) if "CPUUtilization" in names else None

    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        assert await fleet.value('job_memory_utilization_ratio{job_id="j0"}') == 0.5
        cloud.answer = refuse
        cloud.points = {key: [(time + 60, 75.0)] for key, ((time, _),) in cloud.points.items()}
        await asyncio.sleep(60)
        await _poll(fleet)
        assert fleet.own("collector_success", collector="usage") == 0
        assert fleet.own("collector_parts_failed", collector="usage") == 1
        assert await fleet.value('job_memory_utilization_ratio{job_id="j0"}') == 0.75
        assert await fleet.value('job_cpu_utilization_ratio{job_id="j0"}') == pytest.approx(50 / 192 / 100)


@pytest.mark.parametrize("status", ["InternalError", "Forbidden", "PartialData", "missing"])
async def test_a_result_without_its_points_fails_its_metric(fleet_of: FleetOf, status: str) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    for host in ("a/algo-1", "a/algo-2"):
        for metric in ("CPUUtilization", "MemoryUtilization"):
            _point(cloud, host, metric, 50.0)

    def spoil(operation: str, asked: Row) -> httpx.Response | None:
        if operation != "GetMetricData":
            return None
        found = cloud._get_metric_data(asked)
        for query, row in zip(asked["MetricDataQueries"], found["MetricDataResults"], strict=True):
            metric = query["MetricStat"]["Metric"]
            if metric["MetricName"] == "MemoryUtilization" and metric["Dimensions"][0]["Value"] == "a/algo-2":
                row |= {"Timestamps": [], "Values": [], "StatusCode": status}
        found["MetricDataResults"] = [row for row in found["MetricDataResults"] if row["StatusCode"] != "missing"]
        return httpx.Response(200, json=found)

    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        cloud.answer = spoil
        cloud.points = {key: [(time + 60, 90.0)] for key, ((time, _),) in cloud.points.items()}
        await asyncio.sleep(60)
        await _poll(fleet)
        assert fleet.own("collector_success", collector="usage") == 0
        assert fleet.own("collector_parts_failed", collector="usage") == 1
        word = "auth" if status == "Forbidden" else "bad_answer"
        assert fleet.own("collector_errors_total", collector="usage", reason=word) == 1
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.5
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == pytest.approx(90 / 192 / 100)


@pytest.mark.parametrize(("first", "end"), [("PartialData", "Complete"), ("InternalError",) * 2, ("PartialData",) * 2])
async def test_a_result_that_has_points_on_a_later_page_is_read(fleet_of: FleetOf, first: str, end: str) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1})]

    def paged(operation: str, asked: Row) -> httpx.Response | None:
        if operation != "GetMetricData":
            return None
        last = "NextToken" in asked
        points = {"Timestamps": [START - 60] if last else [], "Values": [50.0] if last else []}
        status = end if last else first
        rows = [{"Id": query["Id"], "StatusCode": status, **points} for query in asked["MetricDataQueries"]]
        return httpx.Response(200, json={"MetricDataResults": rows} | ({} if last else {"NextToken": "2"}))

    cloud.answer = paged
    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        assert fleet.own("collector_success", collector="usage") == 1
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.5


@pytest.mark.parametrize("bad", [None, "odd", {"Id": 7, "StatusCode": "Complete"}])
async def test_an_unreadable_result_is_counted_and_lost_alone(fleet_of: FleetOf, bad: object) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    for host in ("a/algo-1", "a/algo-2", "b/algo-1", "b/algo-2"):
        _point(cloud, host, "MemoryUtilization", 50.0)

    def spoil(operation: str, asked: Row) -> httpx.Response | None:
        if operation != "GetMetricData":
            return None
        found = cloud._get_metric_data(asked)
        found["MetricDataResults"][0] = bad  # the memory of a/algo-1
        return httpx.Response(200, json=found)

    cloud.answer = spoil
    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        assert fleet.own("collector_success", collector="usage") == 1
        assert fleet.own("dropped_readings_total", collector="usage", reason="malformed") == 1
        assert await fleet.value('pod_memory_utilization_ratio{job_id="a",pod_id="algo-1"}') is None
        assert len(await fleet.lines("pod_memory_utilization_ratio")) == 3
        assert await fleet.value('job_memory_utilization_ratio{job_id="b"}') == 0.5


async def test_jobs_without_gpus_lack_no_data_of_gpus(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1})]
    _point(cloud, "a/algo-1", "MemoryUtilization", 50.0)
    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        assert fleet.own("dropped_readings_total", collector="usage", reason="no_data") == 1  # of CPUs


async def test_readings_that_cannot_be_true_are_dropped(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    _point(cloud, "a/algo-1", "GPUUtilization", 1000.0)  # of 800
    _point(cloud, "a/algo-2", "GPUUtilization", 400.0)
    _point(cloud, "a/algo-1", "MemoryUtilization", 20.0, age=1000)  # beyond max_data_age

    def precede(operation: str, asked: Row) -> httpx.Response | None:
        found = cloud._get_metric_data(asked) if operation == "GetMetricData" else {"MetricDataResults": []}
        for each in found["MetricDataResults"]:  # by newer points, one of them in the future
            times, values = [START + 5000, START - 20, *each["Timestamps"]], [100.0, "NaN", *each["Values"]]
            each |= {"Timestamps": times, "Values": values}
        return httpx.Response(200, json=found) if found["MetricDataResults"] else None

    cloud.answer = precede
    async with fleet_of(cloud) as fleet:
        await _poll(fleet)
        (shown,) = await fleet.lines("pod_accelerator_utilization_ratio")
        assert shown.endswith('pod_id="algo-2",accelerator="gpu"} 0.5')
        assert fleet.own("dropped_readings_total", collector="usage", reason="out_of_range") == 1
        assert fleet.own("dropped_readings_total", collector="usage", reason="malformed") == 8  # one a query
        assert await fleet.lines("pod_memory_utilization_ratio") == []
