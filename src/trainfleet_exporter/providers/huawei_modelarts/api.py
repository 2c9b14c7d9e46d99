"""The APIs of Huawei Cloud: addresses, signatures, the project of calls, and the meaning of responses.

Calls are signed with an access key, or they have an IAM token. Their project is the one in the config, else that of the
credential, else the one that IAM has for the region's name.

https://support.huaweicloud.com/intl/en-us/devg-apisign/api-sign-algorithm.html
https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from msgspec import Struct

from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CloudError,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
)
from trainfleet_exporter.providers.canonical import canonical_query, canonical_request, hmac_sha256, sha256
from trainfleet_exporter.providers.judging import ServerClock, SignedDialect, error_of, kind_of
from trainfleet_exporter.providers.keys import BackOff, Credential, Keys
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import mapping, number, printable, text

# Endpoints.

_DOMAINS = {"eu-west-101": "myhuaweicloud.eu"}
"""By region that is not in the common domain, its own."""


def public_endpoint(api: str, region: str) -> str:
    """The address of an API in a region."""
    return f"https://{api}.{region}.{_DOMAINS.get(region, 'myhuaweicloud.com')}"


# Signatures.

ALGORITHM = "SDK-HMAC-SHA256"


def canonical_path(path: str) -> str:
    """The path as it is signed: with a slash at its end that is not sent, and each character encoded in one way."""
    return quote(unquote(path), safe="/").removesuffix("/") + "/"


def string_to_sign(request_hash: str, date: str) -> str:
    """The string to sign for the hash of a canonical request; `date` as it is sent."""
    return f"{ALGORITHM}\n{date}\n{request_hash}"


@dataclass(frozen=True, slots=True)
class Token(Keys):
    """An IAM token, as the security token without a key. Calls carry it unsigned.

    `project_id` is empty where IAM did not say.
    """

    def parts(self) -> tuple[str, ...]:
        return (self.security_token or "",)


def sign(keys: Keys, call: Call, host: str, *, project_id: str, now: float) -> SignedRequest:
    """Sign one attempt, or let it carry the token. `host` is as in the Host header, `now` in Unix seconds."""
    headers = {"host": host} | ({"content-type": "application/json"} if call.body else {})
    # Send the canonical query itself, so that the request has the signed query.
    query = canonical_query(call.query)
    target = f"{call.path}?{query}" if query else call.path
    if isinstance(keys, Token):
        headers["X-Auth-Token"] = keys.security_token or ""
        return SignedRequest(call.method, target, headers, call.body, keys.parts())
    date = headers["x-sdk-date"] = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    headers |= {"x-project-id": project_id} if project_id else {}
    headers |= {"x-security-token": keys.security_token} if keys.security_token else {}
    path, body_sha256 = canonical_path(call.path), sha256(call.body)
    request_hash = sha256(
        canonical_request(method=call.method, path=path, query=query, headers=headers, body_sha256=body_sha256)
    )
    signature = hmac_sha256(keys.access_key_secret, string_to_sign(request_hash, date))
    names = ";".join(sorted(headers))
    headers["Authorization"] = f"{ALGORITHM} Access={keys.access_key_id}, SignedHeaders={names}, Signature={signature}"
    return SignedRequest(call.method, target, headers, call.body, keys.quotable(), (signature, request_hash))


# The caller, and the project of its calls.


class Project(Struct, gc=False):
    """A project of the account."""

    id: str | None = None


class ProjectsAnswer(Struct, gc=False):
    """KeystoneListProjects."""

    projects: list[Project | None] | None = None


class Identity:
    """The caller and the project (providers.registry.Identity). An empty `project_id` is looked up."""

    def __init__(self, credential: Credential, *, region: str, project_id: str) -> None:
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
        async with self._finding:
            if not self.project_id:
                self.project_id = (await self.credential.keys(deadline)).project_id
            if not self.project_id:
                self.project_id = await self._back_off.run(lambda: self._find_project(deadline))
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


# The meaning of responses.

_CODES: Sequence[tuple[re.Pattern[str], type[CloudError]]] = (
    (re.compile(r".*\.0308"), Throttled),
    (re.compile(r"ModelArts\.2775"), NotFound),  # a job
    (re.compile(r"ModelArts\.2786"), AccessDenied),  # to the project of another identity
)
"""What codes mean, whatever the HTTP status."""
_OF_KEYS = re.compile(r".*\.0307|ModelArts\.(0203|0206|2784)")
"""Codes of rejections that are about the token or the key."""
_RATE_LIMIT = re.compile(r"limit: ?(\d{1,9}), ?time: ?(\d{1,9}) ?(second|minute|hour|day)", re.ASCII)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_ACCESS_KEY = re.compile(r"\b((?i:ak))\s+[A-Z0-9]{16,}")
"""The gateway names the key that it does not know."""


class HuaweiDialect(SignedDialect):
    """Signs the requests of an API for an identity, and judges its responses (transport.Dialect)."""

    def __init__(self, api: str, identity: Identity, clock: ServerClock) -> None:
        super().__init__(api, identity.credential, clock)
        self._identity = identity

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt, or let it carry the token."""
        keys = self.credential.current()
        self.is_dated = not isinstance(keys, Token)
        return sign(keys, call, host, project_id=self._identity.project_id, now=self.now())

    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer; else what went wrong."""
        return judge(answer)

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether the rejection is about the credential."""
        return error.status == 401 or _OF_KEYS.fullmatch(error.code) is not None


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its HTTP status, or its code where that says more."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    code, message = _code_and_message(payload)
    if 200 <= answer.status < 300 and payload.get("is_success") is False:  # v1 says so even with 200
        return RequestRefused(message or "the service says that it failed", status=answer.status, code=code)
    kind = kind_of(answer.status)
    if kind is None:
        return None
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": code,
        "request_id": printable(answer.headers.get("x-request-id", "") or text(payload, "request_id"), 64),
        "retry_after": number({"s": answer.headers.get("retry-after", "")}, "s"),
    }
    kind = next((found for codes, found in _CODES if codes.fullmatch(code)), kind)
    if kind is Throttled:
        facts["pace"] = _pace(message)
    elif kind is NotFound and not code.startswith("ModelArts."):
        # Of the gateway, which does not know the address.
        kind, message = RequestRefused, f"{message or 'unknown operation'} (is it served in this region?)"
    return error_of(kind, message, **facts)


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


_PASSING = ("timeout", "unavailable", "internal", "canceled")
"""Kinds of errors that are the service's own trouble."""


class AomDialect(HuaweiDialect):
    """Signed like every API of the cloud, with errors in the form of Prometheus (transport.Dialect)."""

    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        """None for an answer that says `success`; else what went wrong, with Prometheus' own kind of error as code."""
        error = super().meaning(answer)
        payload = answer.payload if isinstance(answer.payload, dict) else {}
        status, kind = text(payload, "status"), printable(text(payload, "errorType"), 80)
        said = printable(text(payload, "error"), 300)
        if error is not None:
            error.code, error.message = kind or error.code, said or error.message
            return error
        if not payload or status == "success":
            return None
        if status != "error":
            return BadAnswer("the answer does not say whether it is a success", status=answer.status)
        refusal = ServerTrouble if kind in _PASSING else RequestRefused
        return refusal(said or "the service says that it failed", status=answer.status, code=kind)
