"""Usage by AOM and by task metrics: who is asked for which job, what it costs, and that no series is there twice."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, PROJECT, Cloud, Row, job, ms
from tests.support.clock import run_stepped
from tests.support.fleet import Fleet
from trainfleet_exporter.daemon import Exporter
from trainfleet_exporter.model import Readings, Subject
from trainfleet_exporter.polling import Part

Check = Callable[[Cloud, Fleet], Awaitable[None]]
Run = Callable[..., None]
CPU, MEMORY = "ma_container_cpu_util", "ma_container_memory_util"
NPU, USED = "ma_container_npu_util", "ma_container_cpu_used_core"
ONLY_AOM = CONFIG + "    collectors: {usage: {source: aom}}\n"
ONLY_TASKS = CONFIG + "    collectors: {usage: {source: task_metrics}}\n"
CAPPED = CONFIG + "    collectors: {usage: {max_jobs: 2}}\n"
ASCEND = {"main_container_allocated_resources": {"accelerator_num": 1, "accelerator_type": "ascend-snt9b"}}
REFUSED = httpx.Response(403, json={"status": "error", "errorType": "forbidden", "error": "aom:metric:list is missing"})
SWEEP = 120.0


class Page:
    """Watches every change of what is published: no series is ever in two parts, or twice in one."""

    def __init__(self, exporter: Exporter) -> None:
        self.faults: list[str] = []
        self.changes = 0
        self._parts: dict[Hashable, dict[str, list[str]]] = {}
        """By part and family, the names and labels of the series."""
        self._shown: Counter[str] = Counter()
        store = exporter.page_store
        put, drop = store.put, store.drop

        def watched_put(part: Hashable, lines: Mapping[str, Any], **given: Any) -> None:
            put(part, lines, **given)
            self._replace(part, {family: _series(b"".join(texts)) for family, texts in lines.items()})

        def watched_drop(part: Hashable) -> None:
            drop(part)
            self._replace(part, {})

        store.put, store.drop = watched_put, watched_drop  # type: ignore[method-assign]  # watched from here on

    def _replace(self, part: Hashable, families: dict[str, list[str]]) -> None:
        self.changes += 1
        for lines in self._parts.pop(part, {}).values():
            self._shown.subtract(lines)
        self._parts[part] = families
        for lines in families.values():
            self._shown.update(lines)
            self.faults += [line for line in lines if self._shown[line] > 1]


def _series(text: bytes) -> list[str]:
    """The series of some lines, without their values."""
    return [line.rpartition(" ")[0] for line in text.decode().splitlines()]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Run:
    def run_check(check: Check, config: str = CONFIG) -> None:
        async def main() -> None:
            cloud = Cloud()
            cloud.aom = {}
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                page = Page(fleet.exporter)
                await check(cloud, fleet)
                assert page.changes > 0
                assert page.faults == []

        with caplog.at_level(logging.INFO):
            run_stepped(main)

    return run_check


def percent(**cpu: float) -> Row:
    """The readings of a task that uses these percent of its CPU."""
    return {"metrics": [{"metric": "cpuUsage", "value": list(cpu.values())}]}


def series(job_id: str, value: object, **labels: str) -> tuple[Row, object]:
    return {"service_id": job_id, "pod_name": "worker-0", "pool_id": "pool-1", **labels}, value


def new_job(job_id: str, age: float = 0.0, **given: Any) -> Row:
    """A job that began so many seconds before the stepped clock's start (or after, if negative)."""
    row = job(job_id, start_time=ms(-age), **given)
    row["metadata"]["create_time"] = ms(-age)
    return row


async def source(fleet: Fleet, job_id: str) -> str | None:
    """Where the usage of a job comes from."""
    mark = f'job_id="{job_id}",source="'
    found = [line.partition(mark)[2].partition('"')[0] for line in await fleet.lines("job_usage_info") if mark in line]
    assert len(found) <= 1
    return found[0] if found else None


def queries(cloud: Cloud) -> list[str]:
    return [about["query"] for about in cloud.called("/aom/api/v1/query")]


def asked(cloud: Cloud, job_id: str) -> int:
    """How many calls for task metrics a job has cost."""
    return len(cloud.called(f"/{job_id}/metrics/"))


def test_calls_do_not_grow_with_jobs(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
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
        assert await fleet.value('job_usage_timestamp_seconds{job_id="job-7"}') is None  # samples do not tell their age
        assert await source(fleet, "job-7") == "aom"
        assert {request.method for request in cloud.requests if "/aom/api/v1/query" in request.url.path} == {"POST"}
        assert {request.content for request in cloud.requests if "/aom/api/v1/query" in request.url.path} == {b""}
        assert fleet.exporter.telemetry.registry.get_sample_value(
            "trainfleet_exporter_api_requests_total",
            {"provider": "p", "api": "aom", "operation": "ListInstantQueryAomPromPost", "outcome": "ok"},
        )

    run(check)


def test_names_are_learned_once_a_day_and_sooner_where_some_are_missing(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [job("a")]
        cloud.aom = {CPU: [series("a", 50)]}
        fleet.schedule.start()
        await asyncio.sleep(3500)
        assert len(cloud.called("/__name__/values")) == 1
        cloud.aom[MEMORY] = [series("a", 20)]
        await asyncio.sleep(300)
        assert len(cloud.called("/__name__/values")) == 2
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.2

    run(check)


def test_a_sweep_takes_jobs_that_run_and_are_listed(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [job("a"), job("stopping", "Terminating")]
        cloud.aom = {CPU: [series("a", 50), series("stopping", 10), series("deleted", 99)]}
        await fleet.exporter.poll_once()
        assert [line.rpartition(" ")[2] for line in await fleet.lines("job_cpu_utilization")] == ["0.5"]
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 1
        # AOM looks back: it tells of a job for a while after its end, and that is nothing strange.
        cloud.jobs = [job("another")]
        await fleet.runner("jobs").tick()
        await fleet.runner("usage").tick()
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 2
        assert await fleet.lines("job_cpu_utilization", "job_usage") == []
        await asyncio.sleep(1300)
        await fleet.runner("usage").tick()
        assert fleet.own("dropped_readings_total", collector="usage", reason="unlisted") == 5  # it should not by now

    run(check)


def test_what_readings_are_of_is_the_same_from_poll_to_poll(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its labels are written once."""
    published: list[Sequence[object]] = []
    publish = Part.publish

    async def watched(part: Part, objects: Sequence[object], **given: Any) -> None:
        published.append(objects)
        await publish(part, objects, **given)

    monkeypatch.setattr(Part, "publish", watched)

    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [job("a"), job("b")]
        cloud.aom = {CPU: [series("a", 50), series("b", 60)]}
        await fleet.exporter.poll_once()
        first = _subjects(published)
        assert [subject.keys for subject in first] == [("a",), ("b",), ("a", "worker-0"), ("b", "worker-0")]
        published.clear()
        cloud.aom = {CPU: [series("b", 61), series("a", 50)]}
        await fleet.runner("jobs").tick()
        await fleet.runner("usage").tick()
        assert [one is other for one, other in zip(_subjects(published), first, strict=True)] == [True] * 4

    run(check)


def _subjects(published: list[Sequence[object]]) -> list[Subject]:
    return [
        subject for objects in published for one in objects if isinstance(one, Readings) for subject in one.subjects
    ]


def test_a_new_job_is_waited_for_before_it_costs_calls(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("old", 3600)]
        cloud.aom = {CPU: [series("old", 50)]}
        cloud.metrics[("public", "worker-0")] = percent(now=30)
        fleet.schedule.start()
        await asyncio.sleep(SWEEP + 10)
        cloud.jobs += [new_job("young", -SWEEP - 10), new_job("public", -SWEEP - 10)]
        await asyncio.sleep(SWEEP)
        cloud.aom[CPU].append(series("young", 70))  # its first sample comes late
        await asyncio.sleep(SWEEP)
        assert (asked(cloud, "young"), asked(cloud, "public")) == (0, 0)
        await asyncio.sleep(SWEEP)
        assert (await source(fleet, "young"), await source(fleet, "public")) == ("aom", "task_metrics")
        assert await fleet.value('job_cpu_utilization_ratio{job_id="public"}') == 0.3
        assert (asked(cloud, "young"), asked(cloud, "old")) == (0, 0)

    run(check)


def test_the_first_poll_asks_for_what_aom_does_not_have(run: Run) -> None:
    """`once` polls once: jobs that ran long before are not waited for."""

    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("pool", 3600), new_job("public", 3600), new_job("young", 10)]
        cloud.aom = {CPU: [series("pool", 50)]}
        cloud.metrics[("public", "worker-0")] = percent(now=30)
        assert await fleet.exporter.poll_once()
        assert (await source(fleet, "pool"), await source(fleet, "public")) == ("aom", "task_metrics")
        assert (asked(cloud, "pool"), asked(cloud, "public"), asked(cloud, "young")) == (0, 1, 0)

    run(check)


def test_a_job_moves_between_the_sources_and_back(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600), new_job("b", 3600)]
        cloud.aom = {CPU: [series("b", 50)], MEMORY: [series("b", 50)], USED: [series("b", 50)]}
        cloud.metrics = {(job_id, "worker-0"): percent(now=30) for job_id in "ab"}
        fleet.schedule.start()
        await asyncio.sleep(SWEEP - 1)
        assert (await source(fleet, "a"), await source(fleet, "b")) == ("task_metrics", "aom")
        for metric in (CPU, MEMORY, USED):
            cloud.aom[metric] = [series("a", 70), series("b", 50)]
        await asyncio.sleep(SWEEP)
        assert (await source(fleet, "a"), await source(fleet, "b")) == ("aom", "aom")
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.7
        calls = asked(cloud, "a")
        await asyncio.sleep(3 * SWEEP)
        assert asked(cloud, "a") == calls
        for metric in (CPU, MEMORY, USED):
            cloud.aom[metric] = [series("a", 70)]
        await asyncio.sleep(2 * SWEEP)
        assert (await source(fleet, "a"), await source(fleet, "b")) == ("aom", "task_metrics")
        assert await fleet.value('job_cpu_utilization_ratio{job_id="b"}') == 0.3

    run(check)


def test_an_answer_of_task_metrics_that_comes_too_late_is_not_shown(run: Run) -> None:
    """AOM takes a job over while its task metrics are under way."""

    async def check(cloud: Cloud, fleet: Fleet) -> None:
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

    run(check)


def test_a_refusal_leaves_all_to_task_metrics_and_is_told_once(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 10)]
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        cloud.answer = lambda path, request: REFUSED if "/aom/" in path else None
        fleet.schedule.start()
        await asyncio.sleep(5 * SWEEP)
        assert await source(fleet, "a") == "task_metrics"
        (told,) = replaced(fleet)
        assert "HTTP 403 forbidden aom:metric:list is missing" in told
        assert fleet.own("collector_success", collector="usage") == 1  # what AOM refuses, task metrics have
        # It is counted each time all the same, and told to who asks: a right may be missing.
        assert fleet.own("collector_errors_total", collector="usage", reason="auth") == 5
        (error,) = fleet.runner("usage").errors
        assert "aom:metric:list is missing" in str(error)
        assert len([line for line in fleet.log if line.startswith("poll ")]) == 1
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.answer = lambda path, request: None
        await asyncio.sleep(SWEEP)
        assert await source(fleet, "a") == "aom"
        assert [line for line in fleet.log if "usage comes from AOM again" in line]
        assert fleet.own("collector_success", collector="usage") == 1

    run(check)


def replaced(fleet: Fleet) -> list[str]:
    """What the log says of a change from AOM to task metrics."""
    return [line for line in fleet.log if "usage comes from task metrics" in line]


@pytest.mark.parametrize("refusal", [REFUSED, httpx.Response(404, json={"error_code": "APIGW.0101"})])
def test_aom_that_begins_to_refuse_fails_until_it_is_replaced(run: Run, refusal: httpx.Response) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job(name, 3600) for name in ("a", "b")]
        cloud.aom = {CPU: [series("a", 50), series("b", 50)], MEMORY: [series("a", 50), series("b", 50)]}
        cloud.metrics = {(name, "worker-0"): percent(now=30) for name in ("a", "b")}
        fleet.schedule.start()
        await asyncio.sleep(SWEEP - 10)
        succeeded = fleet.own("collector_last_success_timestamp_seconds", collector="usage")
        cloud.answer = lambda path, request: refusal if "/aom/" in path else None
        for _ in range(4):
            await asyncio.sleep(SWEEP)
            assert await source(fleet, "a") in ("aom", None)
            assert fleet.own("collector_success", collector="usage") == 0
            assert (fleet.own("collector_parts_failed", collector="usage") or 0) >= 1
            assert fleet.own("collector_last_success_timestamp_seconds", collector="usage") == succeeded
            assert replaced(fleet) == []
        await asyncio.sleep(2 * SWEEP)
        assert [await source(fleet, name) for name in ("a", "b")] == ["task_metrics", "task_metrics"]
        assert fleet.own("collector_success", collector="usage") == 1
        assert fleet.own("collector_parts_failed", collector="usage") == 0
        assert len(replaced(fleet)) == 1
        cloud.jobs.append(new_job("new", -7 * SWEEP))
        cloud.answer = lambda path, request: refusal if "/aom/" in path else None
        for _ in range(3):  # a job that has just begun has no usage yet, and is no failure
            await asyncio.sleep(SWEEP)
            assert fleet.own("collector_success", collector="usage") == 1
        cloud.answer = lambda path, request: None
        await asyncio.sleep(SWEEP)
        assert [await source(fleet, name) for name in ("a", "b")] == ["aom", "aom"]
        assert len(replaced(fleet)) == 1
        cloud.answer = lambda path, request: refusal if "/aom/" in path else None
        await asyncio.sleep(SWEEP)  # again nobody else has the jobs
        assert fleet.own("collector_success", collector="usage") == 0
        await asyncio.sleep(6 * SWEEP)
        assert fleet.own("collector_success", collector="usage") == 1
        assert len(replaced(fleet)) == 2

    run(check)


@pytest.mark.parametrize("answer", [httpx.Response(403), httpx.Response(204)], ids=["refused", "empty"])
@pytest.mark.parametrize("quiet", [0, SWEEP - 10], ids=["always", "later"])
def test_a_refusal_stays_a_failure_where_no_source_has_usage(run: Run, answer: httpx.Response, quiet: float) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {CPU: [series("a", 50)]}
        if quiet:
            fleet.schedule.start()
            await asyncio.sleep(quiet)
        cloud.answer = lambda path, request: REFUSED if "/aom/" in path else answer if "/metrics/" in path else None
        if not quiet:
            fleet.schedule.start()
        await asyncio.sleep(8 * SWEEP)
        assert asked(cloud, "a") > 0
        assert await source(fleet, "a") is None
        assert fleet.own("collector_success", collector="usage") == 0
        assert replaced(fleet) == []

    run(check)


def test_a_refusal_stays_a_failure_while_jobs_are_left_out(run: Run) -> None:
    """Task metrics are asked for max_jobs jobs only: the others have no usage at all."""

    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job(name, 3600) for name in ("a", "b", "c")]
        cloud.metrics = {(name, "worker-0"): percent(now=30) for name in ("a", "b", "c")}
        cloud.answer = lambda path, request: REFUSED if "/aom/" in path else None
        fleet.schedule.start()
        await asyncio.sleep(5 * SWEEP)
        assert fleet.own("collector_success", collector="usage") == 0
        cloud.jobs.pop()
        await asyncio.sleep(2 * SWEEP)
        assert fleet.own("collector_success", collector="usage") == 1

    run(check, CAPPED)


def test_a_refusal_is_a_failure_where_nothing_else_is_asked(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
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

    run(check, ONLY_AOM)


def test_only_task_metrics_ask_nothing_of_aom(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 10)]
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        assert await fleet.exporter.poll_once()
        assert await source(fleet, "a") == "task_metrics"
        assert cloud.called("/aom/") == []
        (provider,) = fleet.exporter.providers
        assert provider.endpoints.keys() == {"modelarts", "iam"}

    run(check, ONLY_TASKS)


def test_while_aom_fails_its_last_good_answer_stays_and_then_task_metrics_take_over(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {CPU: [series("a", 50)], MEMORY: [series("a", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        fleet.schedule.start()
        await asyncio.sleep(SWEEP - 10)
        cloud.answer = lambda path, request: httpx.Response(503) if "/aom/" in path else None
        await asyncio.sleep(2 * SWEEP)
        assert await source(fleet, "a") == "aom"
        assert fleet.own("collector_success", collector="usage") == 0
        assert asked(cloud, "a") == 0
        await asyncio.sleep(4 * SWEEP)
        assert await source(fleet, "a") == "task_metrics"
        cloud.answer = lambda path, request: None
        await asyncio.sleep(2 * SWEEP)
        assert await source(fleet, "a") == "aom"
        assert fleet.own("collector_success", collector="usage") == 1

    run(check)


def test_one_metric_that_fails_takes_no_other_along(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {CPU: [series("a", 50)], MEMORY: [series("a", 50)]}
        fleet.schedule.start()
        await asyncio.sleep(SWEEP - 10)
        cloud.aom = {CPU: [series("a", 60)], MEMORY: [series("a", 60)]}
        bad = httpx.Response(200, json={"status": "error", "errorType": "execution", "error": "too many samples"})
        cloud.answer = lambda path, request: bad if MEMORY in request.url.params.get("query", "") else None
        await asyncio.sleep(SWEEP)
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.6
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.5  # its last good answer
        assert any("HTTP 200 execution too many samples" in line for line in fleet.log)
        assert fleet.own("collector_parts_failed", collector="usage") == 1
        await asyncio.sleep(4 * SWEEP)
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') is None
        assert await source(fleet, "a") == "aom"

    run(check)


def test_a_job_whose_accelerators_aom_does_not_know_is_left_to_task_metrics(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("npu", 3600, resource=ASCEND), new_job("cpu", 3600)]
        cloud.aom = {CPU: [series("npu", 50), series("cpu", 50)]}
        told = [{"metric": "npuUtil", "value": [80]}, {"metric": "cpuUsage", "value": [70]}]
        cloud.metrics[("npu", "worker-0")] = {"metrics": told}
        fleet.schedule.start()
        await asyncio.sleep(SWEEP - 10)
        assert await source(fleet, "npu") == "aom"  # while AOM is waited for, what it has is shown
        await asyncio.sleep(2 * SWEEP)
        assert (await source(fleet, "npu"), await source(fleet, "cpu")) == ("task_metrics", "aom")
        assert await fleet.value('job_accelerator_utilization_ratio{job_id="npu",accelerator="npu"}') == 0.8
        assert await fleet.value('job_cpu_utilization_ratio{job_id="npu"}') == 0.7
        assert len(await fleet.lines("job_cpu_utilization_ratio")) == 2
        cloud.aom[NPU] = [series("npu", 90, npu_id="0")]
        await asyncio.sleep(3600)
        assert await source(fleet, "npu") == "aom"
        device = 'device_utilization_ratio{job_id="npu",pod_id="worker-0",device="0",accelerator="npu"}'
        assert await fleet.value(device) == 0.9

    run(check)


def test_a_finer_answer_that_is_too_large_is_asked_for_by_pods(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600, resource=ASCEND)]
        cloud.aom = {CPU: [series("a", 50)], NPU: [series("a", 40, npu_id="0"), series("a", 60, npu_id="1")]}
        large = {"status": "success", "data": {"resultType": "vector", "result": ["x" * 2**20] * 33}}
        bomb = gzip.compress(json.dumps(large).encode())
        answer = httpx.Response(200, content=bomb, headers={"Content-Encoding": "gzip"})
        cloud.answer = lambda path, request: answer if "npu_id" in request.url.params.get("query", "") else None
        assert await fleet.exporter.poll_once()
        pod = 'pod_accelerator_utilization_ratio{job_id="a",pod_id="worker-0",accelerator="npu"}'
        assert await fleet.value(pod) == 0.5
        assert await fleet.lines("device") == []
        assert await fleet.exporter.poll_once()
        assert len([query for query in queries(cloud) if "npu_id" in query]) == 1
        assert [line for line in fleet.log if "too large" in line] == [
            f"{NPU} is read by pod only for an hour: the finer answer was too large"
        ]

    run(check)


def test_jobs_beyond_the_limit_are_not_asked_for_and_that_is_told_once(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job(f"job-{number}", 4000 + number) for number in range(4)]
        cloud.aom = {CPU: []}
        cloud.metrics = {(row["metadata"]["id"], "worker-0"): percent(now=30) for row in cloud.jobs}
        fleet.schedule.start()
        await asyncio.sleep(3 * SWEEP)
        shown = [line.partition('job_id="')[2].partition('"')[0] for line in await fleet.lines("job_usage_info")]
        assert sorted(shown) == ["job-0", "job-1"]  # the newest
        assert len([line for line in fleet.log if "task metrics of 2 jobs are not polled" in line]) == 1

    run(check, CAPPED)


def test_queries_of_the_config_and_another_instance(run: Run) -> None:
    promql = 'sum by (service_id, pod_name) (my_rx{kind="eth"})'
    config = CONFIG + (
        "    collectors:\n"
        "      usage:\n"
        "        source: aom\n"
        "        aom_instance: my instance\n"
        f"        metrics: {{pod_network_receive_bytes_per_second: {{promql: '{promql}', unit: KB/s}}}}\n"
    )

    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [job("a")]
        cloud.promql[promql] = [{"metric": series("a", 0)[0], "value": [0, "7"]}]
        assert await fleet.exporter.poll_once()
        assert await fleet.value('job_network_receive_bytes_per_second{job_id="a"}') == 7000
        paths = {request.url.raw_path.partition(b"?")[0].decode() for request in cloud.requests}
        assert f"/v1/{PROJECT}/my%20instance/aom/api/v1/query" in paths

    run(check, config)


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
def test_an_answer_that_is_no_vector_is_an_error_of_its_kind(run: Run, answer: httpx.Response, reason: str) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [job("a")]
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.answer = lambda path, request: answer if path.endswith("/query") else None
        assert not await fleet.exporter.poll_once()
        assert fleet.own("collector_errors_total", collector="usage", reason=reason) == 1
        assert await fleet.lines("job_cpu") == []

    run(check)


def test_lists_of_names_that_are_not_served_are_done_without(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [job("a")]
        cloud.aom = {CPU: [series("a", 50)]}
        missing = httpx.Response(404, json={"error_code": "APIGW.0101", "error_msg": "no such API"})
        cloud.answer = lambda path, request: missing if path.endswith("/values") else None
        assert await fleet.exporter.poll_once()
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5

    run(check)


def test_a_job_that_only_a_failing_part_shows_is_not_given_back_before_that_goes(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600), new_job("b", 3600)]
        cloud.aom = {CPU: [series("b", 50)], MEMORY: [series("a", 50), series("b", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        fleet.schedule.start()
        await asyncio.sleep(SWEEP - 10)
        cloud.answer = lambda path, request: (
            httpx.Response(503) if MEMORY in request.url.params.get("query", "") else None
        )
        await asyncio.sleep(3 * SWEEP)
        assert (await source(fleet, "a"), asked(cloud, "a")) == ("aom", 0)
        await asyncio.sleep(3 * SWEEP)
        assert await source(fleet, "a") == "task_metrics"
        assert await source(fleet, "b") == "aom"

    run(check)


def test_a_region_without_metrics_of_jobs_is_no_error(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600)]
        cloud.aom = {"ma_node_cpu_util": []}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        assert await fleet.exporter.poll_once()
        assert await source(fleet, "a") == "task_metrics"
        assert fleet.runner("usage").errors == []
        told = "usage comes from task metrics: AOM has no metric of training jobs"
        assert len([line for line in fleet.log if told in line]) == 1

    run(check)


FILTERED = CONFIG + "    jobs: {include: {name: [name-mine]}}\n"


@pytest.mark.parametrize("config", [FILTERED, FILTERED + "    collectors: {usage: {source: aom}}\n"])
def test_nothing_is_asked_while_no_job_runs_that_is_shown(run: Run, config: str) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
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

    run(check, config)


def _denying(*globs: str) -> str:
    return f"global: {{metrics: {{deny: {json.dumps(globs)}}}}}\n{CONFIG}"


def test_nothing_is_asked_where_no_usage_is_exposed(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600, resource=ASCEND)]
        cloud.aom = {CPU: [series("a", 50)]}
        cloud.metrics[("a", "worker-0")] = percent(now=30)
        for _ in range(3):
            assert await fleet.exporter.poll_once()
        assert cloud.called("/aom/") == []
        assert cloud.called("/metrics/worker") == []
        assert await fleet.lines("job_usage", "job_cpu") == []

    run(check, _denying("trainfleet_job_*", "trainfleet_pod_*", "trainfleet_device_*"))


def test_what_is_not_exposed_is_not_asked_for_and_moves_no_job(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
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

    run(check, _denying("trainfleet_*_accelerator_*", "trainfleet_*_memory_*", "trainfleet_pod_*", "trainfleet_dev*"))


def test_readings_of_a_job_that_ended_go_while_aom_fails(run: Run) -> None:
    async def check(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs = [new_job("a", 3600), new_job("b", 3600)]
        cloud.aom = {CPU: [series("a", 50), series("b", 50)]}
        fleet.schedule.start()
        await asyncio.sleep(SWEEP - 10)
        cloud.answer = lambda path, request: httpx.Response(503) if path.endswith("/query") else None
        cloud.jobs = [new_job("b", 3600)]
        await asyncio.sleep(SWEEP + 20)
        assert (await source(fleet, "a"), await source(fleet, "b")) == (None, "aom")
        (line,) = await fleet.lines("job_cpu_utilization_ratio")
        assert 'job_id="b"' in line

    run(check)
