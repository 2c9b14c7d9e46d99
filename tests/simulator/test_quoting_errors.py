"""Refusals that quote the request: what they hold is what was sent and signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote

import pytest

from tests.simulator.client import START, Clock, send, signed_headers
from tests.simulator.modelarts.client import POOLS
from tests.simulator.modelarts.client import signed_headers as modelarts_headers
from tests.support.planted import quoted_proofs
from trainfleet_simulator import Fault, Simulator
from trainfleet_simulator.modelarts.catalog import SECRET_KEY
from trainfleet_simulator.quoting_errors import string_to_sign
from trainfleet_simulator.server import ACCESS_KEY_SECRET

TOKEN = "a/token+of=40 characters, no less, indeed"
JOBS = "/api/v1/jobs"


def _simulator(kind: str) -> Simulator:
    simulator = Simulator(clouds=("pai", "modelarts"), clock=Clock(), population=1, security_token=TOKEN)
    simulator.faults.add(Fault({}, kind=kind))
    return simulator


def _sent(cloud: str) -> tuple[str, dict[str, str], str]:
    if cloud == "pai":
        return JOBS, signed_headers(JOBS, {}, security_token=TOKEN), ACCESS_KEY_SECRET
    return POOLS, modelarts_headers(POOLS, security_token=TOKEN, now=START), SECRET_KEY


@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
def test_a_refusal_quotes_what_was_sent(cloud: str) -> None:
    simulator = _simulator("quoted")
    path, headers, secret = _sent(cloud)
    answer = send(simulator, path, headers=headers)
    assert answer.status_code == 400
    message = answer.json()["Message" if cloud == "pai" else "error_msg"]
    signature = headers["Authorization"].rpartition("Signature=")[2]
    for wanted in (headers["Authorization"], signature, TOKEN, quote(TOKEN, safe=""), f"{TOKEN[:20]}..."):
        assert wanted in message
    assert base64.b64encode(f"user:{signature}".encode()).decode() in message
    (asked,) = simulator.take_quoted()
    signed = string_to_sign(asked)
    assert f"string to sign is:{signed}" in message
    assert hmac.new(secret.encode(), signed.encode(), hashlib.sha256).hexdigest() == signature
    assert simulator.take_quoted() == []


def test_each_refusal_begins_with_another_quote() -> None:
    simulator = _simulator("quoted")
    path, headers, _ = _sent("pai")
    said = [send(simulator, path, headers=headers).json()["Message"] for _ in range(14)]
    assert len({text[:30] for text in said}) >= 10
    assert len(quoted_proofs(simulator)) == 3


@pytest.mark.parametrize(("cloud", "status"), [("pai", 200), ("modelarts", 400)])
def test_a_long_refusal_is_cut_in_a_quote(cloud: str, status: int) -> None:
    simulator = _simulator("quoted_at_length")
    path, headers, _ = _sent(cloud)
    answer = send(simulator, path, headers=headers)
    assert answer.status_code == status
    assert len(answer.content) > 2**14
    body = answer.json()
    message = body["Message" if cloud == "pai" else "error_msg"]
    assert message[:300].startswith("y" * 268)
    assert headers["Authorization"] in message


def test_a_request_that_is_not_signed_has_its_body_quoted() -> None:
    simulator = _simulator("quoted")
    path = "/v3/auth/tokens"
    message = send(simulator, path, method="POST", content=b'{"password": "x y"}').json()["error"]["message"]
    assert '{"password": "x y"}' in message
    assert base64.b64encode(b'{"password": "x y"}').decode() in message
    (asked,) = simulator.take_quoted()
    assert string_to_sign(asked) == ""
