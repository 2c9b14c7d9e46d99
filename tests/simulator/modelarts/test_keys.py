"""Temporary keys: from STS for an ID token, from a machine's metadata, and how long the gateway takes them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.simulator.client import START, Clock, send
from tests.simulator.modelarts.client import POOLS, Caller, decoded, refusal, signed_headers
from tests.simulator.modelarts.test_truth import truth_of
from trainfleet_simulator import Fault, Simulator
from trainfleet_simulator.modelarts.agency import AGENCY_URN, OIDC_TOKEN, PROVIDER_URN

ASSUME = "/v5/agencies/assume-with-oidc"
TOKEN = "/meta-data/latest/api/token"
KEYS = "/openstack/latest/securitykey"
TTL = "X-Metadata-Token-Ttl-Seconds"
WRONG = (401, "APIGW.0301")
GOOD = {
    "provider_urn": PROVIDER_URN,
    "agency_urn": AGENCY_URN,
    "id_token": OIDC_TOKEN,
    "agency_session_name": "exporter",
    "duration_seconds": 900,
}


def assume(caller: Caller, **changes: Any) -> httpx.Response:
    body = {name: value for name, value in (GOOD | changes).items() if value is not None}
    headers = {"Content-Type": "application/json;charset=UTF-8"}
    return send(caller.simulator, ASSUME, method="POST", headers=headers, content=json.dumps(body).encode())


def session(caller: Caller, seconds: int = 21600) -> str:
    answer = send(caller.simulator, TOKEN, method="PUT", headers={TTL: str(seconds)})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text


def machine_keys(caller: Caller, token: str | None = None) -> httpx.Response:
    headers = {"X-Metadata-Token": session(caller) if token is None else token}
    return send(caller.simulator, KEYS, headers=headers)


def use(caller: Caller, keys: dict[str, str], **changes: Any) -> httpx.Response:
    """A call with keys in either service's spelling."""
    given: dict[str, Any] = {
        "access_key": keys.get("access") or keys["access_key_id"],
        "secret_key": keys.get("secret") or keys["secret_access_key"],
        "security_token": keys.get("securitytoken") or keys["security_token"],
        "now": caller.clock.now,
    }
    return send(caller.simulator, POOLS, headers=signed_headers(POOLS, **given | changes))


def test_an_id_token_opens_everything_until_the_keys_expire() -> None:
    caller = Caller()
    body = decoded(assume(caller))
    keys = body["credentials"]
    assert body["assumed_agency"]["urn"].endswith("/exporter")
    assert keys["expiration"] == "2026-01-02T03:19:05Z"
    assert use(caller, keys).status_code == 200
    caller.clock.now += 899
    assert use(caller, keys).status_code == 200
    caller.clock.now += 1
    late = use(caller, keys)
    assert refusal(late) == WRONG
    assert "security token has expired" in late.json()["error_msg"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"id_token": "stolen"}, 403),
        ({"agency_urn": "iam::x:agency:other"}, 403),
        ({"provider_urn": "iam::x:oidc-provider:other"}, 403),
        ({"id_token": None}, 400),
        ({"provider_urn": 1}, 400),
        ({"agency_session_name": None}, 400),
        ({"agency_session_name": "x"}, 400),
        ({"agency_session_name": "x y"}, 400),
        ({"duration_seconds": 899}, 400),
        ({"duration_seconds": 43201}, 400),
        ({"duration_seconds": "900"}, 400),
        ({"duration_seconds": True}, 400),
        ({"duration_seconds": None}, 200),
    ],
    ids=str,
)
def test_who_is_let_in(changes: dict[str, Any], status: int) -> None:
    caller = Caller()
    answer = assume(caller, **changes)
    assert answer.status_code == status
    if status != 200:
        assert set(answer.json()) == {"error_code", "error_msg", "request_id"}
        assert OIDC_TOKEN not in answer.text
        assert caller.simulator.agency.issued == []


def test_what_is_not_an_object_is_malformed() -> None:
    caller = Caller()
    for content in (b"", b"{", b"[]", b"1"):
        assert send(caller.simulator, ASSUME, method="POST", content=content).status_code == 400


def test_the_id_token_may_change() -> None:
    caller = Caller()
    caller.simulator.agency.oidc_token = "rotated"
    assert assume(caller).status_code == 403
    assert assume(caller, id_token="rotated").status_code == 200
    caller.simulator.agency.oidc_token = None
    assert assume(caller, id_token="rotated").status_code == 403


def test_keys_belong_together() -> None:
    caller = Caller()
    first, second = (decoded(assume(caller))["credentials"] for _ in range(2))
    assert use(caller, first).status_code == use(caller, second).status_code == 200, "an older one stays good"
    for changes in (
        {"security_token": None},
        {"security_token": second["security_token"]},
        {"secret_key": second["secret_access_key"]},
        {"access_key": "HSTAUNKNOWN"},
    ):
        assert refusal(use(caller, first, **changes)) == WRONG
    assert send(caller.simulator, POOLS, headers=signed_headers(POOLS)).status_code == 200, "so do the permanent ones"


def test_keys_are_taken_back() -> None:
    caller = Caller()
    agency = caller.simulator.agency
    first, second = (decoded(assume(caller))["credentials"] for _ in range(2))
    agency.revoke(first["access_key_id"])
    assert refusal(use(caller, first)) == WRONG
    assert use(caller, second).status_code == 200
    agency.revoke()
    assert refusal(use(caller, second)) == WRONG
    assert use(caller, decoded(assume(caller))["credentials"]).status_code == 200


def test_a_machine_with_an_agency_has_keys() -> None:
    caller = Caller()
    keys = machine_keys(caller).json()["credential"]
    assert set(keys) == {"access", "secret", "securitytoken", "expires_at"}
    assert datetime.strptime(keys["expires_at"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() == START + 86400
    assert use(caller, keys).status_code == 200
    assert machine_keys(caller).json()["credential"] == keys, "the same ones for half of their life"
    caller.clock.now += 43200
    newer = machine_keys(caller).json()["credential"]
    assert newer["access"] != keys["access"]
    assert use(caller, keys).status_code == use(caller, newer).status_code == 200
    caller.simulator.agency.revoke()
    assert refusal(use(caller, newer)) == WRONG
    assert use(caller, machine_keys(caller).json()["credential"]).status_code == 200


def test_the_lifetime_may_be_set() -> None:
    caller = Caller()
    caller.simulator.agency.lifetime = 60
    for keys in (machine_keys(caller).json()["credential"], decoded(assume(caller))["credentials"]):
        assert use(caller, keys).status_code == 200
    assert [key.expires - START for key in caller.simulator.agency.issued] == [60, 60]
    caller.clock.now += 60
    assert refusal(use(caller, keys)) == WRONG


def test_metadata_wants_a_session() -> None:
    caller = Caller()
    assert send(caller.simulator, KEYS).status_code == 401
    assert machine_keys(caller, "unknown").status_code == 401
    token = session(caller, 60)
    assert machine_keys(caller, token).status_code == 200
    caller.clock.now += 60
    assert machine_keys(caller, token).status_code == 401


@pytest.mark.parametrize("seconds", [None, "", "0", "21601", "-1", "x", "9" * 5000])
def test_a_session_has_a_length(seconds: str | None) -> None:
    headers = {} if seconds is None else {TTL: seconds}
    assert send(Caller().simulator, TOKEN, method="PUT", headers=headers).status_code == 400


def test_a_machine_without_an_agency_and_an_old_metadata_service() -> None:
    caller = Caller()
    agency = caller.simulator.agency
    agency.name = None
    assert machine_keys(caller).status_code == 404
    agency.name, agency.metadata_tokens = "trainfleet-exporter", False
    assert send(caller.simulator, TOKEN, method="PUT", headers={TTL: "60"}).status_code == 404
    assert send(caller.simulator, KEYS).status_code == 200


def test_the_log_has_every_call_and_no_secret() -> None:
    caller = Caller()
    assume(caller)
    assume(caller, id_token="stolen-id-token")
    machine_keys(caller)
    machine_keys(caller, "unknown")
    caller.simulator.agency.name = None
    machine_keys(caller)
    truth = truth_of(caller)
    assert truth["calls"] == {
        "sts": {"AssumeAgencyWithOIDC": {"ok": 1, "auth": 1}},
        "metadata": {"GetMetadataToken": {"ok": 2}, "GetSecurityKey": {"ok": 1, "auth": 1, "not_found": 1}},
    }
    known = str(truth) + repr(caller.simulator.agency)
    secrets = [text for key in caller.simulator.agency.issued for text in (key.access_key_secret, key.security_token)]
    assert len(secrets) == 4
    assert not [text for text in (*secrets, OIDC_TOKEN, "stolen-id-token") if text in known]


def test_they_may_fail() -> None:
    caller = Caller()
    caller.simulator.faults.add(Fault(match={"api": "metadata"}, status=500))
    caller.simulator.faults.add(Fault(match={"api": "sts"}, status=503))
    assert send(caller.simulator, TOKEN, method="PUT", headers={TTL: "60"}).status_code == 500
    assert refusal(assume(caller)) == (503, "APIGW.0613")


def test_the_other_clouds_metadata_is_left_to_it() -> None:
    simulator = Simulator(1, clock=Clock(), clouds=("pai", "modelarts"))
    for path in ("/latest/api/token", "/latest/meta-data/ram/security-credentials/", "/credentials-uri", "/"):
        send(simulator, path)
    send(simulator, TOKEN, method="PUT", headers={TTL: "60"})
    send(simulator, "/meta-data/latest/nosuch")
    calls = send(simulator, "/truth").json()["answers"]
    ours = [answer["operation"] for answer in calls if answer["query"] == {} and answer["api"] == "metadata"]
    assert ours[-2:] == ["GetMetadataToken", "unknown"]
