"""The simulated AWS services behind one address.

SageMaker and CloudWatch use JSON and the operation in X-Amz-Target. STS uses forms and XML.
https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, Response

from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, Call, Cloud, Row, XmlResponse, place_of, route
from trainfleet_simulator.sagemaker import cloudwatch, hyperpod, training
from trainfleet_simulator.sagemaker.catalog import REGION
from trainfleet_simulator.sagemaker.identity import CONTAINER_PATH, TTL_HEADER, XMLNS, AwsSts
from trainfleet_simulator.signatures import AWS, Verifier
from trainfleet_simulator.world.fleet import World

_TARGETS = {"SageMaker": "sagemaker", "GraniteServiceVersion20100801": "cloudwatch"}
_JSON = {"sagemaker": "application/x-amz-json-1.1", "cloudwatch": "application/x-amz-json-1.0"}
_SIGNING_NAMES = {"cloudwatch": "monitoring"}
_STS_VERSION = "2011-06-15"
_BY_IDENTITY = "AssumeRoleWithWebIdentity"
_RIGHT = "User: arn:aws:iam::123456789012:user/exporter is not authorized to perform: {api}:{name} on resource: *"
_INVALID_SIGNATURE, _INCOMPLETE = "InvalidSignatureException", "IncompleteSignatureException"
_UNKNOWN_TOKEN = (403, "UnrecognizedClientException", "The security token included in the request is invalid.")
_EXPIRED, _NO_PROVIDER = "ExpiredTokenException", "No OpenIDConnect provider found in your account"
_REFUSALS: Sequence[Row] = (
    ("unknown", "", (404, "UnknownOperationException", "The requested operation is not recognized.")),
    ("invalid", "", (400, "ValidationException", "{detail}")),
    ("throttled", "", (400, "ThrottlingException", "Rate exceeded")),
    ("server_error", "", (500, "InternalFailure", "The request processing has failed because of an unknown error.")),
    ("denied", "", (403, "AccessDeniedException", _RIGHT)),
    ("not_found", "", (400, "ResourceNotFound", "Requested resource not found.")),
    ("skewed_clock", _BY_IDENTITY, None),
    ("skewed_clock", "", (403, _INVALID_SIGNATURE, "Signature expired: {detail} is now earlier (- 5 min.)")),
    ("expired_credentials", _BY_IDENTITY, (400, _EXPIRED, "Token expired")),
    ("expired_credentials", "", (403, _EXPIRED, "The security token included in the request is expired")),
    ("revoked_credentials", _BY_IDENTITY, (400, "InvalidIdentityToken", _NO_PROVIDER)),
    ("revoked_credentials", "", _UNKNOWN_TOKEN),
    ("unsigned", "", (403, "MissingAuthenticationTokenException", "Missing Authentication Token")),
    ("authorization", "", (403, _INCOMPLETE, "Authorization header is malformed")),
    ("date", "", (403, _INCOMPLETE, "Date must be in ISO-8601 'basic format'")),
    ("token", "", _UNKNOWN_TOKEN),
    ("scope", "", (403, _INVALID_SIGNATURE, "Credential should be scoped to {detail}.")),
    ("names", "", (403, _INVALID_SIGNATURE, "'{detail}' must be a 'SignedHeader' in the Authorization.")),
    ("signature", "", (403, _INVALID_SIGNATURE, "The request signature we calculated does not match.")),
)
_QUERY_CODES = {
    "AccessDeniedException": "AccessDenied",
    "ThrottlingException": "Throttling",
    "IncompleteSignatureException": "IncompleteSignature",
    "InvalidSignatureException": "SignatureDoesNotMatch",
    "MissingAuthenticationTokenException": "MissingAuthenticationToken",
    "UnrecognizedClientException": "InvalidClientTokenId",
    "ExpiredTokenException": "ExpiredToken",
}
"""The query protocol's codes for the common errors of the JSON protocols."""


class Aws(Cloud):
    """One account in one region, with the training jobs of a world."""

    refusals = _REFUSALS
    secret = frozenset({"WebIdentityToken", "ExternalId"})
    id_header = "x-amzn-requestid"

    def __init__(self, world: World, sts: AwsSts) -> None:
        super().__init__(world)
        self._verifier = Verifier(AWS, sts)
        self.routes = [
            route("sagemaker", "Search", "POST / NextToken", training.search),
            route("sagemaker", "DescribeTrainingJob", "POST /", training.describe),
            route("sagemaker", "ListClusters", "POST / NextToken", hyperpod.list_clusters),
            route("sagemaker", "DescribeCluster", "POST /", hyperpod.describe_cluster),
            route("sagemaker", "ListClusterNodes", "POST / NextToken", hyperpod.list_cluster_nodes),
            route("sagemaker", "ListTrainingPlans", "POST / NextToken", hyperpod.list_training_plans),
            route("cloudwatch", "GetMetricData", "POST / NextToken", cloudwatch.get_metric_data),
            *sts.routes(),
        ]

    def takes(self, request: ApiRequest) -> bool:
        headers = request.headers
        is_signed = headers.get("authorization", "").startswith(AWS.algorithm)
        return "x-amz-target" in headers or is_signed or self.named(request)[0] in {"sts", "metadata"}

    def named(self, request: ApiRequest) -> tuple[str, str]:
        if _is_metadata(request):
            return "metadata", ""
        form = request.form()
        if "x-acs-version" not in request.headers and form.get("Version") == _STS_VERSION:
            return "sts", form.get("Action") or "unknown"
        prefix, _, name = request.headers.get("x-amz-target", "").partition(".")
        return _TARGETS.get(prefix, "sagemaker"), (name if prefix in _TARGETS else "") or "unknown"

    def facts(self, request: ApiRequest, name: str) -> Mapping[str, str]:
        return super().facts(request, name) or _facts(request.json())

    def verify(self, call: Call) -> None:
        self._verifier.check(call, f"{REGION}/{_SIGNING_NAMES.get(call.api, call.api)}")
        if call.api in _JSON and call.request.headers.get("content-type") != _JSON[call.api]:
            raise ApiError(400, "SerializationException", f"Content-Type is not {_JSON[call.api]}")

    def respond(self, answer: Answer, call: Call) -> Response:
        response = super().respond(answer, call)
        if call.api in _JSON:
            response.headers["content-type"] = _JSON[call.api]
        return response

    def reject(self, error: ApiError, call: Call) -> Response:
        headers = {self.id_header: call.request_id}
        in_query = _QUERY_CODES.get(error.code, error.code)
        match call.api:
            case "sts":
                if call.name == _BY_IDENTITY:
                    in_query = error.code  # it has its own errors and codes
                return XmlResponse(
                    f'<ErrorResponse xmlns="{XMLNS}"><Error><Type>Sender</Type><Code>{in_query}</Code>'
                    f"<Message>{escape(error.message)}</Message></Error><RequestId>{call.request_id}</RequestId>"
                    "</ErrorResponse>",
                    error.status,
                    headers=headers,
                )
            case "cloudwatch":
                headers["x-amzn-query-error"] = f"{in_query};{'Sender' if error.status < 500 else 'Receiver'}"
                body = {"__type": f"com.amazonaws.cloudwatch#{error.code}", "message": error.message}
                status = error.status
            case _:
                # Errors from in front of the service have a prefix. Every error of the caller is a 400.
                shared = error.code in _QUERY_CODES
                body = {
                    "__type": f"com.amazon.coral.service#{error.code}" if shared else error.code,
                    "Message" if shared or error.code == "ResourceNotFound" else "message": error.message,
                }
                status = 400 if shared else error.status
        headers |= {"content-type": _JSON[call.api], "x-amzn-errortype": error.code}
        return JSONResponse(body, status, headers=headers)


def _is_metadata(request: ApiRequest) -> bool:
    """Return whether a request is for the machine. The service of another cloud has the same path for its tokens."""
    if request.path == "/latest/api/token":
        return TTL_HEADER in request.headers
    return request.path.startswith("/latest/meta-data/iam/") or request.path == CONTAINER_PATH


def _facts(body: Any) -> dict[str, str]:
    """Return the plain members of a request, the filters of a search, and the number of rows before a page."""
    if not isinstance(body, dict):
        return {}
    plain = {name: str(value) for name, value in body.items() if isinstance(value, str | int | float)}
    expression = body.get("SearchExpression")
    filters = expression.get("Filters") if isinstance(expression, dict) else None
    for one in filters if isinstance(filters, list) else []:
        if isinstance(one, dict) and isinstance(one.get("Name"), str):
            plain.setdefault(one["Name"], str(one.get("Value", "")))
    if offset := place_of(plain.get("NextToken", ""))[1]:
        plain["Offset"] = str(offset)
    return plain
