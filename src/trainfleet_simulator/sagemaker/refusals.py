"""The errors of the AWS services, by the name of the reason."""

from __future__ import annotations

from trainfleet_simulator.exchange import ApiError, ApiRequest, Operation
from trainfleet_simulator.sagemaker.catalog import ACCOUNT_ID

_BY_METADATA_TOKEN = {"ListRoles", "GetRoleKeys"}
QUERY_CODES = {
    "AccessDeniedException": "AccessDenied",
    "ThrottlingException": "Throttling",
    "IncompleteSignatureException": "IncompleteSignature",
    "InvalidSignatureException": "SignatureDoesNotMatch",
    "MissingAuthenticationTokenException": "MissingAuthenticationToken",
    "UnrecognizedClientException": "InvalidClientTokenId",
    "ExpiredTokenException": "ExpiredToken",
}
"""The query protocol's codes for the common errors of the JSON protocols."""


def refusal(kind: str, request: ApiRequest, operation: Operation) -> ApiError | None:
    """Return the account's error for a kind of rejection; None if the operation has no such error."""
    match kind:
        case "throttled" | "throttled_hint":
            return ApiError(429 if operation.api == "metadata" else 400, "ThrottlingException", "Rate exceeded")
        case "server_error":
            return ApiError(500, "InternalFailure", "The request processing has failed because of an unknown error.")
        case "denied":
            return denied(operation)
        case "not_found":
            status = 404 if operation.api == "metadata" else 400
            return ApiError(status, "ResourceNotFound", "Requested resource not found.")
    if operation.api == "metadata":
        return _of_metadata(kind, operation)
    if operation.name == "AssumeRoleWithWebIdentity":
        return _of_web_identity(kind)
    match kind:
        case "skewed_clock":
            date = request.headers.get("x-amz-date", "")
            return ApiError(403, "InvalidSignatureException", f"Signature expired: {date} is now earlier (- 5 min.)")
        case "expired_credentials":
            return ApiError(403, "ExpiredTokenException", "The security token included in the request is expired")
        case "revoked_credentials":
            return ApiError(
                403, "UnrecognizedClientException", "The security token included in the request is invalid."
            )
    return None


def denied(operation: Operation) -> ApiError:
    """Return the error for an operation that a policy does not allow."""
    if operation.api == "metadata":
        return ApiError(403, "Forbidden", "Forbidden")
    action = f"{operation.api}:{operation.name}"
    message = f"User: arn:aws:iam::{ACCOUNT_ID}:user/exporter is not authorized to perform: {action} on resource: *"
    return ApiError(403, "AccessDeniedException", message)


def _of_metadata(kind: str, operation: Operation) -> ApiError | None:
    if operation.name == "GetContainerKeys" and kind == "expired_credentials":
        return ApiError(401, "Unauthorized", "The authorization token is missing or wrong")
    if operation.name not in _BY_METADATA_TOKEN:
        return None
    match kind:
        case "expired_credentials":
            return ApiError(401, "Unauthorized", "Unauthorized")
        case "revoked_credentials":  # the machine has lost its role
            return ApiError(404, "NotFound", "Not Found")
    return None


def _of_web_identity(kind: str) -> ApiError | None:
    match kind:
        case "expired_credentials":
            return ApiError(400, "ExpiredTokenException", "Token expired")
        case "revoked_credentials":
            return ApiError(400, "InvalidIdentityToken", "No OpenIDConnect provider found in your account")
    return None
