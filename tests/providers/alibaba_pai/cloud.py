"""A PAI account whose answers a test writes: rows in, HTTP out, behind the real transport and signatures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx

from tests.support.clock import START
from trainfleet_exporter.quantities import iso_time, utc_time

CONFIG = """
providers:
  - name: p
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: id, access_key_secret: secret}
    limits: {requests_per_second: 1000, concurrency: 8}
    collectors: {usage: {source: job_metrics}}
"""

Answer = Callable[[str, dict[str, str]], httpx.Response | None]
Row = dict[str, Any]


def at(offset: float) -> str:
    """An ISO time so many seconds after the start of stepped time."""
    return iso_time(START + offset)


def job(job_id: str, status: str = "Running", **fields: Any) -> Row:
    """A ListJobs row of workspace 1, created ten minutes before the test began."""
    return {
        "JobId": job_id,
        "DisplayName": f"name-{job_id}",
        "JobType": "PyTorchJob",
        "Status": status,
        "WorkspaceId": "1",
        "ResourceId": "quota1",
        "GmtCreateTime": at(-600),
        **fields,
    }


class Cloud:
    """What the account holds; `answer` may answer first, `calls` notes what was asked."""

    def __init__(self) -> None:
        self.workspaces: list[Row] = [{"WorkspaceId": "1", "WorkspaceName": "one", "Status": "ENABLED"}]
        self.jobs: list[Row] = []
        self.details: dict[str, Row] = {}
        self.metrics: dict[tuple[str, str], Any] = {}
        self.quotas: list[Row] = []
        self.ecs_specs: list[Row] = []
        self.page_cap = 100
        self.answer: Answer = lambda operation, query: None
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.operations: dict[str, Callable[[dict[str, str]], Row | None]] = {
            "ListWorkspaces": self._list_workspaces,
            "ListQuotas": self._list_quotas,
            "ListEcsSpecs": lambda query: self._page(query, "EcsSpecs", self.ecs_specs),
            "ListJobs": self._list_jobs,
            "GetJob": self._get_job,
            "GetJobMetrics": self._get_job_metrics,
        }

    def called(self, operation: str) -> list[dict[str, str]]:
        """The queries of one operation, in order."""
        return [query for name, query in self.calls if name == operation]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        operation, query = request.headers["x-acs-action"], dict(request.url.params)
        query |= {
            "path": request.url.path,
            "host": request.url.host,
            "nonce": request.headers["x-acs-signature-nonce"],
        }
        self.calls.append((operation, query))
        prepared = self.answer(operation, query)
        if prepared is not None:
            return prepared
        payload = self.operations[operation](query)
        if payload is None:
            return httpx.Response(404, json={"Code": "NotFound", "Message": "no such job", "RequestId": "r"})
        return httpx.Response(200, content=json.dumps(payload).encode(), headers={"content-type": "application/json"})

    def _list_workspaces(self, query: dict[str, str]) -> Row:
        return self._page(query, "Workspaces", self.workspaces)

    def _list_quotas(self, query: dict[str, str]) -> Row:
        return self._page(query, "Quotas", self.quotas)

    def _list_jobs(self, query: dict[str, str]) -> Row:
        field = query.get("TimeRangeField", "GmtCreateTime")
        start = utc_time(query, "StartTime") or time.time() - 7 * 86400
        end = utc_time(query, "EndTime") or time.time()
        ids = query["JobIds"].split(",") if "JobIds" in query else None
        rows = [
            row
            for row in self.jobs
            if row.get("WorkspaceId") in (query.get("WorkspaceId"), None)
            and query.get("Status") in (row["Status"], None)
            and (ids is None or row["JobId"] in ids)
            and (when := utc_time(row, field)) is not None
            and start <= when <= end
        ]
        return self._page(query, "Jobs", rows)

    def _get_job(self, query: dict[str, str]) -> Row | None:
        job_id = query["path"].rpartition("/")[2]
        rows = [self.details[job_id]] if job_id in self.details else [r for r in self.jobs if r["JobId"] == job_id]
        return rows[0] if rows else None

    def _get_job_metrics(self, query: dict[str, str]) -> Row:
        job_id = query["path"].split("/")[-2]
        return {"JobId": job_id, "PodMetrics": self.metrics.get((job_id, query["MetricType"]), [])}

    def _page(self, query: dict[str, str], key: str, rows: list[Row]) -> Row:
        size, number = min(int(query["PageSize"]), self.page_cap), int(query["PageNumber"])
        return {"TotalCount": len(rows), key: rows[(number - 1) * size : number * size], "RequestId": "r"}
