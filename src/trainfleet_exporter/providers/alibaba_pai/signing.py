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
from urllib.parse import quote

ALGORITHM = "ACS3-HMAC-SHA256"

Query = Mapping[str, str] | str
"""Decoded names and values, or what `canonical_query` made of them."""


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
    text = f"{ALGORITHM}\n{hashlib.sha256(request.encode()).hexdigest()}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


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
) -> dict[str, str]:
    """The headers to send, `Authorization` included.

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
    signed = signature(
        method=method,
        path=path,
        query=query,
        headers=headers,
        body_sha256=headers["x-acs-content-sha256"],
        secret=access_key_secret,
    )
    names = ";".join(sorted(headers))
    return headers | {
        "Authorization": f"{ALGORITHM} Credential={access_key_id},SignedHeaders={names},Signature={signed}"
    }
