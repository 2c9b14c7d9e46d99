"""Signature Version 4: 1,000 random requests against botocore, errors, and a clock that is off."""

from __future__ import annotations

import random
import string
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.providers.aws_sagemaker.cloud import RUNNING, Cloud, FleetOf, failed, job
from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.aws_sagemaker.api import judge, sign
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.transport import Call, HttpAnswer


def test_a_thousand_random_requests_are_signed_as_by_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, characters = random.Random(31), string.printable.strip() + " äß€"

    def text(most: int, of: str = characters) -> str:
        return "".join(chosen.choice(of) for _ in range(chosen.randrange(1, most)))

    for number in range(1000):
        headers = {
            "host": f"{text(9, string.ascii_lowercase)}.test",
            "content-type": text(20, string.ascii_letters + "/-"),
            "x-amz-target": text(30, string.ascii_letters + "."),
        }
        token = text(60, string.ascii_letters) if number % 2 else None
        keys = Keys(text(20, string.ascii_uppercase), text(40, string.ascii_letters + "/+=") + "s", token)
        region, service = f"region-{number % 7}", text(9, string.ascii_lowercase)
        moment = datetime.fromtimestamp(chosen.randrange(10**9, 2 * 10**9), UTC)
        method, body = chosen.choice(["GET", "POST"]), text(200).encode()
        path = chosen.choice(["/", "/a/b-c_d~e"])
        call = Call(operation="", path=path, method=method, body=body)
        found, _ = sign(keys, call, headers, region=region, service=service, now=moment.timestamp())
        request = AWSRequest(method=method, url=f"https://{headers['host']}{path}", data=body, headers=headers)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda moment=moment: moment.replace(tzinfo=None))
        credentials = Credentials(keys.access_key_id, keys.access_key_secret, token)
        SigV4Auth(credentials, service, region).add_auth(request)
        assert found["Authorization"] == request.headers["Authorization"]
        assert found["x-amz-date"] == request.headers["X-Amz-Date"]


def _answer(status: int, payload: Any, body: bytes = b"", **headers: str) -> HttpAnswer:
    return HttpAnswer(status, headers, body, payload)


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "ThrottlingException", "Rate exceeded", Throttled),
        (400, "Throttling", "", Throttled),
        (400, "ValidationError", "Rate exceeded", Throttled),
        (429, "TooManyRequestsException", "", Throttled),
        (400, "AccessDeniedException", "User: arn:aws:iam::1:user/x is not authorized", AccessDenied),
        (400, "ExpiredTokenException", "expired", AccessDenied),
        (400, "UnrecognizedClientException", "The security token is invalid.", AccessDenied),
        (400, "InvalidSignatureException", "Signature expired", AccessDenied),
        (403, "", "", AccessDenied),
        (400, "ResourceNotFound", "no cluster", NotFound),
        (400, "ValidationException", "Requested resource not found.", NotFound),
        (400, "ValidationException", "1 validation error detected", RequestRefused),
        (400, "UnknownOperationException", "", RequestRefused),
        (404, "", "", RequestRefused),
        (500, "InternalFailure", "", ServerTrouble),
        (503, "ServiceUnavailable", "", ServerTrouble),
    ],
)
def test_errors_by_code_and_status(status: int, code: str, message: str, kind: type[CloudError]) -> None:
    error = judge(_answer(status, {"__type": f"com.amazonaws.sagemaker#{code}", "message": message}))
    assert type(error) is kind
    assert error.code == code


@pytest.mark.parametrize(
    ("hours", "code"), [(-3, "RequestTimeTooSkewed"), (2, "InvalidSignatureException"), (2, "RequestExpired")]
)
async def test_a_clock_that_is_off_corrects_itself(fleet_of: FleetOf, code: str, hours: int) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]
    dates: list[str] = []

    def by_clock(request: httpx.Request) -> httpx.Response:
        there = time.time() + hours * 3600
        dates.append(request.headers["x-amz-date"])
        signed = datetime.strptime(dates[-1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        date = format_datetime(datetime.fromtimestamp(there, UTC), usegmt=True)
        if abs(signed - there) > 300:
            return failed(code, "Signature not yet current", 403, Date=date)
        answer = cloud(request)
        answer.headers["date"] = date
        return answer

    async with fleet_of(by_clock) as fleet:
        await fleet.runner("jobs").tick()
        assert fleet.own("collector_success", collector="jobs") == 1
        assert await fleet.value(RUNNING) == 1
        await fleet.runner("usage").tick()
        assert fleet.own("collector_success", collector="usage") == 1
        assert len(dates) == 1 + 2 + 1  # one was refused
        assert sum("clock of this machine is off" in line for line in fleet.log) == 1


async def test_wrong_date_of_accepted_calls_moves_no_clock(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a")]

    def dated(request: httpx.Request) -> httpx.Response:
        answer = cloud(request)
        answer.headers["date"] = format_datetime(datetime.fromtimestamp(time.time() + 7200, UTC), usegmt=True)
        return answer

    async with fleet_of(dated) as fleet:
        await fleet.runner("jobs").tick()
        assert await fleet.value(RUNNING) == 1
        assert not [line for line in fleet.log if "clock of this machine" in line]
