"""The errors of the Alibaba services, by the name of the reason."""

from __future__ import annotations

from trainfleet_simulator.exchange import ApiError, ApiRequest, Operation

_UNSIGNED = {"AssumeRoleWithOIDC"}
_METADATA = "metadata"
_BY_METADATA_TOKEN = {"ListRamRoles", "GetRamRoleCredentials"}
_ACTIONS = {"dlc": "paidlc", "paistudio": "pai", "aiworkspace": "paiworkspace", "cloudmonitor": "cms", "sts": "sts"}
_THROTTLED_WITH_400 = {"dlc", "cloudmonitor", "sts"}
"""The public table of codes has 400; users report 429 for the other services."""


def refusal(kind: str, request: ApiRequest, operation: Operation) -> ApiError | None:
    """Return the account's error for a kind of rejection; None if the operation has no such error."""
    match kind:
        case "throttled" | "throttled_hint":
            status = 400 if operation.api in _THROTTLED_WITH_400 else 429
            return ApiError(status, "Throttling.User", "Request was denied due to user flow control.")
        case "server_error":
            return ApiError(500, "InternalError", "The request processing has failed due to some unknown error.")
        case "denied":
            right = f"{_ACTIONS.get(operation.api, operation.api)}:{operation.name}"
            return ApiError(403, "Forbidden.RAM", f"You are not authorized to do this action: {right}.")
        case "not_found":
            return ApiError(404, "NotFound", "The specified resource is not found.")
    if operation.api == _METADATA:
        return _of_metadata(kind, operation)
    if operation.name in _UNSIGNED:
        return _of_oidc(kind)
    match kind:
        case "skewed_clock":
            return ApiError(400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")
        case "expired_credentials":
            return ApiError(400, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
        case "revoked_credentials":
            return ApiError(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
    return None


def _of_metadata(kind: str, operation: Operation) -> ApiError | None:
    if operation.name not in _BY_METADATA_TOKEN:
        return None
    match kind:
        case "expired_credentials":
            return ApiError(401, "Unauthorized", "A metadata token is wanted.")
        case "revoked_credentials":  # the machine has lost its role
            return ApiError(404, "NotFound", "There is no such thing.")
    return None


def _of_oidc(kind: str) -> ApiError | None:
    match kind:
        case "expired_credentials":
            return ApiError(400, "AuthenticationFail.OIDCToken.Expired", "This JSON Web Token has expired.")
        case "revoked_credentials":
            return ApiError(400, "AuthenticationFail.OIDCToken.Invalid", "The OIDC token is invalid.")
    return None
