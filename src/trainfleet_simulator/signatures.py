"""Checks the signatures of requests as strictly as the services do.

The signatures of Alibaba and Huawei are calculated with the exporter's code. That of AWS is calculated independently.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import quote

from trainfleet_exporter.providers.alibaba_pai import api as alibaba
from trainfleet_exporter.providers.canonical import canonical_request, hmac_sha256, sha256
from trainfleet_exporter.providers.huawei_modelarts import api as huawei
from trainfleet_simulator.exchange import ApiRequest, Unproven
from trainfleet_simulator.identity import Issuer

Query = Mapping[str, str] | Sequence[tuple[str, str]]
Found = re.Match[str]
"""A valid Authorization header, with groups `key`, `names` and `signature`."""


class Verifier(ABC):
    """Checks requests by the account's keys, and the security tokens of the temporary keys."""

    authorization: ClassVar[re.Pattern[str]]
    date_header: ClassVar[str]
    date_format: ClassVar[str] = "%Y%m%dT%H%M%SZ"
    token_header: ClassVar[str]
    max_skew: ClassVar[int] = 900
    """Seconds between the clocks."""

    def __init__(self, keys: Issuer) -> None:
        self._keys = keys

    def check(self, request: ApiRequest, now: float) -> None:
        """Raise Unproven unless the request is properly signed."""
        headers = request.headers
        found = self.authorization.fullmatch(headers.get("authorization", ""))
        if found is None:
            raise Unproven("authorization")
        self._check_date(headers.get(self.date_header, ""), now)
        key = self._keys.find(found["key"])
        if key is None:
            raise Unproven("revoked_credentials", found["key"])
        if headers.get(self.token_header, "") != key.security_token:
            raise Unproven("token")
        if now >= key.expires:
            raise Unproven("expired_credentials")
        names = found["names"].split(";")
        missing = (self.must_sign(headers) - set(names)) | (set(names) - set(headers))
        if missing or names != sorted(set(names)):
            raise Unproven("names", ", ".join(sorted(missing)))
        if not hmac.compare_digest(self.signature(request, found, key.access_key_secret), found["signature"]):
            raise Unproven("signature")

    def _check_date(self, text: str, now: float) -> None:
        try:
            sent = datetime.strptime(text, self.date_format).replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise Unproven("date") from None
        if abs(now - sent) > self.max_skew:
            raise Unproven("skewed_clock")

    @abstractmethod
    def must_sign(self, headers: Mapping[str, str]) -> set[str]:
        """Return the names of the headers that must be signed."""

    @classmethod
    @abstractmethod
    def string_to_sign(cls, request: ApiRequest, found: Found) -> str:
        """Return the text that a request signs, as the service calculates it."""

    def signature(self, request: ApiRequest, found: Found, secret: str) -> str:
        """Return the signature as the service calculates it."""
        return hmac_sha256(secret, self.string_to_sign(request, found))


def string_to_sign(request: ApiRequest) -> str:
    """Return the text that a request signs, as its service calculates it; empty without a signature."""
    for verifier in (AlibabaVerifier, HuaweiVerifier, AwsVerifier):
        if found := verifier.authorization.fullmatch(request.headers.get("authorization", "")):
            return verifier.string_to_sign(request, found)
    return ""


def _signed(request: ApiRequest, found: Found) -> dict[str, str]:
    return {name: request.headers[name] for name in found["names"].split(";")}


def _canonical(request: ApiRequest, found: Found, path: str, query: Query) -> str:
    """Return the hash of the canonical request, with the hash of the body as it came."""
    body_sha256, headers = sha256(request.body), _signed(request, found)
    return sha256(
        canonical_request(method=request.method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    )


class AlibabaVerifier(Verifier):
    """Signatures of Alibaba, each with a nonce that serves once."""

    authorization = re.compile(
        re.escape(alibaba.ALGORITHM)
        + r" Credential=(?P<key>[^,\s]+), ?SignedHeaders=(?P<names>[a-z0-9;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
    )
    date_header = "x-acs-date"
    date_format = "%Y-%m-%dT%H:%M:%SZ"
    token_header = "x-acs-security-token"  # noqa: S105 - the name of a header
    _required = frozenset({"host", "x-acs-action", "x-acs-version", "x-acs-signature-nonce", "x-acs-content-sha256"})

    def __init__(self, keys: Issuer) -> None:
        super().__init__(keys)
        self._nonces: dict[str, float] = {}

    def check(self, request: ApiRequest, now: float) -> None:
        super().check(request, now)
        nonce = request.headers["x-acs-signature-nonce"]
        # A nonce can be forgotten when its request would be rejected because of its date.
        while self._nonces and now - next(iter(self._nonces.values())) > 2 * self.max_skew:
            del self._nonces[next(iter(self._nonces))]
        if nonce in self._nonces:
            raise Unproven("nonce")
        self._nonces[nonce] = now

    def must_sign(self, headers: Mapping[str, str]) -> set[str]:
        return {*self._required} | {name for name in headers if name.startswith("x-acs-")}

    @classmethod
    def string_to_sign(cls, request: ApiRequest, found: Found) -> str:
        return alibaba.string_to_sign(_canonical(request, found, request.path, dict(request.query)))


class HuaweiVerifier(Verifier):
    """Signatures of Huawei's API gateway."""

    authorization = re.compile(
        re.escape(huawei.ALGORITHM)
        + r" Access=(?P<key>[^,\s]+), SignedHeaders=(?P<names>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
    )
    date_header = "x-sdk-date"
    token_header = "x-security-token"  # noqa: S105 - the name of a header

    def must_sign(self, headers: Mapping[str, str]) -> set[str]:
        return {self.date_header, self.token_header} & set(headers)

    @classmethod
    def string_to_sign(cls, request: ApiRequest, found: Found) -> str:
        digest = _canonical(request, found, huawei.canonical_path(request.path), request.query)
        return huawei.string_to_sign(digest, request.headers[cls.date_header])


class AwsVerifier(Verifier):
    """Signatures of AWS for one region."""

    authorization = re.compile(
        r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/,\s]+)/(?P<scope>\d{8}/[^/,\s]+/[^/,\s]+/aws4_request), ?"
        r"SignedHeaders=(?P<names>[a-z0-9;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
    )
    date_header = "x-amz-date"
    token_header = "x-amz-security-token"  # noqa: S105 - the name of a header
    max_skew = 300

    def __init__(self, keys: Issuer, region: str) -> None:
        super().__init__(keys)
        self._region = region

    def check_for(self, service: str, request: ApiRequest, now: float) -> None:
        """Check a request for a service, by the service's name in signatures."""
        if "authorization" not in request.headers:
            raise Unproven("unsigned")
        self.check(request, now)
        found = self.authorization.fullmatch(request.headers["authorization"])
        assert found is not None
        wanted = f"{self._region}/{service}"
        if found["scope"] != f"{request.headers[self.date_header][:8]}/{wanted}/aws4_request":
            raise Unproven("scope", wanted)

    def must_sign(self, headers: Mapping[str, str]) -> set[str]:
        return {"host"} | {name for name in headers if name.startswith("x-amz-")}

    @classmethod
    def string_to_sign(cls, request: ApiRequest, found: Found) -> str:
        pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.query)
        lines = [f"{name}:{' '.join(value.split())}" for name, value in _signed(request, found).items()]
        canonical = "\n".join(
            (
                request.method,
                quote(request.path, safe="/-_.~"),
                "&".join(f"{name}={value}" for name, value in pairs),
                *(*lines, "", found["names"], hashlib.sha256(request.body).hexdigest()),
            )
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        return "\n".join(("AWS4-HMAC-SHA256", request.headers.get(cls.date_header, ""), found["scope"], digest))

    def signature(self, request: ApiRequest, found: Found, secret: str) -> str:
        key = f"AWS4{secret}".encode()
        for part in found["scope"].split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, self.string_to_sign(request, found).encode(), "sha256").hex()
