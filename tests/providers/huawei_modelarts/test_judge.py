"""What a refusal means, and after which one another credential is worth a try."""

from __future__ import annotations

import json

import httpx
import pytest

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.huawei_modelarts.api import HuaweiDialect, Identity, judge
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.keys import GivenKeys
from trainfleet_exporter.transport import HttpAnswer


def refusal(
    status: int = 401, message: str = "Incorrect IAM authentication information", *, code: str = ""
) -> CloudError:
    """What an answer of the gateway's is judged to be."""
    payload = {"error_code": code or "APIGW.0301", "error_msg": message}
    error = judge(HttpAnswer(status, httpx.Headers(), json.dumps(payload).encode(), payload))
    assert error is not None
    return error


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


class _Keys(GivenKeys):
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
    ],
    ids=["signature", "token", "ModelArts.0203", "ModelArts.2784", "a right that is missing"],
)
def test_only_a_refused_credential_is_replaced(error: AccessDenied, again: bool) -> None:
    identity = Identity(_Keys(Secret("ak"), Secret("sk")), region="cn-north-4", project_id="p")
    dialect = HuaweiDialect("modelarts", identity, ServerClock())
    assert dialect.refused(error, 1) is again
    assert dialect.refused(error, 2) is False
