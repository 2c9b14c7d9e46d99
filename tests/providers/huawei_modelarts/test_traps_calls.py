"""The traps of ModelArts' calls: tokens, errors, pages and parameters; by the API reference's section and number."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, PROJECT, Cloud, job, ms
from tests.support.fleet import Fleet
from tests.support.traps import Traps

trap = Traps(CONFIG)
PASSWORD = CONFIG.replace(
    "{access_key: ak, secret_key: sk}", "{username: exporter, password: hunter2, domain_name: account}"
)
NODES = CONFIG + "    collectors: {nodes: {enabled: true}}\n"
V1 = CONFIG + "    collectors: {jobs_v1: {enabled: true, interval: 60s}}\n"


def _metrics(**series: list[Any]) -> dict[str, Any]:
    return {"metrics": [{"metric": name, "value": values} for name, values in series.items()]}


@trap("1.1 the project's id by its name, where it is not given", CONFIG.replace(f"    project_id: {PROJECT}\n", ""))
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    assert await fleet.exporter.poll_once()
    assert len(cloud.called("/v3/projects")) == 1
    assert cloud.called("/v3/projects")[0]["name"] == "cn-north-4"
    cloud.projects.append({"id": "other"})
    assert await fleet.value('job_status{job_id="a",status="running"}') == 1


@trap("1.1 several projects of one name are an error", CONFIG.replace(f"    project_id: {PROJECT}\n", ""))
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.projects.append({"id": "other"})
    assert not await fleet.exporter.poll_once()
    assert any("2 projects are named cn-north-4; set project_id to one of them" in line for line in fleet.log)


@trap("1.1 keys that are not found say nothing about jobs", PASSWORD.replace(f"    project_id: {PROJECT}\n", ""))
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.answer = lambda path, request: httpx.Response(404) if path == "/v3/auth/tokens" else None
    assert not await fleet.exporter.poll_once()
    assert fleet.own("collector_errors_total", collector="workspaces", reason="auth") == 1


@trap("1.2 one token for many calls, renewed before it expires", PASSWORD)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    fleet.schedule.start()
    await asyncio.sleep((cloud.token_hours - 1) * 3600)
    assert len(cloud.called("/v3/auth/tokens")) == 1
    assert {request.headers.get("x-auth-token") for request in cloud.requests[1:]} == {"token-1"}
    await asyncio.sleep(3600)
    assert len(cloud.called("/v3/auth/tokens")) == 2
    assert fleet.own("collector_success", collector="jobs") == 1
    assert not [line for line in fleet.log if "hunter2" in line]


@trap("1.2 a token that must be updated is, and the call is made again", PASSWORD)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    assert await fleet.exporter.poll_once()
    for known, (status, code) in enumerate([(401, "APIGW.0307"), (403, "ModelArts.0206")], start=1):
        refusal, token = httpx.Response(status, json={"error_code": code}), f"token-{known}"
        refusals = {token: refusal}
        cloud.answer = lambda path, request, refusals=refusals: refusals.get(request.headers.get("x-auth-token"))  # type: ignore[misc]
        await asyncio.sleep(600)
        assert await fleet.exporter.poll_once()
        assert len(cloud.called("/v3/auth/tokens")) == known + 1  # one renewal, however many calls were refused
    assert fleet.own("collector_success", collector="jobs") == 1


@trap("2 workspaces: leaving one out means the default one only")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    other = job("b")
    other["metadata"]["workspace_id"] = "w" * 32
    cloud.workspaces.append({"id": "w" * 32, "name": "team"})
    cloud.jobs = [job("a"), other]
    cloud.pools = [{"metadata": {"name": "pool-1"}, "_workspace": "w" * 32}]
    await fleet.exporter.poll_once()
    assert len(await fleet.lines("job_info")) == 2
    assert len(await fleet.lines("pool_info")) == 1
    assert {about["workspace_id"] for about in cloud.called("training-job-searches")} == {"0", "w" * 32}


@trap("2 a configured workspace that is not listed fails by its name", CONFIG + "    workspaces: ['0', 'gone']\n")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    for _ in range(2):
        assert not await fleet.exporter.poll_once()
    assert len(await fleet.lines("job_info")) == len(await fleet.lines("workspace_info")) == 1
    assert [line for line in await fleet.lines("") if "gone" in line] == []
    assert fleet.own("collector_success", collector="workspaces") == 0
    assert fleet.own("collector_success", collector="jobs") == 1
    assert sum("the cloud does not list this workspace" in line and "part=gone" in line for line in fleet.log) == 1


@trap("3.3 204 and empty answers are no data, not errors")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a"), job("b"), job("c")]
    cloud.metrics = {("a", "worker-0"): None, ("b", "worker-0"): {"metrics": []}}
    empty = httpx.Response(200, content=b"")
    cloud.answer = lambda path, request: empty if "/c/metrics" in path else None
    assert await fleet.exporter.poll_once()
    assert await fleet.lines("job_cpu", "job_usage") == []
    assert fleet.own("dropped_readings_total", collector="task_metrics", reason="no_data") == 3
    counted = {"api": "modelarts", "operation": "ShowTrainingJobMetrics"}
    assert fleet.own("api_requests_total", **counted, outcome="no_data") == 2


@trap("3.3 a job that is unknown is HTTP 400, not 404")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a", tasks=["worker-0", "worker-1"])]
    cloud.metrics[("a", "worker-1")] = _metrics(cpuUsage=[50])
    unknown = httpx.Response(400, json={"error_code": "ModelArts.2775", "error_msg": "no such job"})
    cloud.answer = lambda path, request: unknown if path.endswith("worker-0") else None
    assert await fleet.exporter.poll_once()
    assert await fleet.value('job_cpu_utilization_ratio{job_id="a"}') == 0.5
    counted = {"api": "modelarts", "operation": "ShowTrainingJobMetrics"}
    assert fleet.own("api_requests_total", **counted, outcome="not_found") == 1
    cloud.jobs.clear()
    assert await fleet.exporter.poll_once()
    assert await fleet.lines("job_info") == []


@trap("8.1 v1 says with HTTP 200 that it failed", V1)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    refusal = httpx.Response(200, json={"is_success": False, "error_code": "ModelArts.0105", "error_message": "broken"})
    cloud.answer = lambda path, request: refusal if path.endswith("/training-jobs") else None
    assert not await fleet.exporter.poll_once()
    assert fleet.own("collector_errors_total", collector="jobs_v1", reason="client") == 1
    assert any("ModelArts.0105 broken" in line for line in fleet.log)


@trap("8.2 the HTTP status decides first, then the code")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    for status, code, outcome in (
        (401, "APIGW.0301", "auth"),
        (403, "ModelArts.0210", "auth"),
        (403, "APIGW.0308", "throttled"),
        (429, "APIGW.0308", "throttled"),
        (404, "APIGW.0101", "client"),  # an address that the gateway does not know is nothing lost
        (404, "ModelArts.2775", "not_found"),
        (503, "APIGW.0613", "server"),
    ):
        error = {"error_code": code, "error_msg": "ak HSTA44319FA276FD6647 not exist"}
        refusal = httpx.Response(status, json=error)
        cloud.answer = lambda path, request, refusal=refusal: refusal if "runtime" in path else None  # type: ignore[misc]
        counted = {"api": "modelarts", "operation": "ShowPoolRuntimeMetrics", "outcome": outcome}
        before = fleet.own("api_requests_total", **counted) or 0
        await fleet.runner("workspaces").tick()
        await fleet.runner("pools").tick()
        assert (fleet.own("api_requests_total", **counted) or 0) > before, (status, code)
        await asyncio.sleep(900)  # the circuit closes again
    assert any("ak <secret> not exist" in line for line in fleet.log)
    assert not any("HSTA44319FA276FD6647" in line for line in fleet.log)


@trap("8.4.1 offset is a page's number in the search of jobs")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job(f"j{n:03}") for n in range(120)]
    assert await fleet.exporter.poll_once()
    assert await fleet.value('jobs{workspace_id="0",status="running",platform_status="Running"}') == 120
    lists = [about for about in cloud.called("searches") if len(about["filters"]) == 1]
    pages = [about["offset"] for about in lists]
    assert pages == [0, 1, 2]


@trap("8.5 a region without workspaces has the default one")
async def _(cloud: Cloud, fleet: Fleet) -> None:
    refusal = httpx.Response(404, json={"error_code": "APIGW.0101", "error_msg": "The API does not exist"})
    refusals = [refusal]
    cloud.answer = lambda path, request: refusal if refusals and path.endswith("/workspaces") else None
    cloud.jobs = [job("a")]
    assert await fleet.exporter.poll_once()
    assert await fleet.value('workspace_info{workspace_id="0",workspace_name="default"}') == 1
    refusals.clear()
    assert await fleet.exporter.poll_once()
    refusals.append(refusal)
    assert not await fleet.exporter.poll_once()  # it has served them


@trap("IAM that is down while the token is valid takes nothing along", PASSWORD)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.jobs = [job("a")]
    fleet.schedule.start()
    await asyncio.sleep((cloud.token_hours - 0.8) * 3600)
    broken = httpx.Response(503, json={"error": {"code": 503, "message": "down"}})
    cloud.answer = lambda path, request: broken if path.startswith("/v3") else None
    await asyncio.sleep(0.7 * 3600)  # the margin is over, the token is not
    assert fleet.own("collector_success", collector="jobs") == 1
    assert len(await fleet.lines("job_info")) == 1


@trap("a wrong password is not tried again and again", PASSWORD)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    refusal = httpx.Response(401, json={"error": {"code": 401, "message": "wrong password", "title": "Unauthorized"}})
    cloud.answer = lambda path, request: refusal if path.startswith("/v3") else None
    fleet.schedule.start()
    await asyncio.sleep(3600)
    assert 10 <= len(cloud.called("/v3/auth/tokens")) <= 13  # every five minutes
    assert fleet.own("collector_success", collector="workspaces") == 0
    assert not [line for line in fleet.log if "hunter2" in line]


@trap("a token that is refused for another reason than its age is not renewed at every call", PASSWORD)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    refusal = httpx.Response(401, json={"error_code": "APIGW.0307", "error_msg": "The token must be updated."})
    cloud.answer = lambda path, request: None if path.startswith("/v3") else refusal
    fleet.schedule.start()
    await asyncio.sleep(3600)
    assert len(cloud.called("/v3/auth/tokens")) <= 13


@trap("a job of many tasks has its usage, if later", CONFIG.replace("second: 1000", "second: 5"))
async def _(cloud: Cloud, fleet: Fleet) -> None:
    names = [f"worker-{n}" for n in range(300)]
    cloud.jobs = [job("big", tasks=names)]
    cloud.metrics = {("big", name): _metrics(cpuUsage=[50]) for name in names}
    fleet.schedule.start()
    await asyncio.sleep(200)
    assert await fleet.value('job_cpu_utilization_ratio{job_id="big"}') == 0.5
    assert len(await fleet.lines("pod_cpu")) == 300


@trap("8.4.1 offset is a record's number in workloads, and nodes come by token", NODES)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.pools = [{"metadata": {"name": "pool-1"}}]
    cloud.workloads["pool-1"] = {"statistics": {"items": [{"type": "train", "status": {"Queue": 600}}]}}
    cloud.queued["pool-1"] = [{"uid": str(number), "jobUUID": str(number)} for number in range(600)]
    cloud.nodes["pool-1"] = [{"metadata": {"name": f"n{number}"}} for number in range(60)]
    assert await fleet.exporter.poll_once()
    assert [about["offset"] for about in cloud.called("/pools/pool-1/workloads") if about] == ["0", "500"]
    assert [about.get("continue") for about in cloud.called("/nodes")] == [None, "token-50"]
    assert len(await fleet.lines("node_info")) == 60


@trap("v1: one workspace that is refused leaves the others; old jobs are outside the window", V1)
async def _(cloud: Cloud, fleet: Fleet) -> None:
    cloud.workspaces.append({"id": "w" * 32, "name": "team"})
    refusal = httpx.Response(403, json={"error_code": "ModelArts.0112", "error_msg": "not yours"})
    cloud.answer = lambda path, request: (
        refusal if path.endswith("training-jobs") and request.url.params.get("workspace_id") != "0" else None
    )
    cloud.v1_jobs = [
        {"job_id": 1, "version_id": 1, "status": 10, "create_time": ms(-40 * 86400)},
        {"job_id": 2, "version_id": 2, "status": 10, "create_time": ms(-86400)},
        {"job_id": 3, "version_id": 3, "status": 8, "create_time": ms(-40 * 86400)},
    ]
    npu = {"unit_num": "8", "product_name": "ascend-910"}
    cloud.v1_versions = {"3": [{"version_id": 3, "status": None, "npu_info": npu, "worker_server_num": 2}]}
    assert not await fleet.exporter.poll_once()
    completed = 'jobs{workspace_id="0",status="succeeded",platform_status="JOBSTAT_COMPLETED"}'
    assert await fleet.value(completed) == 1
    assert await fleet.value('job_status{job_id="3/3",status="running"}') == 1
    accelerators = 'job_requested_accelerators{job_id="3/3",accelerator="npu",accelerator_model="ascend-910"}'
    assert await fleet.value(accelerators) == 16
    assert fleet.own("collector_parts_failed", collector="jobs_v1") == 1
    cloud.answer = lambda path, request: refusal if path.endswith("training-jobs") else None
    npu["unit_num"] = "4"
    await fleet.exporter.poll_once()
    assert await fleet.value(accelerators) == 8  # jobs of the last list are still read


@pytest.mark.parametrize("name", trap.names)
def test_trap(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    trap.run(name, Cloud(), tmp_path, monkeypatch, caplog)
