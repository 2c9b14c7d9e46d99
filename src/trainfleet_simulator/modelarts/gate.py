"""The simulated ModelArts, IAM, STS, AOM and machine metadata behind one address.

It finds the operation of a request, checks the identity, and responds.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from starlette.responses import JSONResponse, PlainTextResponse, Response

from trainfleet_exporter.providers.huawei_modelarts.api import ALGORITHM
from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, Cloud, Operation
from trainfleet_simulator.keys import Tokens
from trainfleet_simulator.modelarts import iam, monitor, pools, sts, training, v1, workloads
from trainfleet_simulator.modelarts.agency import Agency
from trainfleet_simulator.modelarts.aom import (
    list_instant_query_aom_prom,
    list_label_values_aom_prom,
    list_range_query_aom_prom,
    metric_of,
)
from trainfleet_simulator.modelarts.aom_samples import Aom, Samples
from trainfleet_simulator.modelarts.auth import Gatekeeper
from trainfleet_simulator.modelarts.catalog import PROJECT_ID
from trainfleet_simulator.modelarts.node_loads import NodeLoads
from trainfleet_simulator.modelarts.parameters import Call, Handler, refused
from trainfleet_simulator.modelarts.scheduled_events import list_scheduled_events
from trainfleet_simulator.modelarts.task_series import TaskSeries
from trainfleet_simulator.refusals import MODELARTS
from trainfleet_simulator.world.fleet import World

_V1_VERSION = "/v1/{project}/training-jobs/{JobId}/versions/{VersionId}"
_AOM = "/v1/{project}/[{Instance}/]aom/api/v1"
_ROUTES: tuple[tuple[str, str, str, Handler], ...] = (
    ("ListTrainingJobs", "POST", "/v2/{project}/training-job-searches", training.list_training_jobs),
    ("ShowTrainingJobDetails", "GET", "/v2/{project}/training-jobs/{JobId}", training.show_training_job_details),
    (
        "ShowTrainingJobMetrics",
        "GET",
        "/v2/{project}/training-jobs/{JobId}/metrics/{TaskId}",
        training.show_training_job_metrics,
    ),
    ("ShowTrainingQuotas", "GET", "/v2/{project}/training-quotas", training.show_training_quotas),
    ("ListPools", "GET", "/v2/{project}/pools", pools.list_pools),
    ("ShowPoolRuntimeMetrics", "GET", "/v2/{project}/metrics/runtime/pools", pools.show_pool_runtime_metrics),
    ("ShowPoolMonitor", "GET", "/v2/{project}/pools/{PoolId}/monitor", monitor.show_pool_monitor),
    ("ListPoolNodes", "GET", "/v2/{project}/pools/{PoolId}/nodes", pools.list_pool_nodes),
    ("ListWorkloads", "GET", "/v2/{project}/pools/{PoolId}/workloads", workloads.list_workloads),
    (
        "ShowWorkloadStatistics",
        "GET",
        "/v2/{project}/statistics/pools/{PoolId}/workloads",
        workloads.show_workload_statistics,
    ),
    ("ListScheduledEvents", "GET", "/v1/{project}/scheduled-events", list_scheduled_events),
    ("ListWorkspaces", "GET", "/v1/{project}/workspaces", v1.list_workspaces),
    ("ListTrainingJobsV1", "GET", "/v1/{project}/training-jobs", v1.list_training_jobs_v1),
    ("ListTrainingJobVersions", "GET", "/v1/{project}/training-jobs/{JobId}/versions", v1.list_training_job_versions),
    ("ListLogFileNames", "GET", f"{_V1_VERSION}/log/file-names", v1.list_log_file_names),
    ("ShowPodMetricStatistic", "GET", f"{_V1_VERSION}/pod/{{PodName}}/metric-statistic", v1.show_pod_metric_statistic),
    ("KeystoneCreateUserTokenByPassword", "POST", "/v3/auth/tokens", iam.keystone_create_user_token_by_password),
    ("KeystoneListProjects", "GET", "/v3/projects", iam.keystone_list_projects),
    ("AssumeAgencyWithOIDC", "POST", "/v5/agencies/assume-with-oidc", sts.assume_agency_with_oidc),
    ("GetMetadataToken", "PUT", "/meta-data/latest/api/token", sts.get_metadata_token),
    ("GetSecurityKey", "GET", "/openstack/latest/securitykey", sts.get_security_key),
    # Both methods, with or without an instance: the vendor's client has a name for each, but the log has one.
    ("ListInstantQueryAomPromPost", "POST", f"{_AOM}/query", list_instant_query_aom_prom),
    ("ListInstantQueryAomPromPost", "GET", f"{_AOM}/query", list_instant_query_aom_prom),
    ("ListRangeQueryAomPromPost", "POST", f"{_AOM}/query_range", list_range_query_aom_prom),
    ("ListRangeQueryAomPromPost", "GET", f"{_AOM}/query_range", list_range_query_aom_prom),
    ("ListLabelValuesAomPromGet", "GET", f"{_AOM}/label/__name__/values", list_label_values_aom_prom),
)


def _pattern(path: str) -> re.Pattern[str]:
    """Compile a path with names in braces and optional parts in square brackets."""
    optional = path.replace("[", "(?:").replace("]", ")?")
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", optional))


_OPERATIONS = [(name, method, _pattern(path), handle) for name, method, path, handle in _ROUTES]
_OURS = re.compile("/v[1235]/|/meta-data/|/openstack/")
_APIS = tuple(
    (re.compile(pattern), api)
    for pattern, api in (
        ("/v3/", "iam"),
        ("/v5/", "sts"),
        ("/meta-data/|/openstack/", "metadata"),
        ("/v1/[^/]+/([^/]+/)?aom/", "aom"),
    )
)
_UNSIGNED = {"KeystoneCreateUserTokenByPassword", "AssumeAgencyWithOIDC", "GetMetadataToken", "GetSecurityKey"}
"""Operations for callers that have no key or token yet."""
_OLD = {"ListTrainingJobsV1", "ListTrainingJobVersions", "ListLogFileNames"}
_USUAL = {
    400: ("ModelArts.2764", "Invalid parameter."),
    401: ("APIGW.0301", "Incorrect IAM authentication information: verify aksk signature fail"),
    403: ("ModelArts.0108", "You are not authorized to do this."),
    404: ("APIGW.0101", "The API does not exist or has not been published in the environment"),
    429: (
        "APIGW.0308",
        "The throttling threshold has been reached: policy user over ratelimit,limit:60,time:1 minute",
    ),
    503: ("APIGW.0613", "IAM is unavailable."),
}
_AOM_ERRORS = {400: "bad_data", 403: "forbidden", 422: "execution", 503: "unavailable"}


class ModelArts(Cloud):
    """One project. Its v2 jobs and pools are in one world, and its v1 jobs in another."""

    refusals = MODELARTS
    usual_codes = _USUAL
    other_code = "ModelArts.0010"
    code_fields = ("error_code", "errorType")

    def __init__(
        self, world: World, legacy: World, gatekeeper: Gatekeeper, *, tokens: Tokens, agency: Agency, aom: Aom
    ) -> None:
        self.world = world
        self.legacy = legacy
        self._gatekeeper = gatekeeper
        self._tokens = tokens
        self._agency = agency
        self._aom = aom
        self._series = TaskSeries()
        self._samples = Samples()
        self._loads = NodeLoads()

    def takes(self, request: ApiRequest) -> bool:
        authorization = request.headers.get("authorization", "")
        return (
            bool(_OURS.match(request.path)) or "x-auth-token" in request.headers or authorization.startswith(ALGORITHM)
        )

    def identify(self, request: ApiRequest) -> Operation:
        api = next((api for pattern, api in _APIS if pattern.match(request.path)), "modelarts")
        found = _find(request)
        parameters = dict(request.query)
        if found is None:
            return Operation(api, "unknown", parameters)
        name, ids, _ = found
        if name == "ListTrainingJobs":
            parameters |= _searched(request.body)
        elif name in {"ListInstantQueryAomPromPost", "ListRangeQueryAomPromPost"}:
            parameters["metric"] = metric_of(parameters.get("query", ""))
        return Operation(api, name, parameters | ids)

    def answer(self, request: ApiRequest, operation: Operation, now: float) -> Answer:
        found = _find(request)
        if found is None:
            raise ApiError(404, *_USUAL[404])
        _, ids, handle = found
        if operation.name not in _UNSIGNED:
            self._gatekeeper.check(request, now)
        project, instance = ids.pop("project", PROJECT_ID), ids.pop("Instance", "0")
        if {project, request.headers.get("x-project-id", PROJECT_ID)} != {PROJECT_ID}:
            raise refused("0210", "The project ID in the URL does not match that of the credentials.", 403)
        query: dict[str, list[str]] = {}
        for key, value in request.query:
            query.setdefault(key, []).append(value)
        self.world.advance(now)
        self.legacy.advance(now)
        call = Call(
            query=query,
            ids=tuple(ids.values()),
            body=_decoded(request.body) if request.method == "POST" and operation.api != "aom" else None,
            world=self.world,
            legacy=self.legacy,
            series=self._series,
            tokens=self._tokens,
            now=now,
            headers=request.headers,
            agency=self._agency,
            aom=self._aom,
            samples=self._samples,
            loads=self._loads,
            instance=instance,
        )
        return handle(call)

    def respond(self, answer: Answer, request_id: str) -> Response:
        headers = {"X-Request-Id": request_id, **answer.headers}
        if answer.text is not None:
            return PlainTextResponse(answer.text, answer.status, headers=headers)
        if answer.body is None:
            return Response(status_code=answer.status, headers=headers)
        return JSONResponse(answer.body, answer.status, headers=headers)

    def refuse(self, error: ApiError, request: ApiRequest, operation: Operation, request_id: str) -> Response:
        body: dict[str, Any]
        if operation.api == "metadata":
            return PlainTextResponse(error.message, error.status)
        if error.code.startswith(("APIGW.", "PAP5.")):
            body = {"error_code": error.code, "error_msg": error.message, "request_id": request_id}
        elif operation.api == "iam":
            body = {"error": {"code": error.status, "message": error.message, "title": "Refused"}}
        elif operation.api == "aom":
            kind = _AOM_ERRORS.get(error.status, "internal")
            body = {"status": "error", "errorType": kind, "error": error.message}
        elif operation.name in _OLD:
            body = {"is_success": False, "error_code": error.code, "error_message": error.message}
        else:
            body = {"error_code": error.code, "error_msg": error.message}
        return JSONResponse(body, error.status, headers={"X-Request-Id": request_id})


def _find(request: ApiRequest) -> tuple[str, dict[str, str], Handler] | None:
    """Return the operation of a path, and the names in the path, in their order."""
    for operation, method, pattern, handle in _OPERATIONS:
        found = pattern.fullmatch(request.path)
        if found is not None and method == request.method:
            ids = {name: unquote(part) for name, part in found.groupdict().items() if part is not None}
            return operation, ids, handle
    return None


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise refused("2764", "The request body is not JSON.") from None


def _searched(body: bytes) -> dict[str, str]:
    """Return the fields of a search for `/truth` and `/faults`: its plain fields, and each filter by its key."""
    try:
        given = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(given, dict):
        return {}
    facts = {name: str(value) for name, value in given.items() if isinstance(value, str | int)}
    for one in given.get("filters") or ():
        if isinstance(one, dict) and isinstance(one.get("value"), list):
            facts[str(one.get("key"))] = ",".join(map(str, one["value"]))
    return facts
