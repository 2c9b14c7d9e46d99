"""The simulator refuses what the real services refuse, with their codes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.client import START, Caller, Clock, refusal, send, signed_headers
from trainfleet_simulator import Simulator

PATH = "/api/v1/jobs"


@pytest.fixture
def simulator() -> Simulator:
    return Simulator(1, clock=Clock())


def test_a_good_signature_is_accepted(simulator: Simulator) -> None:
    assert send(simulator, PATH, headers=signed_headers(PATH, {})).status_code == 200


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
        ({"version": "2022-01-12"}, (404, "InvalidAction.NotFound")),
        ({"action": "GetJob"}, (404, "InvalidAction.NotFound")),
        ({"action": "DeleteJob"}, (404, "InvalidAction.NotFound")),
    ],
    ids=str,
)
def test_refusals(simulator: Simulator, changes: dict[str, Any], expected: tuple[int, str]) -> None:
    headers = signed_headers(**{"path": PATH, "query": {}} | changes)
    headers["host"] = "simulator.test"
    assert refusal(send(simulator, PATH, headers=headers)) == expected


@pytest.mark.parametrize("seconds", [-900, 900])
def test_a_quarter_of_an_hour_of_skew_is_tolerated(simulator: Simulator, seconds: int) -> None:
    assert send(simulator, PATH, headers=signed_headers(PATH, {}, now=START + seconds)).status_code == 200


@pytest.mark.parametrize("date", [None, "", "2026-01-02 03:04:05", "Fri, 02 Jan 2026 03:04:05 GMT"])
def test_a_missing_or_malformed_date(simulator: Simulator, date: str | None) -> None:
    headers = signed_headers(PATH, {})
    del headers["x-acs-date"]
    if date is not None:
        headers["x-acs-date"] = date
    assert refusal(send(simulator, PATH, headers=headers)) == (400, "InvalidTimeStamp.Format")


@pytest.mark.parametrize("authorization", [None, "", "Bearer x", "ACS3-HMAC-SHA256 Credential=a,SignedHeaders=host"])
def test_a_missing_or_malformed_authorization(simulator: Simulator, authorization: str | None) -> None:
    headers = signed_headers(PATH, {})
    del headers["Authorization"]
    if authorization is not None:
        headers["Authorization"] = authorization
    assert refusal(send(simulator, PATH, headers=headers)) == (400, "IncompleteSignature")


def test_a_nonce_serves_once_and_only_when_the_rest_was_right(simulator: Simulator) -> None:
    wrong = signed_headers(PATH, {}, nonce="n1", access_key_secret="wrong")
    assert refusal(send(simulator, PATH, headers=wrong)) == (400, "SignatureDoesNotMatch")
    right = signed_headers(PATH, {}, nonce="n1")
    assert send(simulator, PATH, headers=right).status_code == 200
    assert refusal(send(simulator, PATH, headers=right)) == (400, "SignatureNonceUsed")


def test_nonces_are_forgotten_after_their_dates_expire() -> None:
    clock = Clock()
    simulator = Simulator(1, clock=clock)
    send(simulator, PATH, headers=signed_headers(PATH, {}, nonce="n1"))
    clock.now += 1801
    again = signed_headers(PATH, {}, nonce="n1", now=clock.now)
    assert send(simulator, PATH, headers=again).status_code == 200


@pytest.mark.parametrize("name", ["x-acs-action", "x-acs-version", "x-acs-signature-nonce", "x-acs-content-sha256"])
def test_each_required_header_must_be_sent(simulator: Simulator, name: str) -> None:
    headers = signed_headers(PATH, {})
    del headers[name]
    assert refusal(send(simulator, PATH, headers=headers)) == (400, "IncompleteSignature")


def test_every_acs_header_that_is_sent_must_be_signed(simulator: Simulator) -> None:
    headers = signed_headers(PATH, {}) | {"x-acs-extra": "1"}
    assert refusal(send(simulator, PATH, headers=headers)) == (400, "IncompleteSignature")


def test_a_content_hash_that_does_not_fit_the_body(simulator: Simulator) -> None:
    headers = signed_headers(PATH, {}, body=b"one")
    assert refusal(send(simulator, PATH, headers=headers, content=b"two")) == (400, "SignatureDoesNotMatch")


@pytest.mark.parametrize("raw", ["DisplayName=a+b%2Fc&Status=Running", "Status=Running&DisplayName=a%20b/c"])
def test_query_is_normalised_before_its_signature_is_checked(simulator: Simulator, raw: str) -> None:
    headers = signed_headers(PATH, {"DisplayName": "a b/c", "Status": "Running"})
    assert send(simulator, PATH, headers=headers, raw_query=raw).status_code == 200


@pytest.mark.parametrize(("token", "status"), [("STSTOKEN", 200), ("OTHER", 400), (None, 400)])
def test_a_security_token_is_checked_where_one_is_configured(token: str | None, status: int) -> None:
    simulator = Simulator(1, clock=Clock(), security_token="STSTOKEN")
    headers = signed_headers(PATH, {}, security_token=token)
    assert send(simulator, PATH, headers=headers).status_code == status


def test_other_methods_are_no_operations(simulator: Simulator) -> None:
    headers = signed_headers(PATH, {}, method="DELETE")
    assert refusal(send(simulator, PATH, headers=headers, method="DELETE")) == (404, "InvalidAction.NotFound")


def test_version_decides_the_operation_of_a_path() -> None:
    caller = Caller()
    assert caller.get("paistudio", "ListQuotas", "/api/v1/quotas/").status_code == 200
    expected = (404, "InvalidAction.NotFound")
    assert caller.refusal("aiworkspace", "ListQuotas", "/api/v1/quotas/") == expected
    assert caller.refusal("dlc", "ListWorkspaces", "/api/v1/workspaces") == expected
