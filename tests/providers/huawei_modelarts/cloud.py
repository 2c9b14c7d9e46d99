"""A ModelArts project whose answers a test writes: rows in, HTTP out."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx

from tests.support.clock import START
from trainfleet_exporter.transport.json_fields import iso_time

PROJECT = "0123456789abcdef0123456789abcdef"
CONFIG = f"""
providers:
  - name: p
    platform: huawei_modelarts
    region: cn-north-4
    project_id: {PROJECT}
    credentials: {{access_key: ak, secret_key: sk}}
    limits: {{requests_per_second: 1000, concurrency: 8}}
"""
Row = dict[str, Any]
MS = 1000
_QUERY = re.compile(
    r"avg by \(([a-z_, ]+)\) \(last_over_time\((\w+)\{container_name=\"modelarts-training\"\}\[(?:600|120)s\]\)\)"
)


def ms(offset: float) -> int:
    """Milliseconds of a time so many seconds after the start of stepped time."""
    return int((START + offset) * MS)


def job(job_id: str, phase: str = "Running", *, resource: Row | None = None, made: int = -7200, **status: Any) -> Row:
    """A job's row in the default workspace, made so many seconds after the test began, with one task."""
    return {
        "kind": "job",
        "metadata": {"id": job_id, "name": f"name-{job_id}", "workspace_id": "0", "create_time": ms(made)},
        "status": {"phase": phase, "start_time": ms(-500), "duration": 500_000, "tasks": ["worker-0"], **status},
        "spec": {"resource": {"node_count": 1, **(resource or {})}},
    }


class Cloud:
    """What the project holds; `answer` may answer first, `calls` notes method, path, query and body."""

    def __init__(self) -> None:
        self.workspaces: list[Row] = [{"id": "0", "name": "default"}]
        self.jobs: list[Row] = []
        self.metrics: dict[tuple[str, str], Row | None] = {}
        self.pools: list[Row] = []
        self.runtime: list[Row] = []
        self.workloads: dict[str, Row] = {}
        self.queued: dict[str, list[Row]] = {}
        self.monitor: dict[str, list[Row]] = {}
        self.nodes: dict[str, list[Row]] = {}
        self.events: dict[str, list[Row]] = {}
        """By workspace, the announced work on nodes."""
        self.places: dict[str, list[Any]] = {}
        """By job, where its tasks run."""
        self.quotas: list[Row] = [{"resource": "job-num", "quota": 100, "used": 3}]
        self.aom: dict[str, list[tuple[Row, object]]] | None = None
        """By metric, the labels and values of its series; None where the region has no AOM."""
        self.promql: dict[str, Any] = {}
        """By query, the vector that answers it, whatever `aom` holds."""
        self.v1_jobs: list[Row] = []
        self.v1_versions: dict[str, list[Row]] = {}
        self.v1_files: dict[str, list[Any]] = {}
        self.v1_metrics: dict[tuple[str, str], list[Row]] = {}
        self.projects: list[Row] = [{"id": PROJECT, "name": "cn-north-4"}]
        self.page = 50
        self.token_hours = 3
        """How long a token of IAM's lives; really 24, in which a test would poll 1,440 times."""
        self.slow = 0.01
        """Seconds that an answer takes: others come in between."""
        self.answer: Callable[[str, httpx.Request], httpx.Response | None] = lambda path, request: None
        self.calls: list[tuple[str, Row]] = []
        self.requests: list[httpx.Request] = []

    def called(self, part: str) -> list[Row]:
        """Query and body of every call whose path holds `part`."""
        return [about for path, about in self.calls if part in path]

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(self.slow)
        path = request.url.path
        body = json.loads(request.content) if request.content else {}
        self.requests.append(request)
        self.calls.append((path, {**dict(request.url.params), **body}))
        prepared = self.answer(path, request)
        if prepared is not None:
            return prepared
        if path.startswith("/v3/"):
            return self._iam(path, body)
        payload = self._payload(path.split("/")[1], path.split("/")[3:], dict(request.url.params), body)
        if isinstance(payload, httpx.Response):
            return payload
        return httpx.Response(200, json=payload)

    def _iam(self, path: str, body: Row) -> httpx.Response:
        if path == "/v3/projects":
            return httpx.Response(200, json={"projects": self.projects})
        token = f"token-{len(self.called('/v3/auth/tokens'))}"
        ends = START + 3600 * self.token_hours * len(self.called("/v3/auth/tokens"))
        reported = {"expires_at": iso_time(ends), "project": {"id": PROJECT}}
        assert body["auth"]["identity"]["methods"] == ["password"]
        return httpx.Response(201, json={"token": reported}, headers={"X-Subject-Token": token})

    def _payload(self, version: str, path: list[str], query: Row, body: Row) -> Any:
        match version, path:
            case "v1", ["workspaces"]:
                return {"total_count": len(self.workspaces), "workspaces": self.workspaces}
            case "v2", ["training-job-searches"]:
                return self._search(body)
            case "v2", ["training-jobs", job_id, "metrics", task]:
                payload = self.metrics.get((job_id, task))
                return httpx.Response(204) if payload is None else payload
            case "v2", ["pools"]:
                return {"items": [row for row in self.pools if _workspace(row) in ("*", query["workspaceId"])]}
            case "v2", ["metrics", "runtime", "pools"]:
                return {"items": self.runtime}
            case "v2", ["statistics", "pools", pool, "workloads"]:
                gone = httpx.Response(404, json={"error_code": "ModelArts.50015001", "error_msg": "not found"})
                return self.workloads.get(pool, gone)
            case "v1", ["training-jobs"]:
                return {"is_success": True, "job_total_count": len(self.v1_jobs), "jobs": self.v1_jobs}
            case "v1", ["training-jobs", job_id, "versions"]:
                return {"is_success": True, "versions": self.v1_versions.get(job_id, [])}
            case "v1", ["training-jobs", job_id, "versions", version_id, "log", "file-names"]:
                return {"is_success": True, "log_file_list": self.v1_files.get(f"{job_id}/{version_id}", [])}
            case "v1", ["training-jobs", _, "versions", _, "pod", pod, "metric-statistic"]:
                return {"metrics": self.v1_metrics.get((pod, query["statistic_type"]), []), "interval": 1}
        return self._details(version, path, query)

    def _details(self, version: str, path: list[str], query: Row) -> Any:
        """Answers about single pools, quotas, and AOM."""
        match version, path:
            case "v2", ["pools", pool, "monitor"]:
                return {"metrics": self.monitor.get(pool, [])}
            case "v2", ["pools", pool, "nodes"]:
                return self._page_of_nodes(self.nodes.get(pool, []), query)
            case "v1", ["scheduled-events"]:
                rows, start = self.events.get(query["workspaceId"], []), int(query["offset"])
                return {"events": rows[start : start + int(query["limit"])], "count": len(rows)}
            case "v2", ["pools", pool, "workloads"]:
                start, size = int(query["offset"]), int(query["limit"])
                rows = [row for row in self.queued.get(pool, []) if row.get("status", "Queue") == query["status"]]
                return {"kind": "WorkloadList", "total": len(rows), "items": rows[start : start + size]}
            case "v2", ["training-quotas"]:
                return {"quotas": [row for row in self.quotas if row["resource"] == query["resource"]]}
            case "v1", [*_, "aom", "api", "v1", "label", "__name__", "values"] if self.aom is not None:
                return {"status": "success", "data": sorted(self.aom)}
            case "v1", [*_, "aom", "api", "v1", "query"] if self.aom is not None:
                return self._vector(query["query"])
        return httpx.Response(404, json={"error_code": "APIGW.0101", "error_msg": "The API does not exist"})

    def _page_of_nodes(self, rows: list[Row], query: Row) -> Row:
        start = int(query.get("continue", "token-0").removeprefix("token-"))
        end = start + min(int(query["limit"]), self.page)
        more = {"continue": f"token-{end}"} if end < len(rows) else {}
        return {"kind": "NodeList", "metadata": more, "items": rows[start:end]}

    def _vector(self, promql: str) -> Row:
        """The mean of each group of series, as Prometheus makes it; labels that no series has are left out."""
        result = self.promql.get(promql)
        if result is None:
            match = _QUERY.fullmatch(promql)
            assert match is not None, promql
            groups: dict[tuple[tuple[str, str], ...], list[Any]] = {}
            for labels, value in (self.aom or {}).get(match[2], []):
                key = tuple((label, labels[label]) for label in match[1].split(", ") if label in labels)
                groups.setdefault(key, []).append(value)
            result = [
                {"metric": dict(key), "value": [ms(0) // MS, str(_mean(values))]} for key, values in groups.items()
            ]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    def _search(self, body: Row) -> Row:
        here = body["workspace_id"]
        rows = [row for row in self.jobs if (row["metadata"].get("workspace_id") or here) == here]
        for given in body["filters"]:
            if given["key"] == "phase":
                rows = [row for row in rows if row["status"].get("phase") in given["value"]]
            elif given["key"] == "id":
                assert len(given["value"]) <= 10
                rows = [row for row in rows if row["metadata"]["id"] in given["value"]]
            else:
                assert (given["key"], given["operator"]) == ("create_time", "between")
                start, end = (datetime.fromisoformat(text).timestamp() * 1000 for text in given["value"])
                rows = [row for row in rows if start <= (row["metadata"].get("create_time") or 0) <= end]
        if hosts := body.get("host_ips"):
            assert len(hosts) <= 10
            rows = [_placed(row, self.places.get(row["metadata"]["id"], [])) for row in rows]
            rows = [row for row in rows if any(host in str(row["status"]["task_ips"]) for host in hosts)]
        size = min(body["limit"], self.page)
        page = rows[body["offset"] * body["limit"] : body["offset"] * body["limit"] + size]
        return {"total": len(rows), "count": len(page), "items": page}


def new_answer(*samples: tuple[Row, object]) -> list[Row]:
    """The rows of a vector."""
    return [{"metric": labels, "value": [ms(0) // MS, value]} for labels, value in samples]


def _placed(row: Row, tasks: list[Any]) -> Row:
    return {**row, "status": {**row["status"], "task_ips": tasks}}


def _mean(values: list[Any]) -> object:
    return sum(values) / len(values) if len(values) > 1 else values[0]


def _workspace(pool: Any) -> str:
    return str(pool.get("_workspace", "0")) if isinstance(pool, dict) else "0"
