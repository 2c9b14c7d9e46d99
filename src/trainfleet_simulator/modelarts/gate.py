"""The simulated ModelArts, IAM, STS, AOM and machine metadata behind one address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.responses import JSONResponse, Response

from trainfleet_simulator.exchange import ApiError, ApiRequest, Call, Cloud, Row, route
from trainfleet_simulator.modelarts import pools, training
from trainfleet_simulator.modelarts.agency import Agency
from trainfleet_simulator.modelarts.aom import Aom, metric_of
from trainfleet_simulator.modelarts.catalog import PROJECT_ID
from trainfleet_simulator.modelarts.v1 import V1
from trainfleet_simulator.signatures import HUAWEI, Verifier
from trainfleet_simulator.world.fleet import World

_OURS = re.compile("/v[1235]/|/meta-data/|/openstack/")
_PROJECT = re.compile("/v[12]/([^/]+)/")
_OLD = "ListTrainingJobsV1 ListTrainingJobVersions ListLogFileNames"
_QUERY, _RANGE = "ListInstantQueryAomPromPost", "ListRangeQueryAomPromPost"
"""Both methods, with or without an instance: the vendor's client has a name for each, but the log has one."""
_AOM_ERRORS = {400: "bad_data", 403: "forbidden", 422: "execution", 503: "unavailable"}
_BY_PASSWORD, _BY_ID_TOKEN = "KeystoneCreateUserTokenByPassword", "AssumeAgencyWithOIDC"
_PASSWORD = (401, "401", "The username or password is wrong.")
_ID_TOKEN = (403, "PAP5.0001", "access denied: the ID token is invalid or has expired")
_TOKEN = (401, "APIGW.0307", "The token must be updated")
_NO_POOL, _NO_JOB = (404, "ModelArts.50015001", "Pool not found."), "The training job does not exist."
_NO_API = (404, "APIGW.0101", "The API does not exist or has not been published in the environment")
_IAM = "Incorrect IAM authentication information: "
_REFUSALS: Sequence[Row] = (
    ("unknown", "", _NO_API),
    ("invalid", "aom", (400, "bad_data", "{detail}")),
    ("invalid", f"{_OLD} ListWorkspaces ShowPodMetricStatistic", (400, "ModelArts.0105", "{detail}")),
    ("invalid", "ListTrainingJobs ShowTrainingQuotas ShowTrainingJobMetrics", (400, "ModelArts.2764", "{detail}")),
    ("invalid", "sts", (400, "PAP5.0011", "malformed request")),  # not documented; usual of this family of services
    ("invalid", "", (400, "ModelArts.50004000", "{detail}")),
    # Without the policy that names a limit, which would be a hint.
    ("throttled", "", (429, "APIGW.0308", "The throttling threshold has been reached")),
    ("server_error", "", (500, "ModelArts.0010", "System error.")),
    ("denied", "sts", (403, "PAP5.0001", "access denied: the agency may not be assumed")),
    ("denied", "iam", (403, "403", "You are not authorized to perform the requested action.")),
    ("denied", "aom", (403, "forbidden", "aom:metric:list is not allowed")),
    ("denied", "", (403, "ModelArts.0108", "You are not authorized to do this.")),
    ("not_found", "ShowTrainingJobMetrics", (400, "ModelArts.2775", _NO_JOB)),
    ("not_found", "ShowPoolMonitor ListPoolNodes ListWorkloads ShowWorkloadStatistics", _NO_POOL),
    ("not_found", "ListTrainingJobVersions ListLogFileNames ShowPodMetricStatistic", (404, "ModelArts.0105", _NO_JOB)),
    ("not_found", "iam", (404, "404", "Could not find the requested resource.")),
    ("not_found", "", _NO_API),
    ("skewed_clock", f"token {_BY_PASSWORD} {_BY_ID_TOKEN}", None),  # a token has no time of the client
    ("skewed_clock", "", (401, "APIGW.0301", f"{_IAM}verify aksk signature fail, signature expired")),
    ("expired_credentials", _BY_PASSWORD, _PASSWORD),
    ("expired_credentials", _BY_ID_TOKEN, _ID_TOKEN),
    ("expired_credentials", "token", _TOKEN),
    ("expired_credentials", "", (401, "APIGW.0301", f"{_IAM}the security token has expired")),
    ("revoked_credentials", _BY_PASSWORD, _PASSWORD),
    ("revoked_credentials", _BY_ID_TOKEN, _ID_TOKEN),
    ("revoked_credentials", "token", _TOKEN),
    ("revoked_credentials", "", (401, "APIGW.0301", _IAM + "ak {detail} not exist")),
    ("authorization", "", (401, "APIGW.0301", f"{_IAM}Authorization header is missing or malformed")),
    ("date", "", (401, "APIGW.0301", f"{_IAM}x-sdk-date is missing or malformed")),
    ("token", "", (401, "APIGW.0301", f"{_IAM}the security token does not fit the ak")),
    ("names", "", (401, "APIGW.0301", f"{_IAM}verify aksk signature fail, signed headers are incomplete")),
    ("signature", "", (401, "APIGW.0301", f"{_IAM}verify aksk signature fail")),
)


class ModelArts(Cloud):
    """One project. Its v2 jobs and pools are in one world, and its v1 jobs in another."""

    refusals = _REFUSALS
    id_header = "X-Request-Id"

    def __init__(self, world: World, legacy: World, agency: Agency, aom: Aom) -> None:
        super().__init__(world)
        self._verifier = Verifier(HUAWEI, agency)
        self._tokens = agency.tokens
        v1 = V1(legacy)
        project = "/v[12]/[^/]+"
        job, version = f"{project}/training-jobs/{{JobId}}", f"{project}/training-jobs/{{JobId}}/versions/{{VersionId}}"
        pool, query = f"GET {project}/pools/{{PoolId}}", f"{project}/(?:0/)?aom/api/v1"
        statistics = f"{project}/statistics/pools/{{PoolId}}/workloads"
        show_statistic = f"GET {version}/pod/{{PodName}}/metric-statistic"
        self.routes = [
            route("modelarts", "ListTrainingJobs", f"POST {project}/training-job-searches offset", training.list_jobs),
            route("modelarts", "ShowTrainingJobMetrics", f"GET {job}/metrics/{{TaskId}}", training.show_metrics),
            route("modelarts", "ShowTrainingQuotas", f"GET {project}/training-quotas", training.show_quotas),
            route("modelarts", "ListPools", f"GET {project}/pools", pools.list_pools),
            route("modelarts", "ShowPoolRuntimeMetrics", f"GET {project}/metrics/runtime/pools", pools.show_metrics),
            route("modelarts", "ShowPoolMonitor", f"{pool}/monitor", pools.Monitor(world).show_pool_monitor),
            route("modelarts", "ListPoolNodes", f"{pool}/nodes continue", pools.list_pool_nodes),
            route("modelarts", "ListWorkloads", f"{pool}/workloads offset", pools.list_workloads),
            route("modelarts", "ShowWorkloadStatistics", f"GET {statistics}", pools.show_workload_statistics),
            route("modelarts", "ListScheduledEvents", f"GET {project}/scheduled-events offset", pools.list_events),
            route("modelarts", "ListWorkspaces", f"GET {project}/workspaces offset", v1.list_workspaces),
            route("modelarts", "ListTrainingJobsV1", f"GET {project}/training-jobs page", v1.list_jobs),
            route("modelarts", "ListTrainingJobVersions", f"GET {job}/versions page", v1.list_versions),
            route("modelarts", "ListLogFileNames", f"GET {version}/log/file-names", v1.list_log_file_names),
            route("modelarts", "ShowPodMetricStatistic", show_statistic, v1.show_statistic),
            route("aom", _QUERY, f"(?:GET|POST) {query}/query", aom.query),
            route("aom", _RANGE, f"(?:GET|POST) {query}/query_range", aom.query_range),
            route("aom", "ListLabelValuesAomPromGet", f"GET {query}/label/__name__/values", aom.names),
            *agency.routes(),
        ]

    def takes(self, request: ApiRequest) -> bool:
        headers = request.headers
        is_signed = headers.get("authorization", "").startswith(HUAWEI.algorithm)
        return bool(_OURS.match(request.path)) or "x-auth-token" in headers or is_signed

    def named(self, request: ApiRequest) -> tuple[str, str]:
        return "", ""

    def facts(self, request: ApiRequest, name: str) -> Mapping[str, str]:
        query = dict(request.query)
        if name == "ListTrainingJobs":
            return query | training.facts_of(request.json())
        return query | ({"metric": metric_of(query.get("query", ""))} if name in {_QUERY, _RANGE} else {})

    def verify(self, call: Call) -> None:
        token = call.request.headers.get("x-auth-token")
        if token is None:
            self._verifier.check(call)
        elif not self._tokens.is_valid(token, call.now):
            raise call.refused("expired_credentials")
        found = _PROJECT.match(call.request.path)
        if {found[1] if found else PROJECT_ID, call.request.headers.get("x-project-id", PROJECT_ID)} != {PROJECT_ID}:
            raise ApiError(403, "ModelArts.0210", "The project ID in the URL does not match that of the credentials.")

    def reject(self, error: ApiError, call: Call) -> Response:
        body: dict[str, object]
        if error.code.startswith(("APIGW.", "PAP5.")):
            body = {"error_code": error.code, "error_msg": error.message, "request_id": call.request_id}
        elif call.api == "iam":
            body = {"error": {"code": error.status, "message": error.message, "title": "Refused"}}
        elif call.api == "aom":
            kind = _AOM_ERRORS.get(error.status, "internal")
            body = {"status": "error", "errorType": kind, "error": error.message}
        elif call.name in _OLD.split():
            body = {"is_success": False, "error_code": error.code, "error_message": error.message}
        else:
            body = {"error_code": error.code, "error_msg": error.message}
        return JSONResponse(body, error.status, headers={self.id_header: call.request_id})
