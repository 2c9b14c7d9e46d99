"""Usage by AOM and by task metrics: who is asked for which job, what it costs, and that no series is there twice."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, PROJECT, Cloud, job
from tests.providers.huawei_modelarts.usage.usage_rig import (
    ASCEND,
    CPU,
    INTERVAL,
    MEMORY,
    NPU,
    USED,
    FleetOf,
    asked,
    new_job,
    percent,
    series,
    source,
)


def queries(cloud: Cloud) -> list[str]:
    return [about["query"] for about in cloud.called("/aom/api/v1/query")]


async def test_calls_do_not_grow_with_jobs(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [job(f"job-{number}") for number in range(60)]
        cloud.aom = {
            CPU: [series(row["metadata"]["id"], 50) for row in cloud.jobs],
            USED: [series(row["metadata"]["id"], 3) for row in cloud.jobs],
            "ma_node_cpu_util": [],
        }
        assert await fleet.exporter.poll_once()
        assert len(cloud.called("/aom/api/v1/label/__name__/values")) == 1
        assert len(queries(cloud)) == 2  # of all metrics that are known, those that exist
        assert cloud.called("/metrics/worker") == []
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == 60
        assert await fleet.value('pod_cpu_utilization_ratio{job_id="job-7",pod_id="worker-0"}') == 0.5
        assert await fleet.value('job_cpu_usage_cores{job_id="job-59"}') == 3
        assert await fleet.value('job_usage_timestamp_seconds{job_id="job-7"}') is None  # samples have no age
        assert await source(fleet, "job-7") == "aom"
        assert {request.method for request in cloud.requests if "/aom/api/v1/query" in request.url.path} == {"POST"}
        assert {request.content for request in cloud.requests if "/aom/api/v1/query" in request.url.path} == {b""}
        assert fleet.exporter.telemetry.registry.get_sample_value(
            "trainfleet_exporter_api_requests_total",
            {"provider": "p", "api": "aom", "operation": "ListInstantQueryAomPromPost", "outcome": "ok"},
        )


async def test_names_of_metrics_are_read_hourly(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [job("a")]
        cloud.aom = {CPU: [series("a", 50)]}
        fleet.schedule.start()
        await asyncio.sleep(3500)
        assert len(cloud.called("/__name__/values")) == 1
        cloud.aom[MEMORY] = [series("a", 20)]
        await asyncio.sleep(300)
        assert len(cloud.called("/__name__/values")) == 2
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.2


async def test_a_sweep_takes_jobs_that_run_and_are_listed(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [job("a"), job("stopping", "Terminating")]
        cloud.aom = {CPU: [series("a", 50), series("stopping", 10), series("deleted", 99)]}
        await fleet.exporter.poll_once()
        assert [line.rpartition(" ")[2] for line in await fleet.lines("job_cpu_utilization")] == ["0.5"]
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 1
        # AOM looks back: it reports a job for a while after its end, which is normal.
        cloud.jobs = [job("a", "Completed"), job("stopping", "Terminated"), job("another")]
        await fleet.runner("jobs").tick()
        await fleet.runner("usage").tick()
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 2
        assert await fleet.lines("job_cpu_utilization", "job_usage") == []
        await asyncio.sleep(3700)
        await fleet.runner("jobs").tick()
        await fleet.runner("usage").tick()
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 5  # it should not by now


async def test_one_metric_that_fails_takes_no_other_along(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {CPU: [series("a", 50)], MEMORY: [series("a", 50)]}
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL - 10)
        cloud.aom = {CPU: [series("a", 60)], MEMORY: [series("a", 60)]}
        bad = httpx.Response(200, json={"status": "error", "errorType": "execution", "error": "too many samples"})
        cloud.answer = lambda path, request: bad if MEMORY in request.url.params.get("query", "") else None
        await asyncio.sleep(INTERVAL)
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.6
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.5  # its last good answer
        assert any("HTTP 200 execution too many samples" in line for line in fleet.log)
        assert fleet.own("collector_parts_failed", collector="usage") == 1
        await asyncio.sleep(4 * INTERVAL)
        assert MEMORY in queries(cloud)[-2]  # what is unread is asked for first
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') is None
        assert await source(fleet, "a") == "aom"


async def test_queries_of_the_config_and_another_instance(fleet_of: FleetOf) -> None:
    promql = 'sum by (service_id, pod_name) (my_rx{kind="eth"})'
    config = CONFIG + (
        "    collectors:\n      usage:\n"
        "        source: aom\n"
        "        aom_instance: my instance\n"
        f"        metrics: {{pod_network_receive_bytes_per_second: {{promql: '{promql}', unit: KB/s}}}}\n"
    )
    async with fleet_of(config) as (cloud, fleet):
        cloud.jobs = [job("a")]
        cloud.promql[promql] = [{"metric": series("a", 0)[0], "value": [0, "7"]}]
        assert await fleet.exporter.poll_once()
        assert await fleet.value('job_network_receive_bytes_per_second{job_id="a"}') == 7000
        paths = {request.url.raw_path.partition(b"?")[0].decode() for request in cloud.requests}
        assert f"/v1/{PROJECT}/my%20instance/aom/api/v1/query" in paths


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (httpx.Response(400, json={"status": "error", "errorType": "bad_data", "error": "parse error"}), "client"),
        (httpx.Response(422, json={"status": "error", "errorType": "execution", "error": "no"}), "client"),
        (httpx.Response(503, json={"status": "error", "errorType": "timeout", "error": "no"}), "server"),
        (httpx.Response(200, json={"status": "error", "errorType": "timeout", "error": "no"}), "server"),
        (httpx.Response(200, json={"data": {"resultType": "vector", "result": []}}), "bad_answer"),
        (httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": []}}), "bad_answer"),
        (httpx.Response(200, json={"status": "success"}), "bad_answer"),
        (httpx.Response(200, json=[]), "bad_answer"),
        (httpx.Response(429, json={"error_code": "APIGW.0308", "error_msg": "slow down"}), "throttled"),
    ],
)
async def test_an_answer_that_is_no_vector_is_an_error_of_its_kind(
    fleet_of: FleetOf, answer: httpx.Response, reason: str
) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [job("a")]
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.answer = lambda path, request: answer if path.endswith("/query") else None
        assert not await fleet.exporter.poll_once()
        assert fleet.own("collector_errors_total", collector="usage", reason=reason) == 1
        assert await fleet.lines("job_cpu") == []


async def test_a_region_without_metrics_of_jobs_is_no_error(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {"ma_node_cpu_util": []}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        assert await fleet.exporter.poll_once()
        assert await source(fleet, "a") == "task_metrics"
        assert fleet.runner("usage").errors == []
        reported = "usage comes from task metrics: AOM has no metric of training jobs"
        assert len([line for line in fleet.log if reported in line]) == 1


FILTERED = CONFIG + "    jobs: {include: {name: [name-mine]}}\n"


@pytest.mark.parametrize("config", [FILTERED, FILTERED + "    collectors: {usage: {source: aom}}\n"])
async def test_nothing_is_asked_while_no_job_runs_that_is_shown(fleet_of: FleetOf, config: str) -> None:
    async with fleet_of(config) as (cloud, fleet):
        cloud.jobs = [job("another"), job("mine", "Pending")]
        cloud.aom = {CPU: [series("another", 50), series("mine", 40)]}
        assert await fleet.exporter.poll_once()
        assert cloud.called("/aom/") == []
        assert fleet.own("collector_success", collector="usage") == 1
        cloud.jobs[1] = job("mine")
        await fleet.runner("jobs").tick()
        await fleet.runner("usage").tick()
        assert len(queries(cloud)) == 1
        assert await fleet.value('job_cpu_utilization_ratio{job_id="mine"}') == 0.4
        cloud.jobs[1] = job("mine", "Completed")
        await fleet.runner("jobs").tick()
        await fleet.runner("usage").tick()
        assert len(queries(cloud)) == 1
        assert await fleet.lines("job_cpu_utilization", "job_usage_info") == []  # what it had goes with it
        assert fleet.own("collector_parts", collector="usage") == 0
        assert cloud.called("/metrics/worker") == []


def _denying(*globs: str) -> str:
    return f"global: {{metrics: {{deny: {json.dumps(globs)}}}}}\n{CONFIG}"


async def test_nothing_is_asked_where_no_usage_is_exposed(fleet_of: FleetOf) -> None:
    async with fleet_of(_denying("trainfleet_job_*", "trainfleet_pod_*", "trainfleet_device_*")) as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600, resource=ASCEND)]
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        for _ in range(3):
            assert await fleet.exporter.poll_once()
        assert cloud.called("/aom/") == []
        assert cloud.called("/metrics/worker") == []
        assert await fleet.lines("job_usage", "job_cpu") == []


async def test_what_is_not_exposed_is_not_asked_for_and_moves_no_job(fleet_of: FleetOf) -> None:
    async with fleet_of(
        _denying("trainfleet_*_accelerator_*", "trainfleet_*_memory_*", "trainfleet_pod_*", "trainfleet_dev*")
    ) as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600, resource=ASCEND)]
        cloud.aom = {CPU: [series("a", 50)], NPU: [series("a", 50, npu_id="0")], MEMORY: [series("a", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        for _ in range(3):
            assert await fleet.exporter.poll_once()
        assert len(queries(cloud)) == 3
        assert all(CPU in query for query in queries(cloud))
        # That nothing is known of its accelerators is as it was wished, and no reason to ask elsewhere.
        assert (await source(fleet, "a"), asked(cloud, "a")) == ("aom", 0)
        assert [line.partition("{")[0] for line in await fleet.lines("job_cpu_u", "pod_cpu_u")] == [
            "trainfleet_job_cpu_utilization_ratio"
        ]


async def test_readings_of_a_job_that_ended_go_while_aom_fails(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600), new_job("b", 3600)]
        cloud.aom = {CPU: [series("a", 50), series("b", 50)]}
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL - 10)
        cloud.answer = lambda path, request: httpx.Response(503) if path.endswith("/query") else None
        cloud.jobs = [new_job("b", 3600)]
        await asyncio.sleep(INTERVAL + 20)
        assert (await source(fleet, "a"), await source(fleet, "b")) == (None, "aom")
        (line,) = await fleet.lines("job_cpu_utilization_ratio")
        assert 'job_id="b"' in line
