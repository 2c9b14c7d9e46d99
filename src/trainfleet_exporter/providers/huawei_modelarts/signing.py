"""Huawei Cloud's request signature by access key (SDK-HMAC-SHA256), as its API gateway checks it.

Pure: the time comes from the caller. Put `canonical_query()` itself on the wire, so that what was signed and what was
sent are the same bytes.

https://support.huaweicloud.com/intl/en-us/devg-apisign/api-sign-algorithm.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote, unquote

ALGORITHM = "SDK-HMAC-SHA256"
DATE_FORMAT = "%Y%m%dT%H%M%SZ"
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"

Query = Mapping[str, str] | Sequence[tuple[str, str]]
"""Decoded names and values; pairs where a name is sent more than once."""


class Signed(NamedTuple):
    """A signed request: its headers, and the parts of them that no log may show."""

    headers: dict[str, str]
    """Sent as they are, `Authorization` included."""
    proofs: tuple[str, str]
    """The signature, and the hash in the string to sign."""


def canonical_query(query: Query) -> str:
    """The query as it is signed: sorted by name, then value, and percent-encoded (`%20`, never `+`); empty is `k=`."""
    pairs = query.items() if isinstance(query, Mapping) else query
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(pairs))


def canonical_request(*, method: str, path: str, query: Query, headers: Mapping[str, str], body_sha256: str) -> str:
    """What is hashed. `path` is as on the wire; `headers` holds exactly the signed ones, in any case."""
    # Decoded and encoded again, so that both ways to write a character sign alike; and ending in a slash that is not
    # sent, which only this algorithm wants.
    canonical_path = quote(unquote(path), safe="/").removesuffix("/") + "/"
    signed = sorted((name.lower(), value.strip()) for name, value in headers.items())
    lines = "".join(f"{name}:{value}\n" for name, value in signed)
    names = ";".join(name for name, _ in signed)
    return "\n".join((method.upper(), canonical_path, canonical_query(query), lines, names, body_sha256))


def signature(
    *, method: str, path: str, query: Query, headers: Mapping[str, str], date: str, body_sha256: str, secret: str
) -> str:
    """The signature in lower-case hex, over the decoded `query` and exactly the `headers` given; `date` as it is sent.

    `body_sha256` is the hex hash of the body, or the text that `x-sdk-content-sha256` gives in its stead.
    """
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    return _signature(hashlib.sha256(request.encode()).hexdigest(), date, secret)


def string_to_sign(request_hash: str, date: str) -> str:
    """The string to sign for the hash of a canonical request; `date` as it is sent."""
    return f"{ALGORITHM}\n{date}\n{request_hash}"


def _signature(request_hash: str, date: str, secret: str) -> str:
    return hmac.new(secret.encode(), string_to_sign(request_hash, date).encode(), hashlib.sha256).hexdigest()


def sign(
    *,
    method: str,
    path: str,
    query: Query,
    host: str,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
    project_id: str | None = None,
    now: datetime | float,
    content_type: str | None = None,
    body: bytes = b"",
) -> Signed:
    """Sign a request.

    `host` is as the Host header will say it (with `:port` unless it is the scheme's default); `now` is an aware
    datetime or Unix seconds. Bodies are JSON or empty: for other types the vendor's clients leave the body unsigned.
    """
    moment = now.astimezone(UTC) if isinstance(now, datetime) else datetime.fromtimestamp(now, UTC)
    optional = {"content-type": content_type, "x-project-id": project_id, "x-security-token": security_token}
    headers = {
        "host": host,
        "x-sdk-date": moment.strftime(DATE_FORMAT),
        **{name: value for name, value in optional.items() if value},
    }
    body_sha256 = hashlib.sha256(body).hexdigest()
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    request_hash = hashlib.sha256(request.encode()).hexdigest()
    signed = _signature(request_hash, headers["x-sdk-date"], secret_key)
    names = ";".join(sorted(headers))
    authorization = f"{ALGORITHM} Access={access_key}, SignedHeaders={names}, Signature={signed}"
    return Signed(headers | {"Authorization": authorization}, (signed, request_hash))
