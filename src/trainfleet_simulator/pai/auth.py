"""Checks a request's ACS3-HMAC-SHA256 signature as strictly as the real services do."""

from __future__ import annotations

import hmac
import re
from datetime import UTC, datetime

from trainfleet_exporter.providers.alibaba_pai.api import ALGORITHM, string_to_sign
from trainfleet_exporter.providers.canonical import canonical_request, hmac_sha256, sha256
from trainfleet_simulator.exchange import ApiError, ApiRequest
from trainfleet_simulator.keys import Key, Keys

MAX_SKEW = 900  # seconds
REQUIRED = frozenset(
    {"host", "x-acs-action", "x-acs-version", "x-acs-date", "x-acs-signature-nonce", "x-acs-content-sha256"}
)
_AUTHORIZATION = re.compile(
    re.escape(ALGORITHM) + r" Credential=([^,\s]+), ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)


class Verifier:
    """Checks requests by the known keys, their security tokens and the recently used nonces."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._nonces: dict[str, float] = {}

    def check(self, request: ApiRequest, now: float) -> None:
        """Raise ApiError unless the request is properly signed."""
        headers = request.headers
        found = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
        if found is None:
            raise ApiError(400, "IncompleteSignature", "The Authorization header is missing or malformed.")
        key_id, names, received = found.groups()
        signed_names = names.split(";")
        self._check_date(headers.get("x-acs-date", ""), now)
        key = self._key(key_id, now)
        if headers.get("x-acs-security-token", "") != key.security_token:
            raise ApiError(
                400, "InvalidSecurityToken.MismatchWithAccessKey", "The security token does not fit the key."
            )
        must = REQUIRED | {name for name in headers if name.startswith("x-acs-")}
        missing = sorted(must - set(signed_names)) + sorted(set(signed_names) - set(headers))
        if missing:
            raise ApiError(400, "IncompleteSignature", f"Not among the signed headers: {', '.join(missing)}.")
        body_sha256 = sha256(request.body)
        canonical = canonical_request(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers={name: headers[name] for name in signed_names},
            body_sha256=body_sha256,
        )
        expected = hmac_sha256(key.access_key_secret, string_to_sign(sha256(canonical)))
        if headers["x-acs-content-sha256"] != body_sha256 or not hmac.compare_digest(expected, received):
            raise ApiError(400, "SignatureDoesNotMatch", "The signature does not conform to Aliyun standards.")
        self._check_nonce(headers["x-acs-signature-nonce"], now)

    def _key(self, key_id: str, now: float) -> Key:
        key = self._keys.find(key_id)
        if key is None:
            raise ApiError(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
        if key.has_expired(now):
            raise ApiError(400, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
        return key

    @staticmethod
    def _check_date(text: str, now: float) -> None:
        try:
            sent = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise ApiError(400, "InvalidTimeStamp.Format", "Specified time stamp or date value is malformed.") from None
        if abs(now - sent) > MAX_SKEW:
            raise ApiError(400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")

    def _check_nonce(self, nonce: str, now: float) -> None:
        # A nonce can be forgotten when its request would be rejected because of its date.
        while self._nonces and now - next(iter(self._nonces.values())) > 2 * MAX_SKEW:
            del self._nonces[next(iter(self._nonces))]
        if nonce in self._nonces:
            raise ApiError(400, "SignatureNonceUsed", "Specified signature nonce was used already.")
        self._nonces[nonce] = now
