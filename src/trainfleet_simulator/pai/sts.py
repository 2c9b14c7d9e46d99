"""The simulated STS (version 2015-04-01), the metadata service of a machine, and a credentials URI.

https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
"""

from __future__ import annotations

import re
import secrets

from trainfleet_simulator.exchange import Answer, ApiError, Call, Route, route, utc_text
from trainfleet_simulator.identity import Issuer, Key, of_key
from trainfleet_simulator.pai.catalog import ACCOUNT_ID

ROLE = "trainfleet-reader"
OIDC_PROVIDER = f"acs:ram::{ACCOUNT_ID}:oidc-provider/sim-cluster"
OIDC_TOKEN = "simulated.oidc.token"  # noqa: S105 - opens nothing but this simulator
_ROLE_ARN = re.compile(rf"acs:ram::{ACCOUNT_ID}:role/([\w.-]+)")
_HEADER = "x-aliyun-ecs-metadata-token"
_ROLES = "/latest/meta-data/ram/security-credentials"
_NAMES = ("AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration")


class Sts(Issuer):
    """The identity services. ROLE can be assumed. AssumeRoleWithOIDC requires `oidc_token` of OIDC_PROVIDER."""

    session_name = re.compile(r"[A-Za-z0-9.@_-]{2,64}")
    longest = 3600
    machine_role = "trainfleet-node"
    session_headers = (f"{_HEADER}-ttl-seconds", _HEADER)
    early = 1800.0

    def __init__(self, permanent: Key) -> None:
        super().__init__(permanent, lambda number, now: secrets.token_urlsafe(32))
        self.oidc_token = OIDC_TOKEN

    def routes(self) -> list[Route]:
        """Return the operations."""
        return [
            route("sts", "AssumeRole", "(?:GET|POST) /", self.assume_role),
            route("sts", "AssumeRoleWithOIDC", "(?:GET|POST) /", self.assume_role_with_oidc, signed=False),
            route("metadata", "PutToken", "PUT /latest/api/token", self.put_token, signed=False),
            route("metadata", "ListRamRoles", f"GET {_ROLES}/?", self.list_roles, signed=False),
            route("metadata", "GetRamRoleCredentials", f"GET {_ROLES}/{{Role}}", self.get_keys, signed=False),
            route("metadata", "GetCredentialsUri", "GET /credentials-uri(?:/.*)?", self.get_by_uri, signed=False),
        ]

    @staticmethod
    def role_arn(name: str) -> str:
        """Return a role's ARN in this account."""
        return f"acs:ram::{ACCOUNT_ID}:role/{name}"

    def make(self, now: float) -> tuple[str, str, str]:
        return f"STS.{secrets.token_hex(12)}", secrets.token_hex(22), f"CAIS{secrets.token_hex(120)}"

    def machine_key(self, key: Key, now: float) -> dict[str, str]:
        return {"Code": "Success", "LastUpdated": utc_text(now), **key.written(*_NAMES)}

    def assume_role(self, call: Call) -> Answer:
        """AssumeRole, for a signed request."""
        if self.external_id is not None and call.text("ExternalId") != self.external_id:
            raise ApiError(403, "NoPermission", "You are not authorized to do this action.")
        return self._assumed(call)

    def assume_role_with_oidc(self, call: Call) -> Answer:
        """AssumeRoleWithOIDC, for any caller with a token of the provider that the role trusts, without a signature."""
        if required(call, "OIDCProviderArn") != OIDC_PROVIDER:
            raise ApiError(404, "EntityNotExist.OIDCProvider", "The OIDC provider does not exist.")
        if required(call, "OIDCToken") != self.oidc_token:
            raise ApiError(400, "AuthenticationFail.OIDCToken.Invalid", "The OIDC token is invalid.")
        return self._assumed(call)

    def get_by_uri(self, call: Call) -> Answer:
        """Respond with new keys of ROLE, as a credentials URI does."""
        return of_key(self.machine_key(self.issue("credentials_uri", call.now, 3600), call.now))

    def _assumed(self, call: Call) -> Answer:
        """Check a request for a role, and issue its keys."""
        found, duration = _ROLE_ARN.fullmatch(required(call, "RoleArn")), call.text("DurationSeconds", "3600")
        wrong = [*self.wrong(required(call, "RoleSessionName"), duration), *([] if found else ["RoleArn"])]
        if wrong:
            raise ApiError(400, f"InvalidParameter.{wrong[0]}", f"The parameter {wrong[0]} is wrongly formed.")
        if found is None or found[1] != ROLE:
            raise ApiError(404, "EntityNotExist.Role", "The specified role does not exist.")
        key = self.issue(call.operation.name, call.now, int(duration))
        return Answer({"Credentials": key.written(*_NAMES)})


def required(call: Call, name: str) -> str:
    """Return a mandatory parameter. Raises ApiError."""
    if not call.text(name):
        raise ApiError(400, f"Missing{name}", f"The parameter {name} is mandatory.")
    return call.text(name)
