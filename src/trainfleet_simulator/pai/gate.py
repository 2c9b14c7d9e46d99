"""The simulated Alibaba services behind one address: finds the operation, checks the identity, responds.

The services have the same paths on different hosts. Here they share an address and differ by `x-acs-version`, which
every request has and almost every request signs. The metadata service has no versions, and is found by its paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.responses import JSONResponse, PlainTextResponse, Response

from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, Cloud, Operation, route_name, said_on_request
from trainfleet_simulator.keys import Keys
from trainfleet_simulator.pai import aiworkspace, dlc, paistudio, quota_nodes, quota_users, quota_workloads
from trainfleet_simulator.pai.auth import Verifier
from trainfleet_simulator.pai.metadata import ROUTES, Metadata, is_metadata
from trainfleet_simulator.pai.monitor import Monitor, MonitorSettings, in_its_own_words
from trainfleet_simulator.pai.parameters import Call, Handler
from trainfleet_simulator.pai.sts import Sts
from trainfleet_simulator.refusals import PAI
from trainfleet_simulator.world.fleet import World

_APIS = {
    "2020-12-03": "dlc",
    "2022-01-12": "paistudio",
    "2021-02-04": "aiworkspace",
    "2019-01-01": "cloudmonitor",
    "2015-04-01": "sts",
}
_METADATA = "metadata"
_GET, _RPC = ("GET",), ("POST", "GET")


@dataclass(frozen=True, slots=True)
class _Route:
    """The place of an operation, and the function that responds."""

    path: re.Pattern[str]
    handle: Handler
    methods: tuple[str, ...] = _GET
    signed: bool = True


_USUAL_CODES = {
    400: "InvalidParameter",
    403: "Forbidden.RAM",
    404: "NotFound",
    429: "Throttling.User",
    503: "ServiceUnavailable",
}
_OF_A_JOB = re.compile("/api/v1/jobs/([^/]+)")
_SECRET = {"OIDCToken", "ExternalId"}  # not in the log of responses
_FORM = "application/x-www-form-urlencoded"


def _routes(monitor: Monitor, sts: Sts) -> dict[tuple[str, str], _Route]:
    rpc = re.compile("/")
    last = in_its_own_words(monitor.describe_metric_last)
    listed = in_its_own_words(monitor.describe_metric_list)
    catalogue = in_its_own_words(monitor.describe_metric_meta_list)
    return {
        ("dlc", "ListJobs"): _Route(re.compile("/api/v1/jobs"), dlc.list_jobs),
        ("dlc", "GetJob"): _Route(re.compile("/api/v1/jobs/([^/]+)"), dlc.get_job),
        ("dlc", "GetJobMetrics"): _Route(re.compile("/api/v1/jobs/([^/]+)/metrics"), dlc.get_job_metrics),
        ("dlc", "ListEcsSpecs"): _Route(re.compile("/api/v1/ecsspecs"), dlc.list_ecs_specs),
        ("paistudio", "ListQuotas"): _Route(re.compile("/api/v1/quotas/?"), paistudio.list_quotas),
        ("paistudio", "ListQuotaWorkloads"): _Route(
            re.compile("/api/v1/quotas/([^/]+)/workloads"), quota_workloads.list_quota_workloads
        ),
        ("paistudio", "ListQuotaActiveUserUsages"): _Route(
            re.compile("/api/v1/quotas/([^/]+)/activeuserusages"), quota_users.list_quota_active_user_usages
        ),
        ("paistudio", "ListNodes"): _Route(re.compile("/api/v1/nodes"), quota_nodes.list_nodes),
        ("aiworkspace", "ListWorkspaces"): _Route(re.compile("/api/v1/workspaces"), aiworkspace.list_workspaces),
        ("cloudmonitor", "DescribeMetricLast"): _Route(rpc, last, _RPC),
        ("cloudmonitor", "DescribeMetricList"): _Route(rpc, listed, _RPC),
        ("cloudmonitor", "DescribeMetricMetaList"): _Route(rpc, catalogue, _RPC),
        ("sts", "AssumeRole"): _Route(rpc, sts.assume_role, _RPC),
        ("sts", "AssumeRoleWithOIDC"): _Route(rpc, sts.assume_role_with_oidc, _RPC, signed=False),
    }


class Pai(Cloud):
    """One account with its world."""

    refusals = PAI
    usual_codes = said_on_request(_USUAL_CODES)
    other_code = "InternalError"
    code_fields = ("Code",)

    def __init__(self, world: World, keys: Keys, monitor: MonitorSettings, sts: Sts) -> None:
        self.world = world
        self._verifier = Verifier(keys)
        self._routes = _routes(Monitor(world, monitor), sts)
        self._metadata = Metadata(sts)

    def takes(self, request: ApiRequest) -> bool:
        return "x-acs-version" in request.headers or is_metadata(request.path)

    def identify(self, request: ApiRequest) -> Operation:
        if _of_metadata(request):
            return Operation(_METADATA, route_name(ROUTES, request), {})
        api = _APIS.get(request.headers.get("x-acs-version", ""), "unknown")
        name = request.headers.get("x-acs-action", "")
        if (api, name) not in self._routes:
            name = "unknown"  # any client can send names: the table must not grow without end
        parameters = {key: value for key, value in _parameters(request).items() if key not in _SECRET}
        found = _OF_A_JOB.match(request.path)
        return Operation(api, name, parameters if found is None else parameters | {"JobId": unquote(found[1])})

    def answer(self, request: ApiRequest, operation: Operation, now: float) -> Answer:
        if operation.api == _METADATA:
            return self._metadata.answer(request, operation.name, now)
        route = self._routes.get((operation.api, operation.name))
        query = dict(request.query)
        if route is None or route.signed:
            self._verifier.check(request, now)
        else:
            query = _parameters(request)
        found = None if route is None else route.path.fullmatch(request.path)
        if route is None or found is None or request.method not in route.methods:
            raise ApiError(
                404, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."
            )
        self.world.advance(now)
        return route.handle(Call(query, tuple(unquote(part) for part in found.groups()), self.world, now))

    def respond(self, answer: Answer, request_id: str) -> Response:
        if answer.text is not None:
            return PlainTextResponse(answer.text, headers=dict(answer.headers))
        assert answer.body is not None
        return JSONResponse(answer.body | {"RequestId": request_id}, headers={"x-acs-request-id": request_id})

    def refuse(self, error: ApiError, request: ApiRequest, operation: Operation, request_id: str) -> Response:
        if operation.api == _METADATA:
            return PlainTextResponse(f"{error.status} - {error.message}\n", error.status)
        body: dict[str, Any] = {
            "Code": error.code,
            "Message": error.message,
            "RequestId": request_id,
            "HostId": request.headers.get("host", ""),
            "Recommend": f"https://api.aliyun.com/troubleshoot?q={error.code}",
        }
        return JSONResponse(body, error.status, headers={"x-acs-request-id": request_id})

    def hint(self, seconds: int) -> Mapping[str, str]:
        return {"x-acs-retry-after": str(seconds * 1000)}


def _of_metadata(request: ApiRequest) -> bool:
    return "x-acs-version" not in request.headers and is_metadata(request.path)


def _parameters(request: ApiRequest) -> dict[str, str]:
    """Return the parameters of the query and of a form."""
    form: list[tuple[str, str]] = []
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        form = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
    return dict(request.query) | dict(form)
