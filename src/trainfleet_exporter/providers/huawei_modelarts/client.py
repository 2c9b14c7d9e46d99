"""ModelArts' API as this exporter calls it, paging through lists until they are whole.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.api import Identity
from trainfleet_exporter.providers.huawei_modelarts.translate_v1 import id_text
from trainfleet_exporter.providers.jobs.listing import Listing, Page, read_whole_list
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import BULK, PAGE, USUAL, ApiClient, BodyLimits, Call

JOBS_PAGE = 50
V1_PAGE = 1000
_WORKSPACES_PAGE = 1000
_POOL_PAGE = 500
"""Nodes, and workloads, of a pool."""
_MAX_NODE_PAGES = 1000
_EVENTS, _EVENTS_PAGE = "ListScheduledEvents", 100

Filter = tuple[str, str, Sequence[str]]
"""(key, operator, values) of a training-job search."""
T = TypeVar("T")


class ModelArtsClient:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient, identity: Identity) -> None:
        self._client = client
        self._identity = identity

    async def list_workspaces(self, deadline: float) -> Listing[payloads.Workspace]:
        """GET /v1/{project}/workspaces: those that the identity may enter."""

        async def read_page(number: int) -> Page[payloads.Workspace]:
            query = {"offset": str(number), "limit": str(_WORKSPACES_PAGE), "filter_accessible": "true"}
            page = await self._get("ListWorkspaces", 1, "workspaces", payloads.WorkspacesPage, deadline, query=query)
            return Page(whole(page.total_count), page.workspaces)

        return await read_whole_list(read_page, id_of=lambda row: row.id or "", operation="ListWorkspaces")

    async def search_jobs(
        self, workspace_id: str, filters: Sequence[Filter], *, deadline: float
    ) -> Listing[payloads.Job]:
        """POST /v2/{project}/training-job-searches, oldest first, all pages. `offset` is a page's number."""

        async def read_page(number: int) -> Page[payloads.Job]:
            page = await self._search(workspace_id, filters, offset=number, limit=JOBS_PAGE, deadline=deadline)
            return Page(whole(page.total), page.items)

        def id_of(row: payloads.Job) -> str:
            return (row.metadata and row.metadata.id) or ""

        return await read_whole_list(read_page, id_of=id_of, operation="ListTrainingJobs")

    async def count_jobs(self, workspace_id: str, filters: Sequence[Filter], *, deadline: float) -> int:
        """The `total` of a search: one call however many jobs there are."""
        total = whole((await self._search(workspace_id, filters, offset=0, limit=1, deadline=deadline)).total)
        if total is None:
            raise BadAnswer("the answer has no total", operation="ListTrainingJobs")
        return total

    async def task_metrics(self, job_id: str, task: str, *, deadline: float) -> payloads.Metrics:
        """GET .../training-jobs/{id}/metrics/{task}: the whole history of one task. Empty before it runs (204)."""
        path = f"training-jobs/{_segment(job_id)}/metrics/{_segment(task)}"
        return await self._get(
            "ShowTrainingJobMetrics",
            2,
            path,
            payloads.Metrics,
            deadline,
            may_be_empty=True,
            limits=BULK,
        )

    async def list_pools(self, workspace_id: str, *, deadline: float) -> list[payloads.Pool | None]:
        """GET /v2/{project}/pools?status=created: no paging."""
        query = {"workspaceId": workspace_id, "status": "created"}
        answer = await self._get("ListPools", 2, "pools", payloads.Pools, deadline, query=query, limits=PAGE)
        return _rows(answer.items, "ListPools")

    async def pool_runtime_metrics(self, *, deadline: float) -> list[payloads.PoolRuntimeMetrics | None]:
        """GET /v2/{project}/metrics/runtime/pools: what every pool of the project has and has given out."""
        path = "metrics/runtime/pools"
        answer = await self._get("ShowPoolRuntimeMetrics", 2, path, payloads.PoolsRuntimeMetrics, deadline, limits=PAGE)
        return _rows(answer.items, "ShowPoolRuntimeMetrics")

    async def workload_statistics(self, pool_id: str, *, deadline: float) -> payloads.WorkloadStatisticsAnswer:
        """GET /v2/{project}/statistics/pools/{pool}/workloads."""
        path = f"statistics/pools/{_segment(pool_id)}/workloads"
        return await self._get("ShowWorkloadStatistics", 2, path, payloads.WorkloadStatisticsAnswer, deadline)

    async def queued_workloads(self, pool_id: str, *, deadline: float) -> Listing[payloads.Workload]:
        """GET /v2/{project}/pools/{pool}/workloads?status=Queue, oldest first, all pages."""
        return await self._workloads(pool_id, "Queue", deadline)

    async def running_workloads(self, pool_id: str, *, deadline: float) -> Listing[payloads.Workload]:
        """GET /v2/{project}/pools/{pool}/workloads?status=Running, oldest first, all pages."""
        return await self._workloads(pool_id, "Running", deadline)

    async def _workloads(self, pool_id: str, status: str, deadline: float) -> Listing[payloads.Workload]:
        """`offset` counts records. Whether `total` is there is contradicted.

        Without it, a page that is full is not the last.
        """
        path = f"pools/{_segment(pool_id)}/workloads"

        async def read_page(number: int) -> Page[payloads.Workload]:
            offset = number * _POOL_PAGE
            query = {"status": status, "sort": "create_time", "ascend": "true"}
            query |= {"offset": str(offset), "limit": str(_POOL_PAGE)}
            page = await self._get("ListWorkloads", 2, path, payloads.WorkloadsPage, deadline, query=query, limits=PAGE)
            rows = _rows(page.items, "ListWorkloads")
            total = whole(page.total)
            known = offset + len(rows) + (len(rows) >= _POOL_PAGE)
            return Page(known if total is None else total, rows)

        def id_of(row: payloads.Workload) -> str:
            return row.uid or row.name or row.job_uuid or ""

        return await read_whole_list(read_page, id_of=id_of, operation="ListWorkloads")

    async def pool_monitor(self, pool_id: str, *, minutes: int, deadline: float) -> payloads.PoolMonitor:
        """GET /v2/{project}/pools/{pool}/monitor: one-minute means of the last few minutes, as the server's clock has
        them. Without `statistics` they would be maxima."""
        path = f"pools/{_segment(pool_id)}/monitor"
        query = {"time_range": f"-1.-1.{minutes}", "statistics": "average", "period": "60"}
        return await self._get("ShowPoolMonitor", 2, path, payloads.PoolMonitor, deadline, query=query)

    async def list_nodes(self, pool_id: str, *, deadline: float) -> list[payloads.Node | None]:
        """GET /v2/{project}/pools/{pool}/nodes, page by page by the token that each answer has for the next."""
        path = f"pools/{_segment(pool_id)}/nodes"
        rows: list[payloads.Node | None] = []
        token, seen = "", {""}
        for _ in range(_MAX_NODE_PAGES):
            query = {"limit": str(_POOL_PAGE), **({"continue": token} if token else {})}
            page = await self._get("ListPoolNodes", 2, path, payloads.NodesPage, deadline, query=query, limits=PAGE)
            rows += _rows(page.items, "ListPoolNodes")
            token = (page.metadata and page.metadata.next_page) or ""
            del page  # before the next call
            if not token:
                return rows
            if token in seen:
                raise BadAnswer("the same page came twice", operation="ListPoolNodes")
            seen.add(token)
        raise BadAnswer("the list does not end", operation="ListPoolNodes")

    async def list_scheduled_events(self, workspace_id: str, *, deadline: float) -> Listing[payloads.ScheduledEvent]:
        """GET /v1/{project}/scheduled-events: all pages, ended events included. `offset` counts records."""

        async def read_page(offset: int) -> Page[payloads.ScheduledEvent]:
            query = {"workspaceId": workspace_id, "offset": str(offset), "limit": str(_EVENTS_PAGE)}
            into = payloads.ScheduledEventsPage
            page = await self._get(_EVENTS, 1, "scheduled-events", into, deadline, query=query, limits=PAGE)
            return Page(whole(page.count), page.events)

        return await read_whole_list(read_page, id_of=lambda row: row.id or "", operation=_EVENTS, by_offset=True)

    async def training_quotas(self, *, deadline: float) -> payloads.TrainingQuotas:
        """GET /v2/{project}/training-quotas?resource=job-num."""
        query = {"resource": "job-num"}
        path = "training-quotas"
        return await self._get("ShowTrainingQuotas", 2, path, payloads.TrainingQuotas, deadline, query=query)

    async def list_jobs_v1(self, workspace_id: str, *, deadline: float) -> Listing[payloads.JobV1]:
        """GET /v1/{project}/training-jobs, all pages (counted from 1)."""

        async def read_page(number: int) -> Page[payloads.JobV1]:
            query = {"per_page": str(V1_PAGE), "page": str(number + 1), "workspace_id": workspace_id, "order": "asc"}
            path = "training-jobs"
            page = await self._get(
                "ListTrainingJobsV1", 1, path, payloads.JobsPageV1, deadline, query=query, limits=PAGE
            )
            return Page(whole(page.job_total_count), page.jobs)

        return await read_whole_list(read_page, id_of=lambda row: id_text(row.job_id), operation="ListTrainingJobsV1")

    async def list_versions_v1(self, job_id: str, *, deadline: float) -> payloads.VersionsV1:
        """GET /v1/{project}/training-jobs/{id}/versions; without a page, all of them."""
        path = f"training-jobs/{_segment(job_id)}/versions"
        return await self._get("ListTrainingJobVersions", 1, path, payloads.VersionsV1, deadline, limits=BULK)

    async def log_file_names_v1(self, job_id: str, version_id: str, *, deadline: float) -> payloads.LogFileNames:
        """GET .../versions/{version}/log/file-names: the names of a version's pods."""
        path = f"training-jobs/{_segment(job_id)}/versions/{_segment(version_id)}/log/file-names"
        return await self._get("ListLogFileNames", 1, path, payloads.LogFileNames, deadline)

    async def pod_metrics_v1(
        self, job_id: str, version_id: str, pod: str, *, each: bool, deadline: float
    ) -> payloads.Metrics:
        """GET .../pod/{pod}/metric-statistic: of the pod, or of each of its cards."""
        path = f"training-jobs/{_segment(job_id)}/versions/{_segment(version_id)}/pod/{_segment(pod)}/metric-statistic"
        query = {"statistic_type": "each" if each else "all"}
        return await self._get(
            "ShowPodMetricStatistic",
            1,
            path,
            payloads.Metrics,
            deadline,
            query=query,
            may_be_empty=True,
            limits=BULK,
        )

    async def _search(
        self, workspace_id: str, filters: Sequence[Filter], *, offset: int, limit: int, deadline: float
    ) -> payloads.JobsPage:
        body = {
            "offset": offset,
            "limit": limit,
            "sort_by": "create_time",
            "order": "asc",
            "workspace_id": workspace_id,
            "filters": [{"key": key, "operator": how, "value": list(values)} for key, how, values in filters],
        }
        call = Call(operation="ListTrainingJobs", path="", method="POST", body=json.dumps(body).encode(), limits=PAGE)
        return await self._call(call, 2, "training-job-searches", payloads.JobsPage, deadline)

    async def _get(
        self,
        operation: str,
        version: int,
        path: str,
        into: type[T],
        deadline: float,
        *,
        query: Mapping[str, str] | None = None,
        may_be_empty: bool = False,
        limits: BodyLimits = USUAL,
    ) -> T:
        call = Call(
            operation=operation,
            path="",
            query=query or {},
            may_be_empty=may_be_empty,
            limits=limits,
        )
        return await self._call(call, version, path, into, deadline)

    async def _call(self, call: Call, version: int, path: str, into: type[T], deadline: float) -> T:
        """One call in the project."""
        project = await self._identity.project(deadline)
        return await self._client.call(call.at(f"/v{version}/{_segment(project)}/{path}"), into, deadline=deadline)


def _rows(items: list[T] | msgspec.UnsetType | None, operation: str) -> list[T]:
    if isinstance(items, msgspec.UnsetType):
        raise BadAnswer("the answer has no items", operation=operation)
    return items or []  # null is a list without entries, as Go writes it


def _segment(value: str) -> str:
    return quote(value, safe="", errors="replace")
