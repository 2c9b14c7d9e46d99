"""ACS3-HMAC-SHA256: the published vector, recomputed vectors, the vendor's package as oracle, awkward characters."""

from __future__ import annotations

import hashlib
import importlib
import os
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.providers.alibaba_pai.api import ALGORITHM, sign
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.transport import Call, SignedRequest

EMPTY = hashlib.sha256(b"").hexdigest()

LIST_JOBS = {
    "WorkspaceId": "12345",
    "Status": "Running",
    "PageNumber": "1",
    "PageSize": "100",
    "StartTime": "2026-01-01T00:00:00Z",
    "DisplayName": "a b/c+d~é*",
}
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


def _sign(token: str | None = None, now: float = MOMENT, body: bytes = b"") -> SignedRequest:
    call = Call(operation="ListJobs", path="/api/v1/jobs", query=LIST_JOBS, body=body)
    keys = Keys("STS.TESTID" if token else "LTAITESTID", "TESTSECRET", token)
    nonce = "0123456789abcdef0123456789abcdef"
    return sign(keys, call, "pai-dlc.cn-hangzhou.aliyuncs.com", version="2020-12-03", now=now, nonce=nonce)


def test_awkward_characters_are_sent_as_signed() -> None:
    signed = _sign()
    assert signed.target == (
        "/api/v1/jobs?DisplayName=a%20b%2Fc%2Bd~%C3%A9%2A&PageNumber=1&PageSize=100"
        "&StartTime=2026-01-01T00%3A00%3A00Z&Status=Running&WorkspaceId=12345"
    )
    assert signed.proofs == (
        "677daec05c59d9f01e4a58e46d2fd2a2e0133f762e6ab8723f9ea9c7c1cfb8ac",
        "c7c6596a234ad00713e5a07a4f63e8115a859d94439152beefbefe3d932a7809",
    )


def _vendors_signer() -> Any:
    """The vendor's package; it may be missing on a developer's machine, and must not be where CI runs."""
    name = "alibabacloud_openapi_util.client"
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason="the vendor's package alibabacloud-openapi-util is not installed")


text = st.text(st.characters(exclude_categories=["Cs"]))  # lone surrogates are no UTF-8, on no wire
# The vendor's package forgets to percent-encode keys, so only keys that need none can be compared with it.
plain_keys = st.text(st.sampled_from("ABCXYZabcxyz019-_.~"), min_size=1)


@settings(max_examples=1000)
@given(
    query=st.dictionaries(plain_keys, text),
    path=st.sampled_from(["", "/", "/api/v1/jobs", "/api/v1/jobs/dlc%20x/metrics", "/api/v1/quotas/"]),
    method=st.sampled_from(["GET", "POST"]),
    token=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1),
    secret=text.filter(lambda secret: not unusable_secret(secret)),
    body=st.binary(),
)
def test_equals_the_vendors_own_signer(
    *, query: dict[str, str], path: str, method: str, token: str | None, secret: str, body: bytes
) -> None:
    vendor = _vendors_signer()
    call = Call(operation="ListJobs", path=path, method=method, query=query, body=body)
    signed = sign(Keys("LTAI", secret, token), call, "127.0.0.1:8080", version="2020-12-03", now=MOMENT, nonce="n0")
    headers = dict(signed.headers)
    authorization = headers.pop("Authorization")
    request = SimpleNamespace(method=method, pathname=path, query=query, headers=headers)
    expected = vendor.Client.get_authorization(request, ALGORITHM, hashlib.sha256(body).hexdigest(), "LTAI", secret)
    assert authorization == expected


def test_keys_are_encoded_although_the_vendors_package_does_not() -> None:
    """A server that decodes and encodes again sees `a%20b`; the vendor's `a b` verifies with none."""
    call = Call(operation="A", path="/", query={"a b": "1"})
    signed = sign(Keys("id", "s"), call, "h", version="1", now=MOMENT, nonce="n")
    headers = {name: value for name, value in signed.headers.items() if name != "Authorization"}
    vendor = _vendors_signer()
    request = SimpleNamespace(method="GET", pathname="/", query={"a b": "1"}, headers=headers)
    assert signed.proofs[0] not in vendor.Client.get_authorization(request, ALGORITHM, EMPTY, "id", "s")
    request.query = {"a%20b": "1"}
    assert signed.proofs[0] in vendor.Client.get_authorization(request, ALGORITHM, EMPTY, "id", "s")
