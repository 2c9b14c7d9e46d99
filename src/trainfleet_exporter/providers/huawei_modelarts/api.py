"""The APIs of Huawei Cloud: clients, signatures, the project of calls, the meaning of responses, and permissions.

Calls are signed with an access key, or they have an IAM token. Their project is the one in the config, else that of the
credential, else the one that IAM has for the region's name.

https://support.huaweicloud.com/intl/en-us/devg-apisign/api-sign-algorithm.html
https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from msgspec import Struct

from trainfleet_exporter.config import ProviderConfig
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
from trainfleet_exporter.providers.huawei_modelarts.metrics import DEFAULT_INSTANCE
from trainfleet_exporter.providers.judging import ServerClock, SignedDialect, error_of, kind_of
from trainfleet_exporter.providers.key_search import KeyHttp
from trainfleet_exporter.providers.keys import BackOff, Credential, Keys
from trainfleet_exporter.providers.registry import BuildContext, open_transport
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import mapping, number, printable, text

T = TypeVar("T")
QUERY = "ListInstantQueryAomPromPost"
RANGE = "ListRangeQueryAomPromPost"
NAMES = "ListLabelValuesAomPromGet"
PERMISSIONS = {
    **dict.fromkeys(("ListTrainingJobs", "ListTrainingJobsV1"), "modelarts:trainJob:list"),
    "ListWorkspaces": "modelarts:workspace:list",
    "ShowTrainingJobMetrics": "modelarts:trainJob:get",
    "ShowTrainingQuotas": "modelarts:trainJob:getQuotas",
    "ListPools": "modelarts:pool:list",
    "ShowPoolMonitor": "modelarts:pool:get",
    "ListTrainingJobVersions": "modelarts:trainJobVersion:list",
    "ListLogFileNames": "modelarts:trainJobLog:list",
    **dict.fromkeys((QUERY, RANGE, NAMES), "aom:metric:list"),
}


class Project(Struct, gc=False):
    id: str | None = None


class ProjectsAnswer(Struct, gc=False):
    """KeystoneListProjects."""

    projects: list[Project | None] | None = None


class Api:
    """The clients of one project. Every call raises CloudError, and ends by its deadline (loop time).

    `aom` is the Prometheus instance of AOM; empty if AOM is not asked.
    """

    def __init__(
        self,
        config: ProviderConfig,
        context: BuildContext,
        open_identity: Callable[[KeyHttp], tuple[Credential, str]],
        *,
        aom: str,
    ) -> None:
        self._transport = open_transport(config, context)
        dialects = {"modelarts": HuaweiDialect, "iam": HuaweiDialect} | ({"aom": AomDialect} if aom else {})
        self.endpoints: Mapping[str, str] = {api: config.endpoint(api) for api in dialects}
        self._key_http = KeyHttp(self._transport, context, config.endpoint, self.endpoints)
        self.identity, self.project_id = open_identity(self._key_http)
        """The credential, and the id of the project: empty while it is not known."""
        spoken = {
            api: dialect(api, self.identity, context.clock, lambda: self.project_id)
            for api, dialect in dialects.items()
        }
        self._clients = {api: self._transport.client(self.endpoints[api], dialect) for api, dialect in spoken.items()}
        self._region, self._finding, self._back_off = config.region, asyncio.Lock(), BackOff()
        self._served: set[str] = set()
        """Operations that were answered."""
        self._aom = "" if aom == DEFAULT_INSTANCE else f"{segment(aom)}/"

    async def get(
        self,
        operation: str,
        path: str,
        into: type[T],
        query: Mapping[str, str] | None = None,
        *,
        deadline: float,
        version: int = 2,
        unserved: T | None = None,
        **options: Any,
    ) -> T:
        """Make a call to ModelArts, with a path in the project. `options` are those of Call.

        `unserved` is returned if the region does not serve the operation: it answers 404, and has never answered else.
        """
        path = f"/v{version}/{await self._project(deadline)}/{path}"
        call = Call(operation=operation, path=path, query=query or {}, **options)
        try:
            answer = await self._clients["modelarts"].call(call, into, deadline=deadline)
        except (RequestRefused, NotFound) as error:
            if unserved is None or error.status != 404 or operation in self._served:
                raise
            return unserved
        self._served.add(operation)
        return answer

    async def aom(
        self, operation: str, path: str, into: type[T], query: Mapping[str, str], *, deadline: float, **options: Any
    ) -> T:
        """Make a call to AOM's Prometheus API. Parameters are in the URL, also with POST, whose body is empty."""
        path = f"/v1/{await self._project(deadline)}/{self._aom}aom/api/v1/{path}"
        call = Call(operation=operation, path=path, query=query, **options)
        return await self._clients["aom"].call(call, into, deadline=deadline)

    async def _project(self, deadline: float) -> str:
        """The project's id as a part of a path: the configured one, the credential's, or IAM's by the region's name."""
        async with self._finding:
            try:
                if not self.project_id:
                    self.project_id = (await self.identity.keys(deadline)).project_id
                if not self.project_id:
                    self.project_id = await self._back_off.run(lambda: self._find_project(deadline))
            except (NotFound, RequestRefused) as error:
                raise AccessDenied.of(error) from None  # no statement about what the call in the project asks for
        return segment(self.project_id)

    async def _find_project(self, deadline: float) -> str:
        call = Call(operation="KeystoneListProjects", path="/v3/projects", query={"name": self._region})
        answer = await self._clients["iam"].call(call, ProjectsAnswer, deadline=deadline)
        if answer.projects is None:
            raise BadAnswer("the answer has no list of projects", operation=call.operation)
        found = list(dict.fromkeys(project.id or "" for project in answer.projects if project is not None))
        if len(found) != 1 or not found[0]:
            message = f"{len(found)} projects are named {self._region}; set project_id to one of them"
            raise AccessDenied(message, operation=call.operation)
        return found[0]

    async def aclose(self) -> None:
        await self._key_http.aclose()
        await self._transport.aclose()


def segment(any_id: str) -> str:
    """An id as a part of a path. Ids are opaque and come from the cloud: none may reach the path as it is."""
    return quote(any_id, safe="", errors="replace")


# Signatures.

ALGORITHM = "SDK-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Token(Keys):
    """An IAM token, as the security token without a key. Calls carry it unsigned.

    `project_id` is empty where IAM did not say.
    """

    def parts(self) -> tuple[str, ...]:
        return (self.security_token or "",)


def canonical_path(path: str) -> str:
    """The path as it is signed: with a slash at its end that is not sent, and each character encoded in one way."""
    return quote(unquote(path), safe="/").removesuffix("/") + "/"


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
    signature = hmac_sha256(keys.access_key_secret, f"{ALGORITHM}\n{date}\n{request_hash}")
    names = ";".join(sorted(headers))
    headers["Authorization"] = f"{ALGORITHM} Access={keys.access_key_id}, SignedHeaders={names}, Signature={signature}"
    return SignedRequest(call.method, target, headers, call.body, keys.quotable(), (signature, request_hash))


# The meaning of responses.

_CODES: Sequence[tuple[re.Pattern[str], type[CloudError]]] = (
    (re.compile(r".*\.0308"), Throttled),
    (re.compile(r"ModelArts\.2775"), NotFound),  # a job
    (re.compile(r"ModelArts\.2786"), AccessDenied),  # to the project of another identity
)
"""What codes mean, whatever the HTTP status."""
_OF_KEYS = re.compile(r".*\.0307|ModelArts\.(0203|0206|2784)")
"""Codes of rejections that are about the token or the key."""
_ACCESS_KEY = re.compile(r"\b((?i:ak))\s+[A-Z0-9]{16,}")
"""The gateway names the key that it does not know."""
_PASSING = ("timeout", "unavailable", "internal", "canceled")
"""Kinds of AOM's errors that are the service's own trouble."""


class HuaweiDialect(SignedDialect):
    """Signs the requests of an API with a credential, and judges its responses (transport.Dialect)."""

    def __init__(self, api: str, credential: Credential, clock: ServerClock, project_id: Callable[[], str]) -> None:
        super().__init__(api, credential, clock)
        self._project_id = project_id

    def sign(self, call: Call, host: str) -> SignedRequest:
        keys = self.credential.current()
        self.is_dated = not isinstance(keys, Token)
        return sign(keys, call, host, project_id=self._project_id(), now=self.now())

    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        return judge(answer)

    def blames_credential(self, error: AccessDenied) -> bool:
        return error.status == 401 or _OF_KEYS.fullmatch(error.code) is not None


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its HTTP status, or its code where that says more."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    code = printable(_first_text(payload, "error_code", "errorCode", "code"), 80)
    message = _first_text(payload, "error_msg", "error_message", "errorMsg", "message")
    message = printable(_ACCESS_KEY.sub(r"\1 <secret>", message), 300)
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
    if kind is NotFound and not code.startswith("ModelArts."):
        # Of the gateway, which does not know the address.
        kind, message = RequestRefused, f"{message or 'unknown operation'} (is it served in this region?)"
    return error_of(kind, message, **facts)


def _first_text(payload: Mapping[str, Any], *names: str) -> str:
    """The first of these texts in an error body. IAM has them in `error`, or as the others have them."""
    found = (text(part, name) for part in (payload, mapping(payload, "error")) for name in names)
    return next(filter(None, found), "")


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
