"""The simulated Alibaba services behind one address.

The services have the same paths on different hosts. Here they share an address and differ by `x-acs-version`, which
every request has and almost every request signs. The metadata service has no versions, and is found by its paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.responses import JSONResponse, Response

from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, Call, Cloud, Row, route
from trainfleet_simulator.pai import dlc, paistudio
from trainfleet_simulator.pai.monitor import Monitor
from trainfleet_simulator.pai.sts import Sts
from trainfleet_simulator.signatures import ALIBABA, Verifier
from trainfleet_simulator.world.fleet import World

_APIS = {
    "2020-12-03": "dlc",
    "2022-01-12": "paistudio",
    "2021-02-04": "aiworkspace",
    "2019-01-01": "cloudmonitor",
    "2015-04-01": "sts",
}
_METADATA = re.compile("/latest/(?:api|meta-data)/")
_QUOTA, _USERS = "GET /api/v1/quotas/{QuotaId}", "GET /api/v1/quotas/{QuotaId}/activeuserusages"
_RPC, _PAGED = "(?:GET|POST) /", "PageNumber"

_THROTTLED = "Request was denied due to user flow control."
_RIGHT = "You are not authorized to do this action: {}."
_BY_TOKEN, _TOKEN = "AssumeRoleWithOIDC", "AuthenticationFail.OIDCToken"
_REFUSALS: Sequence[Row] = (
    ("unknown", "", (404, "InvalidAction.NotFound", "Specified api is not found, please check your url and method.")),
    ("invalid", "cloudmonitor", (400, "ParameterInvalid", "{detail}")),
    ("invalid", "", (400, "InvalidParameter", "{detail}")),
    # The public table of codes has 400; users report 429 for the other services.
    ("throttled", "dlc cloudmonitor sts", (400, "Throttling.User", _THROTTLED)),
    ("throttled", "", (429, "Throttling.User", _THROTTLED)),
    ("server_error", "", (500, "InternalError", "The request processing has failed due to some unknown error.")),
    ("denied", "dlc", (403, "Forbidden.RAM", _RIGHT.format("paidlc:{name}"))),
    ("denied", "paistudio", (403, "Forbidden.RAM", _RIGHT.format("pai:{name}"))),
    ("denied", "aiworkspace", (403, "Forbidden.RAM", _RIGHT.format("paiworkspace:{name}"))),
    ("denied", "cloudmonitor", (403, "Forbidden.RAM", _RIGHT.format("cms:{name}"))),
    ("denied", "", (403, "Forbidden.RAM", _RIGHT.format("{api}:{name}"))),
    ("not_found", "", (404, "NotFound", "The specified resource is not found.")),
    ("skewed_clock", _BY_TOKEN, None),
    ("skewed_clock", "", (400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")),
    ("expired_credentials", _BY_TOKEN, (400, f"{_TOKEN}.Expired", "This JSON Web Token has expired.")),
    ("expired_credentials", "", (400, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")),
    ("revoked_credentials", _BY_TOKEN, (400, f"{_TOKEN}.Invalid", "The OIDC token is invalid.")),
    ("revoked_credentials", "", (404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")),
    ("authorization", "", (400, "IncompleteSignature", "The Authorization header is missing or malformed.")),
    ("date", "", (400, "InvalidTimeStamp.Format", "Specified time stamp or date value is malformed.")),
    ("token", "", (400, "InvalidSecurityToken.MismatchWithAccessKey", "The security token does not fit the key.")),
    ("names", "", (400, "IncompleteSignature", "Not among the signed headers: {detail}.")),
    ("signature", "", (400, "SignatureDoesNotMatch", "The signature does not conform to Aliyun standards.")),
    ("nonce", "", (400, "SignatureNonceUsed", "Specified signature nonce was used already.")),
)


class Pai(Cloud):
    """One account with its world."""

    refusals = _REFUSALS
    secret = frozenset({"OIDCToken", "ExternalId"})
    id_header = "x-acs-request-id"

    def __init__(self, world: World, sts: Sts) -> None:
        super().__init__(world)
        self._verifier = Verifier(ALIBABA, sts)
        monitor = Monitor(world)
        self.routes = [
            route("dlc", "ListJobs", f"GET /api/v1/jobs {_PAGED}", dlc.list_jobs),
            route("dlc", "GetJob", "GET /api/v1/jobs/{JobId}", dlc.get_job),
            route("dlc", "GetJobMetrics", "GET /api/v1/jobs/{JobId}/metrics", dlc.get_job_metrics),
            route("dlc", "ListEcsSpecs", f"GET /api/v1/ecsspecs {_PAGED}", dlc.list_ecs_specs),
            route("paistudio", "ListQuotas", f"GET /api/v1/quotas/? {_PAGED}", paistudio.list_quotas),
            route("paistudio", "ListQuotaWorkloads", f"{_QUOTA}/workloads {_PAGED}", paistudio.list_quota_workloads),
            route("paistudio", "ListQuotaActiveUserUsages", f"{_USERS} {_PAGED}", paistudio.list_users),
            route("paistudio", "ListNodes", f"GET /api/v1/nodes {_PAGED}", paistudio.list_nodes),
            route("aiworkspace", "ListWorkspaces", f"GET /api/v1/workspaces {_PAGED}", dlc.list_workspaces),
            route("cloudmonitor", "DescribeMetricLast", f"{_RPC} NextToken", monitor.describe_metric_last),
            route("cloudmonitor", "DescribeMetricList", f"{_RPC} NextToken", monitor.describe_metric_list),
            route("cloudmonitor", "DescribeMetricMetaList", f"{_RPC} {_PAGED}", monitor.describe_metric_meta_list),
            *sts.routes(),
        ]

    def takes(self, request: ApiRequest) -> bool:
        return "x-acs-version" in request.headers or bool(_METADATA.match(request.path))

    def named(self, request: ApiRequest) -> tuple[str, str]:
        version = request.headers.get("x-acs-version")
        if version is None and _METADATA.match(request.path):
            return "metadata", ""
        # Without a name, no operation fits.
        return _APIS.get(version or "", "unknown"), request.headers.get("x-acs-action") or "unknown"

    def verify(self, call: Call) -> None:
        self._verifier.check(call)

    def respond(self, answer: Answer, call: Call) -> Response:
        if answer.body is not None:
            answer.body["RequestId"] = call.request_id
        return super().respond(answer, call)

    def reject(self, error: ApiError, call: Call) -> Response:
        body = {
            "Code": error.code,
            "Message": error.message,
            "RequestId": call.request_id,
            "HostId": call.request.headers.get("host", ""),
        }
        return JSONResponse(body, error.status, headers={self.id_header: call.request_id})

    def hint(self, seconds: int) -> Mapping[str, str]:
        return {"x-acs-retry-after": str(seconds * 1000)}
