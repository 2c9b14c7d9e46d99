"""Checks the signatures of requests as strictly as the services do, without the exporter's code.

https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
https://support.huaweicloud.com/intl/en-us/devg-apisign/api-sign-algorithm.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from trainfleet_simulator.exchange import ApiRequest, Call
from trainfleet_simulator.identity import Issuer

Found = re.Match[str]
"""A valid Authorization header, with groups `key`, `names`, `signature`, and `scope` if the cloud has scopes."""


@dataclass(frozen=True)
class Scheme:
    """How the services of one cloud sign.

    `credential` is the pattern of the key in the Authorization header. `max_skew` is in seconds. Headers of the names
    `required`, and those that begin with a prefix of `signed`, must be signed.
    """

    algorithm: str
    credential: str
    date_header: str
    token_header: str
    required: frozenset[str]
    signed: tuple[str, ...]
    date_format: str = "%Y%m%dT%H%M%SZ"
    max_skew: int = 900

    def find(self, request: ApiRequest) -> Found | None:
        """Return the parts of the Authorization header; None if it is not of this scheme."""
        names = r"SignedHeaders=(?P<names>[a-z0-9;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
        pattern = rf"{self.algorithm} {self.credential}, ?{names}"
        return re.fullmatch(pattern, request.headers.get("authorization", ""))

    def string_to_sign(self, request: ApiRequest, found: Found) -> str:
        """Return the text that a request signs, as the service calculates it."""
        path = request.path
        if self is HUAWEI:
            path = path.removesuffix("/") + "/"
        elif self is AWS:  # encodes it a second time
            path = quote(path, safe="/-_.~")
        query = sorted((quote(name, safe=""), quote(value, safe="")) for name, value in request.query)
        headers = [f"{name}:{' '.join(request.headers[name].split())}" for name in found["names"].split(";")]
        canonical = (
            *(request.method, path, "&".join(f"{name}={value}" for name, value in query)),
            *(*headers, "", found["names"], hashlib.sha256(request.body).hexdigest()),
        )
        date = () if self is ALIBABA else (request.headers.get(self.date_header, ""),)
        scope = (found["scope"],) if self is AWS else ()
        return "\n".join((self.algorithm, *date, *scope, hashlib.sha256("\n".join(canonical).encode()).hexdigest()))

    def signature(self, request: ApiRequest, found: Found, secret: str) -> str:
        """Return the signature as the service calculates it."""
        key = f"AWS4{secret}".encode() if self is AWS else secret.encode()
        for part in found["scope"].split("/") if self is AWS else ():
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, self.string_to_sign(request, found).encode(), "sha256").hex()


_NONCE = "x-acs-signature-nonce"
_KEPT = 4096  # nonces
ALIBABA = Scheme(
    algorithm="ACS3-HMAC-SHA256",
    credential=r"Credential=(?P<key>[^,\s]+)",
    date_header="x-acs-date",
    token_header="x-acs-security-token",  # noqa: S106 - the name of a header
    required=frozenset({"host", "x-acs-action", "x-acs-version", _NONCE, "x-acs-content-sha256"}),
    signed=("x-acs-",),
    date_format="%Y-%m-%dT%H:%M:%SZ",
)
HUAWEI = Scheme(
    algorithm="SDK-HMAC-SHA256",
    credential=r"Access=(?P<key>[^,\s]+)",
    date_header="x-sdk-date",
    token_header="x-security-token",  # noqa: S106 - the name of a header
    required=frozenset(),
    signed=("x-sdk-date", "x-security-token"),
)
AWS = Scheme(
    algorithm="AWS4-HMAC-SHA256",
    credential=r"Credential=(?P<key>[^/,\s]+)/(?P<scope>\d{8}/[^/,\s]+/[^/,\s]+/aws4_request)",
    date_header="x-amz-date",
    token_header="x-amz-security-token",  # noqa: S106 - the name of a header
    required=frozenset({"host"}),
    signed=("x-amz-",),
    max_skew=300,
)


def string_to_sign(request: ApiRequest) -> str:
    """Return the text that a request signs, as its service calculates it; empty without a signature."""
    for scheme in (ALIBABA, HUAWEI, AWS):
        if found := scheme.find(request):
            return scheme.string_to_sign(request, found)
    return ""


class Verifier:
    """Checks requests by the account's keys, and the security tokens of the temporary keys. A nonce serves once."""

    def __init__(self, scheme: Scheme, keys: Issuer) -> None:
        self._scheme, self._keys = scheme, keys
        self._nonces: dict[str, None] = {}

    def check(self, call: Call, scope: str = "") -> None:
        """Raise ApiError unless the request is properly signed, on AWS for a region and a service."""
        scheme, request, headers, now = self._scheme, call.request, call.request.headers, call.now
        found = scheme.find(request)
        if found is None:
            raise call.refused("unsigned" if scope and "authorization" not in headers else "authorization")
        date = headers.get(scheme.date_header, "")
        try:
            sent = datetime.strptime(date, scheme.date_format).replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise call.refused("date") from None
        if abs(now - sent) > scheme.max_skew:
            raise call.refused("skewed_clock")
        key = self._keys.find(found["key"])
        if key is None:
            raise call.refused("revoked_credentials", found["key"])
        if headers.get(scheme.token_header, "") != key.security_token:
            raise call.refused("token")
        if now >= key.expires:
            raise call.refused("expired_credentials")
        names = found["names"].split(";")
        must = scheme.required | {name for name in headers if name.startswith(scheme.signed)}
        missing = (must - set(names)) | (set(names) - set(headers))
        if missing or names != sorted(set(names)):
            raise call.refused("names", ", ".join(sorted(missing)))
        if not hmac.compare_digest(scheme.signature(request, found, key.access_key_secret), found["signature"]):
            raise call.refused("signature")
        if scope and found["scope"] != f"{date[:8]}/{scope}/aws4_request":
            raise call.refused("scope", scope)
        if nonce := headers.get(_NONCE):
            if nonce in self._nonces:
                raise call.refused("nonce")
            self._nonces[nonce] = None
            if len(self._nonces) > _KEPT:
                del self._nonces[next(iter(self._nonces))]
