"""The simulated metadata service of a machine (plain HTTP, no signatures), and a credentials URI.

https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
"""

from __future__ import annotations

import json
import re

from trainfleet_simulator.exchange import Answer, ApiError, ApiRequest
from trainfleet_simulator.keys import Key
from trainfleet_simulator.pai.parameters import iso
from trainfleet_simulator.pai.sts import ECS_ROLE, ROLE, Sts, credentials

_TTL, _TOKEN = "x-aliyun-ecs-metadata-token-ttl-seconds", "x-aliyun-ecs-metadata-token"
_LONGEST_TTL = 21600  # seconds
_EARLY = 1800.0  # seconds
ROUTES = {
    ("PUT", "PutToken"): re.compile("/latest/api/token"),
    ("GET", "ListRamRoles"): re.compile("/latest/meta-data/ram/security-credentials/?"),
    ("GET", "GetRamRoleCredentials"): re.compile("/latest/meta-data/ram/security-credentials/([^/]+)"),
    ("GET", "GetCredentialsUri"): re.compile("/credentials-uri(?:/.*)?"),
}
_OURS = re.compile("/latest/(?:api|meta-data)/|/credentials-uri")


def is_metadata(path: str) -> bool:
    """Return whether a path belongs to this service."""
    return _OURS.match(path) is not None


class Metadata:
    """Issues tokens, and the keys of the machine's role, which it renews."""

    def __init__(self, sts: Sts) -> None:
        self._sts = sts

    def answer(self, request: ApiRequest, operation: str, now: float) -> Answer:
        """Answer one request. Raises ApiError."""
        if operation == "PutToken":
            return self._put_token(request.headers.get(_TTL, ""), now)
        if operation == "GetCredentialsUri":
            key = self._sts.issue(ROLE, "credentials_uri", now, 3600)
            return _of_key(key, now)
        if operation == "unknown":
            raise _not_found()
        self._check_token(request.headers.get(_TOKEN), now)
        if operation == "ListRamRoles":
            return Answer(None, text=ECS_ROLE, rows=[[ECS_ROLE]])
        if not request.path.endswith(f"/{ECS_ROLE}"):
            raise _not_found()
        return _of_key(self._sts.renewed(ECS_ROLE, "metadata", now, early=_EARLY), now)

    def _put_token(self, ttl: str, now: float) -> Answer:
        if not (ttl.isascii() and ttl.isdigit() and 1 <= int(ttl) <= _LONGEST_TTL):
            raise ApiError(400, "BadRequest", f"{_TTL} is 1 to {_LONGEST_TTL}.")
        return Answer(None, text=self._sts.metadata_sessions.issue(now, int(ttl)))

    def _check_token(self, token: str | None, now: float) -> None:
        if token is None or not self._sts.metadata_sessions.is_valid(token, now):
            raise ApiError(401, "Unauthorized", "A metadata token is wanted.")


def _of_key(key: Key, now: float) -> Answer:
    body = {"Code": "Success", "LastUpdated": iso(int(now)), **credentials(key)}
    headers = {"content-type": "application/json"}
    return Answer(None, text=json.dumps(body), headers=headers, rows=[[key.role, key.access_key_id, key.expires]])


def _not_found() -> ApiError:
    return ApiError(404, "NotFound", "There is no such thing.")
