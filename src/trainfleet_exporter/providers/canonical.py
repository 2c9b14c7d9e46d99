"""The canonical form of a request, as clouds sign it: one text of its method, path, query, headers and body.

Send `canonical_query()` itself, so that the request has the signed query.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote

Query: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | str
"""Decoded names and values, pairs if a name is sent more than once; or what `canonical_query` made of them."""


def canonical_query(query: Query) -> str:
    """The query as it is signed: sorted by name and value, percent-encoded (`%20`, never `+`); empty is `k=`."""
    if isinstance(query, str):
        return query
    pairs = query.items() if isinstance(query, Mapping) else query
    return "&".join([f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(pairs)])


def _encoded(text: str) -> str:
    # Most texts need no encoding, which `quote` takes ten times longer to find out.
    return text if text.isascii() and text.isalnum() else quote(text, safe="")


def canonical_request(*, method: str, path: str, query: Query, headers: Mapping[str, str], body_sha256: str) -> str:
    """The text to hash. `path` is already percent-encoded; `headers` has exactly the signed ones, in any case."""
    signed = sorted((name.lower(), value.strip()) for name, value in headers.items())
    lines = "".join(f"{name}:{value}\n" for name, value in signed)
    names = ";".join(name for name, _ in signed)
    return "\n".join((method.upper(), path or "/", canonical_query(query), lines, names, body_sha256))


def sha256(data: str | bytes) -> str:
    """The hash in lower-case hex."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def hmac_sha256(secret: str, text: str) -> str:
    """The keyed hash in lower-case hex."""
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
