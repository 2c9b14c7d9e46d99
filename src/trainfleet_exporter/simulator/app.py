"""The simulated clouds as one ASGI application: the signed APIs, and beside them `/truth` and `/faults`.

The three PAI services share paths on different hosts. Here they share one address too, and are told apart by
`x-acs-version`, which every request carries and signs.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from trainfleet_exporter.simulator import aiworkspace, dlc, paistudio
from trainfleet_exporter.simulator.answers import Answer, ApiError, Call, Operation
from trainfleet_exporter.simulator.auth import Verifier
from trainfleet_exporter.simulator.faults import Fault, Faults
from trainfleet_exporter.simulator.truth import Truth, outcome_of
from trainfleet_exporter.simulator.world import World

_APIS = {"2020-12-03": "dlc", "2022-01-12": "paistudio", "2021-02-04": "aiworkspace"}
_OPERATIONS: dict[tuple[str, str], tuple[re.Pattern[str], Operation]] = {
    ("dlc", "ListJobs"): (re.compile("/api/v1/jobs"), dlc.list_jobs),
    ("dlc", "GetJob"): (re.compile("/api/v1/jobs/([^/]+)"), dlc.get_job),
    ("dlc", "GetJobMetrics"): (re.compile("/api/v1/jobs/([^/]+)/metrics"), dlc.get_job_metrics),
    ("dlc", "ListEcsSpecs"): (re.compile("/api/v1/ecsspecs"), dlc.list_ecs_specs),
    ("paistudio", "ListQuotas"): (re.compile("/api/v1/quotas/?"), paistudio.list_quotas),
    ("paistudio", "GetQuota"): (re.compile("/api/v1/quotas/([^/]+)"), paistudio.get_quota),
    ("aiworkspace", "ListWorkspaces"): (re.compile("/api/v1/workspaces"), aiworkspace.list_workspaces),
}
_USUAL_CODES = {
    400: "InvalidParameter",
    403: "Forbidden.RAM",
    404: "NotFound",
    429: "Throttling.User",
    503: "ServiceUnavailable",
}
_OF_A_JOB = re.compile("/api/v1/jobs/([^/]+)")


class CloudApp:
    """Answers requests from one world, checks their signatures, and writes down what it said."""

    def __init__(self, world: World, verifier: Verifier, clock: Callable[[], float]) -> None:
        self.world = world
        self.truth = Truth()
        self.faults = Faults()
        self._verifier = verifier
        self._clock = clock
        self.asgi = Starlette(
            routes=[
                Route("/truth", self._tell, methods=["GET"]),
                Route("/faults", self._set_faults, methods=["POST"]),
                Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "DELETE"]),
            ]
        )

    async def _serve(self, request: Request) -> Response:
        api = _APIS.get(request.headers.get("x-acs-version", ""), "unknown")
        operation = request.headers.get("x-acs-action", "")
        if (api, operation) not in _OPERATIONS:
            operation = "unknown"  # what anybody sends must not become an endless table
        body = await request.body()
        path = request.scope["raw_path"].decode("latin-1").partition("?")[0]
        query = dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
        found = _OF_A_JOB.match(path)
        about = query if found is None else query | {"JobId": unquote(found[1])}

        fault = self.faults.take(about | {"api": api, "operation": operation})
        if fault is not None and fault.delay:
            await asyncio.sleep(fault.delay)
        request_id = str(uuid.uuid4()).upper()
        answer: Answer | None = None
        if fault is not None and fault.status is not None:
            response, code = _broken(fault, request, request_id)
        else:
            try:
                self._verifier.check(
                    method=request.method,
                    path=path,
                    query=query,
                    headers={name: ",".join(request.headers.getlist(name)) for name in request.headers},
                    body=body,
                    now=self._clock(),
                )
                answer = self._operate(request.method, api, operation, path, query)
            except ApiError as error:
                response, code = _refusal(error, request, request_id), error.code
            else:
                response, code = JSONResponse(answer.body | {"RequestId": request_id}), ""
        response.headers["x-acs-request-id"] = request_id
        self.truth.note(
            at=self._clock(),
            api=api,
            operation=operation,
            outcome="no_data" if answer is not None and answer.no_data else outcome_of(response.status_code, code),
            request_id=request_id,
            query=about,
            total=None if answer is None else answer.total,
            rows=[] if answer is None else answer.rows,
        )
        return response

    def _operate(self, method: str, api: str, operation: str, path: str, query: dict[str, str]) -> Answer:
        pattern, operate = _OPERATIONS.get((api, operation), (None, None))
        found = None if pattern is None else pattern.fullmatch(path)
        if operate is None or found is None or method != "GET":
            raise ApiError(
                404, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."
            )
        self.world.advance(self._clock())
        return operate(Call(query, tuple(unquote(part) for part in found.groups()), self.world))

    async def _tell(self, request: Request) -> Response:
        since = request.query_params.get("since", "0")
        if not since.isascii() or not since.isdigit():
            return PlainTextResponse("since is the number of an answer\n", 400)
        operation = request.query_params.get("operation", "")
        return JSONResponse(self.truth.tell(self._clock(), since=int(since), operation=operation))

    async def _set_faults(self, request: Request) -> Response:
        if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
            return PlainTextResponse("faults are set from this machine only\n", 403)
        try:
            given = await request.json()
            if not isinstance(given, list):
                raise ValueError("a list of faults is wanted")
            self.faults.replace([Fault.of(item) for item in given])
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", 400)
        return JSONResponse({"faults": len(self.faults)})


def _refusal(error: ApiError, request: Request, request_id: str) -> Response:
    body: dict[str, Any] = {
        "Code": error.code,
        "Message": error.message,
        "RequestId": request_id,
        "HostId": request.headers.get("host", ""),
        "Recommend": f"https://api.aliyun.com/troubleshoot?q={error.code}",
    }
    return JSONResponse(body, error.status)


def _broken(fault: Fault, request: Request, request_id: str) -> tuple[Response, str]:
    """The answer that a fault asks for, and its error code."""
    assert fault.status is not None
    if fault.body is None:
        code = _USUAL_CODES.get(fault.status, "InternalError")
        response = _refusal(ApiError(fault.status, code, "The simulator was told to fail."), request, request_id)
    elif isinstance(fault.body, str):
        code, response = "", Response(fault.body, fault.status)
    else:
        code = str(fault.body.get("Code", "")) if isinstance(fault.body, dict) else ""
        response = JSONResponse(fault.body, fault.status)
    response.headers.update(fault.headers)
    return response, code
