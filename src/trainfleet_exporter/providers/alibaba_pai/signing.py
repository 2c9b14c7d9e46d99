"""Signatures of requests to Alibaba Cloud's APIs, and the meaning of responses.

DLC (version 2020-12-03), PaiStudio (2022-01-12) and AIWorkSpace (2021-02-04) are ROA APIs: GET, with all parameters in
the query. Both the `Code` of a response and its HTTP status decide its meaning: throttling has status 400 or 429.

ROA and RPC calls have the same signature, of version 3 (ACS3-HMAC-SHA256). `sign` is a pure function, and its caller
passes the time and the nonce.

https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.credentials import Credential, Keys, SignedDialect
from trainfleet_exporter.providers.credentials.canonical import (
    Query,
    Signed,
    canonical_query,
    canonical_request,
    hmac_sha256,
    sha256,
)
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import flag, iso_time, printable, text, whole

ALGORITHM = "ACS3-HMAC-SHA256"


def signature(
    *, method: str, path: str, query: Query, headers: Mapping[str, str], body_sha256: str, secret: str
) -> str:
    """The signature in lower-case hex, over `query` and exactly the `headers` given."""
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    return hmac_sha256(secret, string_to_sign(sha256(request)))


def string_to_sign(request_hash: str) -> str:
    """The string to sign for the hash of a canonical request."""
    return f"{ALGORITHM}\n{request_hash}"


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

    `host` is the value of the Host header (with `:port` unless it is the scheme's default). `now` is an aware datetime
    or Unix seconds. `nonce` must differ for every attempt, including retries.
    """
    moment = now.astimezone(UTC) if isinstance(now, datetime) else datetime.fromtimestamp(now, UTC)
    headers = {
        "host": host,
        "x-acs-action": action,
        "x-acs-content-sha256": sha256(body),
        "x-acs-date": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "x-acs-signature-nonce": nonce,
        "x-acs-version": version,
    }
    if security_token:
        headers["x-acs-security-token"] = security_token
    request = canonical_request(
        method=method, path=path, query=query, headers=headers, body_sha256=headers["x-acs-content-sha256"]
    )
    request_hash = sha256(request)
    signed = hmac_sha256(access_key_secret, string_to_sign(request_hash))
    names = ";".join(sorted(headers))
    authorization = f"{ALGORITHM} Credential={access_key_id},SignedHeaders={names},Signature={signed}"
    return Signed(headers | {"Authorization": authorization}, (signed, request_hash))


VERSIONS = {
    "dlc": "2020-12-03",
    "paistudio": "2022-01-12",
    "aiworkspace": "2021-02-04",
    "cloudmonitor": "2019-01-01",
}
"""Of each API, by its label."""
_BAD_CLOCK = ("InvalidTimeStamp", "InvalidTimestamp", "IllegalTimestamp")
_ACCESS_CODES = (
    "InvalidAccessKeyId",
    "InvalidSecurityToken",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "Forbidden",
    "NoPermission",
    "OperationForbidden",
    "RAMForbidden",
    "AuthenticationFail",
    "EntityNotExist",
)
_WRONG_ADDRESS_CODES = ("InvalidAction", "InvalidApi", "InvalidProduct", "InvalidVersion")
_GOOD_CODES = frozenset({"", "200", "OK", "Success"})
"""Codes of good responses of CloudMonitor, next to HTTP 200."""
_SERVICE_CODES = ("Internal", "ServiceUnavailable")
_SPENT = "user api quota limit"
"""CloudMonitor's text if the free calls of the month are spent. A pause of seconds does not help."""
_SPENT_PAUSE = 3600.0


_KEY_CODES = ("InvalidSecurityToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")


class PaiDialect(SignedDialect[Keys]):
    """Signs the requests of an API of one version, and judges its responses (transport.Dialect)."""

    def __init__(self, api: str, version: str, credential: Credential[Keys]) -> None:
        super().__init__(api, credential)
        self.version = version

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt with a new nonce and date. The service rejects a repeated nonce."""
        keys = self.credential.current()
        keys.remember()
        # Send the canonical query itself, so that the request has the signed query.
        query = canonical_query(call.query)
        signed = sign(
            method=call.method,
            path=call.path,
            query=query,
            host=host,
            action=call.operation,
            version=self.version,
            access_key_id=keys.access_key_id,
            access_key_secret=keys.access_key_secret,
            security_token=keys.security_token,
            now=time.time(),
            nonce=uuid.uuid4().hex,
            body=call.body,
        )
        target = f"{call.path}?{query}" if query else call.path
        return SignedRequest(call.method, target, signed.headers, call.body, keys.quotable(), signed.proofs)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer (transport.Dialect)."""
        return judge(answer)

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether the rejection is about the key or its token."""
        return error.code.startswith(_KEY_CODES)


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its code first and its HTTP status second."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    code = text(payload, "Code") or text(payload, "code")
    status = answer.status
    if 200 <= status < 300:
        if flag(payload, "Success") is not False and code in _GOOD_CODES:
            return None
        status = _status_of(code)
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": printable(code, 80),
        "request_id": printable(text(payload, "RequestId") or text(payload, "requestId"), 64),
        "retry_after": retry_after(answer.headers),
    }
    message = printable(text(payload, "Message") or text(payload, "message"), 300)
    spent = _SPENT in message.lower()  # under which code is not known
    if code.startswith("Throttling") or status == 429 or spent:
        if spent:
            facts["retry_after"] = _SPENT_PAUSE
        return Throttled(message or "too many requests", **facts)
    if code.startswith(_BAD_CLOCK):
        return AccessDenied(_clock_message(answer.headers), **facts)
    if code.startswith("SignatureDoesNotMatch"):
        # The service's own message quotes the string that it signed; the reason is nearly always this one.
        return AccessDenied("the signature was refused: is the access key secret the right one?", **facts)
    if code.startswith(_ACCESS_CODES) or status in (401, 403):
        return AccessDenied(message or "access denied", **facts)
    if code.startswith(_WRONG_ADDRESS_CODES):
        return RequestRefused(f"{message or 'unknown operation'} (is the endpoint right?)", **facts)
    if status == 404:
        return NotFound(message or "not found", **facts)
    if status >= 500:
        return ServerTrouble(message or "the service failed", **facts)
    if status >= 400:
        return RequestRefused(message or "the request was refused", **facts)
    return None  # a redirect: the transport says so


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


def _clock_message(headers: Mapping[str, str]) -> str:
    """Say that the clock here is off: both times, and the difference if the service gives its own."""
    here, date = time.time(), headers.get("date", "")
    try:
        there = parsedate_to_datetime(date).timestamp()
        service = iso_time(there)
    except (ValueError, OverflowError):
        return f"the clock of this machine is off: here it is {iso_time(here)}, there it is unknown"
    minutes = round(abs(here - there) / 60)
    ahead = "ahead" if here > there else "behind"
    apart = f"off by {minutes} minutes ({ahead})" if minutes else "off"
    return f"the clock of this machine is {apart}: here it is {iso_time(here)}, there it is {service}"
