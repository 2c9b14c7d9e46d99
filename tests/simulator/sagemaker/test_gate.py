"""Who may ask: signatures, clocks, session tokens, roles and metadata, refused in AWS' words."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.simulator.client import START, Clock, send
from tests.simulator.sagemaker.client import SERVICES, Caller, json_headers, parsed, signed
from trainfleet_simulator import Fault, Simulator
from trainfleet_simulator.sagemaker.catalog import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from trainfleet_simulator.sagemaker.identity import (
    CONTAINER_PATH,
    CONTAINER_TOKEN,
    MACHINE_ROLE,
    ROLE,
    WEB_IDENTITY_TOKEN,
    AwsSts,
)
from trainfleet_simulator.signatures import string_to_sign

SESSION = {"RoleSessionName": "exporter"}
ASSUMED = {"RoleArn": AwsSts.role_arn(ROLE), **SESSION}
ROLES = "/latest/meta-data/iam/security-credentials/"


@pytest.fixture
def caller() -> Caller:
    return Caller(population=1)


def _code(response: httpx.Response, service: str = "sagemaker") -> str:
    operation = {"sagemaker": "ListClusters", "cloudwatch": "GetMetricData", "sts": "AssumeRole"}[service]
    return str(parsed(response, service, operation)["Error"]["Code"])


@pytest.mark.parametrize(
    ("signing", "code"),
    [
        ({"keys": ("AKIAUNKNOWN", SECRET_ACCESS_KEY, None)}, "UnrecognizedClientException"),
        ({"keys": (ACCESS_KEY_ID, "wrong", None)}, "InvalidSignatureException"),
        ({"keys": (ACCESS_KEY_ID, SECRET_ACCESS_KEY, "a-token")}, "UnrecognizedClientException"),
        ({"region": "eu-west-1"}, "InvalidSignatureException"),
        ({"now": START - 301}, "InvalidSignatureException"),
        ({"now": START + 301}, "InvalidSignatureException"),
    ],
)
def test_a_bad_signature_is_refused(caller: Caller, signing: dict[str, Any], code: str) -> None:
    response = caller.send("sagemaker", "ListClusters", {}, **signing)
    assert (response.status_code, _code(response)) == (400, code)
    assert response.headers["x-amzn-errortype"] == code


@pytest.mark.parametrize("off", [-299, 299])
def test_a_clock_may_be_off_by_five_minutes(caller: Caller, off: int) -> None:
    assert caller.send("sagemaker", "ListClusters", {}, now=START + off).status_code == 200


def test_another_body_than_was_signed_is_refused(caller: Caller) -> None:
    headers = signed(json_headers("sagemaker", "ListClusters"), b"{}", "sagemaker")
    response = send(caller.simulator, "/", headers=headers, method="POST", content=b'{"MaxResults": 1}')
    assert _code(response) == "InvalidSignatureException"


def test_a_header_that_is_not_signed_is_refused(caller: Caller) -> None:
    kind = {"Content-Type": "application/x-amz-json-1.1"}
    headers = signed(kind, b"{}", "sagemaker") | {"X-Amz-Target": "SageMaker.ListClusters"}
    response = send(caller.simulator, "/", headers=headers, method="POST", content=b"{}")
    assert _code(response) == "InvalidSignatureException"


def test_a_request_without_a_signature_is_refused(caller: Caller) -> None:
    headers = json_headers("sagemaker", "ListClusters")
    response = send(caller.simulator, "/", headers=headers, method="POST", content=b"{}")
    assert _code(response) == "MissingAuthenticationTokenException"


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_operation(caller: Caller, service: str) -> None:
    response = caller.send(service, "DescribeWeather", {})
    assert (response.status_code, _code(response, service)) == (404, "UnknownOperationException")


def test_cloudwatch_names_its_errors_for_clients_of_both_protocols(caller: Caller) -> None:
    response = caller.send("cloudwatch", "GetMetricData", {}, keys=("AKIAUNKNOWN", "x", None))
    assert response.headers["x-amzn-query-error"] == "InvalidClientTokenId;Sender"
    assert response.json()["__type"].endswith("#UnrecognizedClientException")


def _key_of(response: httpx.Response, action: str = "AssumeRole") -> tuple[str, str, str]:
    assert response.status_code == 200, response.text
    found = parsed(response, "sts", action)["Credentials"]
    return found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]


def test_a_role_s_keys_open_the_services_until_they_expire(caller: Caller) -> None:
    keys = _key_of(caller.form("AssumeRole", {**ASSUMED, "DurationSeconds": "900"}))
    assert caller.send("sagemaker", "ListClusters", {}, keys=keys).status_code == 200
    assert _code(caller.send("sagemaker", "ListClusters", {}, keys=(*keys[:2], None))) == "UnrecognizedClientException"
    caller.clock.now += 900
    assert _code(caller.send("sagemaker", "ListClusters", {}, keys=keys)) == "ExpiredTokenException"
    (key,) = caller.simulator.aws_sts.issued
    assert (key.role, key.via, key.expires - key.issued) == (ROLE, "AssumeRole", 900)


def test_an_external_id_is_required_where_there_is_one(caller: Caller) -> None:
    caller.simulator.aws_sts.external_id = "x-123"
    assert _code(caller.form("AssumeRole", ASSUMED), "sts") == "AccessDenied"
    assert _code(caller.form("AssumeRole", {**ASSUMED, "ExternalId": "x-124"}), "sts") == "AccessDenied"
    assert _key_of(caller.form("AssumeRole", {**ASSUMED, "ExternalId": "x-123"}))
    assert "x-123" not in str(caller.simulator._cloud.truth.show(0))


@pytest.mark.parametrize(
    ("members", "status", "code"),
    [
        ({"RoleArn": AwsSts.role_arn("unknown"), **SESSION}, 403, "AccessDenied"),
        (SESSION, 400, "ValidationError"),
        ({**ASSUMED, "RoleSessionName": "a b"}, 400, "ValidationError"),
        ({**ASSUMED, "DurationSeconds": "60"}, 400, "ValidationError"),
    ],
)
def test_roles_that_are_refused(caller: Caller, members: dict[str, str], status: int, code: str) -> None:
    response = caller.form("AssumeRole", members)
    assert (response.status_code, _code(response, "sts")) == (status, code)


def test_sts_has_its_own_words_for_a_bad_signature(caller: Caller) -> None:
    wrong = caller.form("AssumeRole", ASSUMED, signing={"keys": (ACCESS_KEY_ID, "wrong", None)})
    assert (wrong.status_code, _code(wrong, "sts")) == (403, "SignatureDoesNotMatch")
    unknown = caller.form("AssumeRole", ASSUMED, signing={"keys": ("AKIAUNKNOWN", "wrong", None)})
    assert (unknown.status_code, _code(unknown, "sts")) == (403, "InvalidClientTokenId")


def test_a_web_identity_opens_a_role_without_a_signature(caller: Caller) -> None:
    action = "AssumeRoleWithWebIdentity"
    keys = _key_of(caller.form(action, {**ASSUMED, "WebIdentityToken": WEB_IDENTITY_TOKEN}), action)
    assert caller.send("sagemaker", "ListClusters", {}, keys=keys).status_code == 200
    response = caller.form(action, {**ASSUMED, "WebIdentityToken": "other"})
    assert (response.status_code, _code(response, "sts")) == (400, "InvalidIdentityToken")
    assert WEB_IDENTITY_TOKEN not in str(caller.simulator._cloud.truth.show(0))


def _metadata(simulator: Simulator, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    return send(simulator, path, method=method, headers={name.replace("_", "-"): one for name, one in headers.items()})


def test_a_machine_gives_the_keys_of_its_role_for_a_token(caller: Caller) -> None:
    ttl = {"x_aws_ec2_metadata_token_ttl_seconds": "60"}
    token = {"x_aws_ec2_metadata_token": _metadata(caller.simulator, "/latest/api/token", "PUT", **ttl).text}
    assert _metadata(caller.simulator, ROLES, **token).text == MACHINE_ROLE
    found = _metadata(caller.simulator, ROLES + MACHINE_ROLE, **token).json()
    assert (found["Code"], found["Type"]) == ("Success", "AWS-HMAC")
    assert found["Expiration"] == "2026-01-02T09:04:05Z"
    keys = (found["AccessKeyId"], found["SecretAccessKey"], found["Token"])
    assert caller.send("sagemaker", "ListClusters", {}, keys=keys).status_code == 200
    assert _metadata(caller.simulator, ROLES).status_code == 401
    assert _metadata(caller.simulator, f"{ROLES}other", **token).status_code == 404
    caller.clock.now += 60
    assert _metadata(caller.simulator, ROLES, **token).status_code == 401
    wrong = {"x_aws_ec2_metadata_token_ttl_seconds": "21601"}
    assert _metadata(caller.simulator, "/latest/api/token", "PUT", **wrong).status_code == 400


def test_a_container_gives_the_keys_of_its_role_for_its_token(caller: Caller) -> None:
    assert _metadata(caller.simulator, CONTAINER_PATH).status_code == 401
    found = _metadata(caller.simulator, CONTAINER_PATH, Authorization=CONTAINER_TOKEN).json()
    keys = (found["AccessKeyId"], found["SecretAccessKey"], found["Token"])
    assert caller.send("sagemaker", "ListClusters", {}, keys=keys).status_code == 200
    assert _metadata(caller.simulator, CONTAINER_PATH, Authorization=CONTAINER_TOKEN).json() == found


def test_each_cloud_gets_its_own_requests() -> None:
    simulator = Simulator(1, clock=Clock(), clouds=("pai", "modelarts", "sagemaker"), population=1)
    content = b"{}"
    headers = signed(json_headers("sagemaker", "ListClusters"), content, "sagemaker")
    assert send(simulator, "/", headers=headers, method="POST", content=content).status_code == 200
    for header in ("x-aliyun-ecs-metadata-token-ttl-seconds", "x-aws-ec2-metadata-token-ttl-seconds"):
        assert send(simulator, "/latest/api/token", headers={header: "60"}, method="PUT").status_code == 200
    assert send(simulator, CONTAINER_PATH, headers={"Authorization": CONTAINER_TOKEN}).status_code == 200
    calls = simulator._cloud.truth.show(0)["calls"]
    assert calls["metadata"] == {"PutToken": {"ok": 2}, "GetContainerKeys": {"ok": 1}}
    assert calls["sagemaker"] == {"ListClusters": {"ok": 1}}


def test_a_refusal_quotes_what_botocore_signed(caller: Caller) -> None:
    caller.simulator.faults.add(Fault({}, kind="quoted"))
    response = caller.send("sagemaker", "ListClusters", {"MaxResults": 3})
    (asked,) = caller.simulator.take_quoted()
    assert string_to_sign(asked).startswith("AWS4-HMAC-SHA256\n20260102T030405Z\n20260102/us-east-1/sagemaker/")
    assert f"string to sign is:{string_to_sign(asked)}" in response.json()["message"]
