"""How PAI's APIs are spoken: signatures, and what an answer means.

DLC (version 2020-12-03), PaiStudio (2022-01-12) and AIWorkSpace (2021-02-04) are ROA APIs: GET, everything in the
query, ACS3-HMAC-SHA256 signatures. What an answer means is told by its `Code` as much as by its HTTP status:
throttling comes as 400 as well as 429.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.alibaba_pai.credentials import KeySource
from trainfleet_exporter.providers.alibaba_pai.signing import canonical_query, sign
from trainfleet_exporter.quantities import flag, iso_time, printable, text, whole
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest

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
"""What CloudMonitor's answers, and DLC GetMetrics', carry as Code beside HTTP 200 when all is well."""
_SERVICE_CODES = ("Internal", "ServiceUnavailable")
_SPENT = "user api quota limit"
"""How CloudMonitor says that the free calls of the month are spent: no pause of seconds helps against that."""
_SPENT_PAUSE = 3600.0


@dataclass(frozen=True, slots=True)
class PaiDialect:
    """How one of PAI's APIs is signed and how its answers are judged (transport.Dialect)."""

    api: str
    version: str
    credentials: KeySource

    async def prepare(self, call: Call, deadline: float) -> object:
        """Have keys that are valid (transport.Dialect)."""
        return await self.credentials.prepare(deadline)

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Whether other keys than those of `mark` are to be had, and worth a try."""
        return self.credentials.refused(error, mark)

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt, with a nonce and a date of its own: a repeated nonce is refused."""
        keys = self.credentials.current()
        # The canonical query itself goes on the wire, so that what was signed is what is sent.
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
        return SignedRequest(call.method, target, signed.headers, call.body, keys.told(), signed.proofs)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer (transport.Dialect)."""
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
    """That the clock here is off: both times, and how far they are apart where the service tells its own."""
    here, date = time.time(), headers.get("date", "")
    try:
        there = parsedate_to_datetime(date).timestamp()
        told = iso_time(there)
    except (ValueError, OverflowError):
        return f"the clock of this machine is off: here it is {iso_time(here)}, there it is unknown"
    minutes = round(abs(here - there) / 60)
    ahead = "ahead" if here > there else "behind"
    apart = f"off by {minutes} minutes ({ahead})" if minutes else "off"
    return f"the clock of this machine is {apart}: here it is {iso_time(here)}, there it is {told}"
