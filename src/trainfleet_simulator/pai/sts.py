"""The simulated STS (version 2015-04-01), the metadata service of a machine, and a credentials URI.

https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
"""

from __future__ import annotations

import re
import secrets
import zlib
from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError, Call, Route, route, utc_text
from trainfleet_simulator.identity import Issuer, Key, Keys, Metadata, of_key
from trainfleet_simulator.pai.catalog import ACCOUNT_ID

ROLE, ECS_ROLE = "trainfleet-reader", "trainfleet-node"
OIDC_PROVIDER = f"acs:ram::{ACCOUNT_ID}:oidc-provider/sim-cluster"
OIDC_TOKEN = "simulated.oidc.token"  # noqa: S105 - opens nothing but this simulator
_ROLE_ARN = re.compile(rf"acs:ram::{ACCOUNT_ID}:role/([\w.-]+)")
_HEADER = "x-aliyun-ecs-metadata-token"
_ROLES = "/latest/meta-data/ram/security-credentials"
_EARLY = 1800.0  # seconds


class Sts(Issuer):
    """The identity services. ROLE can be assumed. AssumeRoleWithOIDC requires `oidc_token` of OIDC_PROVIDER."""

    session_name = re.compile(r"[A-Za-z0-9.@_-]{2,64}")
    longest = 3600

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys, lambda number, now: secrets.token_urlsafe(32))
        self.oidc_token = OIDC_TOKEN

    def routes(self) -> list[Route]:
        """Return the operations."""
        machine = Metadata(self, f"{_HEADER}-ttl-seconds", _HEADER, ECS_ROLE, _EARLY, _with_code)
        return [
            route("sts", "AssumeRole", "(?:GET|POST) /", self.assume_role),
            route("sts", "AssumeRoleWithOIDC", "(?:GET|POST) /", self.assume_role_with_oidc, signed=False),
            route("metadata", "PutToken", "PUT /latest/api/token", machine.put_token, signed=False),
            route("metadata", "ListRamRoles", f"GET {_ROLES}/?", machine.list_roles, signed=False),
            route("metadata", "GetRamRoleCredentials", f"GET {_ROLES}/{{Role}}", machine.get_keys, signed=False),
            route("metadata", "GetCredentialsUri", "GET /credentials-uri(?:/.*)?", self.get_by_uri, signed=False),
        ]

    @staticmethod
    def role_arn(name: str) -> str:
        """Return a role's ARN in this account."""
        return f"acs:ram::{ACCOUNT_ID}:role/{name}"

    def make(self, now: float) -> tuple[str, str, str]:
        return f"STS.{secrets.token_hex(12)}", secrets.token_hex(22), f"CAIS{secrets.token_hex(120)}"

    def assume_role(self, call: Call) -> Answer:
        """AssumeRole, for a signed request."""
        duration = self._asked(call)
        if self.external_id is not None and call.text("ExternalId") != self.external_id:
            raise ApiError(403, "NoPermission", "You are not authorized to do this action.")
        return Answer(self._assumed(call, duration))

    def assume_role_with_oidc(self, call: Call) -> Answer:
        """AssumeRoleWithOIDC, for any caller with a token of the provider that the role trusts, without a signature."""
        token, provider = required(call, "OIDCToken"), required(call, "OIDCProviderArn")
        duration = self._asked(call)
        if provider != OIDC_PROVIDER:
            raise ApiError(404, "EntityNotExist.OIDCProvider", "The OIDC provider does not exist.")
        if token != self.oidc_token:
            raise ApiError(400, "AuthenticationFail.OIDCToken.Invalid", "The OIDC token is invalid.")
        about = {"Subject": "system:serviceaccount:sim:exporter", "ClientIds": "sts.aliyuncs.com"}
        return Answer(self._assumed(call, duration) | {"OIDCTokenInfo": about})

    def get_by_uri(self, call: Call) -> Answer:
        """Respond with new keys of ROLE, as a credentials URI does."""
        return of_key(_with_code(self.issue(ROLE, "credentials_uri", call.now, 3600), call.now))

    def _asked(self, call: Call) -> int:
        """Check a request for a role; return the duration in seconds."""
        arn, session = required(call, "RoleArn"), required(call, "RoleSessionName")
        duration = call.text("DurationSeconds", "3600")
        found = _ROLE_ARN.fullmatch(arn)
        for name, is_valid in (
            ("RoleSessionName", self.is_session_name(session)),
            ("DurationSeconds", self.is_duration(duration)),
            ("RoleArn", found is not None),
        ):
            if not is_valid:
                raise ApiError(400, f"InvalidParameter.{name}", f"The parameter {name} is wrongly formed.")
        if found is None or found[1] != ROLE:
            raise ApiError(404, "EntityNotExist.Role", "The specified role does not exist.")
        return int(duration)

    def _assumed(self, call: Call, duration: int) -> dict[str, Any]:
        key = self.issue(ROLE, call.operation.name, call.now, duration)
        session = call.text("RoleSessionName")
        user = {
            "Arn": f"{self.role_arn(ROLE)}/{session}",
            "AssumedRoleId": f"3{zlib.crc32(ROLE.encode()):010d}:{session}",
        }
        return {"AssumedRoleUser": user, "Credentials": _credentials(key)}


def _credentials(key: Key) -> dict[str, str]:
    return {
        "AccessKeyId": key.access_key_id,
        "AccessKeySecret": key.access_key_secret,
        "SecurityToken": key.security_token,
        "Expiration": utc_text(key.expires),
    }


def _with_code(key: Key, now: float) -> dict[str, str]:
    return {"Code": "Success", "LastUpdated": utc_text(now), **_credentials(key)}


def required(call: Call, name: str) -> str:
    """Return a mandatory parameter. Raises ApiError."""
    if not call.text(name):
        raise ApiError(400, f"Missing{name}", f"The parameter {name} is mandatory.")
    return call.text(name)
