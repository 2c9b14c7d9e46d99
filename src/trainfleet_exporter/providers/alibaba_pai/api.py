"""PAI's APIs as this exporter calls them: signing, judging answers, and paging through lists until they are whole.

DLC (version 2020-12-03), PaiStudio (2022-01-12) and AIWorkSpace (2021-02-04) are ROA APIs: GET, everything in the
query, ACS3-HMAC-SHA256 signatures. What an answer means is told by its `Code` as much as by its HTTP status:
throttling comes as 400 as well as 429.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CloudError,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
)
from trainfleet_exporter.providers.alibaba_pai.credentials import Credentials
from trainfleet_exporter.providers.alibaba_pai.signing import canonical_query, sign
from trainfleet_exporter.providers.listing import Listing, Page, read_whole_list
from trainfleet_exporter.quantities import iso_time, printable, text, whole
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, Priority, SignedRequest

PAGE_SIZE = 100
"""The largest page that is known to work on every list here; the documentation names no maximum."""
_BAD_CLOCK = "InvalidTimeStamp"
_ACCESS_CODES = (
    "InvalidAccessKeyId",
    "InvalidSecurityToken",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "Forbidden",
    "NoPermission",
    "OperationForbidden",
    "RAMForbidden",
    _BAD_CLOCK,
)
_WRONG_ADDRESS_CODES = ("InvalidAction", "InvalidApi", "InvalidProduct", "InvalidVersion")


@dataclass(frozen=True, slots=True)
class PaiDialect:
    """How one of PAI's APIs is signed and how its answers are judged (transport.Dialect)."""

    api: str
    version: str
    credentials: Credentials

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt, with a nonce and a date of its own: a repeated nonce is refused."""
        keys = self.credentials.current()
        headers = sign(
            method=call.method,
            path=call.path,
            query=call.query,
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
        # The canonical query itself goes on the wire, so that what was signed is what is sent.
        query = canonical_query(call.query)
        target = f"{call.path}?{query}" if query else call.path
        return SignedRequest(call.method, target, headers, call.body)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for a good answer; else what went wrong, by its code first and its HTTP status second."""
        payload = answer.payload if isinstance(answer.payload, dict) else {}
        if 200 <= answer.status < 300:
            return None
        code = text(payload, "Code") or text(payload, "code")
        facts: dict[str, Any] = {
            "status": answer.status,
            "code": printable(code, 80),
            "request_id": printable(text(payload, "RequestId") or text(payload, "requestId"), 64),
            "retry_after": retry_after(answer.headers),
        }
        message = printable(text(payload, "Message") or text(payload, "message"), 300)
        if code.startswith("Throttling") or answer.status == 429:
            return Throttled(message or "too many requests", **facts)
        if code.startswith(_BAD_CLOCK):
            return AccessDenied(_clock_message(answer.headers), **facts)
        if code.startswith("SignatureDoesNotMatch"):
            # The service's own message quotes the string that it signed; the reason is nearly always this one.
            return AccessDenied("the signature was refused: is the access key secret the right one?", **facts)
        if code.startswith(_ACCESS_CODES) or answer.status in (401, 403):
            return AccessDenied(message or "access denied", **facts)
        if code.startswith(_WRONG_ADDRESS_CODES):
            return RequestRefused(f"{message or 'unknown operation'} (is the endpoint right?)", **facts)
        if answer.status == 404:
            return NotFound(message or "not found", **facts)
        if answer.status >= 500:
            return ServerTrouble(message or "the service failed", **facts)
        if answer.status >= 400:
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


class PaiApi:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, *, dlc: ApiClient, paistudio: ApiClient, aiworkspace: ApiClient) -> None:
        self._dlc = dlc
        self._paistudio = paistudio
        self._aiworkspace = aiworkspace

    async def list_workspaces(self, *, deadline: float) -> Listing:
        """AIWorkSpace ListWorkspaces: those that the identity is a member of, which is not told apart from all."""
        call = Call(operation="ListWorkspaces", path="/api/v1/workspaces")
        return await _whole_list(self._aiworkspace, call, "Workspaces", "WorkspaceId", deadline)

    async def list_jobs(self, query: Mapping[str, str], *, deadline: float) -> Listing:
        """DLC ListJobs, oldest first, all pages. `query` must hold StartTime: without it only 7 days are seen."""
        call = Call(
            operation="ListJobs",
            path="/api/v1/jobs",
            query={**query, "SortBy": "GmtCreateTime", "Order": "asc"},
        )
        return await _whole_list(self._dlc, call, "Jobs", "JobId", deadline)

    async def count_jobs(self, query: Mapping[str, str], *, deadline: float) -> int:
        """DLC ListJobs for its TotalCount alone: one call however many jobs there are."""
        call = Call(operation="ListJobs", path="/api/v1/jobs", query={**query, "PageNumber": "1", "PageSize": "1"})
        total = whole(_object(await self._dlc.call(call, deadline=deadline), call), "TotalCount")
        if total is None:
            raise BadAnswer("the answer has no TotalCount", operation=call.operation)
        return total

    async def list_ecs_specs(self, *, deadline: float) -> Listing:
        """DLC ListEcsSpecs. SortBy is left out: the service refuses every documented value of it."""
        call = Call(operation="ListEcsSpecs", path="/api/v1/ecsspecs", query={"ResourceType": "ECS"})
        return await _whole_list(self._dlc, call, "EcsSpecs", "InstanceType", deadline)

    async def get_job(self, job_id: str, *, deadline: float, priority: Priority = Priority.DETAIL) -> dict[str, Any]:
        """DLC GetJob: one job with its pods."""
        call = Call(operation="GetJob", path=f"/api/v1/jobs/{_segment(job_id)}", priority=priority)
        payload = _object(await self._dlc.call(call, deadline=deadline), call)
        if text(payload, "JobId") != job_id:
            raise BadAnswer("the answer is not about the job that was asked for", operation=call.operation)
        return payload

    async def get_job_metrics(
        self, job_id: str, metric_type: str, *, start: float, end: float, deadline: float
    ) -> dict[str, Any]:
        """DLC GetJobMetrics: one metric of every pod of one job, in one-minute steps. Unix seconds in."""
        call = Call(
            operation="GetJobMetrics",
            path=f"/api/v1/jobs/{_segment(job_id)}/metrics",
            query={
                "MetricType": metric_type,
                "StartTime": iso_time(start),
                "EndTime": iso_time(end),
                "TimeStep": "1m",
            },
            priority=Priority.DETAIL,
            no_data=lambda payload: isinstance(payload, dict) and not payload.get("PodMetrics"),
        )
        return _object(await self._dlc.call(call, deadline=deadline), call)

    async def list_quotas(self, *, deadline: float) -> Listing:
        """PaiStudio ListQuotas, verbose. ResourceType is left out: that answers all types, and naming ACS fails."""
        call = Call(operation="ListQuotas", path="/api/v1/quotas/", query={"Verbose": "true"})
        return await _whole_list(self._paistudio, call, "Quotas", "QuotaId", deadline)


async def _whole_list(client: ApiClient, call: Call, items_key: str, id_key: str, deadline: float) -> Listing:
    async def read_page(number: int) -> Page:
        query = {**call.query, "PageNumber": str(number + 1), "PageSize": str(PAGE_SIZE)}
        payload = _object(await client.call(replace(call, query=query), deadline=deadline), call)
        return Page(whole(payload, "TotalCount"), payload.get(items_key))

    return await read_whole_list(read_page, id_of=lambda row: text(row, id_key), operation=call.operation)


def _object(payload: object, call: Call) -> dict[str, Any]:
    if not isinstance(payload, dict):
        raise BadAnswer("the answer is not a JSON object", operation=call.operation)
    return payload


def _segment(job_id: str) -> str:
    # Ids are opaque and come from the cloud: no slash, and no half of a surrogate pair, may reach the path as it is.
    return quote(job_id, safe="", errors="replace")


def _clock_message(headers: Mapping[str, str]) -> str:
    theirs = headers.get("date", "")
    return f"the clock of this machine is off: here it is {iso_time(time.time())}, there it is {theirs or 'unknown'}"
