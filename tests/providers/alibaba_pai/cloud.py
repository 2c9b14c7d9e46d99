"""A PAI account whose answers a test writes: rows in, HTTP out, behind the real transport and signatures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx

from tests.support.clock import START
from tests.support.fleet import Fleet
from trainfleet_exporter.transport.json_fields import iso_time, utc_time

CONFIG = """
providers:
  - name: p
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: id, access_key_secret: secret}
    limits: {requests_per_second: 1000, concurrency: 8}
    collectors: {usage: {source: job_metrics}}
"""

RUNNING = 'jobs{workspace_id="1",status="running",platform_status="Running"}'

FleetOf = Callable[..., Fleet]
"""Runs a test's steps on a fleet (see conftest.run)."""
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


def metric(name: str, unit: str, **fields: Any) -> Row:
    """A row of CloudMonitor's catalogue, with the dimensions that follow from the beginning of its name."""
    level = name.partition("_")[0]
    further = {"JOB": "", "POD": ",pod", "CARD": ",pod,gpuId"}
    of_job = f"userId,regionId,workspaceId,jobId{further.get(level, '')}"
    return {
        "Namespace": "acs_pai_dlc" if level in further else "acs_pai_quota",
        "MetricName": name,
        "Unit": unit,
        "Dimensions": of_job if level in further else "userId,regionId,quotaId",
        "Periods": "60,300,900",
        "Statistics": "Value" if level == "CARD" else "Average,Minimum,Maximum",
        **fields,
    }


def point(job_id: str, value: object, *, age: float = 60, **fields: Any) -> Row:
    """A data point of a job, so many seconds old when stepped time begins."""
    whose = {"userId": "1", "regionId": "cn-hangzhou", "jobId": job_id}
    return {"timestamp": int((START - age) * 1000), **whose, "Average": value, **fields}


class Cloud:
    """What the account holds; `answer` may answer first, `calls` notes what was asked."""

    def __init__(self) -> None:
        self.workspaces: list[Row] = [{"WorkspaceId": "1", "WorkspaceName": "one", "Status": "ENABLED"}]
        self.jobs: list[Row] = []
        self.details: dict[str, Row] = {}
        self.metrics: dict[tuple[str, str], Any] = {}
        self.quotas: list[Row] = []
        self.ecs_specs: list[Row] = []
        self.queues: dict[str, list[Row]] = {}
        self.running: dict[tuple[str, str], int] = {}
        self.nodes: dict[str, list[Row]] = {}
        self.catalogue: list[Row] = []
        self.points: dict[str, list[Any]] = {}
        self.point_page = 1440
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
            "ListQuotaWorkloads": self._list_quota_workloads,
            "ListNodes": lambda query: self._page(query, "Nodes", self.nodes.get(query["QuotaId"], [])),
            "DescribeMetricMetaList": self._describe_metric_meta_list,
            "DescribeMetricLast": self._describe_metric_last,
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
            "method": request.method,
            "version": request.headers["x-acs-version"],
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

    def _list_quota_workloads(self, query: dict[str, str]) -> Row:
        quota_id = query["path"].split("/")[-2]
        if query.get("Status") == "Enqueued":
            return self._page(query, "Workloads", self.queues.get(quota_id, []))
        count = self.running.get((quota_id, query["WorkloadType"]), 0)
        return {"TotalCount": count, "Workloads": [{"WorkloadId": "w"}][:count], "RequestId": "r"}

    def _describe_metric_meta_list(self, query: dict[str, str]) -> Row:
        rows = [row for row in self.catalogue if row["Namespace"] == query["Namespace"]]
        page = self._page(query, "Resource", rows)
        resources = {"Resource": page["Resource"]}
        return {"Code": "200", "Success": True, "TotalCount": str(page["TotalCount"]), "Resources": resources}

    def _describe_metric_last(self, query: dict[str, str]) -> Row:
        points = self.points.get(query["MetricName"], [])
        if "Dimensions" in query:
            named = json.loads(query["Dimensions"])
            assert len(named) <= 50
            points = [point for point in points if any(one.items() <= point.items() for one in named)]
        return self._points(query, points, "Datapoints")

    def _points(self, query: dict[str, str], points: list[Any], key: str) -> Row:
        start = int(query.get("NextToken", "0"))
        end = start + min(self.point_page, int(query["Length"]))
        following = {"NextToken": str(end)} if end < len(points) else {}
        found = json.dumps(points[start:end])
        return {"Code": "200", "Success": True, "Period": query["Period"], key: found, **following}

    def _page(self, query: dict[str, str], key: str, rows: list[Row]) -> Row:
        size, number = min(int(query["PageSize"]), self.page_cap), int(query["PageNumber"])
        return {"TotalCount": len(rows), key: rows[(number - 1) * size : number * size], "RequestId": "r"}
