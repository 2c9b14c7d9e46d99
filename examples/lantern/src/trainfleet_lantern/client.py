"""Lantern's operations, one method each. Each raises CloudError, and ends by its deadline (loop time)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Protocol, TypeVar
from urllib.parse import quote

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.fleet.lists import Listing, Page, read_whole_list
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import ApiClient, Call
from trainfleet_lantern import payloads

PAGE_SIZE = 100
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Page(Protocol[T_co]):
    """A page of a list, as the API returns it."""

    @property
    def total(self) -> float | None: ...
    @property
    def rows(self) -> Sequence[T_co | None] | None: ...


class LanternClient:
    """The calls that the collectors make."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def list_workspaces(self, deadline: float) -> Listing[payloads.Workspace]:
        """GET /v1/workspaces."""
        return await self._list("ListWorkspaces", "/v1/workspaces", payloads.WorkspacesPage, deadline)

    async def list_jobs(self, workspace_id: str, deadline: float) -> Listing[payloads.Job]:
        """GET /v1/workspaces/{id}/jobs: the live ones."""
        path = f"/v1/workspaces/{_segment(workspace_id)}/jobs"
        return await self._list("ListJobs", path, payloads.JobsPage, deadline)

    async def get_job(self, job_id: str, deadline: float) -> payloads.Job:
        """GET /v1/jobs/{id}: one job, which may have ended. NotFound when it was deleted."""
        return await self._get("GetJob", f"/v1/jobs/{_segment(job_id)}", payloads.Job, deadline)

    async def count_jobs(self, workspace_id: str, deadline: float) -> Mapping[str, float | None]:
        """GET /v1/workspaces/{id}/summary: how many jobs ended in each state. States without jobs are absent."""
        path = f"/v1/workspaces/{_segment(workspace_id)}/summary"
        summary = await self._get("GetSummary", path, payloads.Summary, deadline)
        if summary.ended is None:  # a state that is left out is 0; an answer without any says nothing
            raise BadAnswer("the answer has no counts", operation="GetSummary")
        return summary.ended

    async def list_usage(self, workspace_id: str, deadline: float) -> Listing[payloads.Reading]:
        """GET /v1/workspaces/{id}/usage: the latest reading of each job that has started."""
        path = f"/v1/workspaces/{_segment(workspace_id)}/usage"
        return await self._list("ListUsage", path, payloads.ReadingsPage, deadline, id_of=attrgetter("job"))

    async def list_pools(self, deadline: float) -> Listing[payloads.Pool]:
        """GET /v1/pools."""
        return await self._list("ListPools", "/v1/pools", payloads.PoolsPage, deadline)

    async def _list(
        self,
        operation: str,
        path: str,
        into: type[_Page[T]],
        deadline: float,
        *,
        id_of: Callable[[T], str | None] = attrgetter("id"),
    ) -> Listing[T]:
        """Read all pages, or raise BadAnswer. A page may have fewer rows than requested: the next begins after them."""

        async def read_page(offset: int) -> Page[T]:
            query = {"offset": str(offset), "limit": str(PAGE_SIZE)}
            page = await self._get(operation, path, into, deadline, query)
            return Page(whole(page.total), page.rows)

        return await read_whole_list(read_page, id_of=id_of, operation=operation, by_offset=True)

    async def _get(
        self, operation: str, path: str, into: type[T], deadline: float, query: dict[str, str] | None = None
    ) -> T:
        call = Call(operation=operation, path=path, query=query or {})
        return await self._client.call(call, into, deadline=deadline)


def _segment(value: str) -> str:
    return quote(value, safe="", errors="replace")
