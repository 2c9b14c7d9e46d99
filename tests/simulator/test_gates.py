"""The gateways of PAI and ModelArts refuse what the real ones refuse: signatures, clocks, tokens and keys.

The exporter signs correctly, so no test of the exporter finds a gateway that is too lax.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulator.client import START, Caller, Clock, refusal, send, signed_headers
from tests.simulator.modelarts.client import POOLS, SEARCHES
from tests.simulator.modelarts.client import Caller as ModelArts
from tests.simulator.modelarts.client import refusal as modelarts_refusal
from tests.simulator.modelarts.client import signed_headers as modelarts_headers
from tests.simulator.pai.client import rpc, with_key
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import OTHER_PROJECT_ID, PROJECT_ID
from trainfleet_simulator.pai.sts import ROLE

PATH = "/api/v1/jobs"
WRONG = (401, "APIGW.0301")


@pytest.fixture
def simulator() -> Simulator:
    return Simulator(1, clock=Clock(), clouds=("pai", "modelarts"), population=1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"access_key_id": "LTAISOMEBODY"}, (404, "InvalidAccessKeyId.NotFound")),
        ({"access_key_secret": "wrong"}, (400, "SignatureDoesNotMatch")),
        ({"method": "POST"}, (400, "SignatureDoesNotMatch")),
        ({"path": "/api/v1/jobs/"}, (400, "SignatureDoesNotMatch")),
        ({"query": {"Status": "Running"}}, (400, "SignatureDoesNotMatch")),
        ({"host": "pai-dlc.cn-hangzhou.aliyuncs.com"}, (400, "SignatureDoesNotMatch")),
        ({"body": b"not sent"}, (400, "SignatureDoesNotMatch")),
        ({"security_token": "unexpected"}, (400, "InvalidSecurityToken.MismatchWithAccessKey")),
        ({"now": START - 901}, (400, "InvalidTimeStamp.Expired")),
        ({"now": START + 901}, (400, "InvalidTimeStamp.Expired")),
        ({"version": "2020-12-04"}, (404, "InvalidAction.NotFound")),
        ({"action": "DeleteJob"}, (404, "InvalidAction.NotFound")),
    ],
    ids=str,
)
def test_pai_refuses_signatures(simulator: Simulator, changes: dict[str, Any], expected: tuple[int, str]) -> None:
    headers = signed_headers(**{"path": PATH, "query": {}} | changes) | {"host": "simulator.test"}
    assert refusal(send(simulator, PATH, headers=headers)) == expected


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("x-acs-date", None, "InvalidTimeStamp.Format"),
        ("x-acs-date", "Fri, 02 Jan 2026 03:04:05 GMT", "InvalidTimeStamp.Format"),
        ("Authorization", None, "IncompleteSignature"),
        ("Authorization", "ACS3-HMAC-SHA256 Credential=a,SignedHeaders=host", "IncompleteSignature"),
        ("x-acs-signature-nonce", None, "IncompleteSignature"),
        ("x-acs-content-sha256", None, "IncompleteSignature"),
        ("x-acs-extra", "not signed", "IncompleteSignature"),
    ],
)
def test_pai_refuses_headers(simulator: Simulator, name: str, value: str | None, code: str) -> None:
    headers = signed_headers(PATH, {})
    headers.pop(name, None)
    if value is not None:
        headers[name] = value
    assert refusal(send(simulator, PATH, headers=headers)) == (400, code)


def test_a_nonce_serves_once(simulator: Simulator) -> None:
    wrong = signed_headers(PATH, {}, nonce="n1", access_key_secret="wrong")
    assert refusal(send(simulator, PATH, headers=wrong)) == (400, "SignatureDoesNotMatch")
    right = signed_headers(PATH, {}, nonce="n1")
    assert send(simulator, PATH, headers=right).status_code == 200
    assert refusal(send(simulator, PATH, headers=right)) == (400, "SignatureNonceUsed")


def test_an_assumed_role_s_keys_need_their_token_and_expire() -> None:
    caller = Caller(population=1)
    role = {"RoleArn": caller.simulator.sts.role_arn(ROLE), "RoleSessionName": "exporter"}
    key = rpc(caller, "sts", "AssumeRole", **role).json()["Credentials"]
    assert with_key(caller, key).status_code == 200
    assert refusal(with_key(caller, key, security_token=None))[0] == 400
    assert refusal(with_key(caller, key, access_key_secret="wrong")) == (400, "SignatureDoesNotMatch")
    caller.clock.now += 3601
    assert refusal(with_key(caller, key, now=caller.clock.now)) == (400, "InvalidSecurityToken.Expired")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"access_key": "SOMEBODY"}, WRONG),
        ({"secret_key": "wrong"}, WRONG),
        ({"method": "POST"}, WRONG),
        ({"path": f"{POOLS}/x"}, WRONG),
        ({"query": {"status": "created"}}, WRONG),
        ({"host": "modelarts.cn-north-4.myhuaweicloud.com"}, WRONG),
        ({"body": b"not sent"}, WRONG),
        ({"security_token": "unexpected"}, WRONG),
        ({"now": START - 901}, WRONG),
        ({"now": START + 901}, WRONG),
        ({"project_id": OTHER_PROJECT_ID}, (403, "ModelArts.0210")),
    ],
    ids=str,
)
def test_modelarts_refuses_signatures(simulator: Simulator, changes: dict[str, Any], expected: tuple[int, str]) -> None:
    headers = modelarts_headers(**{"path": POOLS} | changes) | {"host": "simulator.test"}
    assert modelarts_refusal(send(simulator, POOLS, headers=headers)) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-sdk-date", None),
        ("x-sdk-date", "2026-01-02T03:04:05Z"),
        ("x-project-id", OTHER_PROJECT_ID),
        ("Authorization", None),
        ("Authorization", f"SDK-HMAC-SHA256 Credential=a/20260102//, SignedHeaders=host, Signature={'0' * 64}"),
    ],
)
def test_modelarts_refuses_headers(simulator: Simulator, name: str, value: str | None) -> None:
    headers = modelarts_headers(POOLS)
    headers.pop(name)
    if value is not None:
        headers[name] = value
    assert modelarts_refusal(send(simulator, POOLS, headers=headers)) == WRONG


def test_modelarts_takes_the_body_that_was_signed(simulator: Simulator) -> None:
    headers = modelarts_headers(SEARCHES, method="POST", body=b"{}")
    assert send(simulator, SEARCHES, headers=headers, method="POST", content=b"{}").status_code == 200
    assert modelarts_refusal(send(simulator, SEARCHES, headers=headers, method="POST", content=b"{ }")) == WRONG


@pytest.mark.parametrize(("token", "accepted"), [("STSTOKEN", True), ("OTHER", False), (None, False)])
def test_a_configured_security_token_is_required(token: str | None, accepted: bool) -> None:
    simulator = Simulator(1, clock=Clock(), clouds=("pai", "modelarts"), security_token="STSTOKEN", population=1)
    pai = send(simulator, PATH, headers=signed_headers(PATH, {}, security_token=token))
    modelarts = send(simulator, POOLS, headers=modelarts_headers(POOLS, security_token=token))
    assert [answer.status_code == 200 for answer in (pai, modelarts)] == [accepted] * 2


def login(caller: ModelArts, **changes: Any) -> Any:
    user = {"name": "exporter", "password": "simulated-password", "domain": {"name": "sim-account"}}
    identity = {"methods": ["password"], "password": {"user": user | changes.pop("user", {})}} | changes
    body = {"auth": {"identity": identity, "scope": {"project": changes.get("project", {"name": "cn-north-4"})}}}
    return send(caller.simulator, "/v3/auth/tokens", method="POST", content=json.dumps(body).encode())


def with_token(caller: ModelArts, token: str) -> Any:
    return send(caller.simulator, POOLS, headers={"X-Auth-Token": token})


def test_a_password_s_token_is_accepted_until_it_expires() -> None:
    caller = ModelArts(token_lifetime=600, population=1)
    answer = login(caller)
    assert answer.json()["token"]["project"]["id"] == PROJECT_ID
    token = answer.headers["x-subject-token"]
    caller.clock.now += 599
    assert with_token(caller, token).status_code == 200
    caller.clock.now += 1
    assert modelarts_refusal(with_token(caller, token)) == (401, "APIGW.0307")
    assert modelarts_refusal(with_token(caller, "MIIunknown")) == (401, "APIGW.0307")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"user": {"password": "wrong"}}, 401),
        ({"user": {"domain": {"name": "other-account"}}}, 401),
        ({"project": {"name": "cn-east-3"}}, 401),
        ({"methods": ["token"]}, 400),
        ({"user": {"colour": "blue"}}, 400),
    ],
    ids=str,
)
def test_wrong_logins_are_refused(changes: dict[str, Any], status: int) -> None:
    answer = login(ModelArts(population=1), **changes)
    assert answer.status_code == answer.json()["error"]["code"] == status
    assert "simulated-password" not in answer.text
