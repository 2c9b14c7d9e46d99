"""The errors of ModelArts, its gateway, IAM and STS, by the name of the reason."""

from __future__ import annotations

import re

from trainfleet_simulator.exchange import ApiError, ApiRequest, Operation

_IAM = "Incorrect IAM authentication information: "
_KEY = re.compile(r"Access=([^,\s]+)")
_BY_PASSWORD, _BY_ID_TOKEN = "KeystoneCreateUserTokenByPassword", "AssumeAgencyWithOIDC"
_NO_CREDENTIAL = "GetMetadataToken"
_OF_A_JOB = {"ShowTrainingJobDetails", "ShowTrainingJobMetrics"}
_OF_A_POOL = {"ShowPoolMonitor", "ListPoolNodes", "ListWorkloads", "ShowWorkloadStatistics"}
_OF_AN_OLD_JOB = {"ListTrainingJobVersions", "ListLogFileNames", "ShowPodMetricStatistic"}


def refusal(kind: str, request: ApiRequest, operation: Operation) -> ApiError | None:
    """Return the project's error for a kind of rejection; None if the operation has no such error."""
    match kind:
        case "throttled" | "throttled_hint":  # without the policy that names a limit, which would be a hint
            return ApiError(429, "APIGW.0308", "The throttling threshold has been reached")
        case "server_error":
            return ApiError(500, "ModelArts.0010", "System error.")
        case "denied":
            return _denied(operation)
        case "not_found":
            return _not_found(operation)
    if operation.api == "metadata":
        return _of_metadata(kind, operation)
    if operation.name == _BY_PASSWORD:
        return None if kind == "skewed_clock" else ApiError(401, "401", "The username or password is wrong.")
    if operation.name == _BY_ID_TOKEN:
        why = "access denied: the ID token is invalid or has expired"
        return None if kind == "skewed_clock" else ApiError(403, "PAP5.0001", why)
    if "x-auth-token" in request.headers:  # a token has no time of the client
        return None if kind == "skewed_clock" else ApiError(401, "APIGW.0307", "The token must be updated")
    return _of_signature(kind, request)


def _of_signature(kind: str, request: ApiRequest) -> ApiError | None:
    match kind:
        case "skewed_clock":
            why = "verify aksk signature fail, signature expired"
        case "expired_credentials":
            why = "the security token has expired"
        case "revoked_credentials":
            found = _KEY.search(request.headers.get("authorization", ""))
            why = f"ak {found[1] if found else ''} not exist"
        case _:
            return None
    return ApiError(401, "APIGW.0301", _IAM + why)


def _denied(operation: Operation) -> ApiError:
    if operation.api == "sts":
        return ApiError(403, "PAP5.0001", "access denied: the agency may not be assumed")
    if operation.api == "iam":
        return ApiError(403, "403", "You are not authorized to perform the requested action.")
    if operation.api == "aom":
        return ApiError(403, "forbidden", "aom:metric:list is not allowed")
    if operation.api == "metadata":
        return ApiError(403, "Forbidden", "Forbidden")
    return ApiError(403, "ModelArts.0108", "You are not authorized to do this.")


def _not_found(operation: Operation) -> ApiError:
    if operation.name in _OF_A_JOB:
        return ApiError(400, "ModelArts.2775", "The training job does not exist.")
    if operation.name in _OF_A_POOL:
        return ApiError(404, "ModelArts.50015001", "Pool not found.")
    if operation.name in _OF_AN_OLD_JOB:
        return ApiError(404, "ModelArts.0105", "The training job does not exist.")
    if operation.api == "iam":
        return ApiError(404, "404", "Could not find the requested resource.")
    if operation.api == "metadata":
        return ApiError(404, "NotFound", "Not Found")
    return ApiError(404, "APIGW.0101", "The API does not exist or has not been published in the environment")


def _of_metadata(kind: str, operation: Operation) -> ApiError | None:
    if operation.name == _NO_CREDENTIAL:
        return None
    match kind:
        case "expired_credentials":
            return ApiError(401, "Unauthorized", "X-Metadata-Token is missing, unknown or has expired")
        case "revoked_credentials":  # the machine has lost its agency
            return ApiError(404, "NotFound", "This machine has no agency")
    return None
