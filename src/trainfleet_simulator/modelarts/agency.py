"""The simulated issuers of identities: IAM, STS with an agency of the account, and the metadata service of a machine.

None of them requires a signature of callers that have no key yet.
https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html
https://support.huaweicloud.com/intl/en-us/api-iam5/AssumeAgencyWithOIDC.html
https://support.huaweicloud.com/intl/en-us/usermanual-ecs/ecs_03_0166.html
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from trainfleet_simulator.exchange import Answer, ApiError, Body, Call, Route, route
from trainfleet_simulator.identity import Issuer, Key, Tokens, precise_text
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.catalog import DOMAIN_ID

AGENCY = "trainfleet-exporter"
PROVIDER_URN = f"iam::{DOMAIN_ID}:oidc-provider:sim-cluster"
AGENCY_URN = f"iam::{DOMAIN_ID}:agency:{AGENCY}"
OIDC_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ0cmFpbmZsZWV0LWV4cG9ydGVyIn0.c2ltdWxhdGVk"  # noqa: S105 - opens this only


class _Assume(Body):
    provider_urn: str
    agency_urn: str
    id_token: str
    agency_session_name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_+=,.@-]{2,64}$")]
    duration_seconds: Annotated[int, Meta(ge=900, le=43200)] = 3600


class Agency(Issuer):
    """The agency of the account. `oidc_token` is the only ID token that STS accepts."""

    prefixes = "HSTA", "hQpjb"
    session_headers = ("x-metadata-token-ttl-seconds", "x-metadata-token")
    machine_lifetime = 86400.0
    oidc_token = OIDC_TOKEN

    def __init__(self, permanent: Key) -> None:
        super().__init__(permanent)
        self.tokens = Tokens("MIISIM", 384)
        """The tokens of IAM."""

    def routes(self) -> list[Route]:
        login = "KeystoneCreateUserTokenByPassword"
        return [
            route("iam", login, "POST /v3/auth/tokens", self.log_in, signed=False),
            route("iam", "KeystoneListProjects", "GET /v3/projects", self.list_projects),
            route("sts", "AssumeAgencyWithOIDC", "POST /v5/agencies/assume-with-oidc", self.assume, signed=False),
            route("metadata", "GetMetadataToken", "PUT /meta-data/latest/api/token", self.put_token, signed=False),
            route("metadata", "GetSecurityKey", "GET /openstack/latest/securitykey", self.get_keys, signed=False),
        ]

    def machine_key(self, key: Key, now: float) -> dict[str, Any]:
        return {"credential": key.written("access", "secret", "securitytoken", "expires_at", text=precise_text)}

    def log_in(self, call: Call) -> Answer:
        """POST /v3/auth/tokens: 201, and the token in a header."""
        user = {"name": catalog.USER_NAME, "password": catalog.PASSWORD, "domain": {"name": catalog.DOMAIN_NAME}}
        identity = {"methods": ["password"], "password": {"user": user}}
        projects = {"name": catalog.REGION}, {"id": catalog.PROJECT_ID}
        if call.body not in [{"auth": {"identity": identity, "scope": {"project": one}}} for one in projects]:
            raise ApiError(401, "401", "The username or password is wrong.")
        token = self.tokens.issue(call.now)
        expires = precise_text(call.now + self.tokens.lifetime)
        body = {"token": {"expires_at": expires, "project": {"id": catalog.PROJECT_ID, "name": catalog.REGION}}}
        return Answer(body, status=201, headers={"X-Subject-Token": token})

    def list_projects(self, call: Call) -> Answer:
        """GET /v3/projects: the projects of the account, or the one with a name."""
        wanted = call.text("name")
        projects = [{"id": one, "name": region} for region, one in catalog.PROJECTS.items() if wanted in {"", region}]
        return Answer({"projects": projects})

    def assume(self, call: Call) -> Answer:
        """POST /v5/agencies/assume-with-oidc: keys for an ID token of a provider that the agency trusts."""
        asked = call.read(_Assume)
        if (asked.provider_urn, asked.agency_urn) != (PROVIDER_URN, AGENCY_URN):
            raise ApiError(403, "PAP5.0001", "access denied: the agency does not exist, or does not trust the provider")
        if asked.id_token != self.oidc_token:
            raise ApiError(403, "PAP5.0001", "access denied: the ID token is invalid or has expired")
        key = self.issue("sts", call.now, asked.duration_seconds)
        return Answer(
            {"credentials": key.written("access_key_id", "secret_access_key", "security_token", "expiration")}
        )
