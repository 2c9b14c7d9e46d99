"""The log of answers, and calls that are made to fail."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.simulator.client import START, Caller, send, signed_headers
from trainfleet_simulator import Fault
from trainfleet_simulator.truth import outcome_of

JOBS = "/api/v1/jobs"


def truth_of(caller: Caller, **query: str) -> dict[str, Any]:
    response = send(caller.simulator, "/truth", query)
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    return answer


def test_answers_are_logged_as_they_were_given() -> None:
    caller = Caller()
    answer = caller.jobs(Status="Running", WorkspaceId="12347", PageSize="5")
    caller.body("paistudio", "ListQuotas", "/api/v1/quotas/")
    caller.refusal("dlc", "ListJobs", JOBS, Status="Nonsense")
    caller.refusal("dlc", "GetJob", f"{JOBS}/nosuch")
    truth = truth_of(caller)
    assert truth["now"] == START
    assert truth["calls"] == {
        "dlc": {"ListJobs": {"ok": 1, "client": 1}, "GetJob": {"not_found": 1}},
        "paistudio": {"ListQuotas": {"ok": 1}},
    }
    first, quotas, refused, missing = truth["answers"]
    assert first["seq"] == 1
    assert first["request_id"] == answer["RequestId"]
    assert first["query"] == {"Status": "Running", "WorkspaceId": "12347", "PageSize": "5"}
    assert first["total"] == answer["TotalCount"]
    assert first["rows"] == [[job["JobId"], job["Status"], job["SubStatus"]] for job in answer["Jobs"]]
    assert quotas["rows"][0][0].startswith("quota1")
    assert "AllocatedQuota" in quotas["rows"][0][2]
    assert (refused["outcome"], refused["total"], refused["rows"]) == ("client", None, [])
    assert missing["query"] == {"JobId": "nosuch"}


def test_metrics_are_logged_by_their_newest_value() -> None:
    caller = Caller()
    job_id = caller.job("asr-steady")["JobId"]
    answer = caller.body("dlc", "GetJobMetrics", f"{JOBS}/{job_id}/metrics", MetricType="CpuCoreUsage")
    (logged,) = truth_of(caller, operation="GetJobMetrics")["answers"]
    assert logged["query"]["JobId"] == job_id
    assert logged["rows"] == [[pod["PodId"], "CpuCoreUsage", pod["Metrics"][-1]] for pod in answer["PodMetrics"]]


def test_the_log_can_be_read_from_where_one_left_off() -> None:
    caller = Caller()
    for _ in range(3):
        caller.jobs()
    caller.body("aiworkspace", "ListWorkspaces", "/api/v1/workspaces")
    assert [answer["seq"] for answer in truth_of(caller, since="2")["answers"]] == [3, 4]
    assert [answer["seq"] for answer in truth_of(caller, since="1", operation="ListJobs")["answers"]] == [2, 3]
    assert send(caller.simulator, "/truth", {"since": "x"}).status_code == 400


def test_log_has_refused_signatures_and_bounded_operations() -> None:
    caller = Caller()
    send(caller.simulator, JOBS, headers=signed_headers(JOBS, {}, access_key_secret="wrong"))
    for name in ("MadeUp1", "MadeUp2"):
        send(caller.simulator, JOBS, headers=signed_headers(JOBS, {}, action=name))
    send(caller.simulator, "/favicon.ico")
    assert truth_of(caller)["calls"] == {
        "dlc": {"ListJobs": {"auth": 1}, "unknown": {"client": 2}},
        "unknown": {"unknown": {"auth": 1}},
    }


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (200, "", "ok"),
        (400, "Throttling.User", "throttled"),
        (429, "", "throttled"),
        (503, "ServiceUnavailable", "server"),
        (403, "Forbidden.RAM", "auth"),
        (400, "InvalidTimeStamp.Expired", "auth"),
        (404, "InvalidAccessKeyId.NotFound", "auth"),
        (404, "InvalidAction.NotFound", "client"),
        (404, "NotFound", "not_found"),
        (400, "InvalidParameter", "client"),
    ],
)
def test_outcomes_have_the_contracts_words(status: int, code: str, outcome: str) -> None:
    assert outcome_of(status, code) == outcome


def test_one_workspace_fails_and_the_others_do_not() -> None:
    caller = Caller()
    caller.simulator.faults.add(Fault(match={"operation": "ListJobs", "WorkspaceId": "12346"}, status=500))
    assert caller.refusal("dlc", "ListJobs", JOBS, WorkspaceId="12346") == (500, "InternalError")
    assert caller.jobs(WorkspaceId="12345")["TotalCount"] > 0
    assert caller.get("paistudio", "ListQuotas", "/api/v1/quotas/", WorkspaceIds="12346").status_code == 200
    assert truth_of(caller)["calls"]["dlc"]["ListJobs"] == {"server": 1, "ok": 1}
    caller.simulator.faults.clear()
    assert caller.jobs(WorkspaceId="12346")["TotalCount"] > 0


def test_a_fault_has_its_own_body_headers_and_count() -> None:
    caller = Caller()
    fault = Fault(match={"api": "dlc"}, status=400, body={"Code": "Throttling.Api"}, times=2)
    fault.headers = {"x-acs-retry-after": "250"}
    caller.simulator.faults.add(fault)
    caller.simulator.faults.add(Fault(match={"api": "dlc"}, status=502, body="<html>bad gateway</html>", times=1))
    answers = [caller.get("dlc", "ListJobs", JOBS) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [400, 400, 502, 200]
    assert answers[0].json() == {"Code": "Throttling.Api"}
    assert answers[0].headers["x-acs-retry-after"] == "250"
    assert answers[2].text == "<html>bad gateway</html>"
    assert truth_of(caller)["calls"]["dlc"]["ListJobs"] == {"throttled": 2, "server": 1, "ok": 1}


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "InvalidParameter"), (403, "Forbidden.RAM"), (404, "NotFound"), (429, "Throttling.User")],
)
def test_a_fault_without_a_body_has_the_services_usual_code(status: int, code: str) -> None:
    caller = Caller()
    caller.simulator.faults.add(Fault(match={}, status=status))
    assert caller.refusal("dlc", "ListJobs", JOBS) == (status, code)


def test_a_fault_of_one_job() -> None:
    caller = Caller()
    steady, hung = caller.job("asr-steady")["JobId"], caller.job("asr-hangs")["JobId"]
    caller.simulator.faults.add(Fault(match={"JobId": hung, "MetricType": "CpuCoreUsage"}, status=503))
    statuses = [
        caller.get("dlc", "GetJobMetrics", f"{JOBS}/{job_id}/metrics", MetricType=metric).status_code
        for job_id, metric in ((steady, "CpuCoreUsage"), (hung, "MemoryUsage"), (hung, "CpuCoreUsage"))
    ]
    assert statuses == [200, 200, 503]


def test_a_delay_alone_gives_the_true_answer_later() -> None:
    caller = Caller()
    caller.simulator.faults.add(Fault(match={}, delay=0.03))
    begun = time.perf_counter()
    assert caller.jobs()["TotalCount"] > 0
    assert time.perf_counter() - begun >= 0.03


def post(caller: Caller, content: bytes, client: str = "127.0.0.1") -> httpx.Response:
    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(caller.simulator.app, client=(client, 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://simulator.test") as http:
            return await http.post("/faults", content=content)

    return asyncio.run(once())


def test_faults_are_set_by_a_request_which_replaces_them_all() -> None:
    caller = Caller()
    rule = b'[{"match": {"operation": "ListJobs"}, "status": 429, "headers": {"x-acs-retry-after": "5"}}]'
    assert post(caller, rule).json() == {"faults": 1}
    assert caller.get("dlc", "ListJobs", JOBS).headers["x-acs-retry-after"] == "5"
    assert post(caller, b"[]").json() == {"faults": 0}
    assert caller.get("dlc", "ListJobs", JOBS).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'[{"status": 500}]',
        b'[{"match": {}, "colour": 1}]',
        b'[{"match": {}, "status": "500"}]',
        b'[{"match": {}, "times": true}]',
        b'[{"match": {}, "delay": "1"}]',
        b'[{"match": {}, "headers": []}]',
    ],
)
def test_bad_rules_change_nothing(content: bytes) -> None:
    caller = Caller()
    caller.simulator.faults.add(Fault(match={}, status=500))
    response = post(caller, content)
    assert response.status_code == 400
    assert response.text.strip()
    assert len(caller.simulator.faults) == 1


def test_faults_are_set_from_this_machine_only() -> None:
    caller = Caller()
    assert post(caller, b'[{"match": {}, "status": 500}]', client="192.0.2.7").status_code == 403
    assert len(caller.simulator.faults) == 0
