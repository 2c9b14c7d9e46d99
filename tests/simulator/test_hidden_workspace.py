"""A workspace that vanishes: it is not listed, asking for it is refused, and its jobs are found nowhere."""

from __future__ import annotations

import json

from tests.simulator.client import Caller
from tests.simulator.modelarts.client import POOLS, V1, V2, refusal
from tests.simulator.modelarts.client import Caller as ModelArtsCaller
from tests.simulator.pai.client import answered, rpc
from trainfleet_simulator.modelarts import catalog

JOBS = "/api/v1/jobs"
TEAM = catalog.TEAM_WORKSPACE


def pai_jobs(caller: Caller) -> set[str]:
    """All jobs that any operation of PAI tells of."""
    found = {job["JobId"] for job in caller.all_jobs(StartTime="2025-01-01T00:00:00Z")}
    for quota in caller.body("paistudio", "ListQuotas", "/api/v1/quotas/", PageSize="50")["Quotas"]:
        path = f"/api/v1/quotas/{quota['QuotaId']}/workloads"
        answer = caller.body("paistudio", "ListQuotaWorkloads", path, PageSize="100")
        found |= {row["WorkloadId"] for row in answer["Workloads"]}
    last = {"Namespace": "acs_pai_dlc", "MetricName": "JOB_CPU_UTIL"}
    body = answered(rpc(caller, "cloudmonitor", "DescribeMetricLast", **last))
    return found | {point["jobId"] for point in json.loads(body["Datapoints"])}


def test_on_pai() -> None:
    caller = Caller()
    world = caller.world
    before = pai_jobs(caller)
    mine = {job_id for job_id in before if world.jobs[job_id].draft.workspace_id == "12346"}
    live = next(job for job in world.live() if job.draft.workspace_id == "12346" and job.pods)
    assert mine < before
    world.hidden.add("12346")

    listed = caller.body("aiworkspace", "ListWorkspaces", "/api/v1/workspaces")
    assert {row["WorkspaceId"] for row in listed["Workspaces"]} == {"12345", "12347"}
    assert listed["TotalCount"] == 2
    assert pai_jobs(caller) == before - mine
    assert caller.refusal("dlc", "ListJobs", JOBS, WorkspaceId="12346") == (403, "NoPermission")
    assert caller.refusal("dlc", "GetJob", f"{JOBS}/{live.job_id}") == (404, "NotFound")
    metrics = caller.refusal("dlc", "GetJobMetrics", f"{JOBS}/{live.job_id}/metrics", MetricType="CpuCoreUsage")
    assert metrics == (404, "NotFound")
    named = {"Namespace": "acs_pai_dlc", "MetricName": "JOB_CPU_UTIL"}
    points = rpc(caller, "cloudmonitor", "DescribeMetricLast", **named, Dimensions=json.dumps({"jobId": live.job_id}))
    assert answered(points)["Datapoints"] == "[]"
    quotas = caller.body("paistudio", "ListQuotas", "/api/v1/quotas/", PageSize="50")["Quotas"]
    assert "quota1simvisio" not in {quota["QuotaId"] for quota in quotas}
    assert {row["WorkspaceId"] for quota in quotas for row in quota["Workspaces"]} == {"12345", "12347"}

    world.hidden.remove("12346")
    assert pai_jobs(caller) == before
    assert caller.jobs(WorkspaceId="12346")["TotalCount"] > 0


def modelarts_jobs(caller: ModelArtsCaller, *workspaces: str) -> set[str]:
    """All jobs that any operation of ModelArts tells of."""
    found = {job["metadata"]["id"] for workspace in workspaces for job in caller.all_jobs(workspace)}
    for row in caller.body(f"{V2}/metrics/runtime/pools")["items"]:
        for one in caller.body(f"{POOLS}/{row['metadata']['name']}/workloads")["items"]:
            found |= {one["jobUUID"]} if "jobUUID" in one else set()
    vector = caller.body(f"{V1}/aom/api/v1/query", query="avg by (service_id) (ma_container_cpu_util)")
    return found | {row["metric"]["service_id"] for row in vector["data"]["result"]} & caller.world.jobs.keys()


def test_on_modelarts() -> None:
    caller = ModelArtsCaller()
    before = modelarts_jobs(caller, catalog.DEFAULT, TEAM)
    mine = {job_id for job_id in before if caller.world.jobs[job_id].draft.workspace_id == TEAM}
    steady = caller.job_id("gpu-steady")
    assert steady in mine
    used = caller.body(f"{V2}/training-quotas")["quotas"][0]["used"]
    caller.world.hidden.add(TEAM)

    listed = caller.body(f"{V1}/workspaces")
    assert ([row["id"] for row in listed["workspaces"]], listed["total_count"]) == ([catalog.DEFAULT], 1)
    assert modelarts_jobs(caller, catalog.DEFAULT) == before - mine
    gone = (403, "ModelArts.0112")
    assert refusal(caller.post(f"{V2}/training-job-searches", {"workspace_id": TEAM})) == gone
    assert refusal(caller.get(POOLS, workspaceId=TEAM)) == gone
    for path in (f"{V2}/training-jobs/{steady}", f"{V2}/training-jobs/{steady}/metrics/worker-0"):
        assert refusal(caller.get(path)) == (400, "ModelArts.2775")
    for what in ("monitor", "nodes", "workloads"):
        assert refusal(caller.get(f"{POOLS}/{catalog.GPU}/{what}")) == (404, "ModelArts.50015001")
    assert caller.body(f"{V2}/training-quotas")["quotas"][0]["used"] < used

    caller.world.hidden.remove(TEAM)
    assert modelarts_jobs(caller, catalog.DEFAULT, TEAM) == before


def test_hidden_default_workspace_hides_v1_jobs() -> None:
    caller = ModelArtsCaller(population=5)
    jobs = caller.body(f"{V1}/training-jobs")["jobs"]
    hidden = caller.simulator.worlds["modelarts-v1"].hidden
    hidden.add(catalog.DEFAULT)
    assert caller.get(f"{V1}/training-jobs").status_code == 403
    assert caller.get(f"{V1}/training-jobs/{jobs[0]['job_id']}/versions").status_code == 404
    hidden.remove(catalog.DEFAULT)
    assert caller.body(f"{V1}/training-jobs")["jobs"] == jobs
