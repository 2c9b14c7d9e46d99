"""SDK-HMAC-SHA256: recomputed vectors, the vendor's package as oracle, awkward characters."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfleet_exporter.providers.canonical import Query, canonical_query, canonical_request
from trainfleet_exporter.providers.huawei_modelarts.api import (
    ALGORITHM,
    canonical_path,
    sign,
    signature,
)

EMPTY = hashlib.sha256(b"").hexdigest()
PROJECT = "0123456789abcdef0123456789abcdef"
HOST = "modelarts.cn-north-4.myhuaweicloud.com"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JSON = "application/json"


def _headers(**changes: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {
        "method": "GET",
        "path": f"/v2/{PROJECT}/pools",
        "query": {},
        "host": HOST,
        "access_key": "example-ak",
        "secret_key": "example-sk",
        "security_token": None,
        "project_id": PROJECT,
        "now": MOMENT,
        "content_type": JSON,
    }
    return sign(**arguments | changes).headers


def _request_hash(method: str, path: str, query: Query, headers: Mapping[str, str], body: bytes) -> str:
    signed = {name: value for name, value in headers.items() if name != "Authorization"}
    text = canonical_request(
        method=method,
        path=canonical_path(path),
        query=query,
        headers=signed,
        body_sha256=hashlib.sha256(body).hexdigest(),
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _parts(authorization: str) -> tuple[str, dict[str, str]]:
    algorithm, _, rest = authorization.partition(" ")
    return algorithm, dict(part.split("=", 1) for part in rest.split(", "))


VECTORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "A: a query": (
        {"path": f"/v2/{PROJECT}/statistics/pools", "query": {"workspaceId": "0"}},
        "0b579ba3a1dd9fc88a1b170542aed37569c68c5a79dd357e09f47e85cb32b0ef",
        "ba2f2c8c3415a83ae5d92d99bed4dd4b7b69fdb0da95a83ccc16b4d579def7aa",
    ),
    "B: a body": (
        {"method": "POST", "path": f"/v2/{PROJECT}/training-job-searches", "body": b'{"limit":1,"offset":0}'},
        "4e2f05ecc140013a66239f18b9c288378e41bfaa62d511bec77a2e345b44c23a",
        "a1c0da47a736a378978c26dfabcd005244af589605fd3173d9a0548b99f9a9e8",
    ),
    "C: a temporary key and awkward characters": (
        {"query": {"status": "created", "labelSelector": "os.modelarts/name=a b~c"}, "security_token": "TOK"},
        "8950ba4093a4c4f05f55660790f1bebee9f13afcc4d5d965b16b902b55e6f143",
        "864fc5ecbbf812eec4997bf302fa7b2c271cc1c0f2fb9ab0e95b7c92e949d0c8",
    ),
    "D: no headers but the necessary, and a port": (
        {
            "path": f"/v2/{PROJECT}/metrics/runtime/pools",
            "host": "127.0.0.1:8080",
            "project_id": None,
            "content_type": None,
        },
        "c8dac7fae1eb4a5cb6d4e0caaacabef0a00c02b5818962c727b946da085c11b6",
        "48577d0ed60f491007bb124b1bf7bc9d4f230358e7bcf78f68163cff424b6c1e",
    ),
}


@pytest.mark.parametrize("vector", VECTORS)
def test_vectors(vector: str) -> None:
    changes, request_hash, signed = VECTORS[vector]
    request = {"method": "GET", "path": f"/v2/{PROJECT}/pools", "query": {}, "body": b""} | changes
    headers = _headers(**changes)
    described = _request_hash(request["method"], request["path"], request["query"], headers, request["body"])
    assert described == request_hash
    algorithm, parts = _parts(headers["Authorization"])
    names = ";".join(sorted(name for name in headers if name != "Authorization"))
    assert algorithm == ALGORITHM
    assert parts == {"Access": "example-ak", "SignedHeaders": names, "Signature": signed}


@pytest.mark.parametrize(
    "now",
    [1767323045, 1767323045.9, datetime(2026, 1, 2, 11, 4, 5, tzinfo=timezone(timedelta(hours=8)))],
    ids=["unix seconds", "fraction cut off", "another zone"],
)
def test_every_way_to_say_the_same_second_signs_the_same(now: datetime | float) -> None:
    assert _headers(now=now) == _headers()
    assert _headers()["x-sdk-date"] == "20260102T030405Z"


@pytest.mark.parametrize("name", ["security_token", "project_id", "content_type"])
def test_what_is_empty_is_not_sent(name: str) -> None:
    header = {"content_type": "content-type", "project_id": "x-project-id", "security_token": "x-security-token"}[name]
    assert _headers(**{name: ""}) == _headers(**{name: None})
    assert header not in _headers(**{name: None})
    assert _headers(**{name: "v"})[header] == "v"


def test_the_secret_is_in_no_header() -> None:
    assert "example-sk" not in str(_headers(security_token="TOK"))


def test_a_body_is_hashed_into_the_signature() -> None:
    assert _headers(method="POST", body=b"{}") != _headers(method="POST")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ""),
        ([], ""),
        ({"k": ""}, "k="),
        ({"k": " "}, "k=%20"),
        ({"k": "+"}, "k=%2B"),
        ({"k": "~-_."}, "k=~-_."),
        ({"k": "*'()!/"}, "k=%2A%27%28%29%21%2F"),
        ({"k": "a=b&c"}, "k=a%3Db%26c"),
        ({"k": "%41"}, "k=%2541"),
        ({"k": "队列"}, "k=%E9%98%9F%E5%88%97"),
        ({"k": "🙂\n\x00"}, "k=%F0%9F%99%82%0A%00"),
        ({"a b": "1"}, "a%20b=1"),
        ({"b": "1", "B": "2", "a": "3"}, "B=2&a=3&b=1"),
        ([("type", "train"), ("type", "infer"), ("limit", "1")], "limit=1&type=infer&type=train"),
        ([("k", "1"), ("k", "1")], "k=1&k=1"),
        ([("k", "~"), ("k", "é")], "k=~&k=%C3%A9"),  # sorted before they are encoded
    ],
)
def test_canonical_query_of_edge_characters(query: Query, expected: str) -> None:
    assert canonical_query(query) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "/"),
        ("/", "/"),
        ("/v2/p/pools", "/v2/p/pools/"),
        ("/v2/p/pools/", "/v2/p/pools/"),
        ("/v2/a%20b", "/v2/a%20b/"),
        ("/v2/a b", "/v2/a%20b/"),
        ("/v2/%7e%41", "/v2/~A/"),
        ("/v2/a+b:c", "/v2/a%2Bb%3Ac/"),
        ("/v2/%E9%98%9F", "/v2/%E9%98%9F/"),
    ],
)
def test_the_signed_path_ends_in_a_slash_and_is_encoded_once(path: str, expected: str) -> None:
    assert canonical_path(path) == expected


text = st.text(st.characters(exclude_categories=["Cs"]))  # lone surrogates are no UTF-8, on no wire
pairs = st.lists(st.tuples(text.filter(bool), text))


@given(pairs)
def test_the_wire_form_decodes_to_what_was_signed(query: list[tuple[str, str]]) -> None:
    on_the_wire = canonical_query(query)
    assert on_the_wire.isascii()
    assert parse_qsl(on_the_wire, keep_blank_values=True, strict_parsing=bool(query)) == sorted(query)


@given(pairs)
def test_the_order_of_pairs_does_not_matter(query: list[tuple[str, str]]) -> None:
    assert canonical_query(query) == canonical_query(query[::-1])


def test_header_names_and_edges_do_not_matter_to_a_verifier() -> None:
    same = [{"Host": " h ", "X-Sdk-Date": "d"}, {"x-sdk-date": "d", "host": "h"}]
    results = {
        signature(method="get", path="/", query={}, headers=headers, date="d", body_sha256=EMPTY, secret="s")
        for headers in same
    }
    assert len(results) == 1


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any]:
    """The vendor's credentials, signer and request; they may be missing on a developer's machine, not where CI runs.

    Importing the credentials writes into the home directory, so they get one of their own.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    names = ("auth.credentials", "signer.signer", "sdk_request")
    modules = []
    for name in names:
        full = f"huaweicloudsdkcore.{name}"
        if os.environ.get("CI"):
            modules.append(importlib.import_module(full))
        else:
            modules.append(pytest.importorskip(full, reason="the vendor's package huaweicloudsdkcore is not installed"))
    credentials, signer, request = modules
    return credentials.BasicCredentials, signer.Signer, request.SdkRequest


segments = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), max_size=4)
printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=pairs,
    segments=segments,
    method=st.sampled_from(["GET", "POST", "DELETE"]),
    token=st.none() | printable,
    project=st.none() | st.just(PROJECT),
    content_type=st.sampled_from([None, JSON, "application/json;charset=utf-8"]),
    secret=text.filter(bool),
    body=st.binary(),
)
def test_equals_the_vendors_own_signer(
    vendor: tuple[Any, Any, Any],
    *,
    query: list[tuple[str, str]],
    segments: list[str],
    method: str,
    token: str | None,
    project: str | None,
    content_type: str | None,
    secret: str,
    body: bytes,
) -> None:
    credentials, signer, request = vendor
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    headers = _headers(
        method=method,
        path=path,
        query=query,
        host="127.0.0.1:8080",
        secret_key=secret,
        security_token=token,
        project_id=project,
        content_type=content_type,
        body=body,
    )
    given_headers = {
        "Content-Type": content_type,
        "X-Project-Id": project,
        "X-Security-Token": token,
        "X-Sdk-Date": "20260102T030405Z",
    }
    asked = request(
        method=method,
        schema="https",
        host="127.0.0.1:8080",
        resource_path=path,
        query_params=list(query),
        header_params={name: value for name, value in given_headers.items() if value},
        body=body,
    )
    signed = signer(credentials("example-ak", secret, PROJECT)).sign(asked)
    assert headers["Authorization"] == signed.header_params["Authorization"]
    assert signed.uri == (f"{path}?{canonical_query(query)}" if query else path)
