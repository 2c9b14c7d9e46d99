"""PAI's collectors on scripted answers: whole lists or none, how jobs end, filters, freshness, cost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, RUNNING, Cloud, Run, job
from tests.providers.alibaba_pai.worlds import rich_cloud
from tests.support.fleet import Fleet
from tests.support.golden import check_golden_samples
from trainfleet_exporter.providers.alibaba_pai.provider import PLATFORM

GOLDEN = Path(__file__).parent / "golden"


def test_golden_exposition_of_a_whole_poll(run: Run) -> None:
    config = CONFIG.replace("providers:", "global: {metrics: {job_labels: [team, cost-center]}}\nproviders:")

    async def steps(fleet: Fleet) -> None:
        assert await fleet.exporter.poll_once()
        assert await fleet.exporter.poll_once()  # by now jobs know their pools' accelerator models
        check_golden_samples(GOLDEN / "whole_poll.txt", await fleet.lines(""))

    run(rich_cloud(), steps, config)


def test_pages_smaller_than_requested_are_read_to_the_end(run: Run) -> None:
    cloud = Cloud()
    cloud.page_cap = 40
    cloud.jobs = [job(f"j{number}") for number in range(130)]

    async def steps(fleet: Fleet) -> None:
        assert await fleet.exporter.poll_once()
        assert await fleet.value(RUNNING) == 130

    run(cloud, steps)


def test_one_workspace_fails_and_the_other_stays_fresh(run: Run) -> None:
    cloud = Cloud()
    cloud.workspaces.append({"WorkspaceId": "2", "WorkspaceName": "two", "Status": "ENABLED"})
    cloud.jobs = [job("a"), job("b", WorkspaceId="2")]

    async def steps(fleet: Fleet) -> None:
        fleet.schedule.start()
        await asyncio.sleep(30)
        refusal = httpx.Response(403, json={"Code": "NoPermission", "Message": "not yours any more"})
        cloud.answer = lambda name, query: refusal if query.get("WorkspaceId") == "2" else None
        cloud.jobs.append(job("c"))
        await asyncio.sleep(60)
        shown = {line.split('job_id="')[1][0] for line in await fleet.lines("job_info")}
        assert shown == {"a", "b", "c"}  # b by its last good answer
        assert fleet.own("collector_success", collector="jobs") == 0
        assert fleet.own("collector_parts_failed", collector="jobs") == 1
        assert fleet.own("api_requests_total", api="dlc", operation="ListJobs", outcome="auth") == 1
        await asyncio.sleep(200)
        shown = {line.split('job_id="')[1][0] for line in await fleet.lines("job_info")}
        assert shown == {"a", "c"}
        assert await fleet.lines('jobs{provider="p",workspace_id="2",status="running"') == []
        assert [line for line in fleet.log if "not yours any more" in line] != []
        cloud.answer = lambda *_: None
        await asyncio.sleep(60)
        shown = {line.split('job_id="')[1][0] for line in await fleet.lines("job_info")}
        assert shown == {"a", "b", "c"}
        assert fleet.own("collector_success", collector="jobs") == 1

    run(cloud, steps)


def test_configured_workspaces_are_polled_without_a_list(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.answer = lambda name, _: httpx.Response(403, json={"Code": "NoPermission"}) if "Workspaces" in name else None
    config = CONFIG.replace("    limits", '    workspaces: ["1"]\n    limits')

    async def steps(fleet: Fleet) -> None:
        assert not await fleet.exporter.poll_once()
        assert await fleet.value(RUNNING) == 1
        assert fleet.own("collector_success", collector="jobs") == 1
        assert fleet.own("collector_success", collector="workspaces") == 0

    run(cloud, steps, config)


def test_unlisted_configured_workspace_fails_by_name(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    config = CONFIG.replace("    limits", '    workspaces: ["1", "“2”"]\n    limits')

    async def steps(fleet: Fleet) -> None:
        def logged() -> int:
            return sum("the cloud does not list this workspace" in line and "part=“2”" in line for line in fleet.log)

        async def workspaces(family: str) -> set[str]:
            return {line.split('workspace_id="')[1].split('"')[0] for line in await fleet.lines(family)}

        for polls in range(2):
            assert not await fleet.exporter.poll_once()
            assert logged() == 1
            assert await workspaces("workspace_info") == {"1"}
            if polls:  # jobs do not wait for the first list
                assert [line for line in await fleet.lines("") if "“2”" in line] == []
            assert await fleet.value(RUNNING) == 1
            assert fleet.own("collector_success", collector="workspaces") == 0
            assert fleet.own("collector_parts_failed", collector="workspaces") == 1
            assert fleet.own("collector_success", collector="jobs") == 1
        cloud.workspaces += [{"WorkspaceId": "“2”", "WorkspaceName": "two", "Status": "ENABLED"}]
        await fleet.exporter.poll_once()
        assert await fleet.exporter.poll_once()
        assert await workspaces("workspace_info") == await workspaces("jobs{") == {"1", "“2”"}
        cloud.workspaces[1] = {"WorkspaceName": "no id"}  # which may well be it
        await fleet.exporter.poll_once()
        assert logged() == 1
        assert await workspaces("workspace_info") == await workspaces("jobs{") == {"1", "“2”"}
        del cloud.workspaces[1]
        await fleet.exporter.poll_once()
        assert logged() == 2

    run(cloud, steps, config)


def test_what_is_built_on_a_workspace_goes_with_it(run: Run) -> None:
    cloud = rich_cloud()

    async def steps(fleet: Fleet) -> None:
        fleet.schedule.start()
        await asyncio.sleep(30)
        assert await fleet.lines("pod_info")
        assert await fleet.lines("job_usage_info")
        cloud.answer = lambda name, _: (
            httpx.Response(403, json={"Code": "NoPermission"}) if name == "ListJobs" else None
        )
        await asyncio.sleep(400)
        assert await fleet.lines("job_info", "pod_", "job_pods", "job_usage") == []
        before = len(cloud.called("GetJob"))
        await asyncio.sleep(3600)
        assert len(cloud.called("GetJob")) == before

    run(cloud, steps)


@pytest.mark.long
def test_more_workspaces_than_fit_into_a_poll_take_turns(run: Run) -> None:
    cloud = Cloud()
    cloud.workspaces = [{"WorkspaceId": str(n), "WorkspaceName": "w", "Status": "ENABLED"} for n in range(30)]
    config = CONFIG.replace("requests_per_second: 1000, concurrency: 8", "requests_per_second: 5, concurrency: 4")

    async def steps(fleet: Fleet) -> None:
        fleet.schedule.start()
        await asyncio.sleep(60)
        first = fleet.runner("jobs").state.parts
        assert first >= 10  # 330 calls do not fit into 50 s at 5 a second; those that were begun are ended
        await asyncio.sleep(120)
        assert fleet.runner("jobs").state.parts == 30
        assert fleet.runner("jobs").state.success is False  # and it is logged that not all fit
        await asyncio.sleep(600)
        assert fleet.runner("jobs").state.parts == 30

    run(cloud, steps, config)


def test_an_idle_pool_keeps_the_name_of_its_accelerators(run: Run) -> None:
    cloud = Cloud()
    details = {"ActualMinQuota": {"GPU": "144"}, "AllocatedQuota": {"GPU": "0"}}
    cloud.quotas = [{"QuotaId": "q", "GPUType": "GU8T", "QuotaDetails": details}]

    async def steps(fleet: Fleet) -> None:
        await fleet.exporter.poll_once()
        labels = 'pool_id="q",accelerator="gpu",accelerator_model="GU8T"'
        assert await fleet.value(f"pool_allocated_accelerators{{{labels}}}") == 0
        assert await fleet.value(f"pool_capacity_accelerators{{{labels}}}") == 144

    run(cloud, steps)


def test_missing_right_to_list_machine_types_loses_only_them(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceId="", JobSpecs=[{"Type": "Worker", "PodCount": 1, "EcsSpec": "ecs.gn6"}])]
    cloud.answer = lambda name, _: httpx.Response(403, json={"Code": "NoPermission"}) if "Ecs" in name else None

    async def steps(fleet: Fleet) -> None:
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_info")) == 1
        assert await fleet.lines("job_requested_acc") == []
        assert fleet.own("collector_errors_total", collector="jobs", reason="auth") == 1
        await fleet.exporter.poll_once()
        assert len(cloud.called("ListEcsSpecs")) == 1  # not at every poll

    run(cloud, steps)


def test_unusable_rare_readings_are_logged_once(run: Run) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceId="", JobSpecs=[{"Type": "Worker", "PodCount": 1, "EcsSpec": "ecs.gn6"}])]
    cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": "twelve"}, {"no": "name"}]

    async def steps(fleet: Fleet) -> None:
        def logged(words: str) -> int:
            return sum(words in line for line in fleet.log)

        for _ in range(3):
            assert await fleet.exporter.poll_once()
        assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 2  # of one table
        await asyncio.sleep(601)
        cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": "twelve"}]
        assert await fleet.exporter.poll_once()
        assert fleet.own("dropped_readings_total", collector="jobs", reason="malformed") == 3
        assert (logged("dropped unusable"), logged("malformed=2"), logged("no more unusable")) == (1, 1, 0)
        await asyncio.sleep(601)
        cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": 12}]
        assert await fleet.exporter.poll_once()
        assert (logged("dropped unusable"), logged("no more unusable")) == (1, 1)

    run(cloud, steps)


def test_each_operation_names_the_right_that_it_needs() -> None:
    assert Cloud().operations.keys() <= PLATFORM.permissions.keys()
    assert PLATFORM.free_calls == {"cloudmonitor": 1_000_000}
