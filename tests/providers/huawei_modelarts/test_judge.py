"""What a refusal means, and after which one another credential is worth a try."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import formatdate

import httpx
import pytest
import time_machine

from tests.support.clock import START
from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.huawei_modelarts.api import HuaweiDialect, Identity, judge
from trainfleet_exporter.providers.keys import FixedKeys, Keys
from trainfleet_exporter.transport import HttpAnswer


def refusal(
    status: int = 401, message: str = "Incorrect IAM authentication information", *, date: str = "", code: str = ""
) -> CloudError:
    """What an answer of the gateway's is judged to be, at the start of stepped time."""
    payload = {"error_code": code or "APIGW.0301", "error_msg": message}
    headers = httpx.Headers({"date": date} if date else {})
    with time_machine.travel(START, tick=False):
        error = judge(HttpAnswer(status, headers, json.dumps(payload).encode(), payload))
    assert error is not None
    return error


@pytest.mark.parametrize("seconds", [-960, 960, 86400])
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_from_another_time_is_about_the_clock(seconds: int, status: int) -> None:
    error = refusal(status, "verify aksk signature fail", date=formatdate(START + seconds, usegmt=True))
    assert isinstance(error, AccessDenied)
    minutes, side = abs(seconds) // 60, "behind" if seconds > 0 else "ahead"
    there = datetime.fromtimestamp(START + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert error.message == (
        f"the clock of this machine is off by {minutes} minutes ({side}): "
        f"here it is 2026-01-02T03:04:05Z, there it is {there}"
    )


BEYOND = "Fri, 31 Dec 9999 23:59:59 -0100"  # the year 10000 here, which no date can express


@pytest.mark.parametrize(
    "date", ["", "soon", "Fri, 99 Jan 2026 03:04:05 GMT", BEYOND, formatdate(START + 899, usegmt=True)]
)
def test_a_refusal_from_about_now_or_from_no_known_time_is_not(date: str) -> None:
    assert refusal(message="verify aksk signature fail", date=date).message == "verify aksk signature fail"


def test_a_gateway_that_says_so_is_believed() -> None:
    message = refusal(message="x-sdk-date is out of its range").message
    assert message == "the clock of this machine is off: here it is 2026-01-02T03:04:05Z, there it is unknown"


def test_the_access_key_that_a_refusal_names_is_not_repeated() -> None:
    assert refusal(message="ak HSTA44319FA276FD6647 not exist").message == "ak <secret> not exist"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "ModelArts.2775", NotFound),
        (400, "ModelArts.2775", NotFound),
        (404, "ModelArts.0109", NotFound),
        (404, "APIGW.0101", RequestRefused),  # an address that the gateway does not know is no lost job
        (403, "APIGW.0308", Throttled),
        (503, "", ServerTrouble),
    ],
)
def test_code_decides_before_the_status(status: int, code: str, kind: type[CloudError]) -> None:
    assert type(refusal(status, code=code)) is kind


class _Keys(FixedKeys):
    """A credential that can always be replaced."""

    def refused(self, keys: object) -> bool:
        return keys == 1


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (refusal(), True),
        (refusal(403, code="APIGW.0307"), True),
        (refusal(403, code="ModelArts.0203"), True),
        (refusal(403, code="ModelArts.2784"), True),
        (refusal(403, code="ModelArts.0108"), False),
        (refusal(date=formatdate(START + 960, usegmt=True)), False),
    ],
    ids=["signature", "token", "ModelArts.0203", "ModelArts.2784", "a right that is missing", "the clock"],
)
def test_only_a_refused_credential_is_replaced(error: AccessDenied, again: bool) -> None:
    dialect = HuaweiDialect("modelarts", Identity(_Keys(Keys("ak", "sk")), region="cn-north-4", project_id="p"))
    assert dialect.refused(error, 1) is again
    assert dialect.refused(error, 2) is False
