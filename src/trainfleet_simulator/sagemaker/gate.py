"""The simulated AWS services behind one address: finds the operation, checks the identity, responds.

SageMaker and CloudWatch use JSON and the operation in X-Amz-Target. STS uses forms and XML.
https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, PlainTextResponse, Response

from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, Cloud, Operation, route_name, said_on_request
from trainfleet_simulator.keys import Keys
from trainfleet_simulator.refusals import AWS, AWS_QUERY_CODES
from trainfleet_simulator.sagemaker import cloudwatch, hyperpod, plans, training
from trainfleet_simulator.sagemaker.auth import ALGORITHM, Verifier
from trainfleet_simulator.sagemaker.identity import XMLNS, AwsSts
from trainfleet_simulator.sagemaker.metadata import ROUTES, Metadata, is_metadata
from trainfleet_simulator.sagemaker.parameters import Call, Handler, Lists, offset_of
from trainfleet_simulator.world.fleet import World

_HANDLERS: Mapping[str, Mapping[str, Handler]] = {
    "sagemaker": {
        "Search": training.search,
        "ListTrainingJobs": training.list_training_jobs,
        "DescribeTrainingJob": training.describe_training_job,
        "ListClusters": hyperpod.list_clusters,
        "DescribeCluster": hyperpod.describe_cluster,
        "ListClusterNodes": hyperpod.list_cluster_nodes,
        "ListTrainingPlans": plans.list_training_plans,
    },
    "cloudwatch": {"GetMetricData": cloudwatch.get_metric_data},
}
_TARGETS = {"SageMaker": "sagemaker", "GraniteServiceVersion20100801": "cloudwatch"}
_JSON = {"sagemaker": "application/x-amz-json-1.1", "cloudwatch": "application/x-amz-json-1.0"}
_SIGNING_NAMES = {"sagemaker": "sagemaker", "cloudwatch": "monitoring", "sts": "sts"}
_STS_VERSION, _STS_ACTIONS = "2011-06-15", ("AssumeRole", "AssumeRoleWithWebIdentity")
_SECRET = {"WebIdentityToken", "ExternalId"}  # not in the log of responses
_USUAL_CODES = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFound",
    429: "ThrottlingException",
    503: "ServiceUnavailable",
}


class Xml(PlainTextResponse):
    """A response in XML, which faults do not change."""

    media_type = "text/xml"


class Aws(Cloud):
    """One account in one region, with the training jobs of a world."""

    refusals = AWS
    usual_codes = said_on_request(_USUAL_CODES)
    other_code = "InternalFailure"
    code_fields = ("__type",)

    def __init__(self, world: World, keys: Keys, sts: AwsSts) -> None:
        self.world = world
        self._verifier = Verifier(keys)
        self._sts = sts
        self._metadata = Metadata(sts)
        self._lists = Lists()

    def takes(self, request: ApiRequest) -> bool:
        headers = request.headers
        return (
            "x-amz-target" in headers
            or headers.get("authorization", "").startswith(ALGORITHM)
            or _is_sts(request)
            or is_metadata(request)
        )

    def identify(self, request: ApiRequest) -> Operation:
        if is_metadata(request):
            return Operation("metadata", route_name(ROUTES, request), {})
        if _is_sts(request):
            form = _form(request)
            name = form.get("Action", "")
            shown = {key: value for key, value in form.items() if key not in _SECRET}
            return Operation("sts", name if name in _STS_ACTIONS else "unknown", shown)
        prefix, _, name = request.headers.get("x-amz-target", "").partition(".")
        api = _TARGETS.get(prefix, "sagemaker")
        known = prefix in _TARGETS and name in _HANDLERS[api]
        return Operation(api, name if known else "unknown", _facts(_decoded(request)))

    def answer(self, request: ApiRequest, operation: Operation, now: float) -> Answer:
        if operation.api == "metadata":
            return self._metadata.answer(request, operation.name, now)
        if operation.name != "AssumeRoleWithWebIdentity":
            self._verifier.check(request, _SIGNING_NAMES[operation.api], now)
        if operation.name == "unknown" or request.path != "/" or request.method != "POST":
            raise ApiError(404, "UnknownOperationException", "The requested operation is not recognized.")
        if operation.api == "sts":
            assume = {
                "AssumeRole": self._sts.assume_role,
                "AssumeRoleWithWebIdentity": self._sts.assume_role_with_web_identity,
            }
            return assume[operation.name](_form(request), now)
        kind = _JSON[operation.api]
        if request.headers.get("content-type") != kind:
            raise ApiError(400, "SerializationException", f"Content-Type is not {kind}")
        body = _decoded(request)
        if not isinstance(body, dict):
            raise ApiError(400, "SerializationException", "The body is not a JSON object.")
        self.world.advance(now)
        call = Call(body, self.world, now, self._lists)
        return replace(_HANDLERS[operation.api][operation.name](call), headers={"content-type": kind})

    def respond(self, answer: Answer, request_id: str) -> Response:
        headers = {"x-amzn-requestid": request_id, **answer.headers}
        if answer.text is None:
            return JSONResponse(answer.body, headers=headers)
        if answer.text.startswith("<"):
            return Xml(answer.text.replace("{request_id}", request_id), headers=headers)
        return PlainTextResponse(answer.text, headers=headers)

    def refuse(self, error: ApiError, request: ApiRequest, operation: Operation, request_id: str) -> Response:
        headers = {"x-amzn-requestid": request_id}
        in_query = AWS_QUERY_CODES.get(error.code, error.code)
        match operation.api:
            case "metadata":
                return PlainTextResponse(error.message, error.status)
            case "sts":
                if operation.name == "AssumeRoleWithWebIdentity":
                    in_query = error.code  # it has its own errors and codes
                return Xml(
                    f'<ErrorResponse xmlns="{XMLNS}"><Error><Type>Sender</Type><Code>{in_query}</Code>'
                    f"<Message>{escape(error.message)}</Message></Error><RequestId>{request_id}</RequestId>"
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
                shared = error.code in AWS_QUERY_CODES
                body = {
                    "__type": f"com.amazon.coral.service#{error.code}" if shared else error.code,
                    "Message" if shared or error.code == "ResourceNotFound" else "message": error.message,
                }
                status = 400 if shared else error.status
        headers |= {"content-type": _JSON[operation.api], "x-amzn-errortype": error.code}
        return JSONResponse(body, status, headers=headers)


def _is_sts(request: ApiRequest) -> bool:
    of_a_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    return of_a_form and "x-acs-version" not in request.headers and _form(request).get("Version") == _STS_VERSION


def _form(request: ApiRequest) -> dict[str, str]:
    return dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))


def _decoded(request: ApiRequest) -> Any:
    try:
        return json.loads(request.body or b"{}")
    except ValueError:
        return None


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
    if offset := offset_of(plain.get("NextToken", "")):
        plain["Offset"] = str(offset)
    return plain
