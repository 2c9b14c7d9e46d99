"""The metadata service of a machine with a role, and the credentials URI."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from tests.simulator.client import Caller, refusal, send
from tests.simulator.pai.client import latest_answer, with_key
from trainfleet_simulator.pai.sts import ECS_ROLE, ROLE

TOKEN_PATH = "/latest/api/token"
ROLES = "/latest/meta-data/ram/security-credentials/"
TTL, TOKEN = "X-aliyun-ecs-metadata-token-ttl-seconds", "X-aliyun-ecs-metadata-token"


@pytest.fixture
def caller() -> Caller:
    return Caller(population=5)


def put_token(caller: Caller, ttl: str = "21600") -> str:
    response = send(caller.simulator, TOKEN_PATH, headers={TTL: ttl}, method="PUT")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    return response.text


def get(caller: Caller, path: str, token: str | None = None) -> httpx.Response:
    return send(caller.simulator, path, headers={} if token is None else {TOKEN: token})


def key(caller: Caller, token: str | None) -> Mapping[str, str]:
    response = get(caller, f"{ROLES}{caller.simulator.sts.ecs_role}", token)
    assert response.status_code == 200
    body: dict[str, str] = response.json()
    assert body["Code"] == "Success"
    assert set(body) == {"Code", "LastUpdated", "AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration"}
    return body


def test_token_then_role_then_keys_that_work(caller: Caller) -> None:
    token = put_token(caller)
    assert get(caller, ROLES, token).text == ECS_ROLE
    found = key(caller, token)
    assert (found["LastUpdated"], found["Expiration"]) == ("2026-01-02T03:04:05Z", "2026-01-02T09:04:05Z")
    assert with_key(caller, found).status_code == 200
    assert (caller.simulator.sts.issued[0].role, caller.simulator.sts.issued[0].via) == (ECS_ROLE, "metadata")


@pytest.mark.parametrize("token", [None, "", "made-up"])
def test_without_a_good_token_nothing_is_told(caller: Caller, token: str | None) -> None:
    for path in (ROLES, f"{ROLES}{ECS_ROLE}"):
        assert get(caller, path, token).status_code == 401
    assert latest_answer(caller, "GetRamRoleCredentials")["outcome"] == "auth"
    assert caller.simulator.sts.issued == []


def test_the_older_way_without_tokens_can_be_allowed(caller: Caller) -> None:
    caller.simulator.sts.allow_v1 = True
    assert with_key(caller, key(caller, None)).status_code == 200
    assert get(caller, ROLES, "made-up").status_code == 401, "a wrong token is wrong all the same"


def test_tokens_end(caller: Caller) -> None:
    token = put_token(caller, "60")
    caller.clock.now += 59
    assert get(caller, ROLES, token).status_code == 200
    caller.clock.now += 1
    assert get(caller, ROLES, token).status_code == 401


@pytest.mark.parametrize("ttl", ["", "0", "21601", "an hour"])
def test_wrong_lifetimes_of_tokens(caller: Caller, ttl: str) -> None:
    assert send(caller.simulator, TOKEN_PATH, headers={TTL: ttl}, method="PUT").status_code == 400
    assert send(caller.simulator, TOKEN_PATH, method="PUT").status_code == 400


def test_a_machine_without_a_role_has_no_such_page(caller: Caller) -> None:
    caller.simulator.sts.ecs_role = None
    token = put_token(caller)
    assert get(caller, ROLES, token).status_code == 404
    assert latest_answer(caller, "ListRamRoles")["outcome"] == "not_found"
    assert get(caller, f"{ROLES}{ECS_ROLE}", token).status_code == 404


def test_other_pages_and_methods_are_not_there(caller: Caller) -> None:
    token = put_token(caller)
    for path in (f"{ROLES}other-role", "/latest/meta-data/instance-id", "/latest/api/other", "/credentials-uris"):
        assert get(caller, path, token).status_code == 404
    assert send(caller.simulator, TOKEN_PATH, headers={TTL: "60"}).status_code == 404
    assert send(caller.simulator, "/credentials-uri", method="POST").status_code == 404


def test_the_same_keys_until_shortly_before_their_end(caller: Caller) -> None:
    token = put_token(caller)
    first = key(caller, token)["AccessKeyId"]
    caller.clock.now += 21600 - 1801
    assert key(caller, put_token(caller))["AccessKeyId"] == first
    caller.clock.now += 1
    renewed = key(caller, put_token(caller))
    assert renewed["AccessKeyId"] != first
    assert len(caller.simulator.sts.issued) == 2
    caller.clock.now += 1800
    assert with_key(caller, renewed).status_code == 200


def test_short_lived_keys_are_renewed_at_half_their_life(caller: Caller) -> None:
    caller.simulator.sts.lifetime = 100
    token = put_token(caller)
    first = key(caller, token)
    caller.clock.now += 49
    assert key(caller, token)["AccessKeyId"] == first["AccessKeyId"]
    caller.clock.now += 1
    assert key(caller, token)["AccessKeyId"] != first["AccessKeyId"]
    caller.clock.now += 50
    assert refusal(with_key(caller, first)) == (400, "InvalidSecurityToken.Expired")


def test_revoked_keys_are_replaced(caller: Caller) -> None:
    token = put_token(caller)
    first = key(caller, token)
    caller.simulator.sts.revoke()
    assert refusal(with_key(caller, first)) == (404, "InvalidAccessKeyId.NotFound")
    assert with_key(caller, key(caller, token)).status_code == 200


def test_another_role_is_told_at_once(caller: Caller) -> None:
    token = put_token(caller)
    first = key(caller, token)
    caller.simulator.sts.ecs_role = "gpu-node"
    assert get(caller, ROLES, token).text == "gpu-node"
    assert get(caller, f"{ROLES}{ECS_ROLE}", token).status_code == 404
    assert key(caller, token)["AccessKeyId"] != first["AccessKeyId"]


@pytest.mark.parametrize("path", ["/credentials-uri", "/credentials-uri/some/where"])
def test_a_credentials_uri_needs_nothing_and_answers_keys(caller: Caller, path: str) -> None:
    body = get(caller, path).json()
    assert (body["Code"], body["Expiration"]) == ("Success", "2026-01-02T04:04:05Z")
    assert with_key(caller, body).status_code == 200
    issued = caller.simulator.sts.issued[-1]
    assert (issued.role, issued.via) == (ROLE, "credentials_uri")
    logged = latest_answer(caller, "GetCredentialsUri")
    assert (logged["api"], logged["outcome"]) == ("metadata", "ok")
    assert body["AccessKeySecret"] not in str(logged)
    assert body["SecurityToken"] not in str(logged)


def test_metadata_has_its_own_name_in_the_log(caller: Caller) -> None:
    put_token(caller)
    assert (latest_answer(caller, "PutToken")["api"], latest_answer(caller, "PutToken")["rows"]) == ("metadata", [])
