"""The simulated metadata service of a machine (IMDSv2), and the credentials endpoint of a container.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

import json
import re

from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest, utc_text
from trainfleet_simulator.keys import Key
from trainfleet_simulator.sagemaker.catalog import ACCOUNT_ID
from trainfleet_simulator.sagemaker.identity import CONTAINER_TOKEN, MACHINE_ROLE, AwsSts, credentials

CONTAINER_PATH = "/v1/credentials"
_TTL, _TOKEN = "x-aws-ec2-metadata-token-ttl-seconds", "x-aws-ec2-metadata-token"
_ROLES = "/latest/meta-data/iam/security-credentials"
_LONGEST_TTL = 21600  # seconds
_EARLY = 900.0  # seconds
ROUTES = {
    ("PUT", "PutToken"): re.compile("/latest/api/token"),
    ("GET", "ListRoles"): re.compile(f"{_ROLES}/?"),
    ("GET", "GetRoleKeys"): re.compile(f"{_ROLES}/([^/]+)"),
    ("GET", "GetContainerKeys"): re.compile(CONTAINER_PATH),
}


def is_metadata(request: ApiRequest) -> bool:
    """Return whether a request is for this service. The service of another cloud has the same path for its tokens."""
    if request.path == "/latest/api/token":
        return _TTL in request.headers
    return request.path.startswith("/latest/meta-data/iam/") or request.path == CONTAINER_PATH


class Metadata:
    """Issues tokens, and the keys of the roles of machine and container, which it renews."""

    def __init__(self, sts: AwsSts) -> None:
        self._sts = sts

    def answer(self, request: ApiRequest, operation: str, now: float) -> Answer:
        """Answer one request. Raises ApiError."""
        sts = self._sts
        match operation:
            case "PutToken":
                return self._put_token(request.headers.get(_TTL, ""), now)
            case "GetContainerKeys":
                if request.headers.get("authorization") != CONTAINER_TOKEN:
                    raise ApiError(401, "Unauthorized", "The authorization token is missing or wrong")
                return _of_key(sts.renewed("trainfleet-task", "container", now, early=_EARLY), now, of_machine=False)
            case "unknown":
                raise _not_found()
        if not sts.metadata_sessions.is_valid(request.headers.get(_TOKEN, ""), now):
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if operation == "ListRoles":
            return Answer(None, text=MACHINE_ROLE, rows=[[MACHINE_ROLE]])
        if not request.path.endswith(f"/{MACHINE_ROLE}"):
            raise _not_found()
        return _of_key(sts.renewed(MACHINE_ROLE, "metadata", now, early=_EARLY), now, of_machine=True)

    def _put_token(self, ttl: str, now: float) -> Answer:
        if not (ttl.isascii() and ttl.isdigit() and 1 <= int(ttl) <= _LONGEST_TTL):
            raise ApiError(400, "BadRequest", "Bad Request")
        token = self._sts.metadata_sessions.issue(now, int(ttl))
        return Answer(None, text=token, headers={_TTL: ttl})


def _of_key(key: Key, now: float, *, of_machine: bool) -> Answer:
    body = credentials(key, "Token")
    if of_machine:
        body = {"Code": "Success", "LastUpdated": utc_text(now), "Type": "AWS-HMAC", **body}
    else:
        body = {"AccountId": ACCOUNT_ID, "RoleArn": AwsSts.role_arn(key.role), **body}
    headers = {"content-type": "application/json"}
    return Answer(None, text=json.dumps(body), headers=headers, rows=[[key.role, key.access_key_id, key.expires]])


def _not_found() -> ApiError:
    return ApiError(404, "NotFound", "Not Found")
