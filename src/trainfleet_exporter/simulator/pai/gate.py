"""The simulated PAI services behind one address: which operation a request means, who asks, and how it is answered.

The three services share paths on different hosts. Here they share one address too, and are told apart by
`x-acs-version`, which every request carries and signs.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from starlette.responses import JSONResponse, Response

from trainfleet_exporter.simulator.exchange import Answer, ApiError, Asked, Named
from trainfleet_exporter.simulator.pai import aiworkspace, dlc, paistudio
from trainfleet_exporter.simulator.pai.auth import Verifier
from trainfleet_exporter.simulator.pai.parameters import Call, Operation
from trainfleet_exporter.simulator.world.fleet import World

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


class Pai:
    """One account, whose world is the given one."""

    def __init__(self, world: World, verifier: Verifier) -> None:
        self.world = world
        self._verifier = verifier

    def takes(self, asked: Asked) -> bool:
        return "x-acs-version" in asked.headers

    def name(self, asked: Asked) -> Named:
        api = _APIS.get(asked.headers.get("x-acs-version", ""), "unknown")
        operation = asked.headers.get("x-acs-action", "")
        if (api, operation) not in _OPERATIONS:
            operation = "unknown"  # what anybody sends must not become an endless table
        found = _OF_A_JOB.match(asked.path)
        about = dict(asked.query) if found is None else dict(asked.query) | {"JobId": unquote(found[1])}
        return Named(api, operation, about)

    def answer(self, asked: Asked, named: Named, now: float) -> Answer:
        query = dict(asked.query)
        self._verifier.check(
            method=asked.method, path=asked.path, query=query, headers=asked.headers, body=asked.body, now=now
        )
        pattern, operate = _OPERATIONS.get((named.api, named.operation), (None, None))
        found = None if pattern is None else pattern.fullmatch(asked.path)
        if operate is None or found is None or asked.method != "GET":
            raise ApiError(
                404, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."
            )
        self.world.advance(now)
        return operate(Call(query, tuple(unquote(part) for part in found.groups()), self.world))

    def respond(self, answer: Answer, request_id: str) -> Response:
        assert answer.body is not None
        return JSONResponse(answer.body | {"RequestId": request_id}, headers={"x-acs-request-id": request_id})

    def refuse(self, error: ApiError, asked: Asked, named: Named, request_id: str) -> Response:
        body: dict[str, Any] = {
            "Code": error.code,
            "Message": error.message,
            "RequestId": request_id,
            "HostId": asked.headers.get("host", ""),
            "Recommend": f"https://api.aliyun.com/troubleshoot?q={error.code}",
        }
        return JSONResponse(body, error.status, headers={"x-acs-request-id": request_id})

    def usual(self, status: int) -> ApiError:
        return ApiError(status, _USUAL_CODES.get(status, "InternalError"), "The simulator was told to fail.")

    def code(self, body: Any) -> str:
        return str(body.get("Code", "")) if isinstance(body, dict) else ""
