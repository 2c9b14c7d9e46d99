"""Checks the signature or token of requests to ModelArts or IAM, as strictly as the API gateway does."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from trainfleet_exporter.providers.canonical import canonical_request, hmac_sha256, sha256
from trainfleet_exporter.providers.huawei_modelarts.api import ALGORITHM, canonical_path, string_to_sign
from trainfleet_simulator.exchange import ApiError, ApiRequest
from trainfleet_simulator.keys import Keys, Tokens

MAX_SKEW = 900  # seconds
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_AUTHORIZATION = re.compile(
    re.escape(ALGORITHM) + r" Access=([^,\s]+), SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)


class Gatekeeper:
    """Checks requests by the project's keys and IAM's tokens."""

    def __init__(self, keys: Keys, tokens: Tokens) -> None:
        self._keys = keys
        self._tokens = tokens

    def check(self, request: ApiRequest, now: float) -> None:
        """Raise ApiError unless the request has a valid token or signature."""
        token = request.headers.get("x-auth-token")
        if token is None:
            self._check_signature(request, now)
        elif not self._tokens.is_valid(token, now):
            raise ApiError(401, "APIGW.0307", "The token must be updated")

    def _check_signature(self, request: ApiRequest, now: float) -> None:
        headers = request.headers
        found = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
        if found is None:
            raise _refused("Authorization header is missing or malformed")
        key, names, received = found.groups()
        secret = self._secret_of(key, headers.get("x-security-token", ""), now)
        _check_date(headers.get("x-sdk-date", ""), now)
        signed = names.split(";")
        must = {"x-sdk-date", "x-security-token"} & set(headers)
        if signed != sorted(set(signed)) or not must <= set(signed) <= set(headers):
            raise _refused("verify aksk signature fail, signed headers are incomplete")
        canonical = canonical_request(
            method=request.method,
            path=canonical_path(request.path),
            query=request.query,
            headers={name: headers[name] for name in signed},
            body_sha256=_body_sha256(headers, request.body),
        )
        expected = hmac_sha256(secret, string_to_sign(sha256(canonical), headers["x-sdk-date"]))
        if not hmac.compare_digest(expected, received):
            raise _refused("verify aksk signature fail")

    def _secret_of(self, key_id: str, security_token: str, now: float) -> str:
        """Return the secret of a known, unexpired access key that comes with its security token."""
        key = self._keys.find(key_id)
        if key is None:
            raise _refused(f"ak {key_id} not exist")
        if security_token != key.security_token:
            raise _refused("the security token does not fit the ak")
        if key.has_expired(now):
            raise _refused("the security token has expired")
        return key.access_key_secret


def _body_sha256(headers: Mapping[str, str], body: bytes) -> str:
    """Return the body's hash. The text that replaces it is accepted only for types that the vendor's clients do not
    sign."""
    if body and headers.get("x-sdk-content-sha256") == UNSIGNED_PAYLOAD:
        if headers.get("content-type", "").startswith(("application/json", "application/bson")):
            raise _refused("verify aksk signature fail, the body is not signed")
        return UNSIGNED_PAYLOAD
    return sha256(body)


def _check_date(text: str, now: float) -> None:
    try:
        sent = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _refused("x-sdk-date is missing or malformed") from None
    if abs(now - sent) > MAX_SKEW:
        raise _refused("verify aksk signature fail, signature expired")


def _refused(why: str) -> ApiError:
    return ApiError(401, "APIGW.0301", f"Incorrect IAM authentication information: {why}")
