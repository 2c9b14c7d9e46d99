"""Alibaba Cloud's request signature, version 3 (ACS3-HMAC-SHA256), for ROA and RPC calls alike.

Pure: the time and the nonce come from the caller. Put `canonical_query()` itself on the wire, so that what was signed
and what was sent are the same bytes.

https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

ALGORITHM = "ACS3-HMAC-SHA256"

Query = Mapping[str, str] | str
"""Decoded names and values, or what `canonical_query` made of them."""


class Signed(NamedTuple):
    """A signed request: its headers, and the parts of them that no log may show."""

    headers: dict[str, str]
    """Sent as they are, `Authorization` included."""
    proofs: tuple[str, str]
    """The signature, and the hash in the string to sign."""


def canonical_query(query: Query) -> str:
    """The query as it is signed: percent-encoded by RFC 3986 (`%20`, never `+`), sorted by key; empty is `k=`."""
    if isinstance(query, str):
        return query
    return "&".join(f"{quote(key, safe='')}={quote(query[key], safe='')}" for key in sorted(query))


def canonical_request(*, method: str, path: str, query: Query, headers: Mapping[str, str], body_sha256: str) -> str:
    """What is hashed. `path` is percent-encoded already; `headers` holds exactly the signed ones, in any case."""
    signed = sorted((name.lower(), value.strip()) for name, value in headers.items())
    lines = "".join(f"{name}:{value}\n" for name, value in signed)
    names = ";".join(name for name, _ in signed)
    return "\n".join((method.upper(), path or "/", canonical_query(query), lines, names, body_sha256))


def signature(
    *, method: str, path: str, query: Query, headers: Mapping[str, str], body_sha256: str, secret: str
) -> str:
    """The signature in lower-case hex, over `query` and exactly the `headers` given."""
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    return _signature(hashlib.sha256(request.encode()).hexdigest(), secret)


def string_to_sign(request_hash: str) -> str:
    """The string to sign for the hash of a canonical request."""
    return f"{ALGORITHM}\n{request_hash}"


def _signature(request_hash: str, secret: str) -> str:
    return hmac.new(secret.encode(), string_to_sign(request_hash).encode(), hashlib.sha256).hexdigest()


def sign(
    *,
    method: str,
    path: str,
    query: Query,
    host: str,
    action: str,
    version: str,
    access_key_id: str,
    access_key_secret: str,
    security_token: str | None = None,
    now: datetime | float,
    nonce: str,
    body: bytes = b"",
) -> Signed:
    """Sign a request.

    `host` is as the Host header will say it (with `:port` unless it is the scheme's default); `now` is an aware
    datetime or Unix seconds; `nonce` must differ for every attempt, retries included.
    """
    moment = now.astimezone(UTC) if isinstance(now, datetime) else datetime.fromtimestamp(now, UTC)
    headers = {
        "host": host,
        "x-acs-action": action,
        "x-acs-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-acs-date": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "x-acs-signature-nonce": nonce,
        "x-acs-version": version,
    }
    if security_token:
        headers["x-acs-security-token"] = security_token
    request = canonical_request(
        method=method, path=path, query=query, headers=headers, body_sha256=headers["x-acs-content-sha256"]
    )
    request_hash = hashlib.sha256(request.encode()).hexdigest()
    signed = _signature(request_hash, access_key_secret)
    names = ";".join(sorted(headers))
    authorization = f"{ALGORITHM} Credential={access_key_id},SignedHeaders={names},Signature={signed}"
    return Signed(headers | {"Authorization": authorization}, (signed, request_hash))
