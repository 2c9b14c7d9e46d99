"""ACS3-HMAC-SHA256: published and recomputed vectors, the vendor's package as oracle, awkward characters."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfleet_exporter.providers.alibaba_pai.api import (
    ALGORITHM,
    sign,
    signature,
)
from trainfleet_exporter.providers.canonical import canonical_query, canonical_request

EMPTY = hashlib.sha256(b"").hexdigest()

LIST_JOBS = {
    "WorkspaceId": "12345",
    "Status": "Running",
    "PageNumber": "1",
    "PageSize": "100",
    "StartTime": "2026-01-01T00:00:00Z",
    "DisplayName": "a b/c+d~é*",
}


def _parts(authorization: str) -> tuple[str, dict[str, str]]:
    algorithm, _, rest = authorization.partition(" ")
    return algorithm, dict(part.split("=", 1) for part in rest.split(","))


def _request_hash(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    signed = {name: value for name, value in headers.items() if name != "Authorization"}
    text = canonical_request(method=method, path=path, query=query, headers=signed, body_sha256=EMPTY)
    return hashlib.sha256(text.encode()).hexdigest()


def test_vector_a_the_documentations_own() -> None:
    query = {
        "ImageId": "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd",
        "RegionId": "cn-shanghai",
    }
    headers = sign(
        method="POST",
        path="/",
        query=query,
        host="ecs.cn-shanghai.aliyuncs.com",
        action="RunInstances",
        version="2014-05-26",
        access_key_id="YourAccessKeyId",
        access_key_secret="YourAccessKeySecret",
        security_token=None,
        now=datetime(2023, 10, 26, 10, 22, 32, tzinfo=UTC),
        nonce="3156853299f313e23d1673dc12e1703d",
    ).headers
    assert (
        _request_hash("POST", "/", query, headers) == "7ea06492da5221eba5297e897ce16e55f964061054b7695beedaac1145b1e259"
    )
    assert headers["Authorization"] == (
        "ACS3-HMAC-SHA256 Credential=YourAccessKeyId,"
        "SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version,"
        "Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
    )


def _dlc_headers(access_key_id: str, security_token: str | None, now: datetime | float) -> dict[str, str]:
    return sign(
        method="GET",
        path="/api/v1/jobs",
        query=LIST_JOBS,
        host="pai-dlc.cn-hangzhou.aliyuncs.com",
        action="ListJobs",
        version="2020-12-03",
        access_key_id=access_key_id,
        access_key_secret="TESTSECRET",
        security_token=security_token,
        now=now,
        nonce="0123456789abcdef0123456789abcdef",
    ).headers


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_vector_b_awkward_characters() -> None:
    assert canonical_query(LIST_JOBS) == (
        "DisplayName=a%20b%2Fc%2Bd~%C3%A9%2A&PageNumber=1&PageSize=100"
        "&StartTime=2026-01-01T00%3A00%3A00Z&Status=Running&WorkspaceId=12345"
    )
    headers = _dlc_headers("LTAITESTID", None, MOMENT)
    assert (
        _request_hash("GET", "/api/v1/jobs", LIST_JOBS, headers)
        == "c7c6596a234ad00713e5a07a4f63e8115a859d94439152beefbefe3d932a7809"
    )
    _, parts = _parts(headers["Authorization"])
    assert parts["Signature"] == "677daec05c59d9f01e4a58e46d2fd2a2e0133f762e6ab8723f9ea9c7c1cfb8ac"


def test_vector_c_with_a_security_token() -> None:
    headers = _dlc_headers("STS.TESTID", "STSTOKEN", MOMENT)
    _, parts = _parts(headers["Authorization"])
    assert headers["x-acs-security-token"] == "STSTOKEN"
    assert parts == {
        "Credential": "STS.TESTID",
        "SignedHeaders": "host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-security-token;"
        "x-acs-signature-nonce;x-acs-version",
        "Signature": "aca69709c5b13c6afbf21051404dd14a83be6cfc5cfd9d32bd9fc7f103aac073",
    }


@pytest.mark.parametrize(
    "now",
    [MOMENT.timestamp(), MOMENT.timestamp() + 0.9, MOMENT.astimezone(timezone(timedelta(hours=8)))],
    ids=["unix seconds", "fraction cut off", "another zone"],
)
def test_every_way_to_say_the_same_second_signs_the_same(now: datetime | float) -> None:
    assert _dlc_headers("LTAITESTID", None, now) == _dlc_headers("LTAITESTID", None, MOMENT)


def test_an_empty_token_is_no_token() -> None:
    assert _dlc_headers("LTAITESTID", "", MOMENT) == _dlc_headers("LTAITESTID", None, MOMENT)


def test_the_secret_is_in_no_header() -> None:
    assert "TESTSECRET" not in str(_dlc_headers("LTAITESTID", "STSTOKEN", MOMENT))


def test_a_body_is_hashed_into_the_signature() -> None:
    def with_body(body: bytes) -> dict[str, str]:
        return sign(
            method="POST",
            path="/",
            query={},
            host="h",
            action="A",
            version="1",
            access_key_id="id",
            access_key_secret="s",
            now=0,
            nonce="n",
            body=body,
        ).headers

    assert with_body(b"")["x-acs-content-sha256"] == EMPTY
    assert with_body(b"x")["x-acs-content-sha256"] == hashlib.sha256(b"x").hexdigest()
    assert with_body(b"")["Authorization"] != with_body(b"x")["Authorization"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ""),
        ({"k": ""}, "k="),
        ({"k": " "}, "k=%20"),
        ({"k": "+"}, "k=%2B"),
        ({"k": "~-_."}, "k=~-_."),
        ({"k": "*'()!"}, "k=%2A%27%28%29%21"),
        ({"k": "a=b&c"}, "k=a%3Db%26c"),
        ({"k": "%41"}, "k=%2541"),
        ({"k": "队列"}, "k=%E9%98%9F%E5%88%97"),
        ({"k": "🙂\n\x00"}, "k=%F0%9F%99%82%0A%00"),
        ({"a b": "1"}, "a%20b=1"),
        ({"b": "1", "B": "2", "a": "3"}, "B=2&a=3&b=1"),
        ({"Tags": '{"k":"v 1"}'}, "Tags=%7B%22k%22%3A%22v%201%22%7D"),
    ],
)
def test_canonical_query_of_edge_characters(query: dict[str, str], expected: str) -> None:
    assert canonical_query(query) == canonical_query(expected) == expected


def _vendors_signer() -> Any:
    """The vendor's package; it may be missing on a developer's machine, and must not be where CI runs."""
    name = "alibabacloud_openapi_util.client"
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason="the vendor's package alibabacloud-openapi-util is not installed")


text = st.text(st.characters(exclude_categories=["Cs"]))  # lone surrogates are no UTF-8, on no wire
# The vendor's package forgets to percent-encode keys, so only keys that need none can be compared with it.
plain_keys = st.text(st.sampled_from("ABCXYZabcxyz019-_.~"), min_size=1)


@given(st.dictionaries(text.filter(bool), text))
def test_the_wire_form_decodes_to_what_was_signed(query: dict[str, str]) -> None:
    on_the_wire = canonical_query(query)
    assert on_the_wire.isascii()
    assert dict(parse_qsl(on_the_wire, keep_blank_values=True, strict_parsing=bool(query))) == query


@settings(max_examples=1000)
@given(
    query=st.dictionaries(plain_keys, text),
    path=st.sampled_from(["", "/", "/api/v1/jobs", "/api/v1/jobs/dlc%20x/metrics", "/api/v1/quotas/"]),
    method=st.sampled_from(["GET", "POST"]),
    token=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1),
    secret=text.filter(bool),
    body=st.binary(),
)
def test_equals_the_vendors_own_signer(
    *, query: dict[str, str], path: str, method: str, token: str | None, secret: str, body: bytes
) -> None:
    vendor = _vendors_signer()
    headers = sign(
        method=method,
        path=path,
        query=query,
        host="127.0.0.1:8080",
        action="ListJobs",
        version="2020-12-03",
        access_key_id="LTAI",
        access_key_secret=secret,
        security_token=token,
        now=1767323045,
        nonce="n0",
        body=body,
    ).headers
    authorization = headers.pop("Authorization")
    request = SimpleNamespace(method=method, pathname=path, query=query, headers=headers)
    expected = vendor.Client.get_authorization(request, ALGORITHM, hashlib.sha256(body).hexdigest(), "LTAI", secret)
    assert authorization == expected


def test_keys_are_encoded_although_the_vendors_package_does_not() -> None:
    """A server that decodes and encodes again sees `a%20b`; the vendor's `a b` verifies with none."""
    headers = {"host": "h"}
    ours = signature(method="GET", path="/", query={"a b": "1"}, headers=headers, body_sha256=EMPTY, secret="s")
    vendor = _vendors_signer()
    request = SimpleNamespace(method="GET", pathname="/", query={"a b": "1"}, headers=headers)
    assert ours not in vendor.Client.get_authorization(request, ALGORITHM, EMPTY, "id", "s")
    request.query = {"a%20b": "1"}
    assert ours in vendor.Client.get_authorization(request, ALGORITHM, EMPTY, "id", "s")


def test_header_names_and_edges_do_not_matter_to_a_verifier() -> None:
    same = [{"Host": " h ", "X-Acs-Date": "d"}, {"x-acs-date": "d", "host": "h"}]
    results = {
        signature(method="get", path="/", query={}, headers=headers, body_sha256=EMPTY, secret="s") for headers in same
    }
    assert len(results) == 1
