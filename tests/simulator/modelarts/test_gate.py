"""The gateway refuses what the real one refuses: signatures, tokens, projects and paths, with its codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulator.client import HOST, START, Clock, send
from tests.simulator.modelarts.client import JSON, POOLS, SEARCHES, V2, Caller, refusal, signed_headers
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import OTHER_PROJECT_ID, PROJECT_ID

WRONG = (401, "APIGW.0301")


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(1, clock=Clock(), clouds=("modelarts",))


def test_a_good_signature_is_accepted(simulator: Simulator) -> None:
    assert send(simulator, POOLS, headers=signed_headers(POOLS)).status_code == 200


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
def test_refusals(simulator: Simulator, changes: dict[str, Any], expected: tuple[int, str]) -> None:
    headers = signed_headers(**{"path": POOLS} | changes) | {"host": HOST}
    assert refusal(send(simulator, POOLS, headers=headers)) == expected


@pytest.mark.parametrize("seconds", [-900, 900])
def test_a_quarter_of_an_hour_of_skew_is_tolerated(simulator: Simulator, seconds: int) -> None:
    assert send(simulator, POOLS, headers=signed_headers(POOLS, now=START + seconds)).status_code == 200


@pytest.mark.parametrize("date", [None, "", "2026-01-02T03:04:05Z", "20260102T030405"])
def test_a_missing_or_malformed_date(simulator: Simulator, date: str | None) -> None:
    headers = signed_headers(POOLS)
    del headers["x-sdk-date"]
    if date is not None:
        headers["x-sdk-date"] = date
    assert refusal(send(simulator, POOLS, headers=headers)) == WRONG


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer x",
        "SDK-HMAC-SHA256 Access=a, SignedHeaders=host",
        f"SDK-HMAC-SHA256 Credential=a/20260102//, SignedHeaders=host, Signature={'0' * 64}",
    ],
)
def test_a_missing_or_malformed_authorization(simulator: Simulator, authorization: str | None) -> None:
    headers = signed_headers(POOLS)
    del headers["Authorization"]
    if authorization is not None:
        headers["Authorization"] = authorization
    assert refusal(send(simulator, POOLS, headers=headers)) == WRONG


def test_a_header_that_was_signed_must_come_as_it_was(simulator: Simulator) -> None:
    for change in ({"x-project-id": OTHER_PROJECT_ID}, {"x-sdk-date": "20260102T030406Z"}):
        assert refusal(send(simulator, POOLS, headers=signed_headers(POOLS) | change)) == WRONG
    without = signed_headers(POOLS)
    del without["x-project-id"]
    assert refusal(send(simulator, POOLS, headers=without)) == WRONG


def test_headers_that_were_not_signed_are_tolerated(simulator: Simulator) -> None:
    headers = signed_headers(POOLS, project_id="") | {"content-type": JSON, "x-project-id": PROJECT_ID}
    assert send(simulator, POOLS, headers=headers).status_code == 200


def test_a_body_must_be_the_one_that_was_signed(simulator: Simulator) -> None:
    def post(signed: bytes, sent: bytes, **more: str) -> Any:
        headers = signed_headers(SEARCHES, method="POST", body=signed) | more
        return send(simulator, SEARCHES, headers=headers, method="POST", content=sent)

    assert post(b"{}", b"{}").status_code == 200
    assert refusal(post(b"{}", b'{"limit":1}')) == WRONG
    assert refusal(post(b"{}", b"{}", **{"x-sdk-content-sha256": "UNSIGNED-PAYLOAD"})) == WRONG


@pytest.mark.parametrize("raw", ["labelSelector=os.modelarts/name%3Da%20b", "labelSelector=os.modelarts%2Fname=a+b"])
def test_query_is_normalised_before_its_signature_is_checked(simulator: Simulator, raw: str) -> None:
    headers = signed_headers(POOLS, [("labelSelector", "os.modelarts/name=a b")])
    assert send(simulator, POOLS, headers=headers, raw_query=raw).status_code == 200


@pytest.mark.parametrize(("token", "status"), [("STSTOKEN", 200), ("OTHER", 401), (None, 401)])
def test_a_security_token_is_checked_where_one_is_configured(token: str | None, status: int) -> None:
    simulator = Simulator(1, clock=Clock(), clouds=("modelarts",), security_token="STSTOKEN")
    headers = signed_headers(POOLS, security_token=token)
    assert send(simulator, POOLS, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", V2),
        ("GET", SEARCHES),
        ("POST", POOLS),
        ("DELETE", f"{V2}/training-jobs/x"),
        ("GET", f"{V2}/training-jobs"),
        ("GET", f"{POOLS}/"),
        ("GET", "/v3/users"),
    ],
)
def test_other_paths_and_methods_are_no_operations(simulator: Simulator, method: str, path: str) -> None:
    headers = signed_headers(path, method=method)
    assert refusal(send(simulator, path, headers=headers, method=method)) == (404, "APIGW.0101")


def test_another_project_in_the_path_is_refused(simulator: Simulator) -> None:
    path = f"/v2/{OTHER_PROJECT_ID}/pools"
    for project in (OTHER_PROJECT_ID, PROJECT_ID, None):
        headers = signed_headers(path, project_id=project)
        assert refusal(send(simulator, path, headers=headers)) == (403, "ModelArts.0210")


def login(caller: Caller, **changes: Any) -> Any:
    user = {"name": "exporter", "password": "simulated-password", "domain": {"name": "sim-account"}}
    identity = {"methods": ["password"], "password": {"user": user | changes.pop("user", {})}} | changes
    body = {"auth": {"identity": identity, "scope": {"project": changes.get("project", {"name": "cn-north-4"})}}}
    content = json.dumps(body).encode()
    return send(caller.simulator, "/v3/auth/tokens", {"nocatalog": "true"}, method="POST", content=content)


def with_token(caller: Caller, token: str) -> Any:
    return send(caller.simulator, POOLS, headers={"X-Auth-Token": token})


def test_password_token_is_accepted_until_it_expires() -> None:
    caller = Caller(token_lifetime=600)
    answer = login(caller)
    assert answer.status_code == 201
    token = answer.headers["x-subject-token"]
    issued = answer.json()["token"]
    assert (issued["issued_at"], issued["expires_at"]) == ("2026-01-02T03:04:05.000000Z", "2026-01-02T03:14:05.000000Z")
    assert issued["project"]["id"] == PROJECT_ID
    assert with_token(caller, token).status_code == 200
    caller.clock.now += 599
    assert with_token(caller, token).status_code == 200
    newer = login(caller).headers["x-subject-token"]
    assert newer != token
    caller.clock.now += 1
    expired = with_token(caller, token)
    assert refusal(expired) == (401, "APIGW.0307")
    assert expired.json()["error_msg"] == "The token must be updated"
    assert with_token(caller, newer).status_code == 200


def test_unknown_and_revoked_tokens() -> None:
    caller = Caller()
    assert refusal(with_token(caller, "MIIunknown")) == (401, "APIGW.0307")
    token = login(caller).headers["x-subject-token"]
    caller.simulator.tokens.revoke_all()
    assert refusal(with_token(caller, token)) == (401, "APIGW.0307")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"user": {"password": "wrong"}}, 401),
        ({"user": {"name": "somebody"}}, 401),
        ({"user": {"domain": {"name": "other-account"}}}, 401),
        ({"project": {"name": "cn-east-3"}}, 401),
        ({"project": {"id": PROJECT_ID}}, 201),
        ({"methods": ["hw_ak_sk"]}, 400),
        ({"methods": ["token"]}, 400),
        ({"password": {}}, 400),
        ({"user": {"colour": "blue"}}, 400),
        ({"project": "cn-north-4"}, 400),
    ],
    ids=str,
)
def test_logins(changes: dict[str, Any], status: int) -> None:
    answer = login(Caller(), **changes)
    assert answer.status_code == status
    if status != 201:
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "title"}
        assert error["code"] == status
        assert "simulated-password" not in answer.text


def test_a_login_that_is_not_json() -> None:
    answer = send(Caller().simulator, "/v3/auth/tokens", method="POST", content=b"{")
    assert answer.status_code == 400


def test_a_projects_id_by_its_name() -> None:
    caller = Caller()
    (found,) = caller.body("/v3/projects", name="cn-north-4")["projects"]
    assert (found["id"], found["name"]) == (PROJECT_ID, "cn-north-4")
    assert caller.body("/v3/projects", name="nowhere")["projects"] == []
    assert len(caller.body("/v3/projects")["projects"]) == 2
    assert refusal(send(caller.simulator, "/v3/projects")) == WRONG


def test_both_clouds_share_one_address() -> None:
    simulator = Simulator(1, clock=Clock(), clouds=("pai", "modelarts"))
    assert send(simulator, POOLS, headers=signed_headers(POOLS)).status_code == 200
    for path in ("/api/v1/jobs", "/favicon.ico"):
        nobody = send(simulator, path)
        assert nobody.json()["Code"] == "IncompleteSignature", "what nobody takes goes to PAI"
    headers = signed_headers("/x", access_key="a", secret_key="b")
    assert refusal(send(simulator, "/x", headers=headers)) == (404, "APIGW.0101")
