"""How Huawei Cloud's APIs are spoken: who asks, and what an answer means.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.huawei_modelarts.auth import Authentication, Identity
from trainfleet_exporter.providers.huawei_modelarts.signing import canonical_query
from trainfleet_exporter.quantities import iso_time, mapping, number, printable, text
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest

_JOB_NOT_FOUND = "ModelArts.2775"
_CREDENTIAL_REFUSED = (".0307", "ModelArts.0203", "ModelArts.2784")
_RATE_LIMIT = re.compile(r"limit: ?(\d{1,9}), ?time: ?(\d{1,9}) ?(second|minute|hour|day)", re.ASCII)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_MAX_SKEW = 900.0
"""Seconds that a clock may be off, either way, before the gateway refuses every signature."""
_ACCESS_KEY = re.compile(r"\b((?i:ak))\s+[A-Z0-9]{16,}")
"""The gateway names the key that it does not know."""
_WRONG_CLOCK = "the clock of this machine is off"


@dataclass(frozen=True, slots=True)
class HuaweiDialect:
    """How one of Huawei Cloud's APIs is authenticated and how its answers are judged (transport.Dialect)."""

    api: str
    identity: Identity

    async def prepare(self, call: Call, deadline: float) -> object:
        """Have a credential that is valid (transport.Dialect)."""
        return await self.identity.prepare(deadline)

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Whether the service no longer takes the credential of `mark`, and another one is to be had."""
        # No status: the call waited so long for its turn that its credential ended, or lost its file.
        about_credential = error.status in (None, 401) or error.code.endswith(_CREDENTIAL_REFUSED)
        # Another credential would be refused by a wrong clock just so.
        return about_credential and not error.message.startswith(_WRONG_CLOCK) and self.identity.refused(mark)

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Authenticate one attempt."""
        content_type = "application/json" if call.body else None
        return _request(call, self.identity.headers(call, host, content_type=content_type))

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer; else what went wrong."""
        return judge(answer)


@dataclass(frozen=True, slots=True)
class OpenDialect:
    """An API that is asked by those who have no credential yet (transport.Dialect)."""

    api: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every call. What they say may be secret."""

    async def prepare(self, call: Call, deadline: float) -> object:
        """Nothing is needed."""
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """What was refused has no credential that could have ended."""
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Nothing but what HTTP needs."""
        content_type = {"content-type": "application/json"} if call.body else {}
        headers = {"host": host, **content_type, **self.headers}
        return _request(call, Authentication(headers, tuple(self.headers.values())))

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer; else what went wrong."""
        return judge(answer)


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its HTTP status first and its code second."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    if 200 <= answer.status < 300:
        if payload.get("is_success") is False:  # v1 says so even with 200
            code, message = _told(payload)
            return RequestRefused(message or "the service says that it failed", status=answer.status, code=code)
        return None
    code, message = _told(payload)
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": code,
        "request_id": printable(answer.headers.get("x-request-id", "") or text(payload, "request_id"), 64),
        "retry_after": number({"s": answer.headers.get("retry-after", "")}, "s"),
    }
    if answer.status == 429 or code.endswith(".0308"):
        return Throttled(message or "too many requests", pace=_pace(message), **facts)
    if answer.status in (401, 403):
        return AccessDenied(
            _wrong_clock(message, answer.headers.get("date", "")) or message or "access denied", **facts
        )
    if code == _JOB_NOT_FOUND or (answer.status == 404 and code.startswith("ModelArts.")):
        return NotFound(message or "not found", **facts)
    if answer.status == 404:
        return RequestRefused(f"{message or 'unknown operation'} (is it served in this region?)", **facts)
    if answer.status >= 500:
        return ServerTrouble(message or "the service failed", **facts)
    return RequestRefused(message or "the request was refused", **facts) if answer.status >= 400 else None


def _request(call: Call, given: Authentication) -> SignedRequest:
    # The canonical query itself goes on the wire, so that what was signed is what is sent.
    query = canonical_query(call.query)
    target = f"{call.path}?{query}" if query else call.path
    return SignedRequest(call.method, target, given.headers, call.body, given.secrets, given.proofs)


def _wrong_clock(message: str, date: str) -> str:
    """That the clock here is off, with both times, where a refusal is about that; else an empty text.

    The gateway has several wordings for it; the time at which it answered tells in any case.
    """
    now = time.time()
    off = 0.0
    try:
        there = parsedate_to_datetime(date).timestamp()
        told = iso_time(there)
    except (ValueError, OverflowError):  # no date, or one beyond the year 9999
        told = "unknown"
    else:
        off = abs(there - now)
    if off > _MAX_SKEW:
        minutes = f" by {off / 60:.0f} minutes"
    elif "timestamp" in message.lower() or "x-sdk-date" in message.lower():
        minutes = ""
    else:
        return ""
    return f"{_WRONG_CLOCK}{minutes}: here it is {iso_time(now)}, there it is {told}"


def _pace(message: str) -> float | None:
    """The requests a second that the gateway's own words allow: `...over ratelimit,limit:60,time:1 minute`."""
    match = _RATE_LIMIT.search(message)
    if match is None or not int(match[2]):
        return None
    return int(match[1]) / (int(match[2]) * _UNITS[match[3]])


def _told(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Code and message of an error body, in any of the forms that ModelArts, the gateway and IAM have for it."""
    inner = mapping(payload, "error")
    code = text(payload, "error_code") or text(payload, "errorCode") or text(payload, "code") or text(inner, "code")
    message = ""
    for fields in (payload, inner):
        for key in ("error_msg", "error_message", "errorMsg", "message"):
            message = message or text(fields, key)
    return printable(code, 80), printable(_ACCESS_KEY.sub(r"\1 <secret>", message), 300)
