"""Signatures of requests to Huawei Cloud's APIs, and the meaning of responses.

Calls are signed with an access key, or they have an IAM token. Their project is the one in the config, else that of the
credential, else the one that IAM has for the region's name.

`sign` makes the signature by access key (SDK-HMAC-SHA256) that the API gateway checks. It is a pure function, and its
caller passes the time.

https://support.huaweicloud.com/intl/en-us/devg-apisign/api-sign-algorithm.html
https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html (tokens)
https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote

from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CloudError,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
)
from trainfleet_exporter.process.redaction import HoldsSecrets, remember
from trainfleet_exporter.providers.credentials import BackOff, Credential, Keys, SignedDialect
from trainfleet_exporter.providers.credentials.canonical import (
    Query,
    Signed,
    canonical_query,
    canonical_request,
    hmac_sha256,
    sha256,
)
from trainfleet_exporter.providers.huawei_modelarts.payloads import ProjectsAnswer
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import iso_time, mapping, number, printable, text

ALGORITHM = "SDK-HMAC-SHA256"
DATE_FORMAT = "%Y%m%dT%H%M%SZ"
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"


def canonical_path(path: str) -> str:
    """The path as it is signed: with a slash at its end that is not sent, and each character encoded in one way."""
    return quote(unquote(path), safe="/").removesuffix("/") + "/"


def signature(
    *, method: str, path: str, query: Query, headers: Mapping[str, str], date: str, body_sha256: str, secret: str
) -> str:
    """The signature in lower-case hex, over the decoded `query` and exactly the `headers` given; `date` as it is sent.

    `body_sha256` is the hex hash of the body, or the text that `x-sdk-content-sha256` gives in its stead.
    """
    path = canonical_path(path)
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    return hmac_sha256(secret, string_to_sign(sha256(request), date))


def string_to_sign(request_hash: str, date: str) -> str:
    """The string to sign for the hash of a canonical request; `date` as it is sent."""
    return f"{ALGORITHM}\n{date}\n{request_hash}"


def sign(
    *,
    method: str,
    path: str,
    query: Query,
    host: str,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
    project_id: str | None = None,
    now: datetime | float,
    content_type: str | None = None,
    body: bytes = b"",
) -> Signed:
    """Sign a request.

    `host` is as the Host header will say it (with `:port` unless it is the scheme's default); `now` is an aware
    datetime or Unix seconds. Bodies are JSON or empty: for other types the vendor's clients leave the body unsigned.
    """
    moment = now.astimezone(UTC) if isinstance(now, datetime) else datetime.fromtimestamp(now, UTC)
    optional = {"content-type": content_type, "x-project-id": project_id, "x-security-token": security_token}
    headers = {
        "host": host,
        "x-sdk-date": moment.strftime(DATE_FORMAT),
        **{name: value for name, value in optional.items() if value},
    }
    path = canonical_path(path)
    request = canonical_request(method=method, path=path, query=query, headers=headers, body_sha256=sha256(body))
    request_hash = sha256(request)
    signed = hmac_sha256(secret_key, string_to_sign(request_hash, headers["x-sdk-date"]))
    names = ";".join(sorted(headers))
    authorization = f"{ALGORITHM} Access={access_key}, SignedHeaders={names}, Signature={signed}"
    return Signed(headers | {"Authorization": authorization}, (signed, request_hash))


@dataclass(frozen=True, slots=True)
class Token(HoldsSecrets):
    """An IAM token, and the project that it is for (empty where IAM did not say)."""

    text: str = field(repr=False)
    project_id: str = ""

    def __post_init__(self) -> None:
        self.remember()

    def remember(self) -> None:
        """Have it redacted (see Keys.remember)."""
        remember(self.text)


class Identity:
    """The caller and the project (providers.registry.Identity). An empty `project_id` is looked up."""

    def __init__(self, credential: Credential[Keys | Token], *, region: str, project_id: str) -> None:
        self.credential = credential
        self.project_id = project_id
        """Empty while it is not known."""
        self._region = region
        self._iam: ApiClient | None = None
        self._finding = asyncio.Lock()
        self._back_off = BackOff()

    def use(self, iam: ApiClient) -> None:
        """Set the client that asks IAM for projects, which asks as this very identity."""
        self._iam = iam

    @property
    def origin(self) -> str:
        """The source of the credential, for users."""
        return self.credential.origin

    @property
    def expires(self) -> float | None:
        """When the latest credential expires or expired (Unix seconds); None if it does not."""
        return self.credential.expires

    async def project(self, deadline: float) -> str:
        """The project's id: the configured one, the token's, or IAM's by the region's name. Raises CloudError."""
        if not self.project_id:
            async with self._finding:
                if not self.project_id:
                    mark = await self.credential.prepare(deadline)
                    credential = self.credential.current()
                    self.project_id = credential.project_id if isinstance(credential, Token) else ""
                if not self.project_id:
                    self._back_off.check(mark)
                    try:
                        self.project_id = await self._find_project(deadline)
                    except CloudError as error:
                        self._back_off.note(mark, error)
                        raise
        return self.project_id

    async def _find_project(self, deadline: float) -> str:
        assert self._iam is not None
        call = Call(operation="KeystoneListProjects", path="/v3/projects", query={"name": self._region})
        try:
            answer = await self._iam.call(call, ProjectsAnswer, deadline=deadline)
        except (NotFound, RequestRefused) as error:
            raise AccessDenied.of(error) from None  # no statement about what the call in the project asks for
        if answer.projects is None:
            raise BadAnswer("the answer has no list of projects", operation=call.operation)
        found = list(dict.fromkeys(project.id or "" for project in answer.projects if project is not None))
        if len(found) != 1 or not found[0]:
            raise AccessDenied(
                f"{len(found)} projects are named {self._region}; set project_id to one of them",
                operation=call.operation,
            )
        return found[0]


_JOB_NOT_FOUND = "ModelArts.2775"
_CREDENTIAL_REFUSED = (".0307", "ModelArts.0203", "ModelArts.2784")
_RATE_LIMIT = re.compile(r"limit: ?(\d{1,9}), ?time: ?(\d{1,9}) ?(second|minute|hour|day)", re.ASCII)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_MAX_SKEW = 900.0
"""Seconds that a clock may be off, either way, before the gateway refuses every signature."""
_ACCESS_KEY = re.compile(r"\b((?i:ak))\s+[A-Z0-9]{16,}")
"""The gateway names the key that it does not know."""
_WRONG_CLOCK = "the clock of this machine is off"


class HuaweiDialect(SignedDialect[Keys | Token]):
    """Signs the requests of an API for an identity, and judges its responses (transport.Dialect)."""

    def __init__(self, api: str, identity: Identity) -> None:
        super().__init__(api, identity.credential)
        self._identity = identity

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt, or let it carry the token."""
        # Send the canonical query itself, so that the request has the signed query.
        target = f"{call.path}?{query}" if (query := canonical_query(call.query)) else call.path
        credential = self.credential.current()
        credential.remember()
        content_type = "application/json" if call.body else None
        if isinstance(credential, Token):
            headers = {"host": host, "X-Auth-Token": credential.text}
            headers |= {"content-type": content_type} if content_type else {}
            return SignedRequest(call.method, target, headers, call.body, (credential.text,))
        signed = sign(
            method=call.method,
            path=call.path,
            query=call.query,
            host=host,
            access_key=credential.access_key_id,
            secret_key=credential.access_key_secret,
            security_token=credential.security_token,
            project_id=self._identity.project_id or None,
            now=time.time(),
            content_type=content_type,
            body=call.body,
        )
        return SignedRequest(call.method, target, signed.headers, call.body, credential.quotable(), signed.proofs)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer; else what went wrong."""
        return judge(answer)

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether the rejection is about the credential. With a wrong clock, another one would be rejected as
        well."""
        about_credential = error.status == 401 or error.code.endswith(_CREDENTIAL_REFUSED)
        return about_credential and not error.message.startswith(_WRONG_CLOCK)


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its HTTP status first and its code second."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    if 200 <= answer.status < 300:
        if payload.get("is_success") is False:  # v1 says so even with 200
            code, message = _code_and_message(payload)
            return RequestRefused(message or "the service says that it failed", status=answer.status, code=code)
        return None
    code, message = _code_and_message(payload)
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


def _wrong_clock(message: str, date: str) -> str:
    """Say that the clock here is off, with both times, if a refusal is about that; else return an empty text.

    The gateway has several wordings for it; the time at which it answered decides in any case.
    """
    now = time.time()
    off = 0.0
    try:
        there = parsedate_to_datetime(date).timestamp()
        service = iso_time(there)
    except (ValueError, OverflowError):  # no date, or one beyond the year 9999
        service = "unknown"
    else:
        off = abs(there - now)
    if off > _MAX_SKEW:
        minutes = f" by {off / 60:.0f} minutes"
    elif "timestamp" in message.lower() or "x-sdk-date" in message.lower():
        minutes = ""
    else:
        return ""
    return f"{_WRONG_CLOCK}{minutes}: here it is {iso_time(now)}, there it is {service}"


def _pace(message: str) -> float | None:
    """The requests a second that the gateway's own words allow: `...over ratelimit,limit:60,time:1 minute`."""
    match = _RATE_LIMIT.search(message)
    if match is None or not int(match[2]):
        return None
    return int(match[1]) / (int(match[2]) * _UNITS[match[3]])


def _code_and_message(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Code and message of an error body, in any of the forms that ModelArts, the gateway and IAM have for it."""
    inner = mapping(payload, "error")
    code = text(payload, "error_code") or text(payload, "errorCode") or text(payload, "code") or text(inner, "code")
    message = ""
    for fields in (payload, inner):
        for key in ("error_msg", "error_message", "errorMsg", "message"):
            message = message or text(fields, key)
    return printable(code, 80), printable(_ACCESS_KEY.sub(r"\1 <secret>", message), 300)
