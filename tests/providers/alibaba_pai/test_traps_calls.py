"""The traps of PAI's calls: errors, pages, parameters and rights; by the API reference's section and number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, at, job, metric, point
from tests.providers.test_forgetting import texts_of
from tests.support.clock import START
from tests.support.fleet import Fleet
from tests.support.traps import Traps

CLOUDMONITOR = CONFIG.replace("source: job_metrics", "source: cloudmonitor")

SLOW = CONFIG.replace("second: 1000", "second: 5")
trap = Traps(CONFIG)
DAY = 86400.0
MS = 1000


def _refuse(operation: str, response: httpx.Response) -> Callable[[str, dict[str, str]], httpx.Response | None]:
    return lambda called, query: response if called == operation else None


def _monitor(cloud: Cloud, name: str = "JOB_CPU_UTIL", unit: str = "%") -> None:
    """One running job, and one metric of the catalogue with a point of it."""
    cloud.jobs = [job("a")]
    cloud.catalogue = [metric(name, unit)]
    cloud.points[name] = [point("a", 50)]


@trap("6 wait hints are milliseconds, in two headers; junk is no hint")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    loop = asyncio.get_running_loop()
    hints = [
        ({"x-acs-retry-after": "1500"}, 1.5),
        ({"x-ratelimit-user": "Limit:1,Remain:0,TimeLeft:2000,Reset:1234"}, 2.0),
        ({"x-acs-retry-after": "-5"}, 0.0),
        ({"x-acs-retry-after": "soon"}, 0.0),
    ]
    pools = fleet.runner("pools")
    for headers, wait in hints:
        for _ in range(11):  # so many calls earn the right to retry once
            await pools.tick()
        refusals = [httpx.Response(429, json={"code": "Throttling.Api"}, headers=headers)]
        cloud.answer = lambda name, query, left=refusals: (  # type: ignore[misc]  # a default binds this round's list
            left.pop() if name == "ListQuotas" and left else None
        )
        began = loop.time()
        await pools.tick()
        assert pools.state.success
        waited = loop.time() - began
        assert waited == pytest.approx(wait, abs=0.3) if wait else waited < 1.0


@trap("6 error keys come in lower case too")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    refusal = httpx.Response(403, json={"code": "NoPermission", "message": "pai:ListQuotas", "requestId": "R1"})
    cloud.answer = _refuse("ListQuotas", refusal)
    await fleet.exporter.poll_once()
    assert fleet.own("api_requests_total", api="paistudio", operation="ListQuotas", outcome="auth") == 1


@trap("6 every attempt has a nonce of its own")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    await fleet.exporter.poll_once()
    assert len(cloud.calls) > 15
    nonces = [query["nonce"] for _, query in cloud.calls]
    assert len(set(nonces)) == len(nonces)


@trap("6 rights are not enough: a list cut by membership is empty, and no error")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.workspaces = []
    assert await fleet.exporter.poll_once()
    assert await fleet.lines("jobs", "workspace_info", "pool_") == []


@trap("6 a job that is gone when its detail is asked for is not an error")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    cloud.answer = _refuse("GetJob", httpx.Response(404, json={"Code": "NotFound", "Message": "gone"}))
    assert await fleet.exporter.poll_once()
    assert await fleet.lines("pod_") == []
    assert fleet.own("api_requests_total", api="dlc", operation="GetJob", outcome="not_found") == 1


@trap("7.1 a job that has run for 20 days is outside the default window")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("old", GmtCreateTime=at(-20 * DAY), GmtRunningTime=at(-20 * DAY + 60))]
    await fleet.exporter.poll_once()
    assert await fleet.value('job_status{job_id="old",status="running"}') == 1
    assert await fleet.value('jobs{workspace_id="1",status="running",platform_status="Running"}') == 1
    assert all("StartTime" in query for query in cloud.called("ListJobs"))


@trap("7.11, 7.12, 8 ListQuotas: lower case, a slash at the end, no ResourceType: naming ACS fails")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    await fleet.exporter.poll_once()
    query = cloud.called("ListQuotas")[0]
    assert (query["Verbose"], query["path"]) == ("true", "/api/v1/quotas/")
    assert "ResourceType" not in query


@trap("8 ListEcsSpecs: every SortBy is refused; its types say what jobs on public resources hold", SLOW)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.ecs_specs = [{"InstanceType": "ecs.gn6", "Cpu": 12, "Memory": 92, "Gpu": 1, "GpuType": "NVIDIA V100"}]
    nothing = {"CPU": "", "GPU": "", "Memory": ""}
    specs = [{"Type": "Worker", "PodCount": 4, "EcsSpec": "ecs.gn6", "ResourceConfig": nothing}]
    more = [*specs, {"Type": "PS", "PodCount": 1, "EcsSpec": "ecs.unheard.of"}]
    cloud.jobs = [job("a", ResourceId="", JobSpecs=specs), job("b", ResourceId="", JobSpecs=more, WorkspaceId="2")]
    cloud.workspaces.append({"WorkspaceId": "2"})
    await fleet.exporter.poll_once()
    label = 'accelerator="gpu",accelerator_model="NVIDIA V100"'
    assert await fleet.value(f'job_requested_accelerators{{job_id="a",{label}}}') == 4
    assert await fleet.value('job_requested_memory_bytes{job_id="a"}') == 4 * 92 * 2**30
    assert await fleet.value('job_requested_cpu_cores{job_id="a"}') == 48
    assert await fleet.lines('job_requested_cpu_cores{provider="p",job_id="b"') == []  # not half of it
    await fleet.exporter.poll_once()
    assert len(cloud.called("ListEcsSpecs")) == 1  # for all workspaces; six hours are not over
    assert "SortBy" not in cloud.called("ListEcsSpecs")[0]


@trap("8 hosts come from the documented pattern, not from the SDK's map")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    await fleet.exporter.poll_once()
    assert {(name, query["host"]) for name, query in cloud.calls if name != "GetJob"} >= {
        ("ListWorkspaces", "aiworkspace.cn-hangzhou.aliyuncs.com"),
        ("ListJobs", "pai-dlc.cn-hangzhou.aliyuncs.com"),
        ("ListQuotas", "pai.cn-hangzhou.aliyuncs.com"),
    }


@trap("4.1 every call is a POST to / with its parameters in the query, signed for version 2019-01-01", CLOUDMONITOR)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    _monitor(cloud)
    assert await fleet.exporter.poll_once()
    for operation in ("DescribeMetricMetaList", "DescribeMetricLast"):
        query = cloud.called(operation)[0]
        assert (query["method"], query["path"], query["version"]) == ("POST", "/", "2019-01-01")
        assert query["Namespace"] == "acs_pai_dlc"
        assert "RegionId" not in query


@trap("4.1 HTTP 200 with Success false is an error, by its code", CLOUDMONITOR)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    _monitor(cloud)
    answers = {
        "client": {"Code": "ParameterInvalid", "Success": False, "Message": "no such metric"},
        "throttled": {"Code": "Throttling.User", "Success": False, "Message": "slow down"},
        "auth": {"Code": "Forbidden.RAM", "Success": False, "Message": "no"},
        "server": {"Code": "InternalError", "Success": "false"},
        "not_found": {"Code": "404", "Success": False},
        "bad_answer": {"Code": "200", "Success": True, "Datapoints": "not JSON"},
    }
    usage = fleet.runner("usage")
    await fleet.exporter.poll_once()
    for reason, answer in answers.items():
        cloud.answer = _refuse("DescribeMetricLast", httpx.Response(200, json=answer))
        await usage.tick()
        assert fleet.own("collector_errors_total", collector="usage", reason=reason) == 1, reason
        assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5  # by its last good answer
        await asyncio.sleep(60)


@trap("4.1 numbers come as text in the catalogue and in answers", CLOUDMONITOR)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    _monitor(cloud)
    cloud.points["JOB_CPU_UTIL"] = [{**point("a", "50"), "timestamp": str(int((START - 60) * MS))}]
    answer = {"Code": 200, "Success": "true", "Period": 60, "NextToken": None}
    cloud.answer = lambda operation, query: (
        httpx.Response(200, json={**answer, "Datapoints": json.dumps(cloud.points["JOB_CPU_UTIL"])})
        if operation == "DescribeMetricLast"
        else None
    )
    assert await fleet.exporter.poll_once()
    assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5


@trap("4.4 misspellings are part of names, and the day they are fixed is no outage", CLOUDMONITOR)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    _monitor(cloud, "JOB_GPU_ACCELERATOR_DUTY_UTIL")
    cloud.catalogue.append(metric("JOB_NETWORK_RECEVICE_RATE", "MB/s"))
    cloud.points["JOB_NETWORK_RECEVICE_RATE"] = [point("a", 2)]
    assert await fleet.exporter.poll_once()
    assert await fleet.value('job_accelerator_utilization_ratio{job_id="a",accelerator="gpu"}') == 0.5
    assert await fleet.value('job_network_receive_bytes_per_second{job_id="a"}') == 2e6


@trap("8 the period is one that the catalogue has for the metric", CLOUDMONITOR)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    _monitor(cloud)
    cloud.catalogue = [metric("JOB_CPU_UTIL", "%", Periods="15,300,900")]
    assert await fleet.exporter.poll_once()
    assert [query["Period"] for query in cloud.called("DescribeMetricLast")] == ["300"]


@trap("2 a list that is shorter than its own total is no list: what was shown stays")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.workspaces += [{"WorkspaceId": "2"}]
    assert await fleet.exporter.poll_once()
    shown = await fleet.lines("workspace_info")
    short = {"TotalCount": 2, "Workspaces": [{"WorkspaceId": "1"}]}
    cloud.answer = _refuse("ListWorkspaces", httpx.Response(200, json=short))
    await fleet.runner("workspaces").tick()
    assert fleet.own("collector_errors_total", collector="workspaces", reason="bad_answer") == 1
    assert await fleet.lines("workspace_info") == shown
    assert len(shown) == 2


@trap("4 usage of a job that is gone is forgotten", CLOUDMONITOR + "global: {finished_job_retention: 1m}\n")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    _monitor(cloud)
    cloud.jobs, cloud.points["JOB_CPU_UTIL"] = [job("gone-job")], [point("gone-job", 50)]
    assert await fleet.exporter.poll_once()
    assert "gone-job" in texts_of(fleet.exporter)
    cloud.jobs, cloud.points["JOB_CPU_UTIL"] = [], []
    for _ in range(3):
        await asyncio.sleep(120)
        assert await fleet.exporter.poll_once()
    assert "gone-job" not in texts_of(fleet.exporter)


@pytest.mark.parametrize("name", trap.names)
def test_trap(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    trap.run(name, Cloud(), tmp_path, monkeypatch, caplog)
