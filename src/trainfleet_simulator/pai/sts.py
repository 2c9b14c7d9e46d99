"""The simulated STS (version 2015-04-01), the metadata service of a machine, and a credentials URI.

https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
"""

from __future__ import annotations

from trainfleet_simulator.exchange import Answer, ApiError, Call, Route, route, utc_text
from trainfleet_simulator.identity import Issuer, Key
from trainfleet_simulator.pai.catalog import ACCOUNT_ID

OIDC_PROVIDER = f"acs:ram::{ACCOUNT_ID}:oidc-provider/sim-cluster"
OIDC_TOKEN = "simulated.oidc.token"  # noqa: S105 - opens nothing but this simulator
_HEADER = "x-aliyun-ecs-metadata-token"
_ROLES = "/latest/meta-data/ram/security-credentials"
_NAMES = ("AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration")


class Sts(Issuer):
    """The identity services. ROLE can be assumed. AssumeRoleWithOIDC requires `oidc_token` of OIDC_PROVIDER."""

    roles = f"acs:ram::{ACCOUNT_ID}:role/"
    prefixes = "STS.", "CAIS"
    longest = 3600
    session_headers = (f"{_HEADER}-ttl-seconds", _HEADER)
    oidc_token = OIDC_TOKEN

    def routes(self) -> list[Route]:
        return [
            route("sts", "AssumeRole", "(?:GET|POST) /", self.assume_role),
            route("sts", "AssumeRoleWithOIDC", "(?:GET|POST) /", self.assume_role_with_oidc, signed=False),
            route("metadata", "PutToken", "PUT /latest/api/token", self.put_token, signed=False),
            route("metadata", "ListRamRoles", f"GET {_ROLES}/?", self.list_roles, signed=False),
            route("metadata", "GetRamRoleCredentials", f"GET {_ROLES}/{{Role}}", self.get_keys, signed=False),
        ]

    def machine_key(self, key: Key, now: float) -> dict[str, str]:
        return {"Code": "Success", "LastUpdated": utc_text(now), **key.written(*_NAMES)}

    def assume_role(self, call: Call) -> Answer:
        """AssumeRole, for a signed request."""
        return Answer({"Credentials": self.assumed(call).written(*_NAMES)})

    def assume_role_with_oidc(self, call: Call) -> Answer:
        """AssumeRoleWithOIDC, for any caller with a token of the provider that the role trusts, without a signature."""
        if required(call, "OIDCProviderArn") != OIDC_PROVIDER:
            raise ApiError(404, "EntityNotExist.OIDCProvider", "The OIDC provider does not exist.")
        if required(call, "OIDCToken") != self.oidc_token:
            raise ApiError(400, "AuthenticationFail.OIDCToken.Invalid", "The OIDC token is invalid.")
        return self.assume_role(call)


def required(call: Call, name: str) -> str:
    """Return a mandatory parameter. Raises ApiError."""
    if not call.text(name):
        raise ApiError(400, f"Missing{name}", f"The parameter {name} is mandatory.")
    return call.text(name)
