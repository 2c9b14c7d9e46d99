"""What each cloud answers to a kind of rejection, as tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Row = tuple[str, tuple[int, str, str] | None]
"""Names of APIs, operations or `token`, of which one must fit (empty: all); the error, None if there is none."""
Table = Mapping[str, Sequence[Row]]
"""The rows of a kind of rejection; the first that fits counts. Messages may have {api}, {name}, {key} and {date}."""
_KEY = re.compile(r"Access=([^,\s]+)")


def refusal(table: Table, kind: str, api: str, name: str, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
    """Return status, code and message for a kind of rejection; None if the operation has no such error."""
    key = _KEY.search(headers.get("authorization", ""))
    about = {"api": api, "name": name, "key": key[1] if key else "", "date": headers.get("x-amz-date", "")}
    facts = {api, name, *(["token"] if "x-auth-token" in headers else [])}
    for names, error in table.get(kind.removesuffix("_hint"), ()):
        if not names or not facts.isdisjoint(names.split()):
            return None if error is None else (error[0], error[1], error[2].format_map(about))
    return None


_PAI_THROTTLED = "Request was denied due to user flow control."
_PAI_RIGHT = "You are not authorized to do this action: {}."
PAI: Table = {
    "throttled": (
        # The public table of codes has 400; users report 429 for the other services.
        ("dlc cloudmonitor sts", (400, "Throttling.User", _PAI_THROTTLED)),
        ("", (429, "Throttling.User", _PAI_THROTTLED)),
    ),
    "server_error": (("", (500, "InternalError", "The request processing has failed due to some unknown error.")),),
    "denied": (
        ("dlc", (403, "Forbidden.RAM", _PAI_RIGHT.format("paidlc:{name}"))),
        ("paistudio", (403, "Forbidden.RAM", _PAI_RIGHT.format("pai:{name}"))),
        ("aiworkspace", (403, "Forbidden.RAM", _PAI_RIGHT.format("paiworkspace:{name}"))),
        ("cloudmonitor", (403, "Forbidden.RAM", _PAI_RIGHT.format("cms:{name}"))),
        ("", (403, "Forbidden.RAM", _PAI_RIGHT.format("{api}:{name}"))),
    ),
    "not_found": (("", (404, "NotFound", "The specified resource is not found.")),),
    "skewed_clock": (
        ("metadata AssumeRoleWithOIDC", None),
        ("", (400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")),
    ),
    "expired_credentials": (
        ("ListRamRoles GetRamRoleCredentials", (401, "Unauthorized", "A metadata token is wanted.")),
        ("metadata", None),
        ("AssumeRoleWithOIDC", (400, "AuthenticationFail.OIDCToken.Expired", "This JSON Web Token has expired.")),
        ("", (400, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")),
    ),
    "revoked_credentials": (
        # The machine has lost its role.
        ("ListRamRoles GetRamRoleCredentials", (404, "NotFound", "There is no such thing.")),
        ("metadata", None),
        ("AssumeRoleWithOIDC", (400, "AuthenticationFail.OIDCToken.Invalid", "The OIDC token is invalid.")),
        ("", (404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")),
    ),
}

_IAM = "Incorrect IAM authentication information: "
_BY_PASSWORD, _BY_ID_TOKEN = "KeystoneCreateUserTokenByPassword", "AssumeAgencyWithOIDC"
_REFUSED_LOGINS: tuple[Row, ...] = (
    (_BY_PASSWORD, (401, "401", "The username or password is wrong.")),
    (_BY_ID_TOKEN, (403, "PAP5.0001", "access denied: the ID token is invalid or has expired")),
    ("token", (401, "APIGW.0307", "The token must be updated")),
)
MODELARTS: Table = {
    # Without the policy that names a limit, which would be a hint.
    "throttled": (("", (429, "APIGW.0308", "The throttling threshold has been reached")),),
    "server_error": (("", (500, "ModelArts.0010", "System error.")),),
    "denied": (
        ("sts", (403, "PAP5.0001", "access denied: the agency may not be assumed")),
        ("iam", (403, "403", "You are not authorized to perform the requested action.")),
        ("aom", (403, "forbidden", "aom:metric:list is not allowed")),
        ("metadata", (403, "Forbidden", "Forbidden")),
        ("", (403, "ModelArts.0108", "You are not authorized to do this.")),
    ),
    "not_found": (
        (
            "ShowTrainingJobDetails ShowTrainingJobMetrics",
            (400, "ModelArts.2775", "The training job does not exist."),
        ),
        (
            "ShowPoolMonitor ListPoolNodes ListWorkloads ShowWorkloadStatistics",
            (404, "ModelArts.50015001", "Pool not found."),
        ),
        (
            "ListTrainingJobVersions ListLogFileNames ShowPodMetricStatistic",
            (404, "ModelArts.0105", "The training job does not exist."),
        ),
        ("iam", (404, "404", "Could not find the requested resource.")),
        ("metadata", (404, "NotFound", "Not Found")),
        ("", (404, "APIGW.0101", "The API does not exist or has not been published in the environment")),
    ),
    "skewed_clock": (
        (f"metadata token {_BY_PASSWORD} {_BY_ID_TOKEN}", None),  # a token has no time of the client
        ("", (401, "APIGW.0301", f"{_IAM}verify aksk signature fail, signature expired")),
    ),
    "expired_credentials": (
        ("GetMetadataToken", None),
        ("metadata", (401, "Unauthorized", "X-Metadata-Token is missing, unknown or has expired")),
        *_REFUSED_LOGINS,
        ("", (401, "APIGW.0301", f"{_IAM}the security token has expired")),
    ),
    "revoked_credentials": (
        ("GetMetadataToken", None),
        ("metadata", (404, "NotFound", "This machine has no agency")),
        *_REFUSED_LOGINS,
        ("", (401, "APIGW.0301", _IAM + "ak {key} not exist")),
    ),
}

_AWS_RIGHT = "User: arn:aws:iam::123456789012:user/exporter is not authorized to perform: {api}:{name} on resource: *"
_AWS_IDENTITY = "The security token included in the request is "
AWS: Table = {
    "throttled": (
        ("metadata", (429, "ThrottlingException", "Rate exceeded")),
        ("", (400, "ThrottlingException", "Rate exceeded")),
    ),
    "server_error": (("", (500, "InternalFailure", "The request processing has failed because of an unknown error.")),),
    "denied": (
        ("metadata", (403, "Forbidden", "Forbidden")),
        ("", (403, "AccessDeniedException", _AWS_RIGHT)),
    ),
    "not_found": (
        ("metadata", (404, "ResourceNotFound", "Requested resource not found.")),
        ("", (400, "ResourceNotFound", "Requested resource not found.")),
    ),
    "skewed_clock": (
        ("metadata AssumeRoleWithWebIdentity", None),
        ("", (403, "InvalidSignatureException", "Signature expired: {date} is now earlier (- 5 min.)")),
    ),
    "expired_credentials": (
        ("GetContainerKeys", (401, "Unauthorized", "The authorization token is missing or wrong")),
        ("ListRoles GetRoleKeys", (401, "Unauthorized", "Unauthorized")),
        ("metadata", None),
        ("AssumeRoleWithWebIdentity", (400, "ExpiredTokenException", "Token expired")),
        ("", (403, "ExpiredTokenException", f"{_AWS_IDENTITY}expired")),
    ),
    "revoked_credentials": (
        ("ListRoles GetRoleKeys", (404, "NotFound", "Not Found")),  # the machine has lost its role
        ("metadata", None),
        (
            "AssumeRoleWithWebIdentity",
            (400, "InvalidIdentityToken", "No OpenIDConnect provider found in your account"),
        ),
        ("", (403, "UnrecognizedClientException", f"{_AWS_IDENTITY}invalid.")),
    ),
}
AWS_QUERY_CODES = {
    "AccessDeniedException": "AccessDenied",
    "ThrottlingException": "Throttling",
    "IncompleteSignatureException": "IncompleteSignature",
    "InvalidSignatureException": "SignatureDoesNotMatch",
    "MissingAuthenticationTokenException": "MissingAuthenticationToken",
    "UnrecognizedClientException": "InvalidClientTokenId",
    "ExpiredTokenException": "ExpiredToken",
}
"""The query protocol's codes for the common errors of the JSON protocols."""
