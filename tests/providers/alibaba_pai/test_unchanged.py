"""Polls one after another: what changed shows, what is lost is counted each time, and nothing old is kept."""

from __future__ import annotations

import asyncio
import gc

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, Run, job, metric, point
from tests.support.fleet import Fleet
from trainfleet_exporter.model import Readings, Subject
from trainfleet_exporter.providers.usage.entities import EntityList

MACHINE = [{"Type": "Worker", "PodCount": 1, "EcsSpec": "ecs.gn6"}]
MONITORED = CONFIG.replace(
    "{usage: {source: job_metrics}}",
    "{job_counts: {enabled: false}, pods: {enabled: false}, usage: {source: cloudmonitor}}",
)


def test_durations_go_on_and_changes_show(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", Duration=100), job("b", Duration=200), job("c", "Queuing")]

    async def steps(fleet: Fleet) -> None:
        await fleet.exporter.poll_once()
        cloud.jobs = [job("a", Duration=160), job("b", Duration=260, RestartTimes="1"), job("c", "Running", Duration=3)]
        await fleet.exporter.poll_once()
        durations = [await fleet.value(f'job_duration_seconds{{job_id="{job_id}"}}') for job_id in "abc"]
        assert durations == [160, 260, 3]
        assert await fleet.value('job_restarts_total{job_id="b"}') == 1

    run(cloud, steps)


def test_partly_unusable_row_is_counted_at_every_poll(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", Priority="high", Duration="long")]

    async def steps(fleet: Fleet) -> None:
        for polls in range(1, 4):
            await fleet.exporter.poll_once()
            assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 2 * polls

    run(cloud, steps)


def test_a_quota_that_changed_changes_its_jobs(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", RequestGPU="8"), job("b", ResourceId="", JobSpecs=MACHINE), job("c", ResourceId="other")]
    cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": 12, "Gpu": 1, "GpuType": "T4"}]

    async def steps(fleet: Fleet) -> None:
        for model in ("GU8T", "GU9"):
            details = {"ActualMinQuota": {"GPU": "144"}}
            cloud.quotas = [{"QuotaId": "quota1", "GPUType": model, "QuotaDetails": details}]
            await fleet.runner("pools").tick()
            await fleet.exporter.poll_once()
            labels = f'accelerator="gpu",accelerator_model="{model}"'
            assert await fleet.value(f'job_requested_accelerators{{job_id="a",{labels}}}') == 8
            labels = 'accelerator="gpu",accelerator_model="T4"'
            assert await fleet.value(f'job_requested_accelerators{{job_id="b",{labels}}}') == 1

    run(cloud, steps)


def test_a_machine_type_that_changed_changes_its_jobs(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b", ResourceId="", JobSpecs=MACHINE)]
    cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": "twelve"}]

    async def steps(fleet: Fleet) -> None:
        await fleet.exporter.poll_once()
        assert await fleet.value('job_requested_cpu_cores{job_id="b"}') is None
        cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": 12}]
        await asyncio.sleep(601)  # the table is not read at every poll
        await fleet.exporter.poll_once()
        assert await fleet.value('job_requested_cpu_cores{job_id="b"}') == 12

    run(cloud, steps)


def test_machine_types_are_read_again_and_jobs_stay_as_they_are(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", Duration=5, ResourceId="", JobSpecs=MACHINE)]
    cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": 12}]

    async def steps(fleet: Fleet) -> None:
        for duration in (5, 65, 125):
            cloud.jobs[0]["Duration"] = duration
            await fleet.exporter.poll_once()
            assert await fleet.value('job_duration_seconds{job_id="a"}') == duration
            assert await fleet.value('job_requested_cpu_cores{job_id="a"}') == 12
            await asyncio.sleep(6 * 3600)
        assert len(cloud.called("ListEcsSpecs")) == 3

    run(cloud, steps)


def test_pods_that_cannot_be_used_are_counted_at_every_poll(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    pods = {"Pods": [{"PodId": "p", "Type": "Worker", "Status": "Running"}]}

    async def steps(fleet: Fleet) -> None:
        polls = 0
        for lost in ({}, {"PodId": "q", "GmtCreateTime": "soon"}):
            spoilt = {"Pods": [{"PodId": "p", "Type": "Worker", "Status": "Failed"}, lost]}
            cloud.details = {"a": job("a") | pods, "b": job("b") | spoilt}
            for _ in range(2):
                polls += 1
                await fleet.exporter.poll_once()
                assert fleet.own("dropped_readings_total", collector="pods", reason="malformed") == polls
        assert len(await fleet.lines("pod_info")) == 3

    run(cloud, steps)


def test_pods_go_with_their_job_and_come_back_with_it(run: Run) -> None:
    cloud = Cloud()
    jobs = cloud.jobs = [job("a"), job("b")]
    pods = {"Pods": [{"PodId": "p", "Type": "Worker", "Status": "Running"}]}
    cloud.details = {"a": jobs[0] | pods, "b": jobs[1] | pods}

    async def steps(fleet: Fleet) -> None:
        await fleet.exporter.poll_once()
        assert len(await fleet.lines("pod_info")) == 2
        cloud.jobs = jobs[:1]
        of_b = cloud.details.pop("b")
        await fleet.exporter.poll_once()
        assert len(await fleet.lines("pod_info")) == 1
        cloud.jobs, cloud.details["b"] = jobs, of_b
        for _ in range(2):  # the cycle over pods may have begun before the job was listed again
            await fleet.exporter.poll_once()
        assert len(await fleet.lines("pod_info")) == 2

    run(cloud, steps)


def test_a_job_that_left_and_came_back_is_shown_again(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]

    async def steps(fleet: Fleet) -> None:
        await fleet.exporter.poll_once()
        cloud.jobs = []
        await fleet.exporter.poll_once()
        assert await fleet.lines("job_info") == []
        cloud.jobs = [job("a")]
        await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_info")) == 1

    run(cloud, steps)


def test_nothing_is_kept_of_the_pods_of_jobs_that_ended(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    cloud.catalogue = [metric("POD_CPU_UTIL", "%"), metric("POD_MEMORY_UTIL", "%")]
    for name in ("POD_CPU_UTIL", "POD_MEMORY_UTIL"):
        cloud.points[name] = [point(job_id, 50, pod=f"{job_id}-{pod}") for job_id in "ab" for pod in range(2)]
    before = {id(each): each for each in _subjects()}

    async def steps(fleet: Fleet) -> None:
        def of_this_test() -> list[tuple[str, ...]]:
            return sorted(each.keys for each in _subjects() if id(each) not in before)

        await fleet.exporter.poll_once()
        pods = [("a", "a-0"), ("a", "a-1"), ("b", "b-0"), ("b", "b-1")]
        assert of_this_test() == sorted([("a",), ("b",), *pods])  # one for all metrics
        cloud.jobs = [job("b")]
        for _ in range(2):
            await fleet.exporter.poll_once()
        assert of_this_test() == [("b",), ("b", "b-0"), ("b", "b-1")]

    run(cloud, steps, MONITORED)


def _subjects() -> list[Subject]:
    """Every subject that is referred to. The garbage collector does not know subjects, only what refers to them."""
    gc.collect()
    found: dict[int, Subject] = {}
    for holder in gc.get_objects():
        held = holder.subjects if isinstance(holder, Readings | EntityList) else holder
        if type(held) in (list, tuple):
            found |= {id(each): each for each in held if isinstance(each, Subject)}
    return list(found.values())
