"""Which source serves the usage of a job, AOM or task metrics, and what happens when one fails."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Cloud
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
from tests.support.fleet import Fleet

ONLY_AOM = CONFIG + "    collectors: {usage: {source: aom}}\n"
ONLY_TASKS = CONFIG + "    collectors: {usage: {source: task_metrics}}\n"
CAPPED = CONFIG + "    collectors: {usage: {max_jobs: 2}}\n"
REFUSED = httpx.Response(403, json={"status": "error", "errorType": "forbidden", "error": "aom:metric:list is missing"})


async def test_a_new_job_is_waited_for_before_it_costs_calls(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("old", 3600)]
        cloud.aom = {CPU: [series("old", 50)]}
        cloud.metrics[("public", "worker-0")] = percent(now=30)
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL + 10)
        cloud.jobs += [new_job("young", -INTERVAL - 10), new_job("public", -INTERVAL - 10)]
        await asyncio.sleep(INTERVAL)
        cloud.aom[CPU].append(series("young", 70))  # its first sample comes late
        await asyncio.sleep(INTERVAL)
        assert (asked(cloud, "young"), asked(cloud, "public")) == (0, 0)
        await asyncio.sleep(INTERVAL)
        assert (await source(fleet, "young"), await source(fleet, "public")) == ("aom", "task_metrics")
        assert await fleet.value('job_cpu_utilization_ratio{job_id="public"}') == 0.3
        assert (asked(cloud, "young"), asked(cloud, "old")) == (0, 0)


async def test_the_first_poll_asks_for_what_aom_does_not_have(fleet_of: FleetOf) -> None:
    """`once` polls once: jobs that ran long before are not waited for."""
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("pool", 3600), new_job("public", 3600), new_job("young", 10)]
        cloud.aom = {CPU: [series("pool", 50)]}
        cloud.metrics[("public", "worker-0")] = percent(now=30)
        assert await fleet.exporter.poll_once()
        assert (await source(fleet, "pool"), await source(fleet, "public")) == ("aom", "task_metrics")
        assert (asked(cloud, "pool"), asked(cloud, "public"), asked(cloud, "young")) == (0, 1, 0)


async def test_a_job_moves_between_the_sources_and_back(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600), new_job("b", 3600)]
        cloud.aom = {CPU: [series("b", 50)], MEMORY: [series("b", 50)], USED: [series("b", 50)]}
        cloud.metrics = {(job_id, "worker-0"): percent(now=30) for job_id in "ab"}
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL - 1)
        assert (await source(fleet, "a"), await source(fleet, "b")) == ("task_metrics", "aom")
        for metric in (CPU, MEMORY, USED):
            cloud.aom[metric] = [series("a", 70), series("b", 50)]
        await asyncio.sleep(INTERVAL)
        assert (await source(fleet, "a"), await source(fleet, "b")) == ("aom", "aom")
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.7
        calls = asked(cloud, "a")
        await asyncio.sleep(3 * INTERVAL)
        assert asked(cloud, "a") == calls
        for metric in (CPU, MEMORY, USED):
            cloud.aom[metric] = [series("a", 70)]
        await asyncio.sleep(2 * INTERVAL)
        assert (await source(fleet, "a"), await source(fleet, "b")) == ("aom", "task_metrics")
        assert await fleet.value('job_cpu_utilization_ratio{job_id="b"}') == 0.3


async def test_late_answer_of_task_metrics_is_not_shown(fleet_of: FleetOf) -> None:
    """AOM takes a job over while its task metrics are under way."""
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {CPU: []}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        assert await fleet.exporter.poll_once()
        assert await source(fleet, "a") == "task_metrics"
        cloud.aom[CPU] = [series("a", 70)]
        slow, begun = asyncio.Event(), asyncio.Event()
        quick = Cloud.__call__

        async def answer(self: Cloud, request: httpx.Request) -> httpx.Response:
            if "/metrics/worker" in request.url.path:
                begun.set()
                await slow.wait()
            return await quick(self, request)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cloud, "__call__", answer)
            cycle = asyncio.create_task(fleet.runner("task_metrics").tick())
            await begun.wait()
            await fleet.runner("usage").tick()
            assert await source(fleet, "a") == "aom"
            slow.set()
            await cycle
        assert await source(fleet, "a") == "aom"
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.7


async def test_refused_aom_is_logged_once_and_task_metrics_serve(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 10)]
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        cloud.answer = lambda path, request: REFUSED if "/aom/" in path else None
        fleet.schedule.start()
        await asyncio.sleep(5 * INTERVAL)
        assert await source(fleet, "a") == "task_metrics"
        (reported,) = replaced(fleet)
        assert "HTTP 403 forbidden aom:metric:list is missing" in reported
        assert fleet.own("collector_success", collector="usage") == 1  # what AOM refuses, task metrics have
        # It is counted each time all the same, and shown by diagnose: a right may be missing.
        assert fleet.own("collector_errors_total", collector="usage", reason="auth") == 5
        (error,) = fleet.runner("usage").errors
        assert "aom:metric:list is missing" in str(error)
        assert len([line for line in fleet.log if line.startswith("poll ")]) == 1
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.answer = lambda path, request: None
        await asyncio.sleep(INTERVAL)
        assert await source(fleet, "a") == "aom"
        assert [line for line in fleet.log if line.startswith("poll recovered") and "collector=usage" in line]
        assert fleet.own("collector_success", collector="usage") == 1


def replaced(fleet: Fleet) -> list[str]:
    """What the log says of a change from AOM to task metrics."""
    return [line for line in fleet.log if "usage comes from task metrics" in line]


@pytest.mark.parametrize("refusal", [REFUSED, httpx.Response(404, json={"error_code": "APIGW.0101"})])
async def test_aom_that_begins_to_refuse_fails_until_it_is_replaced(fleet_of: FleetOf, refusal: httpx.Response) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job(name, 3600) for name in ("a", "b")]
        cloud.aom = {CPU: [series("a", 50), series("b", 50)], MEMORY: [series("a", 50), series("b", 50)]}
        cloud.metrics = {(name, "worker-0"): percent(now=30) for name in ("a", "b")}
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL - 10)
        succeeded = fleet.own("collector_last_success_timestamp_seconds", collector="usage")
        cloud.answer = lambda path, request: refusal if "/aom/" in path else None
        for _ in range(4):
            await asyncio.sleep(INTERVAL)
            assert await source(fleet, "a") in ("aom", None)
            assert fleet.own("collector_success", collector="usage") == 0
            assert (fleet.own("collector_parts_failed", collector="usage") or 0) >= 1
            assert fleet.own("collector_last_success_timestamp_seconds", collector="usage") == succeeded
            assert replaced(fleet) == []
        await asyncio.sleep(2 * INTERVAL)
        assert [await source(fleet, name) for name in ("a", "b")] == ["task_metrics", "task_metrics"]
        assert fleet.own("collector_success", collector="usage") == 1
        assert fleet.own("collector_parts_failed", collector="usage") == 0
        assert len(replaced(fleet)) == 1
        cloud.jobs.append(new_job("new", -7 * INTERVAL))
        cloud.answer = lambda path, request: refusal if "/aom/" in path else None
        for _ in range(3):  # a job that has just begun has no usage yet, and is no failure
            await asyncio.sleep(INTERVAL)
            assert fleet.own("collector_success", collector="usage") == 1
        cloud.answer = lambda path, request: None
        await asyncio.sleep(INTERVAL)
        assert [await source(fleet, name) for name in ("a", "b")] == ["aom", "aom"]
        assert len(replaced(fleet)) == 1
        cloud.answer = lambda path, request: refusal if "/aom/" in path else None
        await asyncio.sleep(INTERVAL)  # again no other source has the jobs
        assert fleet.own("collector_success", collector="usage") == 0
        await asyncio.sleep(6 * INTERVAL)
        assert fleet.own("collector_success", collector="usage") == 1
        assert len(replaced(fleet)) == 2


@pytest.mark.parametrize("answer", [httpx.Response(403), httpx.Response(204)], ids=["refused", "empty"])
@pytest.mark.parametrize("quiet", [0, INTERVAL - 10], ids=["always", "later"])
async def test_a_refusal_stays_a_failure_where_no_source_has_usage(
    fleet_of: FleetOf, answer: httpx.Response, quiet: float
) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {CPU: [series("a", 50)]}
        if quiet:
            fleet.schedule.start()
            await asyncio.sleep(quiet)
        cloud.answer = lambda path, request: REFUSED if "/aom/" in path else answer if "/metrics/" in path else None
        if not quiet:
            fleet.schedule.start()
        await asyncio.sleep(8 * INTERVAL)
        assert asked(cloud, "a") > 0
        assert await source(fleet, "a") is None
        assert fleet.own("collector_success", collector="usage") == 0
        assert replaced(fleet) == []


async def test_a_refusal_stays_a_failure_while_jobs_are_left_out(fleet_of: FleetOf) -> None:
    """Task metrics are asked for max_jobs jobs only: the others have no usage at all."""
    async with fleet_of(CAPPED) as (cloud, fleet):
        cloud.jobs = [new_job(name, 3600) for name in ("a", "b", "c")]
        cloud.metrics = {(name, "worker-0"): percent(now=30) for name in ("a", "b", "c")}
        cloud.answer = lambda path, request: REFUSED if "/aom/" in path else None
        fleet.schedule.start()
        await asyncio.sleep(5 * INTERVAL)
        assert fleet.own("collector_success", collector="usage") == 0
        cloud.jobs.pop()
        await asyncio.sleep(2 * INTERVAL)
        assert fleet.own("collector_success", collector="usage") == 1


async def test_a_refusal_is_a_failure_where_nothing_else_is_asked(fleet_of: FleetOf) -> None:
    async with fleet_of(ONLY_AOM) as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600)]
        cloud.answer = lambda path, request: REFUSED if "/aom/" in path else None
        assert not await fleet.exporter.poll_once()
        assert fleet.own("collector_success", collector="usage") == 0
        assert fleet.own("collector_errors_total", collector="usage", reason="auth") == 1
        assert asked(cloud, "a") == 0
        (provider,) = fleet.exporter.providers
        assert provider.endpoints["aom"] == "https://aom.cn-north-4.myhuaweicloud.com"
        cloud.answer = lambda path, request: None
        assert not await fleet.exporter.poll_once()
        assert any("AOM has no metric of training jobs" in line for line in fleet.log)


async def test_only_task_metrics_ask_nothing_of_aom(fleet_of: FleetOf) -> None:
    async with fleet_of(ONLY_TASKS) as (cloud, fleet):
        cloud.jobs = [new_job("a", 10)]
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        assert await fleet.exporter.poll_once()
        assert await source(fleet, "a") == "task_metrics"
        assert cloud.called("/aom/") == []
        (provider,) = fleet.exporter.providers
        assert provider.endpoints.keys() == {"modelarts", "iam"}


async def test_new_jobs_whose_metrics_fail_take_no_turn_from_others(fleet_of: FleetOf) -> None:
    async with fleet_of(ONLY_TASKS) as (cloud, fleet):
        cloud.jobs = [new_job(f"job-{number:02}", 600 + number) for number in range(30)]
        cloud.metrics = {(f"job-{number:02}", "worker-0"): percent(now=30) for number in range(30)}
        cloud.answer = lambda path, request: httpx.Response(500) if "job-0" in path and "metrics" in path else None
        fleet.schedule.start()
        await asyncio.sleep(9 * INTERVAL)
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == 20


async def test_task_metrics_replace_aom_after_its_last_good_answer(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {CPU: [series("a", 50)], MEMORY: [series("a", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL - 10)
        cloud.answer = lambda path, request: httpx.Response(503) if "/aom/" in path else None
        await asyncio.sleep(2 * INTERVAL)
        assert await source(fleet, "a") == "aom"
        assert fleet.own("collector_success", collector="usage") == 0
        assert asked(cloud, "a") == 0
        await asyncio.sleep(4 * INTERVAL)
        assert await source(fleet, "a") == "task_metrics"
        cloud.answer = lambda path, request: None
        await asyncio.sleep(2 * INTERVAL)
        assert await source(fleet, "a") == "aom"
        assert fleet.own("collector_success", collector="usage") == 1


async def test_job_with_accelerators_unknown_to_aom_uses_task_metrics(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("npu", 3600, resource=ASCEND), new_job("cpu", 3600)]
        cloud.aom = {CPU: [series("npu", 50), series("cpu", 50)]}
        reported = [{"metric": "npuUtil", "value": [80]}, {"metric": "cpuUsage", "value": [70]}]
        cloud.metrics[("npu", "worker-0")] = {"metrics": reported}
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL - 10)
        assert await source(fleet, "npu") == "aom"  # while AOM is waited for, what it has is shown
        await asyncio.sleep(2 * INTERVAL)
        assert (await source(fleet, "npu"), await source(fleet, "cpu")) == ("task_metrics", "aom")
        assert await fleet.value('job_accelerator_utilization_ratio{job_id="npu",accelerator="npu"}') == 0.8
        assert await fleet.value('job_cpu_utilization_ratio{job_id="npu"}') == 0.7
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == 2
        cloud.aom[NPU] = [series("npu", 90, npu_id="0")]
        await asyncio.sleep(3600)
        assert await source(fleet, "npu") == "aom"
        device = 'device_utilization_ratio{job_id="npu",pod_id="worker-0",device="0",accelerator="npu"}'
        assert await fleet.value(device) == 0.9
        cloud.answer = lambda path, request: httpx.Response(503) if NPU in request.url.params.get("query", "") else None
        await asyncio.sleep(3 * INTERVAL)
        assert await fleet.value('job_cpu_utilization_ratio{job_id="npu"}') == 0.5


async def test_jobs_beyond_the_limit_are_skipped_and_logged_once(fleet_of: FleetOf) -> None:
    async with fleet_of(CAPPED) as (cloud, fleet):
        cloud.jobs = [new_job(f"job-{number}", 4000 + number) for number in range(4)]
        cloud.aom = {CPU: []}
        cloud.metrics = {(row["metadata"]["id"], "worker-0"): percent(now=30) for row in cloud.jobs}
        fleet.schedule.start()
        await asyncio.sleep(3 * INTERVAL)
        shown = [line.partition('job_id="')[2].partition('"')[0] for line in await fleet.lines("job_usage_info")]
        assert sorted(shown) == ["job-0", "job-1"]  # the newest
        assert len([line for line in fleet.log if "collector=task_metrics jobs_left_out=2" in line]) == 1


async def test_job_of_a_failing_part_is_released_with_the_part(fleet_of: FleetOf) -> None:
    async with fleet_of() as (cloud, fleet):
        cloud.jobs = [new_job("a", 3600), new_job("b", 3600)]
        cloud.aom = {CPU: [series("b", 50)], MEMORY: [series("a", 50), series("b", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        fleet.schedule.start()
        await asyncio.sleep(INTERVAL - 10)
        cloud.answer = lambda path, request: (
            httpx.Response(503) if MEMORY in request.url.params.get("query", "") else None
        )
        await asyncio.sleep(3 * INTERVAL)
        assert (await source(fleet, "a"), asked(cloud, "a")) == ("aom", 0)
        await asyncio.sleep(3 * INTERVAL)
        assert await source(fleet, "a") == "task_metrics"
        assert await source(fleet, "b") == "aom"
