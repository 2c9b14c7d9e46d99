"""The log of answers and the rules of failure, for the second cloud."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.client import send
from tests.simulator.modelarts.client import POOLS, SEARCHES, V1, V2, Caller, refusal
from trainfleet_simulator import Fault
from trainfleet_simulator.modelarts.catalog import ASCEND, GPU, TEAM_WORKSPACE
from trainfleet_simulator.truth import outcome_of


def truth_of(caller: Caller, **query: str) -> dict[str, Any]:
    answer: dict[str, Any] = send(caller.simulator, "/truth", query).json()
    return answer


def test_answers_are_logged_under_the_sdks_names() -> None:
    caller = Caller()
    phases = [{"key": "phase", "operator": "in", "value": ["Running", "Pending"]}]
    found = caller.search(limit=5, workspace_id="0", filters=phases)
    job_id = caller.job_id("waits-for-room")
    caller.get(f"{V2}/training-jobs/{job_id}/metrics/worker-0")
    caller.get(f"{V2}/training-jobs/nosuch")
    caller.get(f"{POOLS}/nosuch/workloads")
    caller.body(f"{V1}/training-jobs")
    caller.body("/v3/projects")
    caller.get("/v2/nowhere")
    truth = truth_of(caller)
    assert truth["calls"] == {
        "modelarts": {
            "ListTrainingJobs": {"ok": 1},
            "ShowTrainingJobMetrics": {"no_data": 1},
            "ShowTrainingJobDetails": {"not_found": 1},
            "ListWorkloads": {"not_found": 1},
            "ListTrainingJobsV1": {"ok": 1},
            "unknown": {"client": 1},
        },
        "iam": {"KeystoneListProjects": {"ok": 1}},
    }
    search, metrics, *_ = truth["answers"]
    assert search["query"]["phase"] == "Running,Pending"
    assert search["query"]["workspace_id"] == "0"
    assert search["total"] == found["total"]
    assert search["rows"] == [[row["metadata"]["id"], row["status"]["phase"]] for row in found["items"]]
    assert (metrics["query"]["JobId"], metrics["query"]["TaskId"]) == (job_id, "worker-0")


def test_readings_are_logged_by_their_newest_values() -> None:
    caller = Caller()
    series = caller.metrics("gpu-steady")
    (logged,) = truth_of(caller, operation="ShowTrainingJobMetrics")["answers"]
    assert logged["rows"] == [[metric, values[-5:]] for metric, values in series.items()]


def test_no_password_is_logged() -> None:
    caller = Caller()
    caller.post("/v3/auth/tokens", {"auth": {"identity": {"password": {"user": {"password": "planted-password"}}}}})
    truth = truth_of(caller)
    assert truth["calls"] == {"iam": {"KeystoneCreateUserTokenByPassword": {"client": 1}}}
    assert "planted-password" not in str(truth)


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (401, "APIGW.0307", "auth"),
        (403, "ModelArts.0210", "auth"),
        (404, "APIGW.0101", "client"),
        (400, "ModelArts.2775", "not_found"),
        (404, "ModelArts.50015001", "not_found"),
        (400, "ModelArts.2807", "client"),
        (429, "APIGW.0308", "throttled"),
        (500, "ModelArts.0010", "server"),
    ],
)
def test_outcomes_have_the_contracts_words(status: int, code: str, outcome: str) -> None:
    assert outcome_of(status, code) == outcome


def test_one_workspace_one_phase_or_one_pool_fails() -> None:
    caller = Caller()
    faults = caller.simulator.faults
    faults.add(Fault(match={"operation": "ListTrainingJobs", "workspace_id": TEAM_WORKSPACE}, status=500))
    faults.add(Fault(match={"operation": "ListTrainingJobs", "phase": "Running"}, status=429))
    faults.add(Fault(match={"PoolId": GPU}, status=503, headers={"Retry-After": "7"}))
    assert refusal(caller.post(SEARCHES, {"workspace_id": TEAM_WORKSPACE})) == (500, "ModelArts.0010")
    running = {"filters": [{"key": "phase", "operator": "in", "value": ["Running"]}]}
    throttled = caller.post(SEARCHES, running)
    assert refusal(throttled) == (429, "APIGW.0308")
    assert "limit:60,time:1 minute" in throttled.json()["error_msg"]
    assert caller.search()["total"] > 0
    broken = caller.get(f"{V2}/statistics/pools/{GPU}/workloads")
    assert (broken.status_code, broken.headers["retry-after"]) == (503, "7")
    assert caller.body(f"{V2}/statistics/pools/{ASCEND}/workloads")


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "ModelArts.2764"), (401, "APIGW.0301"), (403, "ModelArts.0108"), (404, "APIGW.0101"), (503, "APIGW.0613")],
)
def test_a_fault_without_a_body_has_the_services_usual_code(status: int, code: str) -> None:
    caller = Caller()
    caller.simulator.faults.add(Fault(match={"api": "modelarts"}, status=status))
    assert refusal(caller.get(POOLS)) == (status, code)


def test_a_fault_may_say_what_the_gateway_says() -> None:
    caller = Caller()
    body = {"error_code": "APIGW.0307", "error_msg": "The token must be updated"}
    caller.simulator.faults.add(Fault(match={"api": "modelarts"}, status=401, body=body, times=1))
    assert caller.get(POOLS).json() == body
    assert caller.get(POOLS).status_code == 200
    assert truth_of(caller)["calls"]["modelarts"]["ListPools"] == {"auth": 1, "ok": 1}
