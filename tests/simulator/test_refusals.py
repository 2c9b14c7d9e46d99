"""The simulated clouds reject what the real ones reject: wrong signatures, clocks, keys, tokens and parameters.

The exporter signs and asks correctly, so no test of the exporter finds a simulator that accepts too much.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.simulator.client import (
    JOBS,
    POOLS,
    SEARCHES,
    START,
    V1,
    V2,
    ModelArts,
    Pai,
    SageMaker,
    decoded,
    parsed,
    refusal,
)
from trainfleet_simulator.modelarts.catalog import ASCEND, GPU, OTHER_PROJECT_ID
from trainfleet_simulator.pai.catalog import TRAIN
from trainfleet_simulator.sagemaker.catalog import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from trainfleet_simulator.sagemaker.identity import WEB_IDENTITY_TOKEN, AwsSts
from trainfleet_simulator.server import ACCESS_KEY_ID as PAI_KEY_ID

ASSUMED = {"RoleArn": AwsSts.role_arn(), "RoleSessionName": "exporter"}
INVALID, SEARCH = (400, "InvalidParameter"), (400, "ModelArts.2764")
MEMBER = (400, "ValidationException")
MEMBER_OF = {"12345", "12346", "12347"}
OTHERWISE, WRONG = (400, "SignatureDoesNotMatch"), (401, "APIGW.0301")
TOKEN = (400, "InvalidSecurityToken.MismatchWithAccessKey")
_NOT_OURS, _MISMATCH = (400, "UnrecognizedClientException"), (400, "InvalidSignatureException")


@pytest.fixture(scope="module")
def pai() -> Pai:
    return Pai()


@pytest.fixture(scope="module")
def modelarts() -> ModelArts:
    return ModelArts()


@pytest.fixture(scope="module")
def aws() -> SageMaker:
    return SageMaker()


SIGN: dict[str, Callable[[Any, dict[str, Any]], httpx.Response]] = {
    "pai": lambda caller, changes: caller.get("dlc", "ListJobs", JOBS, changes),
    "modelarts": lambda caller, changes: caller.get(POOLS, changes),
    "aws": lambda caller, changes: caller.post("ListClusters", {}, **changes),
}


@pytest.mark.parametrize(
    ("cloud", "changes", "expected"),
    [
        ("pai", {"keys": ("LTAIUNKNOWN", "x", None)}, (404, "InvalidAccessKeyId.NotFound")),
        ("pai", {"keys": (PAI_KEY_ID, "wrong", None)}, OTHERWISE),
        ("pai", {"keys": (PAI_KEY_ID, "wrong", "unexpected")}, TOKEN),
        ("pai", {"method": "POST"}, OTHERWISE),
        ("pai", {"path": "/api/v1/jobs/"}, OTHERWISE),
        ("pai", {"query": {"Status": "Running"}}, OTHERWISE),
        ("pai", {"host": "pai-dlc.cn-hangzhou.aliyuncs.com"}, OTHERWISE),
        ("pai", {"body": b"not sent"}, OTHERWISE),
        ("pai", {"now": START - 901}, (400, "InvalidTimeStamp.Expired")),
        ("pai", {"version": "2020-12-04"}, (404, "InvalidAction.NotFound")),
        ("modelarts", {"keys": ("UNKNOWN", "x", None)}, WRONG),
        ("modelarts", {"keys": ("HUAWEISIMULATORAK", "wrong", None)}, WRONG),
        ("modelarts", {"keys": ("HUAWEISIMULATORAK", "simulated-secret-key", "unexpected")}, WRONG),
        ("modelarts", {"method": "POST"}, WRONG),
        ("modelarts", {"path": f"{POOLS}/x"}, WRONG),
        ("modelarts", {"query": {"status": "created"}}, WRONG),
        ("modelarts", {"host": "modelarts.cn-north-4.myhuaweicloud.com"}, WRONG),
        ("modelarts", {"body": b"not sent"}, WRONG),
        ("modelarts", {"now": START + 901}, WRONG),
        ("modelarts", {"project_id": OTHER_PROJECT_ID}, (403, "ModelArts.0210")),
        ("aws", {"keys": ("AKIAUNKNOWN", SECRET_ACCESS_KEY, None)}, _NOT_OURS),
        ("aws", {"keys": (ACCESS_KEY_ID, "wrong", None)}, _MISMATCH),
        ("aws", {"keys": (ACCESS_KEY_ID, SECRET_ACCESS_KEY, "a-token")}, _NOT_OURS),
        ("aws", {"region": "eu-west-1"}, _MISMATCH),
        ("aws", {"now": START - 301}, _MISMATCH),
        ("aws", {"content": b'{"MaxResults": 1}'}, _MISMATCH),
    ],
    ids=str,
)
def test_wrong_signatures_are_rejected(
    request: pytest.FixtureRequest, cloud: str, changes: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert refusal(SIGN[cloud](request.getfixturevalue(cloud), changes)) == expected


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("x-acs-date", "Fri, 02 Jan 2026 03:04:05 GMT", "InvalidTimeStamp.Format"),
        ("Authorization", "ACS3-HMAC-SHA256 Credential=a,SignedHeaders=host", "IncompleteSignature"),
        ("x-acs-extra", "not signed", "IncompleteSignature"),
    ],
)
def test_pai_rejects_headers(pai: Pai, name: str, value: str, code: str) -> None:
    headers = pai.signed("dlc", "ListJobs", JOBS, {}) | {name: value}
    assert refusal(pai.send(JOBS, headers=headers)) == (400, code)


def test_a_nonce_serves_once(pai: Pai) -> None:
    right = pai.signed("dlc", "ListJobs", JOBS, {})
    assert pai.send(JOBS, headers=right).status_code == 200
    assert refusal(pai.send(JOBS, headers=right)) == (400, "SignatureNonceUsed")


def test_cloudwatch_names_its_errors_for_clients_of_both_protocols(aws: SageMaker) -> None:
    response = aws.post("GetMetricData", {}, "cloudwatch", keys=("AKIAUNKNOWN", "x", None))
    assert response.headers["x-amzn-query-error"] == "InvalidClientTokenId;Sender"
    assert refusal(response) == (403, "UnrecognizedClientException")


def test_keys_of_an_alibaba_role_need_their_token_and_expire() -> None:
    pai = Pai(population=1)
    role = {"RoleArn": pai.simulator.sts.role_arn(), "RoleSessionName": "exporter"}
    found = decoded(pai.get("sts", "AssumeRole", "/", **role))["Credentials"]
    keys = (found["AccessKeyId"], found["AccessKeySecret"], found["SecurityToken"])
    assert pai.get("dlc", "ListJobs", JOBS, {"keys": keys}).status_code == 200
    assert refusal(pai.get("dlc", "ListJobs", JOBS, {"keys": (*keys[:2], None)})) == TOKEN
    pai.clock.now += 3601
    assert refusal(pai.get("dlc", "ListJobs", JOBS, {"keys": keys})) == (400, "InvalidSecurityToken.Expired")


def _login(caller: ModelArts, user: dict[str, Any], project: str = "cn-north-4") -> Any:
    good = {"name": "exporter", "password": "simulated-password", "domain": {"name": "sim-account"}}
    identity = {"methods": ["password"], "password": {"user": good | user}}
    body = {"auth": {"identity": identity, "scope": {"project": {"name": project}}}}
    return caller.send("/v3/auth/tokens", method="POST", content=json.dumps(body).encode())


def test_a_token_of_iam_is_accepted_until_it_expires() -> None:
    caller = ModelArts(population=1)
    caller.simulator.tokens.lifetime = 600
    token = _login(caller, {}).headers["x-subject-token"]
    caller.clock.now += 599
    assert caller.send(POOLS, headers={"X-Auth-Token": token}).status_code == 200
    caller.clock.now += 1
    for each in (token, "MIIunknown"):
        assert refusal(caller.send(POOLS, headers={"X-Auth-Token": each})) == (401, "APIGW.0307")


@pytest.mark.parametrize("changes", [{"user": {"password": "wrong"}}, {"user": {}, "project": "cn-east-3"}], ids=str)
def test_wrong_logins_are_rejected(modelarts: ModelArts, changes: dict[str, Any]) -> None:
    answer = _login(modelarts, **changes)
    assert answer.status_code == answer.json()["error"]["code"] == 401
    assert "simulated-password" not in answer.text


def test_keys_of_an_aws_role_need_id_and_token_and_expire() -> None:
    aws = SageMaker(population=1)
    aws.simulator.aws_sts.external_id = "x-123"
    denied = aws.form("AssumeRole", **ASSUMED, ExternalId="x-124")
    assert (denied.status_code, parsed(denied, "sts", "AssumeRole")["Error"]["Code"]) == (403, "AccessDenied")
    assumed = aws.form("AssumeRole", **ASSUMED, ExternalId="x-123", DurationSeconds="900")
    found = parsed(assumed, "sts", "AssumeRole")["Credentials"]
    keys = (found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
    assert aws.post("ListClusters", {}, keys=keys).status_code == 200
    assert refusal(aws.post("ListClusters", {}, keys=(*keys[:2], None))) == _NOT_OURS
    aws.clock.now += 900
    assert refusal(aws.post("ListClusters", {}, keys=keys)) == (400, "ExpiredTokenException")
    tokens = (WEB_IDENTITY_TOKEN, "other")
    action = "AssumeRoleWithWebIdentity"
    assert [aws.form(action, **ASSUMED, WebIdentityToken=each).status_code for each in tokens] == [200, 400]
    log = str(aws.truth())
    assert "x-12" not in log
    assert WEB_IDENTITY_TOKEN not in log


def _filter(key: str, operator: str, value: Any) -> dict[str, Any]:
    return {"filters": [{"key": key, "operator": operator, "value": value}]}


QUERY = {"Id": "a", "MetricStat": {"Metric": {"MetricName": "x"}, "Period": 90, "Stat": "Sum"}}
_LISTED, _LAST = ("dlc", "ListJobs", JOBS), ("cloudmonitor", "DescribeMetricLast", "/")
_METRICS, _QUOTAS = ("dlc", "GetJobMetrics", f"{JOBS}/x/metrics"), "/api/v1/quotas/"
_SEARCH, _DATA = ("Search", "sagemaker"), ("GetMetricData", "cloudwatch")
_JOB = {"Resource": "TrainingJob"}
_LONG = _filter("create_time", "between", ["2025-11-01T00:00:00Z", "2026-01-02T00:00:00Z"])
ASK: dict[str, Callable[[Any, Any, Any], httpx.Response]] = {
    "pai": lambda caller, called, query: caller.get(*called, **query),
    "modelarts": lambda caller, path, given: (
        caller.post(path, given) if path == SEARCHES else caller.get(path, **given)
    ),
    "aws": lambda caller, called, members: caller.post(called[0], members, called[1]),
}


@pytest.mark.parametrize(
    ("cloud", "called", "given", "expected"),
    [
        ("pai", _LISTED, {"Status": "Running,Queuing"}, INVALID),
        ("pai", _LISTED, {"PageSize": "101"}, INVALID),
        ("pai", _LISTED, {"StartTime": "1767323045"}, INVALID),
        ("pai", ("dlc", "GetJob", f"{JOBS}/dlcnosuch"), {}, (404, "NotFound")),
        ("pai", _METRICS, {}, (400, "MissingMetricType")),
        ("pai", _METRICS, {"MetricType": "gpucoreusage"}, INVALID),
        ("pai", ("paistudio", "ListQuotas", _QUOTAS), {"Verbose": "1"}, INVALID),
        ("pai", ("paistudio", "ListQuotaWorkloads", f"{_QUOTAS}{TRAIN}/workloads"), {"ShowOwn": "1"}, INVALID),
        ("pai", ("paistudio", "ListNodes", "/api/v1/nodes"), {}, (400, "MissingQuotaId")),
        ("pai", _LAST, {"Namespace": "acs_pai_dlc"}, (400, "MissingMetricName")),
        ("pai", _LAST, {"Namespace": "acs_pai_dlc", "MetricName": "X"}, (404, "ResourceNotFound")),
        ("modelarts", SEARCHES, {"limit": 51}, SEARCH),
        ("modelarts", SEARCHES, {"limit": "10"}, SEARCH),
        ("modelarts", SEARCHES, {"sort_by": "name"}, SEARCH),
        ("modelarts", SEARCHES, _filter("status", "in", ["Running"]), SEARCH),
        ("modelarts", SEARCHES, _filter("phase", "eq", ["Running"]), SEARCH),
        ("modelarts", SEARCHES, _filter("phase", "in", ["running"]), SEARCH),
        ("modelarts", SEARCHES, _LONG, SEARCH),
        ("modelarts", POOLS, {"status": "Running"}, (400, "ModelArts.50004000")),
        ("modelarts", f"{POOLS}/{ASCEND}/workloads", {"limit": "501"}, (400, "ModelArts.50004000")),
        ("modelarts", f"{POOLS}/pool-nosuch/nodes", {}, (404, "ModelArts.50015001")),
        ("modelarts", f"{V2}/training-jobs/nosuch/metrics/worker-0", {}, (400, "ModelArts.2775")),
        ("modelarts", f"{POOLS}/{GPU}/monitor", {"time_range": "-1.-1.1441"}, (400, "ModelArts.50004000")),
        ("modelarts", f"{V1}/training-jobs", {"per_page": "1001"}, (400, "ModelArts.0105")),
        ("modelarts", f"{V1}/aom/api/v1/query", {"query": "rate(m[5m])"}, (400, "bad_data")),
        ("aws", _SEARCH, {**_JOB, "MaxResults": 101}, MEMBER),
        ("aws", _SEARCH, {**_JOB, "NextToken": "bm90IG91cnM="}, MEMBER),
        ("aws", _SEARCH, {**_JOB, "SearchExpression": {}}, MEMBER),
        ("aws", _SEARCH, {**_JOB, "MaxResult": 1}, MEMBER),
        ("aws", ("DescribeCluster", "sagemaker"), {"ClusterName": "other"}, (400, "ResourceNotFound")),
        ("aws", _DATA, {"StartTime": None}, MEMBER),
        ("aws", _DATA, {"MetricDataQueries": [], "StartTime": 1, "EndTime": 0}, MEMBER),
        ("aws", _DATA, {"MetricDataQueries": [QUERY], "StartTime": 0, "EndTime": 1}, MEMBER),
    ],
    ids=str,
)
def test_wrong_parameters_are_rejected(
    request: pytest.FixtureRequest, cloud: str, called: Any, given: Any, expected: tuple[int, str]
) -> None:
    assert refusal(ASK[cloud](request.getfixturevalue(cloud), called, given)) == expected


def test_a_list_without_a_start_has_seven_days(pai: Pai) -> None:
    """The trap of ListJobs: it does not list a job that has run for 20 days."""
    job = next(job.job_id for job in pai.world.jobs.values() if job.draft.name == "llm-pretrain-70b")
    ever = {"StartTime": "2000-01-01T00:00:00Z"}
    listed, every = (pai.jobs(JobIds=job, **more)["TotalCount"] for more in ({}, ever))
    assert (listed, every) == (0, 1)


def test_a_list_by_finish_has_the_jobs_that_finished(pai: Pai) -> None:
    wanted = {"TimeRangeField": "GmtFinishTime", "StartTime": "2026-01-02T02:59:05Z", "PageSize": "100"}
    listed = {job["JobId"] for job in pai.jobs(**wanted)["Jobs"]}
    finished = {job.job_id for job in pai.world.jobs.values() if (job.finished or 0) >= START - 300}
    assert listed
    assert listed == {job_id for job_id in finished if pai.world.jobs[job_id].draft.workspace_id in MEMBER_OF}


def test_a_search_without_a_workspace_has_the_default_one(modelarts: ModelArts) -> None:
    assert 0 < modelarts.search(limit=1)["total"] < len(modelarts.world.jobs)


def test_a_search_for_a_phase_has_no_other(modelarts: ModelArts) -> None:
    """The world has one state for both of these phases."""
    for word in ("Failed", "Abnormal"):
        found = modelarts.search(limit=50, **_filter("phase", "in", [word]))["items"]
        assert {row["status"]["phase"] for row in found} == {word}
