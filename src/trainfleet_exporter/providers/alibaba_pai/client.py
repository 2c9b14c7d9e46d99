"""PAI's APIs as this exporter calls them, paging through lists until they are whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Protocol, TypeVar
from urllib.parse import quote

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai.translate_pools import ENQUEUED
from trainfleet_exporter.providers.jobs.listing import Listing, Page, read_whole_list
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import BULK, PAGE, ApiClient, BodyLimits, Call
from trainfleet_exporter.transport.json_fields import iso_time

PAGE_SIZE = 100
"""The largest page that is known to work on every list here; the documentation names no maximum."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Page(Protocol[T_co]):
    """A page of a list as it is answered."""

    @property
    def total_count(self) -> float | None: ...
    @property
    def rows(self) -> Sequence[T_co | None] | None: ...


class _OfJob(Protocol):
    """An answer about one job."""

    @property
    def job_id(self) -> str | None: ...


J = TypeVar("J", bound=_OfJob)


class PaiClient:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, *, dlc: ApiClient, paistudio: ApiClient, aiworkspace: ApiClient) -> None:
        self._dlc = dlc
        self._paistudio = paistudio
        self._aiworkspace = aiworkspace

    async def list_workspaces(self, deadline: float) -> Listing[payloads.Workspace]:
        """AIWorkSpace ListWorkspaces: those that the identity is a member of. Others are silently left out."""
        call = Call(operation="ListWorkspaces", path="/api/v1/workspaces")
        return await _whole_list(self._aiworkspace, call, payloads.WorkspacesPage, attrgetter("workspace_id"), deadline)

    async def list_jobs(self, query: Mapping[str, str], *, deadline: float, kind: str = "") -> Listing[payloads.Job]:
        """DLC ListJobs, oldest first, all pages. `query` must hold StartTime: without it only 7 days are seen.

        `kind` as in Call.
        """
        call = Call(
            operation="ListJobs",
            path="/api/v1/jobs",
            query={**query, "SortBy": "GmtCreateTime", "Order": "asc"},
            limits=PAGE,
            kind=kind,
        )
        return await _whole_list(self._dlc, call, payloads.JobsPage, attrgetter("job_id"), deadline)

    async def count_jobs(self, query: Mapping[str, str], *, deadline: float) -> int:
        """DLC ListJobs for its TotalCount alone: one call however many jobs there are."""
        return await _total(self._dlc, Call(operation="ListJobs", path="/api/v1/jobs", query=query), deadline)

    async def list_ecs_specs(self, *, deadline: float) -> Listing[payloads.EcsSpec]:
        """DLC ListEcsSpecs. SortBy is left out: the service refuses every documented value of it. So is ResourceType:
        spot jobs run on machine types of ECS and of Lingjun."""
        call = Call(operation="ListEcsSpecs", path="/api/v1/ecsspecs")
        return await _whole_list(self._dlc, call, payloads.EcsSpecsPage, attrgetter("instance_type"), deadline)

    async def get_job(self, job_id: str, into: type[J], *, deadline: float) -> J:
        """DLC GetJob: one job with its pods, with the fields of `into`."""
        call = Call(operation="GetJob", path=f"/api/v1/jobs/{_segment(job_id)}")
        found = await self._dlc.call(call, into, deadline=deadline)
        if found.job_id != job_id:
            raise BadAnswer("the answer is about another job", operation=call.operation)
        return found

    async def get_job_metrics(
        self,
        job_id: str,
        metric_type: str,
        *,
        start: float,
        end: float,
        deadline: float,
        limits: BodyLimits = BULK,
    ) -> payloads.JobMetrics:
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
            no_data=lambda found: not found.pod_metrics,
            limits=limits,
        )
        return await self._dlc.call(call, payloads.JobMetrics, deadline=deadline)

    async def list_quotas(self, *, deadline: float) -> Listing[payloads.Quota]:
        """PaiStudio ListQuotas, verbose. ResourceType is left out: that answers all types, and naming ACS fails."""
        call = Call(operation="ListQuotas", path="/api/v1/quotas/", query={"Verbose": "true"})
        return await _whole_list(self._paistudio, call, payloads.QuotasPage, attrgetter("quota_id"), deadline)

    async def list_queue(self, quota_id: str, *, deadline: float) -> Listing[payloads.Workload]:
        """PaiStudio ListQuotaWorkloads: what waits in the queue of a quota and of its descendants, all products."""
        call = _workloads(quota_id, {"Status": ENQUEUED})
        return await _whole_list(self._paistudio, call, payloads.WorkloadsPage, attrgetter("workload_id"), deadline)

    async def count_running(self, quota_id: str, workload_type: str, *, deadline: float) -> int:
        """PaiStudio ListQuotaWorkloads for its TotalCount alone: how much of one type runs in a quota."""
        call = _workloads(quota_id, {"WorkloadType": workload_type, "WorkloadStatuses": "Running"})
        return await _total(self._paistudio, call, deadline)

    async def list_running(self, quota_id: str, workload_type: str, *, deadline: float) -> Listing[payloads.Workload]:
        """PaiStudio ListQuotaWorkloads: workloads of one type that run in a quota itself."""
        call = _workloads(quota_id, {"WorkloadType": workload_type, "WorkloadStatuses": "Running", "ShowOwn": "true"})
        return await _whole_list(self._paistudio, call, payloads.WorkloadsPage, attrgetter("workload_id"), deadline)

    async def list_users(self, quota_id: str, *, deadline: float) -> Listing[payloads.QuotaUser]:
        """PaiStudio ListQuotaActiveUserUsages: what each user holds in a quota itself, all products."""
        path = f"/api/v1/quotas/{_segment(quota_id)}/activeuserusages"
        call = Call(operation="ListQuotaActiveUserUsages", path=path, query={"SelfOnly": "true"})
        return await _whole_list(self._paistudio, call, payloads.QuotaUsersPage, attrgetter("user_id"), deadline)

    async def list_nodes(self, quota_id: str, *, deadline: float) -> Listing[payloads.Node]:
        """PaiStudio ListNodes of one quota, verbose: only this response has the requests of a node."""
        call = Call(operation="ListNodes", path="/api/v1/nodes", query={"QuotaId": quota_id, "Verbose": "true"})
        return await _whole_list(self._paistudio, call, payloads.NodesPage, attrgetter("node_name"), deadline)


def _workloads(quota_id: str, query: Mapping[str, str]) -> Call:
    return Call(operation="ListQuotaWorkloads", path=f"/api/v1/quotas/{_segment(quota_id)}/workloads", query=query)


async def _total(client: ApiClient, call: Call, deadline: float) -> int:
    """The TotalCount of a list: one call however long it is."""
    call = replace(call, query={**call.query, "PageNumber": "1", "PageSize": "1"})
    total = whole((await client.call(call, payloads.Total, deadline=deadline)).total_count)
    if total is None:
        raise BadAnswer("the answer has no TotalCount", operation=call.operation)
    return total


async def _whole_list(
    client: ApiClient, call: Call, into: type[_Page[T]], id_of: Callable[[T], str | None], deadline: float
) -> Listing[T]:
    async def read_page(number: int) -> Page[T]:
        query = {**call.query, "PageNumber": str(number + 1), "PageSize": str(PAGE_SIZE)}
        found = await client.call(replace(call, query=query), into, deadline=deadline)
        return Page(whole(found.total_count), found.rows)

    return await read_whole_list(read_page, id_of=id_of, operation=call.operation)


def _segment(any_id: str) -> str:
    # Ids are opaque and come from the cloud: no slash, and no half of a surrogate pair, may reach the path as it is.
    return quote(any_id, safe="", errors="replace")
