"""The simulated clouds reject what the real ones reject: wrong signatures, clocks, keys, tokens and parameters.

The exporter signs and asks correctly, so no test of the exporter finds a simulator that accepts too much.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.simulator.client import JOBS, POOLS, SEARCHES, START, V1, ModelArts, Pai, SageMaker, decoded, parsed, refusal
from trainfleet_simulator.modelarts.catalog import ASCEND, GPU, OTHER_PROJECT_ID
from trainfleet_simulator.pai.catalog import TRAIN
from trainfleet_simulator.pai.sts import ROLE
from trainfleet_simulator.sagemaker.catalog import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from trainfleet_simulator.sagemaker.identity import CONTAINER_PATH, CONTAINER_TOKEN, WEB_IDENTITY_TOKEN, AwsSts
from trainfleet_simulator.server import ACCESS_KEY_ID as PAI_KEY_ID

WRONG = (401, "APIGW.0301")
TOKEN = (400, "InvalidSecurityToken.MismatchWithAccessKey")
ASSUMED = {"RoleArn": AwsSts.role_arn(ROLE), "RoleSessionName": "exporter"}


@pytest.fixture(scope="module")
def pai() -> Pai:
    return Pai()


@pytest.fixture(scope="module")
def modelarts() -> ModelArts:
    return ModelArts()


@pytest.fixture(scope="module")
def aws() -> SageMaker:
    return SageMaker()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"keys": ("LTAIUNKNOWN", "x", None)}, (404, "InvalidAccessKeyId.NotFound")),
        ({"keys": (PAI_KEY_ID, "wrong", None)}, (400, "SignatureDoesNotMatch")),
        ({"keys": (PAI_KEY_ID, "wrong", "unexpected")}, TOKEN),
        ({"method": "POST"}, (400, "SignatureDoesNotMatch")),
        ({"path": "/api/v1/jobs/"}, (400, "SignatureDoesNotMatch")),
        ({"query": {"Status": "Running"}}, (400, "SignatureDoesNotMatch")),
        ({"host": "pai-dlc.cn-hangzhou.aliyuncs.com"}, (400, "SignatureDoesNotMatch")),
        ({"body": b"not sent"}, (400, "SignatureDoesNotMatch")),
        ({"now": START - 901}, (400, "InvalidTimeStamp.Expired")),
        ({"version": "2020-12-04"}, (404, "InvalidAction.NotFound")),
    ],
    ids=str,
)
def test_pai_rejects_signatures(pai: Pai, changes: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refusal(pai.get("dlc", "ListJobs", JOBS, changes)) == expected


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


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"keys": ("UNKNOWN", "x", None)}, WRONG),
        ({"keys": ("HUAWEISIMULATORAK", "wrong", None)}, WRONG),
        ({"keys": ("HUAWEISIMULATORAK", "simulated-secret-key", "unexpected")}, WRONG),
        ({"method": "POST"}, WRONG),
        ({"path": f"{POOLS}/x"}, WRONG),
        ({"query": {"status": "created"}}, WRONG),
        ({"host": "modelarts.cn-north-4.myhuaweicloud.com"}, WRONG),
        ({"body": b"not sent"}, WRONG),
        ({"now": START + 901}, WRONG),
        ({"project_id": OTHER_PROJECT_ID}, (403, "ModelArts.0210")),
    ],
    ids=str,
)
def test_modelarts_rejects_signatures(modelarts: ModelArts, changes: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refusal(modelarts.get(POOLS, changes)) == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"keys": ("AKIAUNKNOWN", SECRET_ACCESS_KEY, None)}, "UnrecognizedClientException"),
        ({"keys": (ACCESS_KEY_ID, "wrong", None)}, "InvalidSignatureException"),
        ({"keys": (ACCESS_KEY_ID, SECRET_ACCESS_KEY, "a-token")}, "UnrecognizedClientException"),
        ({"region": "eu-west-1"}, "InvalidSignatureException"),
        ({"now": START - 301}, "InvalidSignatureException"),
        ({"content": b'{"MaxResults": 1}'}, "InvalidSignatureException"),
    ],
    ids=str,
)
def test_aws_rejects_signatures(aws: SageMaker, changes: dict[str, Any], code: str) -> None:
    response = aws.post("ListClusters", {}, **changes)
    assert refusal(response) == (400, code)
    assert response.headers["x-amzn-errortype"] == code


def test_cloudwatch_names_its_errors_for_clients_of_both_protocols(aws: SageMaker) -> None:
    response = aws.post("GetMetricData", {}, "cloudwatch", keys=("AKIAUNKNOWN", "x", None))
    assert response.headers["x-amzn-query-error"] == "InvalidClientTokenId;Sender"
    assert refusal(response) == (403, "UnrecognizedClientException")


def test_keys_of_an_alibaba_role_need_their_token_and_expire() -> None:
    pai = Pai(population=1)
    role = {"RoleArn": pai.simulator.sts.role_arn(ROLE), "RoleSessionName": "exporter"}
    found = decoded(pai.get("sts", "AssumeRole", "/", **role))["Credentials"]
    keys = (found["AccessKeyId"], found["AccessKeySecret"], found["SecurityToken"])
    assert pai.get("dlc", "ListJobs", JOBS, {"keys": keys}).status_code == 200
    assert refusal(pai.get("dlc", "ListJobs", JOBS, {"keys": (*keys[:2], None)})) == TOKEN
    pai.clock.now += 3601
    assert refusal(pai.get("dlc", "ListJobs", JOBS, {"keys": keys})) == (400, "InvalidSecurityToken.Expired")


def _login(caller: ModelArts, user: dict[str, Any], project: str = "cn-north-4", method: str = "password") -> Any:
    good = {"name": "exporter", "password": "simulated-password", "domain": {"name": "sim-account"}}
    identity = {"methods": [method], "password": {"user": good | user}}
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


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"user": {"password": "wrong"}}, 401),
        ({"user": {"domain": {"name": "other-account"}}}, 401),
        ({"user": {}, "project": "cn-east-3"}, 401),
        ({"user": {}, "method": "token"}, 400),
        ({"user": {"colour": "blue"}}, 400),
    ],
    ids=str,
)
def test_wrong_logins_are_rejected(modelarts: ModelArts, changes: dict[str, Any], status: int) -> None:
    answer = _login(modelarts, **changes)
    assert answer.status_code == answer.json()["error"]["code"] == status
    assert "simulated-password" not in answer.text


def _key_of(response: httpx.Response, action: str = "AssumeRole") -> tuple[str, str, str]:
    assert response.status_code == 200, response.text
    found = parsed(response, "sts", action)["Credentials"]
    return found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]


def test_keys_of_an_aws_role_need_their_token_and_expire() -> None:
    aws = SageMaker(population=1)
    keys = _key_of(aws.form("AssumeRole", **ASSUMED, DurationSeconds="900"))
    assert aws.post("ListClusters", {}, keys=keys).status_code == 200
    assert refusal(aws.post("ListClusters", {}, keys=(*keys[:2], None)))[1] == "UnrecognizedClientException"
    aws.clock.now += 900
    assert refusal(aws.post("ListClusters", {}, keys=keys))[1] == "ExpiredTokenException"


def test_no_secret_of_a_request_for_a_role_is_logged() -> None:
    aws = SageMaker(population=1)
    aws.simulator.aws_sts.external_id = "x-123"
    denied = aws.form("AssumeRole", **ASSUMED, ExternalId="x-124")
    assert (denied.status_code, parsed(denied, "sts", "AssumeRole")["Error"]["Code"]) == (403, "AccessDenied")
    assert _key_of(aws.form("AssumeRole", **ASSUMED, ExternalId="x-123"))
    action = "AssumeRoleWithWebIdentity"
    assert _key_of(aws.form(action, **ASSUMED, WebIdentityToken=WEB_IDENTITY_TOKEN), action)
    assert aws.form(action, **ASSUMED, WebIdentityToken="other").status_code == 400
    log = str(aws.truth())
    assert "x-12" not in log
    assert WEB_IDENTITY_TOKEN not in log


def test_keys_of_a_container_need_its_token(aws: SageMaker) -> None:
    assert aws.send(CONTAINER_PATH).status_code == 401
    found = aws.send(CONTAINER_PATH, headers={"Authorization": CONTAINER_TOKEN}).json()
    keys = (found["AccessKeyId"], found["SecretAccessKey"], found["Token"])
    assert aws.post("ListClusters", {}, keys=keys).status_code == 200


INVALID = (400, "InvalidParameter")
_LISTED, _LAST = ("dlc", "ListJobs", JOBS), ("cloudmonitor", "DescribeMetricLast", "/")
_METRICS, _QUOTAS = ("dlc", "GetJobMetrics", f"{JOBS}/x/metrics"), "/api/v1/quotas/"
PARAMETERS = [
    (_LISTED, {"Status": "Running,Queuing"}, INVALID),
    (_LISTED, {"PageSize": "101"}, INVALID),
    (_LISTED, {"StartTime": "1767323045"}, INVALID),
    (("dlc", "GetJob", f"{JOBS}/dlcnosuch"), {}, (404, "NotFound")),
    (_METRICS, {}, (400, "MissingMetricType")),
    (_METRICS, {"MetricType": "gpucoreusage"}, INVALID),
    (("paistudio", "ListQuotas", _QUOTAS), {"Verbose": "1"}, INVALID),
    (("paistudio", "ListQuotaWorkloads", f"{_QUOTAS}{TRAIN}/workloads"), {"ShowOwn": "1"}, INVALID),
    (("paistudio", "ListNodes", "/api/v1/nodes"), {}, (400, "MissingQuotaId")),
    (_LAST, {"Namespace": "acs_pai_dlc"}, (400, "MissingMetricName")),
    (_LAST, {"Namespace": "acs_pai_dlc", "MetricName": "JOB_CPU_UTIL", "NextToken": "x"}, (400, "ParameterInvalid")),
]


@pytest.mark.parametrize(("called", "query", "expected"), PARAMETERS, ids=str)
def test_pai_rejects_parameters(
    pai: Pai, called: tuple[str, str, str], query: dict[str, str], expected: tuple[int, str]
) -> None:
    assert refusal(pai.get(*called, **query)) == expected


def _filter(key: str, operator: str, value: Any) -> dict[str, Any]:
    return {"filters": [{"key": key, "operator": operator, "value": value}]}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"limit": 51}, "2764"),
        ({"limit": "10"}, "2764"),
        ({"sort_by": "name"}, "2790"),
        (_filter("status", "in", ["Running"]), "2807"),
        (_filter("phase", "eq", ["Running"]), "2808"),
        (_filter("phase", "in", ["running"]), "2809"),
        (_filter("create_time", "between", ["2025-11-01T00:00:00Z", "2026-01-02T00:00:00Z"]), "2809"),
    ],
    ids=str,
)
def test_a_search_rejects_filters(modelarts: ModelArts, body: Any, code: str) -> None:
    assert refusal(modelarts.post(SEARCHES, body)) == (400, f"ModelArts.{code}")


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (POOLS, {"status": "Running"}, (400, "ModelArts.50004000")),
        (f"{POOLS}/{ASCEND}/workloads", {"limit": "501"}, (400, "ModelArts.50004000")),
        (f"{POOLS}/pool-nosuch/nodes", {}, (404, "ModelArts.50015001")),
        (f"{POOLS}/{GPU}/monitor", {"time_range": "-1.-1.1441"}, (400, "ModelArts.50004000")),
        (f"{V1}/training-jobs", {"per_page": "1001"}, (400, "ModelArts.0105")),
        (f"{V1}/aom/api/v1/query", {"query": "rate(m[5m])"}, (400, "bad_data")),
    ],
    ids=str,
)
def test_modelarts_rejects_parameters(
    modelarts: ModelArts, path: str, query: dict[str, str], expected: tuple[int, str]
) -> None:
    assert refusal(modelarts.get(path, **query)) == expected


QUERY = {"Id": "a", "MetricStat": {"Metric": {"MetricName": "x"}, "Period": 90, "Stat": "Sum"}}
MEMBERS: list[tuple[str, str, dict[str, Any], str]] = [
    ("sagemaker", "Search", {"Resource": "TrainingJob", "MaxResults": 101}, "ValidationException"),
    ("sagemaker", "Search", {"Resource": "TrainingJob", "NextToken": "bm90IG91cnM="}, "ValidationException"),
    ("sagemaker", "Search", {"Resource": "TrainingJob", "SearchExpression": {}}, "ValidationException"),
    ("sagemaker", "Search", {"Resource": "TrainingJob", "MaxResult": 1}, "SerializationException"),
    ("sagemaker", "DescribeTrainingJob", {"TrainingJobName": "no-such-job"}, "ResourceNotFound"),
    ("sagemaker", "DescribeCluster", {"ClusterName": "other"}, "ResourceNotFound"),
    ("cloudwatch", "GetMetricData", {"StartTime": None}, "SerializationException"),
    ("cloudwatch", "GetMetricData", {"MetricDataQueries": [], "StartTime": 1, "EndTime": 0}, "ValidationError"),
    ("cloudwatch", "GetMetricData", {"MetricDataQueries": [QUERY], "StartTime": 0, "EndTime": 1}, "ValidationError"),
]


@pytest.mark.parametrize(("service", "operation", "members", "code"), MEMBERS, ids=str)
def test_aws_rejects_members(aws: SageMaker, service: str, operation: str, members: Any, code: str) -> None:
    assert refusal(aws.post(operation, members, service)) == (400, code)


def test_a_list_without_a_start_has_seven_days(pai: Pai) -> None:
    """The trap of ListJobs: it does not list a job that has run for 20 days."""
    job = next(job.job_id for job in pai.world.jobs.values() if job.draft.name == "llm-pretrain-70b")
    listed, every = (pai.jobs(JobIds=job, **more)["TotalCount"] for more in ({}, _EVER))
    assert (listed, every) == (0, 1)


_EVER = {"StartTime": "2000-01-01T00:00:00Z"}


def test_a_search_without_a_workspace_has_the_default_one(modelarts: ModelArts) -> None:
    assert 0 < modelarts.search(limit=1)["total"] < len(modelarts.world.jobs)


def test_a_search_for_a_phase_has_no_other(modelarts: ModelArts) -> None:
    """The world has one state for both of these phases."""
    for word in ("Failed", "Abnormal"):
        found = modelarts.search(limit=50, **_filter("phase", "in", [word]))["items"]
        assert {row["status"]["phase"] for row in found} == {word}
