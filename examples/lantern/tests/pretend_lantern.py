"""A simulated Lantern Cloud: its (invented) API over HTTP, with jobs that the tests know."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

WORKSPACES = ("ws-vision", "ws-speech")
STATES = ("running", "queued", "provisioning", "recovering", "stopping")
"""Those that its jobs are in; none is just created, so that there is a count of 0."""
MOST_ROWS = 3
"""Of a page, however many are asked for: lists of these tests have several."""


class PretendLantern:
    """One account with so many live jobs, spread over its workspaces. `app` serves it (testing.PretendCloud)."""

    def __init__(self, *, jobs: int, token: str, workspaces: Sequence[str] = WORKSPACES) -> None:
        self._token = token
        self._named = workspaces
        self._rows = {row["id"]: row for row in (_job(number) for number in range(jobs))}
        self.app = Starlette(
            routes=[
                Route("/v1/workspaces", self._workspaces),
                Route("/v1/workspaces/{workspace}/jobs", self._jobs),
                Route("/v1/workspaces/{workspace}/summary", self._summary),
                Route("/v1/workspaces/{workspace}/usage", self._usage),
                Route("/v1/jobs/{job}", self._one_job),
                Route("/v1/pools", self._pools),
            ]
        )

    def live_jobs(self) -> Mapping[str, str]:
        """The ids of the live jobs, each with its state."""
        return {job_id: row["state"] for job_id, row in self._rows.items() if "ended_at" not in row}

    def forget(self, job_id: str) -> None:
        """Delete a job: no call returns it again."""
        del self._rows[job_id]

    def end(self, job_id: str, word: str) -> None:
        """End a job now: the lists leave it out, but a call with its id still returns how it ended."""
        ended_at = datetime.fromtimestamp(int(time.time()), UTC).isoformat().replace("+00:00", "Z")
        self._rows[job_id] |= {"state": word, "ended_at": ended_at}

    async def _workspaces(self, request: Request) -> Response:
        return self._page(request, "workspaces", [{"id": name, "title": name[3:].title()} for name in self._named])

    async def _jobs(self, request: Request) -> Response:
        return self._page(request, "jobs", self._of(request))

    async def _summary(self, request: Request) -> Response:
        ended = Counter(row["state"] for row in self._of_workspace(request) if "ended_at" in row)
        return self._respond(request, {"ended": Counter({"succeeded": 5, "failed": 2}) + ended})

    async def _usage(self, request: Request) -> Response:
        started = [row["id"] for row in self._of(request) if row["started_at"] is not None]
        readings = [{"job": job_id, "gpu_percent": 73.5, "cpu_percent": 130.0} for job_id in started]
        return self._page(request, "readings", readings)

    async def _one_job(self, request: Request) -> Response:
        row = self._rows.get(request.path_params["job"])
        return self._respond(request, row) if row is not None else _refused(404, "no_such_job")

    async def _pools(self, request: Request) -> Response:
        gpus = {"model": "L40S", "total": 64, "used": 24}
        memory = {"total": 4096, "used": 1024}
        pool = {"id": "pool-a", "title": "Research", "state": "ready", "gpus": gpus, "memory_mib": memory}
        return self._page(request, "pools", [pool])

    def _of(self, request: Request) -> list[dict[str, Any]]:
        """Return the live jobs of the requested workspace."""
        return [row for row in self._of_workspace(request) if "ended_at" not in row]

    def _of_workspace(self, request: Request) -> list[dict[str, Any]]:
        wanted = self._named.index(request.path_params["workspace"])
        return [row for row in self._rows.values() if row["number"] % len(self._named) == wanted]

    def _page(self, request: Request, name: str, rows: list[dict[str, Any]]) -> Response:
        first = int(request.query_params["offset"])
        size = min(int(request.query_params["limit"]), MOST_ROWS)
        return self._respond(request, {name: rows[first : first + size], "total": len(rows)})

    def _respond(self, request: Request, answer: dict[str, Any]) -> Response:
        if request.headers.get("x-lantern-token") != self._token:
            return _refused(401, "bad_token")
        return JSONResponse(answer)


def _job(number: int) -> dict[str, Any]:
    state = STATES[number // len(WORKSPACES) % len(STATES)]
    return {
        "id": f"job-{number:04}",
        "number": number,
        "name": f"pretrain {number}",
        "state": state,
        "pool": "pool-a",
        "owner": "ada",
        "created_at": "2026-01-01T20:00:00Z",
        "started_at": "2026-01-01T20:05:00Z" if state in ("running", "recovering", "stopping") else None,
        "priority": 5,
        "recoveries": 1 if state == "recovering" else 0,
        "gpus": {"model": "L40S", "count": 8},
    }


def _refused(status: int, code: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": f"refused: {code}"}}, status)
