"""PAI's collectors on scripted answers: whole lists or none, how jobs end, filters, freshness, cost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from tests.providers.alibaba_pai.cloud import CONFIG, RUNNING, Cloud, FleetOf, job
from tests.providers.alibaba_pai.worlds import rich_cloud
from tests.support.golden import check_golden_samples
from trainfleet_exporter.providers.alibaba_pai.provider import PLATFORM

GOLDEN = Path(__file__).parent / "golden"


async def test_golden_exposition_of_a_whole_poll(fleet_of: FleetOf) -> None:
    config = CONFIG.replace("providers:", "global: {metrics: {job_labels: [team, cost-center]}}\nproviders:")
    async with fleet_of(rich_cloud(), config) as fleet:
        assert await fleet.exporter.poll_once()
        assert await fleet.exporter.poll_once()
        check_golden_samples(GOLDEN / "whole_poll.txt", await fleet.lines(""))


async def test_configured_workspaces_are_polled_without_a_list(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    cloud.answer = lambda name, _: httpx.Response(403, json={"Code": "NoPermission"}) if "Workspaces" in name else None
    config = CONFIG.replace("    limits", '    workspaces: ["1"]\n    limits')
    async with fleet_of(cloud, config) as fleet:
        assert not await fleet.exporter.poll_once()
        assert await fleet.value(RUNNING) == 1
        assert fleet.own("collector_success", collector="jobs") == 1
        assert fleet.own("collector_success", collector="workspaces") == 0


async def test_unlisted_configured_workspace_fails_by_name(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    config = CONFIG.replace("    limits", '    workspaces: ["1", "“2”"]\n    limits')
    async with fleet_of(cloud, config) as fleet:

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


async def test_an_idle_pool_keeps_the_name_of_its_accelerators(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    details = {"ActualMinQuota": {"GPU": "144"}, "AllocatedQuota": {"GPU": "0"}}
    cloud.quotas = [{"QuotaId": "q", "GPUType": "GU8T", "QuotaDetails": details}]
    cloud.jobs = [job("a", ResourceId="q", RequestGPU="8")]

    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(request.headers["x-acs-action"] == "ListQuotas")
        return cloud(request)

    async with fleet_of(answer) as fleet:
        await fleet.exporter.poll_once()
        labels = 'pool_id="q",accelerator="gpu",accelerator_model="GU8T"'
        assert await fleet.value(f"pool_allocated_accelerators{{{labels}}}") == 0
        assert await fleet.value(f"pool_capacity_accelerators{{{labels}}}") == 144
        labels = labels.replace("pool_id", "job_id").replace('"q"', '"a"')  # not "" at first: rules add up models
        assert await fleet.value(f"job_requested_accelerators{{{labels}}}") == 8


async def test_missing_right_to_list_machine_types_loses_only_them(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", ResourceId="", JobSpecs=[{"Type": "Worker", "PodCount": 1, "EcsSpec": "ecs.gn6"}])]
    cloud.answer = lambda name, _: httpx.Response(403, json={"Code": "NoPermission"}) if "Ecs" in name else None
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("job_info")) == 1
        assert await fleet.lines("job_requested_acc") == []
        assert fleet.own("collector_errors_total", collector="jobs", reason="auth") == 1
        await fleet.exporter.poll_once()
        assert len(cloud.called("ListEcsSpecs")) == 1  # not at every poll


def test_each_operation_names_the_right_that_it_needs() -> None:
    assert Cloud().operations.keys() <= PLATFORM.permissions.keys()
