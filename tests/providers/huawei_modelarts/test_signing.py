"""SDK-HMAC-SHA256: recomputed vectors, the vendor's package as oracle, awkward characters."""

from __future__ import annotations

import importlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.providers.canonical import Query, canonical_query, canonical_request
from trainfleet_exporter.providers.huawei_modelarts.api import ALGORITHM, Token, canonical_path, sign
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.transport import Call, SignedRequest

PROJECT = "0123456789abcdef0123456789abcdef"
HOST = "modelarts.cn-north-4.myhuaweicloud.com"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
JSON = "application/json"
KEYS = Keys("example-ak", "example-sk")


def _sign(
    path: str = f"/v2/{PROJECT}/pools",
    query: Query = "",
    *,
    keys: Keys = KEYS,
    method: str = "GET",
    body: bytes = b"",
    host: str = HOST,
    project_id: str = PROJECT,
    now: float = MOMENT,
) -> SignedRequest:
    call = Call(operation="", path=path, method=method, query=cast("Any", query), body=body)
    return sign(keys, call, host, project_id=project_id, now=now)


VECTORS: dict[str, tuple[SignedRequest, str, str]] = {
    "a query": (
        _sign(f"/v2/{PROJECT}/statistics/pools", {"workspaceId": "0"}),
        "09f42f0bf3768e0c972e65ffca94a6098c57c0a19910bb197b560f040ff4253e",
        "56de1ef599ecbc5482d46ac2e3642323c15cde554b10e720420f1e6e5bd868bc",
    ),
    "a body": (
        _sign(f"/v2/{PROJECT}/training-job-searches", method="POST", body=b'{"limit":1,"offset":0}'),
        "4e2f05ecc140013a66239f18b9c288378e41bfaa62d511bec77a2e345b44c23a",
        "a1c0da47a736a378978c26dfabcd005244af589605fd3173d9a0548b99f9a9e8",
    ),
    "a temporary key and awkward characters": (
        _sign(
            query={"status": "created", "labelSelector": "os.modelarts/name=a b~c"},
            keys=Keys("example-ak", "example-sk", "TOK"),
        ),
        "e1be63ca16b192e91572c4db0fbf4632145ad16e918e1b3dbbb28715532c957a",
        "93e2c743466c93346cfd292d344f978b341ebe1e7519866bc1308b25526acfca",
    ),
    "no headers but the necessary, and a port": (
        _sign(f"/v2/{PROJECT}/metrics/runtime/pools", host="127.0.0.1:8080", project_id=""),
        "c8dac7fae1eb4a5cb6d4e0caaacabef0a00c02b5818962c727b946da085c11b6",
        "48577d0ed60f491007bb124b1bf7bc9d4f230358e7bcf78f68163cff424b6c1e",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name: str) -> None:
    signed, request_hash, signature = VECTORS[name]
    assert signed.proofs == (signature, request_hash)
    names = ";".join(sorted(name for name in signed.headers if name != "Authorization"))
    assert signed.headers["Authorization"] == (
        f"{ALGORITHM} Access=example-ak, SignedHeaders={names}, Signature={signature}"
    )


def test_fraction_of_a_second_is_cut_off() -> None:
    assert _sign(now=MOMENT + 0.9) == _sign()
    assert _sign().headers["x-sdk-date"] == "20260102T030405Z"


def test_what_is_empty_is_not_sent() -> None:
    optional = {"content-type", "x-project-id", "x-security-token"}
    assert not optional & set(_sign(project_id="").headers)
    every = _sign(method="POST", body=b"{}", keys=Keys("example-ak", "example-sk", "TOK")).headers
    assert {name: every[name] for name in optional} == {
        "content-type": JSON,
        "x-project-id": PROJECT,
        "x-security-token": "TOK",
    }


def test_token_is_sent_instead_of_a_signature() -> None:
    signed = _sign(method="POST", body=b"{}", keys=Token("", "", "planted-token"))
    assert signed.headers == {"host": HOST, "content-type": JSON, "X-Auth-Token": "planted-token"}
    assert signed.secrets == ("planted-token",)


def test_the_secret_is_in_no_header() -> None:
    assert "example-sk" not in str(_sign(keys=Keys("example-ak", "example-sk", "TOK")).headers)


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
        ({"Tags": '{"k":"v 1"}'}, "Tags=%7B%22k%22%3A%22v%201%22%7D"),
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
    results = {canonical_request(method="get", path="/", query={}, headers=each, body_sha256="") for each in same}
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
    project=st.sampled_from(["", PROJECT]),
    secret=text.filter(lambda secret: not unusable_secret(secret)),
    body=st.binary(),
)
def test_equals_the_vendors_own_signer(
    vendor: tuple[Any, Any, Any],
    *,
    query: list[tuple[str, str]],
    segments: list[str],
    method: str,
    token: str | None,
    project: str,
    secret: str,
    body: bytes,
) -> None:
    credentials, signer, request = vendor
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    ours = _sign(
        path,
        query,
        keys=Keys("example-ak", secret, token),
        method=method,
        body=body,
        host="127.0.0.1:8080",
        project_id=project,
    )
    given_headers = {
        "Content-Type": JSON if body else "",
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
    assert ours.headers["Authorization"] == signed.header_params["Authorization"]
    assert signed.uri == ours.target
