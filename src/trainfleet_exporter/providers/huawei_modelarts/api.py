"""ModelArts' and IAM's APIs as this exporter calls them: authenticating, judging answers, paging until lists are whole.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from trainfleet_exporter.providers.huawei_modelarts.auth import Identity
from trainfleet_exporter.providers.huawei_modelarts.signing import canonical_query
from trainfleet_exporter.providers.listing import Listing, Page, read_whole_list
from trainfleet_exporter.quantities import iso_time, mapping, number, printable, text, whole
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, Priority, SignedRequest

JOBS_PAGE = 50
V1_PAGE = 1000
_WORKSPACES_PAGE = 1000
_JOB_NOT_FOUND = "ModelArts.2775"
_TOKEN_REFUSED = (".0307", "ModelArts.0203", "ModelArts.2784")

Filter = tuple[str, str, Sequence[str]]
"""(key, operator, values) of a training-job search."""


@dataclass(frozen=True, slots=True)
class HuaweiDialect:
    """How one of Huawei Cloud's APIs is authenticated and how its answers are judged (transport.Dialect)."""

    api: str
    identity: Identity

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Authenticate one attempt. IAM's token call carries its password in the body and needs no more."""
        content_type = "application/json" if call.body else None
        if call.path == "/v3/auth/tokens":
            headers = {"host": host, "content-type": "application/json"}
        else:
            headers = self.identity.headers(call, host, content_type=content_type)
        # The canonical query itself goes on the wire, so that what was signed is what is sent.
        query = canonical_query(call.query)
        return SignedRequest(call.method, f"{call.path}?{query}" if query else call.path, headers, call.body)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
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
            return Throttled(message or "too many requests", **facts)
        about_time = "timestamp" in message.lower() or "x-sdk-date" in message.lower()
        if answer.status in (401, 403) and about_time:
            here, there = iso_time(time.time()), printable(answer.headers.get("date", ""), 40) or "unknown"
            return AccessDenied(f"the clock of this machine is off: here it is {here}, there it is {there}", **facts)
        if answer.status in (401, 403):
            return AccessDenied(message or "access denied", **facts)
        if code == _JOB_NOT_FOUND or (answer.status == 404 and code.startswith("ModelArts.")):
            return NotFound(message or "not found", **facts)
        if answer.status == 404:
            return RequestRefused(f"{message or 'unknown operation'} (is it served in this region?)", **facts)
        if answer.status >= 500:
            return ServerTrouble(message or "the service failed", **facts)
        return RequestRefused(message or "the request was refused", **facts) if answer.status >= 400 else None


class ModelArtsApi:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient, identity: Identity) -> None:
        self._client = client
        self._identity = identity

    async def list_workspaces(self, *, deadline: float) -> Listing:
        """GET /v1/{project}/workspaces: those that the identity may enter."""

        async def read_page(number: int) -> Page:
            query = {"offset": str(number), "limit": str(_WORKSPACES_PAGE), "filter_accessible": "true"}
            payload = await self._get("ListWorkspaces", 1, "workspaces", deadline, query=query)
            return Page(whole(payload, "total_count"), payload.get("workspaces"))

        return await read_whole_list(read_page, id_of=lambda row: text(row, "id"), operation="ListWorkspaces")

    async def search_jobs(self, workspace_id: str, filters: Sequence[Filter], *, deadline: float) -> Listing:
        """POST /v2/{project}/training-job-searches, oldest first, all pages. `offset` is a page's number."""

        async def read_page(number: int) -> Page:
            payload = await self._search(workspace_id, filters, offset=number, limit=JOBS_PAGE, deadline=deadline)
            return Page(whole(payload, "total"), payload.get("items"))

        return await read_whole_list(
            read_page, id_of=lambda row: text(mapping(row, "metadata"), "id"), operation="ListTrainingJobs"
        )

    async def count_jobs(self, workspace_id: str, filters: Sequence[Filter], *, deadline: float) -> int:
        """The `total` of a search: one call however many jobs there are."""
        total = whole(await self._search(workspace_id, filters, offset=0, limit=1, deadline=deadline), "total")
        if total is None:
            raise BadAnswer("the answer has no total", operation="ListTrainingJobs")
        return total

    async def task_metrics(self, job_id: str, task: str, *, deadline: float) -> dict[str, Any]:
        """GET .../training-jobs/{id}/metrics/{task}: the whole history of one task. Empty before it runs (204)."""
        path = f"training-jobs/{_segment(job_id)}/metrics/{_segment(task)}"
        return await self._get("ShowTrainingJobMetrics", 2, path, deadline, priority=Priority.DETAIL, may_be_empty=True)

    async def list_pools(self, workspace_id: str, *, deadline: float) -> list[Any]:
        """GET /v2/{project}/pools?status=created: no paging."""
        query = {"workspaceId": workspace_id, "status": "created"}
        return _items(await self._get("ListPools", 2, "pools", deadline, query=query), "ListPools")

    async def pool_runtime_metrics(self, *, deadline: float) -> list[Any]:
        """GET /v2/{project}/metrics/runtime/pools: what every pool of the project has and has given out."""
        payload = await self._get("ShowPoolRuntimeMetrics", 2, "metrics/runtime/pools", deadline)
        return _items(payload, "ShowPoolRuntimeMetrics")

    async def workload_statistics(self, pool_id: str, *, deadline: float) -> dict[str, Any]:
        """GET /v2/{project}/statistics/pools/{pool}/workloads."""
        path = f"statistics/pools/{_segment(pool_id)}/workloads"
        return await self._get("ShowWorkloadStatistics", 2, path, deadline)

    async def list_jobs_v1(self, workspace_id: str, *, deadline: float) -> Listing:
        """GET /v1/{project}/training-jobs, all pages (counted from 1)."""

        async def read_page(number: int) -> Page:
            query = {"per_page": str(V1_PAGE), "page": str(number + 1), "workspace_id": workspace_id, "order": "asc"}
            payload = await self._get("ListTrainingJobsV1", 1, "training-jobs", deadline, query=query)
            return Page(whole(payload, "job_total_count"), payload.get("jobs"))

        return await read_whole_list(read_page, id_of=lambda row: text(row, "job_id"), operation="ListTrainingJobsV1")

    async def list_versions_v1(self, job_id: str, *, deadline: float) -> dict[str, Any]:
        """GET /v1/{project}/training-jobs/{id}/versions; without a page, all of them."""
        path = f"training-jobs/{_segment(job_id)}/versions"
        return await self._get("ListTrainingJobVersions", 1, path, deadline, priority=Priority.DETAIL)

    async def log_file_names_v1(self, job_id: str, version_id: str, *, deadline: float) -> dict[str, Any]:
        """GET .../versions/{version}/log/file-names: the names of a version's pods."""
        path = f"training-jobs/{_segment(job_id)}/versions/{_segment(version_id)}/log/file-names"
        return await self._get("ListLogFileNames", 1, path, deadline, priority=Priority.DETAIL)

    async def pod_metrics_v1(
        self, job_id: str, version_id: str, pod: str, *, each: bool, deadline: float
    ) -> dict[str, Any]:
        """GET .../pod/{pod}/metric-statistic: of the pod, or of each of its cards."""
        path = f"training-jobs/{_segment(job_id)}/versions/{_segment(version_id)}/pod/{_segment(pod)}/metric-statistic"
        query = {"statistic_type": "each" if each else "all"}
        return await self._get(
            "ShowPodMetricStatistic", 1, path, deadline, query=query, priority=Priority.DETAIL, may_be_empty=True
        )

    async def _search(
        self, workspace_id: str, filters: Sequence[Filter], *, offset: int, limit: int, deadline: float
    ) -> dict[str, Any]:
        body = {
            "offset": offset,
            "limit": limit,
            "sort_by": "create_time",
            "order": "asc",
            "workspace_id": workspace_id,
            "filters": [{"key": key, "operator": how, "value": list(values)} for key, how, values in filters],
        }
        call = Call(operation="ListTrainingJobs", path="", method="POST", body=json.dumps(body).encode())
        return await self._call(call, 2, "training-job-searches", deadline)

    async def _get(
        self,
        operation: str,
        version: int,
        path: str,
        deadline: float,
        *,
        query: Mapping[str, str] | None = None,
        priority: Priority = Priority.SWEEP,
        may_be_empty: bool = False,
    ) -> dict[str, Any]:
        call = Call(operation=operation, path="", query=query or {}, priority=priority, may_be_empty=may_be_empty)
        return await self._call(call, version, path, deadline)

    async def _call(self, call: Call, version: int, path: str, deadline: float) -> dict[str, Any]:
        """One call in the project; with a token that the gateway no longer takes, once more with a new one."""
        project = await self._identity.prepare(deadline)
        whole_call = call.at(f"/v{version}/{_segment(project)}/{path}")
        token = self._identity.token
        try:
            payload = await self._client.call(whole_call, deadline=deadline)
        except AccessDenied as error:
            refused = error.status == 401 or error.code.endswith(_TOKEN_REFUSED)
            if not refused or not self._identity.reject(token):
                raise
            await self._identity.prepare(deadline)
            payload = await self._client.call(whole_call, deadline=deadline)
        if payload is None and call.may_be_empty:
            return {}
        if not isinstance(payload, dict):
            raise BadAnswer("the answer is not a JSON object", operation=call.operation)
        return payload


def _items(payload: Mapping[str, Any], operation: str) -> list[Any]:
    items = payload.get("items", "")
    if items is None:  # a list without entries, as Go writes it
        return []
    if not isinstance(items, list):
        raise BadAnswer("the answer has no items", operation=operation)
    return items


def _segment(value: str) -> str:
    return quote(value, safe="", errors="replace")


def _told(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Code and message of an error body, in any of the forms that ModelArts, the gateway and IAM have for it."""
    inner = mapping(payload, "error")
    code = text(payload, "error_code") or text(payload, "errorCode") or text(payload, "code") or text(inner, "code")
    message = ""
    for fields in (payload, inner):
        for key in ("error_msg", "error_message", "errorMsg", "message"):
            message = message or text(fields, key)
    return printable(code, 80), printable(message, 300)
