"""ModelArts' API as this exporter calls it, paging through lists until they are whole.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.huawei_modelarts.auth import Identity
from trainfleet_exporter.providers.listing import Listing, Page, read_whole_list
from trainfleet_exporter.quantities import iso_time, mapping, text, whole
from trainfleet_exporter.transport import BULK, PAGE, USUAL, ApiClient, BodyLimits, Call, Priority

JOBS_PAGE = 50
V1_PAGE = 1000
_WORKSPACES_PAGE = 1000
_POOL_PAGE = 500
"""Nodes, and workloads, of a pool."""
_MAX_NODE_PAGES = 1000

Filter = tuple[str, str, Sequence[str]]
"""(key, operator, values) of a training-job search."""


class ModelArtsApi:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient, identity: Identity) -> None:
        self._client = client
        self._identity = identity

    async def list_workspaces(self, *, deadline: float) -> Listing[Any]:
        """GET /v1/{project}/workspaces: those that the identity may enter."""

        async def read_page(number: int) -> Page[Any]:
            query = {"offset": str(number), "limit": str(_WORKSPACES_PAGE), "filter_accessible": "true"}
            payload = await self._get("ListWorkspaces", 1, "workspaces", deadline, query=query)
            return Page(whole(payload, "total_count"), payload.get("workspaces"))

        return await read_whole_list(read_page, id_of=lambda row: text(row, "id"), operation="ListWorkspaces")

    async def search_jobs(self, workspace_id: str, filters: Sequence[Filter], *, deadline: float) -> Listing[Any]:
        """POST /v2/{project}/training-job-searches, oldest first, all pages. `offset` is a page's number."""

        async def read_page(number: int) -> Page[Any]:
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

    async def count_created(self, workspace_id: str, start: float, end: float, deadline: float) -> int:
        """How many jobs were created in a workspace from one Unix time to another: 31 days at most."""
        created = ("create_time", "between", (iso_time(start), iso_time(end)))
        return await self.count_jobs(workspace_id, [created], deadline=deadline)

    async def task_metrics(self, job_id: str, task: str, *, deadline: float) -> dict[str, Any]:
        """GET .../training-jobs/{id}/metrics/{task}: the whole history of one task. Empty before it runs (204)."""
        path = f"training-jobs/{_segment(job_id)}/metrics/{_segment(task)}"
        return await self._get(
            "ShowTrainingJobMetrics", 2, path, deadline, priority=Priority.DETAIL, may_be_empty=True, limits=BULK
        )

    async def list_pools(self, workspace_id: str, *, deadline: float) -> list[Any]:
        """GET /v2/{project}/pools?status=created: no paging."""
        query = {"workspaceId": workspace_id, "status": "created"}
        return _items(await self._get("ListPools", 2, "pools", deadline, query=query, limits=PAGE), "ListPools")

    async def pool_runtime_metrics(self, *, deadline: float) -> list[Any]:
        """GET /v2/{project}/metrics/runtime/pools: what every pool of the project has and has given out."""
        payload = await self._get("ShowPoolRuntimeMetrics", 2, "metrics/runtime/pools", deadline, limits=PAGE)
        return _items(payload, "ShowPoolRuntimeMetrics")

    async def workload_statistics(self, pool_id: str, *, deadline: float) -> dict[str, Any]:
        """GET /v2/{project}/statistics/pools/{pool}/workloads."""
        path = f"statistics/pools/{_segment(pool_id)}/workloads"
        return await self._get("ShowWorkloadStatistics", 2, path, deadline)

    async def queued_workloads(self, pool_id: str, *, deadline: float) -> Listing[Any]:
        """GET /v2/{project}/pools/{pool}/workloads?status=Queue, oldest first, all pages. `offset` counts records.

        Whether `total` is there is contradicted: without it, a page that is full is not the last.
        """
        path = f"pools/{_segment(pool_id)}/workloads"

        async def read_page(number: int) -> Page[Any]:
            offset = number * _POOL_PAGE
            query = {"status": "Queue", "sort": "create_time", "ascend": "true"}
            query |= {"offset": str(offset), "limit": str(_POOL_PAGE)}
            payload = await self._get("ListWorkloads", 2, path, deadline, query=query, limits=PAGE)
            rows = _items(payload, "ListWorkloads")
            total = whole(payload, "total")
            known = offset + len(rows) + (len(rows) >= _POOL_PAGE)
            return Page(known if total is None else total, rows)

        def id_of(row: Mapping[str, Any]) -> str:
            return text(row, "uid") or text(row, "name") or text(row, "jobUUID")

        return await read_whole_list(read_page, id_of=id_of, operation="ListWorkloads")

    async def pool_monitor(self, pool_id: str, *, minutes: int, deadline: float) -> dict[str, Any]:
        """GET /v2/{project}/pools/{pool}/monitor: one-minute means of the last few minutes, as the server's clock has
        them. Without `statistics` they would be maxima."""
        path = f"pools/{_segment(pool_id)}/monitor"
        query = {"time_range": f"-1.-1.{minutes}", "statistics": "average", "period": "60"}
        return await self._get("ShowPoolMonitor", 2, path, deadline, query=query)

    async def list_nodes(self, pool_id: str, *, deadline: float) -> list[Any]:
        """GET /v2/{project}/pools/{pool}/nodes, page by page by the token that each answer has for the next."""
        path = f"pools/{_segment(pool_id)}/nodes"
        rows: list[Any] = []
        token, seen = "", {""}
        for _ in range(_MAX_NODE_PAGES):
            query = {"limit": str(_POOL_PAGE), **({"continue": token} if token else {})}
            payload = await self._get("ListPoolNodes", 2, path, deadline, query=query, limits=PAGE)
            rows += _items(payload, "ListPoolNodes")
            token = text(mapping(payload, "metadata"), "continue")
            del payload  # before the next call
            if not token:
                return rows
            if token in seen:
                raise BadAnswer("the same page came twice", operation="ListPoolNodes")
            seen.add(token)
        raise BadAnswer("the list does not end", operation="ListPoolNodes")

    async def training_quotas(self, *, deadline: float) -> dict[str, Any]:
        """GET /v2/{project}/training-quotas?resource=job-num."""
        query = {"resource": "job-num"}
        return await self._get("ShowTrainingQuotas", 2, "training-quotas", deadline, query=query)

    async def list_jobs_v1(self, workspace_id: str, *, deadline: float) -> Listing[Any]:
        """GET /v1/{project}/training-jobs, all pages (counted from 1)."""

        async def read_page(number: int) -> Page[Any]:
            query = {"per_page": str(V1_PAGE), "page": str(number + 1), "workspace_id": workspace_id, "order": "asc"}
            payload = await self._get("ListTrainingJobsV1", 1, "training-jobs", deadline, query=query, limits=PAGE)
            return Page(whole(payload, "job_total_count"), payload.get("jobs"))

        return await read_whole_list(read_page, id_of=lambda row: text(row, "job_id"), operation="ListTrainingJobsV1")

    async def list_versions_v1(self, job_id: str, *, deadline: float) -> dict[str, Any]:
        """GET /v1/{project}/training-jobs/{id}/versions; without a page, all of them."""
        path = f"training-jobs/{_segment(job_id)}/versions"
        return await self._get("ListTrainingJobVersions", 1, path, deadline, priority=Priority.DETAIL, limits=BULK)

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
            "ShowPodMetricStatistic",
            1,
            path,
            deadline,
            query=query,
            priority=Priority.DETAIL,
            may_be_empty=True,
            limits=BULK,
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
        call = Call(operation="ListTrainingJobs", path="", method="POST", body=json.dumps(body).encode(), limits=PAGE)
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
        limits: BodyLimits = USUAL,
    ) -> dict[str, Any]:
        call = Call(
            operation=operation,
            path="",
            query=query or {},
            priority=priority,
            may_be_empty=may_be_empty,
            limits=limits,
        )
        return await self._call(call, version, path, deadline)

    async def _call(self, call: Call, version: int, path: str, deadline: float) -> dict[str, Any]:
        """One call in the project."""
        project = await self._identity.project(deadline)
        payload = await self._client.call(call.at(f"/v{version}/{_segment(project)}/{path}"), deadline=deadline)
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
