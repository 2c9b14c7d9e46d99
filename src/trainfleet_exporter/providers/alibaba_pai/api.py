"""The APIs of Alibaba Cloud: signatures, and the meaning of responses.

DLC (version 2020-12-03), PaiStudio (2022-01-12) and AIWorkSpace (2021-02-04) are ROA APIs: GET, with all parameters in
the query. ROA and RPC calls have the same signature, of version 3 (ACS3-HMAC-SHA256).

https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from trainfleet_exporter.errors import AccessDenied, CloudError, RequestRefused, Throttled
from trainfleet_exporter.providers.canonical import canonical_query, canonical_request, hmac_sha256, sha256
from trainfleet_exporter.providers.judging import ServerClock, SignedDialect, error_of, kind_of
from trainfleet_exporter.providers.keys import Credential, Keys
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import flag, iso_time, printable, text, whole

# Signatures.

ALGORITHM = "ACS3-HMAC-SHA256"
VERSIONS = {
    "dlc": "2020-12-03",
    "paistudio": "2022-01-12",
    "aiworkspace": "2021-02-04",
    "cloudmonitor": "2019-01-01",
}
"""Of each API, by its label."""


def string_to_sign(request_hash: str) -> str:
    return f"{ALGORITHM}\n{request_hash}"


def sign(keys: Keys, call: Call, host: str, *, version: str, now: float, nonce: str) -> SignedRequest:
    """Sign one attempt. `host` is as in the Host header, `now` in Unix seconds. The service rejects an old nonce."""
    # Send the canonical query itself, so that the request has the signed query.
    query, body_sha256 = canonical_query(call.query), sha256(call.body)
    headers = {
        "host": host,
        "x-acs-action": call.operation,
        "x-acs-content-sha256": body_sha256,
        "x-acs-date": iso_time(now),
        "x-acs-signature-nonce": nonce,
        "x-acs-version": version,
    }
    if keys.security_token:
        headers["x-acs-security-token"] = keys.security_token
    request_hash = sha256(
        canonical_request(method=call.method, path=call.path, query=query, headers=headers, body_sha256=body_sha256)
    )
    signature = hmac_sha256(keys.access_key_secret, string_to_sign(request_hash))
    names = ";".join(sorted(headers))
    headers["Authorization"] = (
        f"{ALGORITHM} Credential={keys.access_key_id},SignedHeaders={names},Signature={signature}"
    )
    target = f"{call.path}?{query}" if query else call.path
    return SignedRequest(call.method, target, headers, call.body, keys.quotable(), (signature, request_hash))


# The meaning of responses.

_CLOCK_CODES = ("InvalidTimeStamp", "InvalidTimestamp", "IllegalTimestamp")
_KEY_CODES = ("InvalidSecurityToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_ACCESS_CODES = (
    *("IncompleteSignature", "Forbidden", "NoPermission", "OperationForbidden", "RAMForbidden"),
    *("AuthenticationFail", "EntityNotExist"),
)
_ADDRESS_CODES = ("InvalidAction", "InvalidApi", "InvalidProduct", "InvalidVersion")
_CODES: Sequence[tuple[tuple[str, ...], type[CloudError]]] = (
    (("Throttling",), Throttled),
    ((*_CLOCK_CODES, *_KEY_CODES, *_ACCESS_CODES), AccessDenied),
    (_ADDRESS_CODES, RequestRefused),
)
"""What codes mean that begin so. Other codes mean what their HTTP status means."""
_GOOD_CODES = frozenset({"", "200", "OK", "Success"})
"""Codes of good responses of CloudMonitor and DLC GetMetrics, next to HTTP 200."""
_SERVICE_CODES = ("Internal", "ServiceUnavailable")
_SPENT = "user api quota limit"
"""CloudMonitor's text if the free calls of the month are spent. A pause of seconds does not help."""
_SPENT_PAUSE = 3600.0


class PaiDialect(SignedDialect[Keys]):
    """Signs the requests of an API of one version, and judges its responses (transport.Dialect)."""

    clock_codes, key_codes = _CLOCK_CODES, _KEY_CODES

    def __init__(self, api: str, version: str, credential: Credential[Keys], clock: ServerClock) -> None:
        super().__init__(api, credential, clock)
        self.version = version

    def sign(self, call: Call, host: str) -> SignedRequest:
        keys = self.credential.current()
        keys.remember()
        return sign(keys, call, host, version=self.version, now=self.now(), nonce=uuid.uuid4().hex)

    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        return judge(answer)


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its code first and its HTTP status second."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    code = text(payload, "Code") or text(payload, "code")
    status = answer.status
    if 200 <= status < 300:
        if flag(payload, "Success") is not False and code in _GOOD_CODES:
            return None
        status = _status_of(code)
    message = printable(text(payload, "Message") or text(payload, "message"), 300)
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": printable(code, 80),
        "request_id": printable(text(payload, "RequestId") or text(payload, "requestId"), 64),
        "retry_after": retry_after(answer.headers),
    }
    if _SPENT in message.lower():  # under which code is not known
        return Throttled(message, **facts | {"retry_after": _SPENT_PAUSE})
    by_code = (kind for codes, kind in _CODES if code.startswith(codes))
    kind = Throttled if status == 429 else next(by_code, None) or kind_of(status)
    if kind is None:
        return None
    if code.startswith("SignatureDoesNotMatch"):
        # The service's own message quotes the string that it signed; the reason is nearly always this one.
        message = "the signature was refused: is the access key secret the right one?"
    elif code.startswith(_ADDRESS_CODES):
        message = f"{message or 'unknown operation'} (is the endpoint right?)"
    return error_of(kind, message, **facts)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The service's wait hint in seconds.

    `x-acs-retry-after` is whole MILLISECONDS; the older `x-ratelimit-user-api` and `x-ratelimit-user` hold
    `...,TimeLeft:2000,...`, milliseconds as well. Anything not positive or not readable is no hint.
    """
    hints = [headers.get("x-acs-retry-after", "")]
    for name in ("x-ratelimit-user-api", "x-ratelimit-user"):
        for item in headers.get(name, "").split(","):
            key, _, value = item.partition(":")
            if key.strip() == "TimeLeft":
                hints.append(value)
    for hint in hints:
        milliseconds = whole({"hint": hint.strip()}, "hint")
        if milliseconds:
            return milliseconds / 1000
    return None


def _status_of(code: str) -> int:
    """The HTTP status that an answer ought to have had which says by its Code alone that it is an error."""
    if len(code) == 3 and code.isascii() and code.isdigit() and code[0] in "45":
        return int(code)
    return 500 if code.startswith(_SERVICE_CODES) else 400
