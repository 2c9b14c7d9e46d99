"""Checks a request's AWS4-HMAC-SHA256 signature, independently of the exporter's code.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from trainfleet_simulator.exchange import ApiError, ApiRequest
from trainfleet_simulator.keys import Key, Keys
from trainfleet_simulator.sagemaker.catalog import REGION

ALGORITHM = "AWS4-HMAC-SHA256"
MAX_SKEW = 300  # seconds
_AUTHORIZATION = re.compile(
    ALGORITHM
    + r" Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request, ?"
    + r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)
_DATE = "%Y%m%dT%H%M%SZ"


def string_to_sign(request: ApiRequest) -> str:
    """Return the text that a request signs, as the service calculates it; empty without a signature."""
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        return ""
    _, day, region, service, names, _ = found.groups()
    canonical = _canonical(request, names.split(";"))
    scope = f"{day}/{region}/{service}/aws4_request"
    return "\n".join((ALGORITHM, request.headers.get("x-amz-date", ""), scope, _sha256(canonical.encode())))


class Verifier:
    """Checks requests by the account's keys, and the session tokens of the temporary keys."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def check(self, request: ApiRequest, service: str, now: float) -> None:
        """Raise ApiError unless the request is properly signed for a service of this region.

        Codes are those of the JSON protocols; the gate has the codes of STS.
        """
        headers = request.headers
        if "authorization" not in headers:
            raise ApiError(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
        found = _AUTHORIZATION.fullmatch(headers["authorization"])
        if found is None:
            raise _incomplete("Authorization header is malformed")
        key_id, day, region, named, signed, received = found.groups()
        date = headers.get("x-amz-date", "")
        _check_date(date, now)
        key = self._key(key_id, headers.get("x-amz-security-token", ""), now)
        if (day, region, named) != (date[:8], REGION, service):
            raise _refused(f"Credential should be scoped to a valid region and service: {REGION}/{service}")
        names = signed.split(";")
        must = {"host"} | {name for name in headers if name.startswith("x-amz-")}
        if names != sorted(set(names)) or not must <= set(names) <= set(headers):
            raise _refused(f"'{', '.join(sorted(must - set(names)))}' must be a 'SignedHeader' in the Authorization.")
        if not hmac.compare_digest(_signature(request, key.access_key_secret, (day, region, named)), received):
            raise _refused("The request signature we calculated does not match the signature you provided.")

    def _key(self, key_id: str, token: str, now: float) -> Key:
        key = self._keys.find(key_id)
        if key is None or token != key.security_token:
            raise ApiError(403, "UnrecognizedClientException", "The security token included in the request is invalid.")
        if key.has_expired(now):
            raise ApiError(403, "ExpiredTokenException", "The security token included in the request is expired")
        return key


def _signature(request: ApiRequest, secret: str, scope: Sequence[str]) -> str:
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, string_to_sign(request).encode(), "sha256").hex()


def _canonical(request: ApiRequest, names: Sequence[str]) -> str:
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.query)
    query = "&".join(f"{name}={value}" for name, value in pairs)
    lines = [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names]
    path = quote(request.path, safe="/-_.~")
    return "\n".join((request.method, path, query, *lines, "", ";".join(names), _sha256(request.body)))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check_date(text: str, now: float) -> None:
    try:
        sent = datetime.strptime(text, _DATE).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _incomplete("Date must be in ISO-8601 'basic format'") from None
    if abs(now - sent) > MAX_SKEW:
        raise _refused(skew_message(text, sent, now))


def skew_message(date: str, sent: float, now: float) -> str:
    """Return the message about a date that is too old, or in the future; `sent` and `now` are Unix seconds."""
    mine, bound = _text(now), _text(now - MAX_SKEW if sent < now else now + MAX_SKEW)
    if sent < now:
        return f"Signature expired: {date} is now earlier than {bound} ({mine} - 5 min.)"
    return f"Signature not yet current: {date} is still later than {bound} ({mine} + 5 min.)"


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(_DATE)


def _incomplete(why: str) -> ApiError:
    return ApiError(403, "IncompleteSignatureException", why)


def _refused(why: str) -> ApiError:
    return ApiError(403, "InvalidSignatureException", why)
