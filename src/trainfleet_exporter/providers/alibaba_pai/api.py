"""PAI's APIs as this exporter calls them, paging through lists until they are whole."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.alibaba_pai.catalogue import DLC, Metric
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import POINTS, point_pages
from trainfleet_exporter.providers.alibaba_pai.translate_pools import ENQUEUED
from trainfleet_exporter.providers.listing import Listing, Page, Row, as_it_is, read_whole_list
from trainfleet_exporter.quantities import iso_time, text, whole
from trainfleet_exporter.transport import BULK, PAGE, ApiClient, BodyLimits, Call, Decode, Priority

PAGE_SIZE = 100
"""The largest page that is known to work on every list here; the documentation names no maximum."""


class PaiApi:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, *, dlc: ApiClient, paistudio: ApiClient, aiworkspace: ApiClient) -> None:
        self._dlc = dlc
        self._paistudio = paistudio
        self._aiworkspace = aiworkspace

    async def list_workspaces(self, *, deadline: float) -> Listing[Any]:
        """AIWorkSpace ListWorkspaces: those that the identity is a member of, which is not told apart from all."""
        call = Call(operation="ListWorkspaces", path="/api/v1/workspaces")
        return await _whole_list(self._aiworkspace, call, "Workspaces", "WorkspaceId", deadline)

    async def list_jobs(
        self,
        query: Mapping[str, str],
        *,
        deadline: float,
        keep: Callable[[Row], object] = as_it_is,
        decode: Decode | None = None,
        breaker: str = "",
    ) -> Listing[Any]:
        """DLC ListJobs, oldest first, all pages. `query` must hold StartTime: without it only 7 days are seen.

        `keep` makes of each row what the listing has of it; `decode` (Call.decode) may have taken some already.

        `breaker` as in Call.
        """
        call = Call(
            operation="ListJobs",
            path="/api/v1/jobs",
            query={**query, "SortBy": "GmtCreateTime", "Order": "asc"},
            decode=decode,
            limits=PAGE,
            breaker=breaker,
        )
        return await _whole_list(self._dlc, call, "Jobs", "JobId", deadline, keep=keep)

    async def count_jobs(self, query: Mapping[str, str], *, deadline: float) -> int:
        """DLC ListJobs for its TotalCount alone: one call however many jobs there are."""
        return await _total(self._dlc, Call(operation="ListJobs", path="/api/v1/jobs", query=query), deadline)

    async def count_created(self, workspace_id: str, start: float, end: float, deadline: float) -> int:
        """How many jobs were created in a workspace from one Unix time to another, whatever became of them."""
        query = {"WorkspaceId": workspace_id, "StartTime": iso_time(start), "EndTime": iso_time(end)}
        return await self.count_jobs(query, deadline=deadline)

    async def list_ecs_specs(self, *, deadline: float) -> Listing[Any]:
        """DLC ListEcsSpecs. SortBy is left out: the service refuses every documented value of it."""
        call = Call(operation="ListEcsSpecs", path="/api/v1/ecsspecs", query={"ResourceType": "ECS"})
        return await _whole_list(self._dlc, call, "EcsSpecs", "InstanceType", deadline)

    async def get_job(
        self,
        job_id: str,
        *,
        deadline: float,
        priority: Priority = Priority.DETAIL,
        decode: Decode | None = None,
    ) -> dict[str, Any]:
        """DLC GetJob: one job with its pods. `decode` as in Call."""
        call = Call(operation="GetJob", path=f"/api/v1/jobs/{_segment(job_id)}", priority=priority, decode=decode)
        payload = _object(await self._dlc.call(call, deadline=deadline), call)
        if text(payload, "JobId") != job_id:
            raise BadAnswer("the answer is not about the job that was asked for", operation=call.operation)
        return payload

    async def get_job_metrics(
        self,
        job_id: str,
        metric_type: str,
        *,
        start: float,
        end: float,
        deadline: float,
        limits: BodyLimits = BULK,
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
            limits=limits,
        )
        return _object(await self._dlc.call(call, deadline=deadline), call)

    async def get_metrics(
        self, job_id: str, metric: Metric, *, start: float, end: float, deadline: float, period: int | None = None
    ) -> AsyncIterator[Sequence[object]]:
        """DLC GetMetrics: CloudMonitor's points of one metric of one job, page by page. Unix seconds in; `period` is
        the time between two points, the metric's own unless told.

        The job is named twice, because the documentation does not say which of the two counts.
        """
        query = {
            "Namespace": DLC,
            "MetricName": metric.name,
            "JobId": job_id,
            "Dimensions": json.dumps([{"jobId": job_id}], separators=(",", ":")),
            "StartTime": iso_time(start),
            "EndTime": iso_time(end),
            "Period": str(period or metric.period or 60),
            "Length": str(POINTS),
        }
        call = Call(operation="GetMetrics", path="/api/v1/cms/metrics", query=query, priority=Priority.DETAIL)
        async for points in point_pages(self._dlc, call, "DataPoints", deadline=deadline):
            yield points

    async def list_quotas(self, *, deadline: float) -> Listing[Any]:
        """PaiStudio ListQuotas, verbose. ResourceType is left out: that answers all types, and naming ACS fails."""
        call = Call(operation="ListQuotas", path="/api/v1/quotas/", query={"Verbose": "true"})
        return await _whole_list(self._paistudio, call, "Quotas", "QuotaId", deadline)

    async def list_queue(self, quota_id: str, *, deadline: float) -> Listing[Any]:
        """PaiStudio ListQuotaWorkloads: what waits in the queue of a quota and of its descendants, all products."""
        call = _workloads(quota_id, {"Status": ENQUEUED})
        return await _whole_list(self._paistudio, call, "Workloads", "WorkloadId", deadline)

    async def count_running(self, quota_id: str, workload_type: str, *, deadline: float) -> int:
        """PaiStudio ListQuotaWorkloads for its TotalCount alone: how much of one type runs in a quota."""
        call = _workloads(quota_id, {"WorkloadType": workload_type, "WorkloadStatuses": "Running"})
        return await _total(self._paistudio, call, deadline)

    async def list_nodes(self, quota_id: str, *, deadline: float) -> Listing[Any]:
        """PaiStudio ListNodes of one quota, verbose: only so does it tell what is requested of a node."""
        call = Call(operation="ListNodes", path="/api/v1/nodes", query={"QuotaId": quota_id, "Verbose": "true"})
        return await _whole_list(self._paistudio, call, "Nodes", "NodeName", deadline)


def _workloads(quota_id: str, query: Mapping[str, str]) -> Call:
    return Call(operation="ListQuotaWorkloads", path=f"/api/v1/quotas/{_segment(quota_id)}/workloads", query=query)


async def _total(client: ApiClient, call: Call, deadline: float) -> int:
    """The TotalCount of a list: one call however long it is."""
    call = replace(call, query={**call.query, "PageNumber": "1", "PageSize": "1"})
    total = whole(_object(await client.call(call, deadline=deadline), call), "TotalCount")
    if total is None:
        raise BadAnswer("the answer has no TotalCount", operation=call.operation)
    return total


async def _whole_list(
    client: ApiClient,
    call: Call,
    items_key: str,
    id_key: str,
    deadline: float,
    *,
    keep: Callable[[Row], object] = as_it_is,
) -> Listing[Any]:
    async def read_page(number: int) -> Page[Any]:
        query = {**call.query, "PageNumber": str(number + 1), "PageSize": str(PAGE_SIZE)}
        payload = _object(await client.call(replace(call, query=query), deadline=deadline), call)
        return Page(whole(payload, "TotalCount"), payload.get(items_key))

    return await read_whole_list(read_page, id_of=lambda row: text(row, id_key), operation=call.operation, keep=keep)


def _object(payload: object, call: Call) -> dict[str, Any]:
    if not isinstance(payload, dict):
        raise BadAnswer("the answer is not a JSON object", operation=call.operation)
    return payload


def _segment(any_id: str) -> str:
    # Ids are opaque and come from the cloud: no slash, and no half of a surrogate pair, may reach the path as it is.
    return quote(any_id, safe="", errors="replace")
