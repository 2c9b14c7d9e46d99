"""Lantern's operations, one method each. Every one raises CloudError, and ends by its deadline (loop time)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.listing import Listing, Page, read_whole_list
from trainfleet_exporter.quantities import text, whole
from trainfleet_exporter.transport import ApiClient, Call

PAGE_SIZE = 100


class LanternApi:
    """The calls that the collectors make."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def list_workspaces(self, deadline: float) -> Listing[Any]:
        """GET /v1/workspaces."""
        return await self._list("ListWorkspaces", "/v1/workspaces", "workspaces", deadline)

    async def list_jobs(self, workspace_id: str, deadline: float) -> Listing[Any]:
        """GET /v1/workspaces/{id}/jobs: the live ones."""
        return await self._list("ListJobs", f"/v1/workspaces/{_segment(workspace_id)}/jobs", "jobs", deadline)

    async def get_job(self, job_id: str, deadline: float) -> dict[str, Any]:
        """GET /v1/jobs/{id}: one job, which may have ended. NotFound when it was deleted."""
        return await self._get("GetJob", f"/v1/jobs/{_segment(job_id)}", deadline)

    async def count_jobs(self, workspace_id: str, deadline: float) -> dict[str, Any]:
        """GET /v1/workspaces/{id}/summary: how many jobs ended in each state; those without jobs are left out."""
        payload = await self._get("GetSummary", f"/v1/workspaces/{_segment(workspace_id)}/summary", deadline)
        ended = payload.get("ended")
        if not isinstance(ended, dict):  # a state that is left out is 0; an answer without any says nothing
            raise BadAnswer("the answer has no counts", operation="GetSummary")
        return ended

    async def list_usage(self, workspace_id: str, deadline: float) -> Listing[Any]:
        """GET /v1/workspaces/{id}/usage: the latest reading of each job that has started."""
        path = f"/v1/workspaces/{_segment(workspace_id)}/usage"
        return await self._list("ListUsage", path, "readings", deadline, key="job")

    async def list_pools(self, deadline: float) -> Listing[Any]:
        """GET /v1/pools."""
        return await self._list("ListPools", "/v1/pools", "pools", deadline)

    async def _list(self, operation: str, path: str, rows: str, deadline: float, *, key: str = "id") -> Listing[Any]:
        """All pages, or BadAnswer. A page may hold fewer rows than were asked for: the next begins behind them."""
        offset = 0

        async def read_page(number: int) -> Page[Any]:
            nonlocal offset
            offset = 0 if number == 0 else offset
            query = {"offset": str(offset), "limit": str(PAGE_SIZE)}
            payload = await self._get(operation, path, deadline, query)
            found = payload.get(rows)
            offset += len(found) if isinstance(found, list) else 0
            return Page(whole(payload, "total"), found)

        return await read_whole_list(read_page, id_of=lambda row: text(row, key), operation=operation)

    async def _get(
        self, operation: str, path: str, deadline: float, query: dict[str, str] | None = None
    ) -> dict[str, Any]:
        call = Call(operation=operation, path=path, query=query or {})
        payload: dict[str, Any] = await self._client.call(call, deadline=deadline)
        return payload


def _segment(value: str) -> str:
    return quote(value, safe="", errors="replace")
