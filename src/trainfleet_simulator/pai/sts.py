"""The simulated STS (version 2015-04-01): temporary keys for a role.

https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
"""

from __future__ import annotations

import re
import secrets
import zlib
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.keys import Issuer, Key, Keys, Tokens
from trainfleet_simulator.pai.catalog import ACCOUNT_ID
from trainfleet_simulator.pai.parameters import Call, Query, iso

ROLE, ECS_ROLE = "trainfleet-reader", "trainfleet-node"
OIDC_PROVIDER = f"acs:ram::{ACCOUNT_ID}:oidc-provider/sim-cluster"
OIDC_TOKEN = "simulated.oidc.token"  # noqa: S105 - opens nothing but this simulator
_ROLE_ARN = re.compile(rf"acs:ram::{ACCOUNT_ID}:role/([\w.-]+)")
_SESSION = re.compile(r"[A-Za-z0-9.@_-]{2,64}")


class Sts(Issuer):
    """The account's identity services, which tests can change at any time.

    ROLE can be assumed. Other roles do not exist (404 EntityNotExist.Role). AssumeRole requires `external_id`, if it is
    set. AssumeRoleWithOIDC requires `oidc_token` of OIDC_PROVIDER.

    `lifetime` (seconds) is that of every further key. If it is None, callers of STS choose it (an hour by default), and
    the machine's role, ECS_ROLE, has six hours.
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self.external_id: str | None = None
        self.oidc_token = OIDC_TOKEN
        self.metadata_sessions = Tokens(lambda number, now: secrets.token_urlsafe(32))
        """Tokens of the sessions of the metadata service."""

    @staticmethod
    def role_arn(name: str) -> str:
        """Return a role's ARN in this account."""
        return f"acs:ram::{ACCOUNT_ID}:role/{name}"

    def make(self) -> tuple[str, str, str]:
        return f"STS.{secrets.token_hex(12)}", secrets.token_hex(22), f"CAIS{secrets.token_hex(120)}"

    def assume_role(self, call: Call) -> Answer:
        """AssumeRole, for a signed request."""
        role, duration = self._asked(call.query)
        if self.external_id is not None and call.query.get("ExternalId") != self.external_id:
            raise _not_allowed()
        return self._answer(call, role, "AssumeRole", duration)

    def assume_role_with_oidc(self, call: Call) -> Answer:
        """AssumeRoleWithOIDC, for any caller with a token of the provider that the role trusts, without a signature."""
        query = call.query
        token = _required(query, "OIDCToken")
        provider = _required(query, "OIDCProviderArn")
        role, duration = self._asked(query)
        if provider != OIDC_PROVIDER:
            raise ApiError(404, "EntityNotExist.OIDCProvider", "The OIDC provider does not exist.")
        if token != self.oidc_token:
            raise ApiError(400, "AuthenticationFail.OIDCToken.Invalid", "The OIDC token is invalid.")
        answer = self._answer(call, role, "AssumeRoleWithOIDC", duration)
        assert answer.body is not None
        answer.body["OIDCTokenInfo"] = {
            "Subject": "system:serviceaccount:sim:exporter",
            "ClientIds": "sts.aliyuncs.com",
        }
        return answer

    def _asked(self, query: Query) -> tuple[str, int]:
        """Return the role's name and the duration in seconds."""
        arn, session = _required(query, "RoleArn"), _required(query, "RoleSessionName")
        if not _SESSION.fullmatch(session):
            raise ApiError(400, "InvalidParameter.RoleSessionName", "The parameter RoleSessionName is wrongly formed.")
        duration = query.get("DurationSeconds", "3600")
        if not (duration.isascii() and duration.isdigit() and 900 <= int(duration) <= 3600):
            raise ApiError(400, "InvalidParameter.DurationSeconds", "DurationSeconds is 900 to 3600.")
        found = _ROLE_ARN.fullmatch(arn)
        if found is None:
            raise ApiError(400, "InvalidParameter.RoleArn", "The parameter RoleArn is wrongly formed.")
        if found[1] != ROLE:
            raise ApiError(404, "EntityNotExist.Role", "The specified role does not exist.")
        return found[1], int(duration)

    def _answer(self, call: Call, role: str, via: str, duration: int) -> Answer:
        key = self.issue(role, via, call.now, duration)
        session = call.query["RoleSessionName"]
        user = {
            "Arn": f"{self.role_arn(role)}/{session}",
            "AssumedRoleId": f"3{zlib.crc32(role.encode()):010d}:{session}",
        }
        return Answer(
            {"AssumedRoleUser": user, "Credentials": credentials(key)}, rows=[[role, key.access_key_id, key.expires]]
        )


def credentials(key: Key) -> dict[str, Any]:
    """Return a temporary key as the services write it."""
    return {
        "AccessKeyId": key.access_key_id,
        "AccessKeySecret": key.access_key_secret,
        "SecurityToken": key.security_token,
        "Expiration": iso(int(key.expires)),
    }


def _required(query: Query, name: str) -> str:
    if not query.get(name):
        raise ApiError(400, f"Missing{name}", f"The parameter {name} is mandatory.")
    return query[name]


def _not_allowed() -> ApiError:
    return ApiError(403, "NoPermission", "You are not authorized to do this action. You should be authorized by RAM.")
