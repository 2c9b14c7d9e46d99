"""Polls one after another: what changed shows, what is lost is counted each time, and nothing old is kept."""

from __future__ import annotations

import asyncio

import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, FleetOf, at, job

MACHINE = [{"Type": "Worker", "PodCount": 1, "EcsSpec": "ecs.gn6"}]
MONITORED = CONFIG.replace(
    "{usage: {source: job_metrics}}",
    "{job_counts: {enabled: false}, pods: {enabled: false}, usage: {source: cloudmonitor}}",
)


async def test_a_machine_type_that_changed_changes_its_jobs(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b", ResourceId="", JobSpecs=MACHINE)]
    cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": "twelve"}]
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.value('job_requested_cpu_cores{job_id="b"}') is None
        cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": 12}]
        await asyncio.sleep(601)  # the table is not read at every poll
        await fleet.exporter.poll_once()
        assert await fleet.value('job_requested_cpu_cores{job_id="b"}') == 12


async def test_empty_list_of_machine_types_replaces_none(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceId="", JobSpecs=MACHINE)]
    cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": 12}]
    async with fleet_of(cloud) as fleet:
        for _ in range(2):
            await fleet.exporter.poll_once()
            assert await fleet.value('job_requested_cpu_cores{job_id="a"}') == 12
            cloud.ecs_specs = []
            await asyncio.sleep(6 * 3600 + 1)


async def test_pods_that_cannot_be_used_are_counted_at_every_poll(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    pods = {"Pods": [{"PodId": "p", "Type": "Worker", "Status": "Running"}]}
    async with fleet_of(cloud) as fleet:
        polls = 0
        for lost in ({}, {"PodId": "q", "GmtCreateTime": "soon"}):
            spoilt = {"Pods": [{"PodId": "p", "Type": "Worker", "Status": "Failed"}, lost]}
            cloud.details = {"a": job("a") | pods, "b": job("b") | spoilt}
            for _ in range(2):
                polls += 1
                await fleet.exporter.poll_once()
                assert fleet.own("dropped_readings_total", collector="pods", reason="malformed") == polls
        assert len(await fleet.lines("pod_info")) == 3


async def test_rows_without_histories_say_what_lasts(fleet_of: FleetOf) -> None:
    """GetJob has the history, and is asked once here: a restart in place is over, the job runs, then it stops."""
    cloud = Cloud()
    cloud.jobs = [job("a", SubStatus="Restarting")]
    restart = {"OccurTime": at(-100), "RestartDurationInSec": 0}
    history = {"StatusHistory": [{"Status": "Running", "StartTime": at(-500)}]}
    cloud.details["a"] = cloud.jobs[0] | {"RestartRecord": [restart], **history}
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        for row, running in ({}, 400), ({"SubStatus": ""}, 460), ({"Status": "Stopping"}, 460):
            cloud.jobs[0] |= row
            await asyncio.sleep(60)
            await fleet.runner("jobs").tick()
            for phase, seconds in ("recovering", 160), ("running", running):
                shown = await fleet.value(f'job_phase_seconds{{job_id="a",phase="{phase}"}}')
                assert shown == pytest.approx(seconds, abs=1)


async def test_only_codes_become_reasons_and_causes(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceId="", ReasonCode="see data/alice/run.log"), job("b", ReasonCode="data/bob/run.log")]
    error = {"ErrorCode": "GPULost", "Node": "n1", "TriggerRestart": True}
    record = {"OccurTime": at(10), "RestartDurationInSec": 5, "RestartStatus": "Success", "RestartLevelType": "Pod"}
    restarts = [record | {"Reason": "data/alice/run.log"}, record | {"OccurTime": at(20), "Reason": "NodeNotReady"}]
    restarts.append(record | {"OccurTime": at(30), "DetailErrorInfoList": [error]})
    history = [{"Status": "Running", "StartTime": at(-500)}]
    cloud.details["a"] = cloud.jobs[0] | {"RestartRecord": restarts, "StatusHistory": history}
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        await asyncio.sleep(60)
        for _ in range(2):
            await fleet.exporter.poll_once()
        assert await fleet.lines("job_status_reason") == []
        assert (fleet.own("dropped_readings_total", collector="jobs", reason="malformed") or 0) >= 2
        causes = {line.split('platform_cause="')[1].split('"')[0] for line in await fleet.lines("job_faults_total")}
        assert causes == {"", "NodeNotReady", "GPULost"}
        # A job without a pool runs on a node, too.
        assert await fleet.value('node_faults_total{pool_id="",node_name="n1",cause="accelerator"}') == 1
