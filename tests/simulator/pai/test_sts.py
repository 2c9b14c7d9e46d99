"""STS: temporary keys for a role, and how long they open anything."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.simulator.client import START, Caller, refusal, send, signed_headers
from tests.simulator.pai.client import answered, latest_answer, rpc, with_key
from trainfleet_simulator.pai.sts import LOCKED_ROLE, OIDC_PROVIDER, OIDC_TOKEN, ROLE

ASK = {"RoleArn": "acs:ram::1000000000000001:role/trainfleet-reader", "RoleSessionName": "exporter"}
BY_TOKEN = ASK | {"OIDCProviderArn": OIDC_PROVIDER, "OIDCToken": OIDC_TOKEN}
UNSIGNED = {"x-acs-action": "AssumeRoleWithOIDC", "x-acs-version": "2015-04-01"}


@pytest.fixture
def caller() -> Caller:
    return Caller(population=5)


def assume(caller: Caller, **query: str) -> dict[str, str]:
    body = answered(rpc(caller, "sts", "AssumeRole", **(ASK | query)))
    key: dict[str, str] = body["Credentials"]
    assert set(key) == {"AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration"}
    return key


def assume_with_oidc(caller: Caller, **query: str) -> httpx.Response:
    return send(caller.simulator, "/", BY_TOKEN | query, headers=UNSIGNED, method="POST")


def test_assume_role_answers_keys_that_work_for_an_hour(caller: Caller) -> None:
    body = answered(rpc(caller, "sts", "AssumeRole", **ASK))
    assert body["AssumedRoleUser"]["Arn"] == f"{ASK['RoleArn']}/exporter"
    key = body["Credentials"]
    assert key["AccessKeyId"].startswith("STS.")
    assert key["Expiration"] == "2026-01-02T04:04:05Z"
    assert with_key(caller, key).status_code == 200
    caller.clock.now += 3599
    assert with_key(caller, key).status_code == 200
    caller.clock.now += 1
    assert refusal(with_key(caller, key)) == (400, "InvalidSecurityToken.Expired")
    assert latest_answer(caller, "ListWorkspaces")["outcome"] == "auth"


def test_temporary_keys_need_their_own_secret_and_token(caller: Caller) -> None:
    one, other = assume(caller), assume(caller)
    assert one["AccessKeyId"] != other["AccessKeyId"]
    mismatch = (400, "InvalidSecurityToken.MismatchWithAccessKey")
    assert refusal(with_key(caller, one, security_token=other["SecurityToken"])) == mismatch
    assert refusal(with_key(caller, one, security_token=None)) == mismatch
    wrong = with_key(caller, one, access_key_secret=other["AccessKeySecret"])
    assert refusal(wrong) == (400, "SignatureDoesNotMatch")
    assert with_key(caller, one).status_code == with_key(caller, other).status_code == 200
    assert caller.jobs()["TotalCount"] > 0, "the permanent key goes on working"


def test_the_duration_is_as_asked_unless_the_lifetime_is_set(caller: Caller) -> None:
    assert assume(caller, DurationSeconds="900")["Expiration"] == "2026-01-02T03:19:05Z"
    caller.simulator.sts.lifetime = 60
    key = assume(caller)
    assert key["Expiration"] == "2026-01-02T03:05:05Z"
    assert caller.simulator.sts.issued[-1].expires == START + 60
    caller.clock.now += 60
    assert refusal(with_key(caller, key)) == (400, "InvalidSecurityToken.Expired")


def test_one_key_or_all_can_be_revoked(caller: Caller) -> None:
    first, second, third = assume(caller), assume(caller), assume(caller)
    sts = caller.simulator.sts
    assert [key.access_key_id for key in sts.issued] == [key["AccessKeyId"] for key in (first, second, third)]
    assert {(key.role, key.via) for key in sts.issued} == {(ROLE, "AssumeRole")}
    assert sts.revoke(first["AccessKeyId"]) == 1
    assert refusal(with_key(caller, first)) == (404, "InvalidAccessKeyId.NotFound")
    assert with_key(caller, second).status_code == 200
    assert sts.revoke() == 2
    assert sts.revoke("nosuch") == 0
    assert refusal(with_key(caller, third)) == (404, "InvalidAccessKeyId.NotFound")
    assert with_key(caller, assume(caller)).status_code == 200


def test_a_key_cannot_print_its_secrets(caller: Caller) -> None:
    key = assume(caller)
    text = repr(caller.simulator.sts.issued)
    assert key["AccessKeyId"] in text
    assert key["AccessKeySecret"] not in text
    assert key["SecurityToken"] not in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"RoleArn": ""}, (400, "MissingRoleArn")),
        ({"RoleSessionName": ""}, (400, "MissingRoleSessionName")),
        ({"RoleSessionName": "a b"}, (400, "InvalidParameter.RoleSessionName")),
        ({"RoleArn": "trainfleet-reader"}, (400, "InvalidParameter.RoleArn")),
        ({"RoleArn": "acs:ram::2000000000000002:role/trainfleet-reader"}, (400, "InvalidParameter.RoleArn")),
        ({"RoleArn": "acs:ram::1000000000000001:role/nobody"}, (404, "EntityNotExist.Role")),
        ({"RoleArn": f"acs:ram::1000000000000001:role/{LOCKED_ROLE}"}, (403, "NoPermission")),
        ({"DurationSeconds": "899"}, (400, "InvalidParameter.DurationSeconds")),
        ({"DurationSeconds": "3601"}, (400, "InvalidParameter.DurationSeconds")),
        ({"DurationSeconds": "1h"}, (400, "InvalidParameter.DurationSeconds")),
    ],
    ids=str,
)
def test_refusals_of_both_ways(caller: Caller, changes: dict[str, str], expected: tuple[int, str]) -> None:
    assert refusal(rpc(caller, "sts", "AssumeRole", **(ASK | changes))) == expected
    assert refusal(assume_with_oidc(caller, **changes)) == expected
    assert caller.simulator.sts.issued == []


def test_the_outcomes_in_the_log(caller: Caller) -> None:
    sts = caller.simulator.sts
    rpc(caller, "sts", "AssumeRole", **(ASK | {"RoleArn": sts.role_arn("nobody")}))
    assert latest_answer(caller, "AssumeRole")["outcome"] == "not_found"
    rpc(caller, "sts", "AssumeRole", **(ASK | {"RoleArn": sts.role_arn(LOCKED_ROLE)}))
    assert latest_answer(caller, "AssumeRole")["outcome"] == "auth"
    key = assume(caller)
    logged = latest_answer(caller, "AssumeRole")
    assert (logged["api"], logged["outcome"], logged["total"]) == ("sts", "ok", None)
    assert logged["rows"] == [[ROLE, key["AccessKeyId"], START + 3600]]


def test_assume_role_has_to_be_signed(caller: Caller) -> None:
    headers = {"x-acs-action": "AssumeRole", "x-acs-version": "2015-04-01"}
    response = send(caller.simulator, "/", ASK, headers=headers, method="POST")
    assert refusal(response) == (400, "IncompleteSignature")
    signed = signed_headers("/", ASK, action="AssumeRole", version="2015-04-01", method="POST", access_key_secret="no")
    assert refusal(send(caller.simulator, "/", ASK, headers=signed, method="POST")) == (400, "SignatureDoesNotMatch")


def test_other_unsigned_calls_stay_refused(caller: Caller) -> None:
    for changes in ({"x-acs-version": "2020-12-03"}, {"x-acs-action": "DescribeRegions"}):
        response = send(caller.simulator, "/", BY_TOKEN, headers=UNSIGNED | changes, method="POST")
        assert refusal(response) == (400, "IncompleteSignature")


def test_an_external_id_where_one_is_wanted(caller: Caller) -> None:
    caller.simulator.sts.external_id = "shared-secret"
    for query in ({}, {"ExternalId": "other"}):
        assert refusal(rpc(caller, "sts", "AssumeRole", **(ASK | query))) == (403, "NoPermission")
    assert with_key(caller, assume(caller, ExternalId="shared-secret")).status_code == 200
    assert "ExternalId" not in latest_answer(caller, "AssumeRole")["query"]


def test_other_roles_can_be_let_in(caller: Caller) -> None:
    sts = caller.simulator.sts
    sts.roles = {"auditor"}
    assert refusal(rpc(caller, "sts", "AssumeRole", **ASK)) == (404, "EntityNotExist.Role")
    assert with_key(caller, assume(caller, RoleArn=sts.role_arn("auditor"))).status_code == 200
    assert sts.issued[-1].role == "auditor"


@pytest.mark.parametrize("form", [False, True])
def test_token_of_a_trusted_provider_replaces_a_signature(caller: Caller, form: bool) -> None:
    if form:
        headers = UNSIGNED | {"content-type": "application/x-www-form-urlencoded"}
        content = urlencode(BY_TOKEN).encode()
        response = send(caller.simulator, "/", headers=headers, method="POST", content=content)
    else:
        response = assume_with_oidc(caller)
    body = answered(response)
    assert body["AssumedRoleUser"]["Arn"] == f"{ASK['RoleArn']}/exporter"
    assert with_key(caller, body["Credentials"]).status_code == 200
    assert caller.simulator.sts.issued[-1].via == "AssumeRoleWithOIDC"
    logged: dict[str, Any] = latest_answer(caller, "AssumeRoleWithOIDC")
    assert logged["query"]["RoleArn"] == ASK["RoleArn"]
    assert OIDC_TOKEN not in str(logged)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"OIDCToken": ""}, (400, "MissingOIDCToken")),
        ({"OIDCProviderArn": ""}, (400, "MissingOIDCProviderArn")),
        ({"OIDCToken": "forged"}, (400, "AuthenticationFail.OIDCToken.Invalid")),
        ({"OIDCToken": "yesterdays"}, (400, "AuthenticationFail.OIDCToken.Expired")),
        ({"OIDCProviderArn": f"{OIDC_PROVIDER}-2"}, (404, "EntityNotExist.OIDCProvider")),
    ],
    ids=str,
)
def test_refused_tokens(caller: Caller, changes: dict[str, str], expected: tuple[int, str]) -> None:
    caller.simulator.sts.expired_oidc_tokens = {"yesterdays"}
    assert refusal(assume_with_oidc(caller, **changes)) == expected
    assert caller.simulator.sts.issued == []


def test_tokens_rotate(caller: Caller) -> None:
    sts = caller.simulator.sts
    sts.oidc_token, sts.expired_oidc_tokens = "new", {OIDC_TOKEN}
    assert refusal(assume_with_oidc(caller)) == (400, "AuthenticationFail.OIDCToken.Expired")
    assert latest_answer(caller, "AssumeRoleWithOIDC")["outcome"] == "auth"
    assert assume_with_oidc(caller, OIDCToken="new").status_code == 200
