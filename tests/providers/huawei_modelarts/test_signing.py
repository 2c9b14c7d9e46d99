"""SDK-HMAC-SHA256: recomputed vectors, and the vendor's package as oracle, with awkward characters."""

from __future__ import annotations

import importlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.providers.canonical import Query
from trainfleet_exporter.providers.huawei_modelarts.api import ALGORITHM, sign
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
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


text = st.text(st.characters(exclude_categories=["Cs"]))  # lone surrogates are no UTF-8, on no wire
pairs = st.lists(st.tuples(text.filter(bool), text))


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


def test_domain_of_a_region() -> None:
    north, west = (HuaweiModelArtsConfig.model_construct(region=region) for region in ("cn-north-4", "eu-west-101"))
    assert north.public_endpoint("modelarts") == "https://modelarts.cn-north-4.myhuaweicloud.com"
    assert west.public_endpoint("aom") == "https://aom.eu-west-101.myhuaweicloud.eu"
