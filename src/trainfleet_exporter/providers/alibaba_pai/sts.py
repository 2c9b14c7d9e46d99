"""Keys that STS gives for a role (version 2015-04-01): to somebody who signs, or to a token of an identity provider.

https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerolewithoidc
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from urllib.parse import urlencode

from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.providers.alibaba_pai.credentials import Keys, leased_keys
from trainfleet_exporter.providers.alibaba_pai.dialect import judge
from trainfleet_exporter.providers.alibaba_pai.sources import AssumedRole, OidcRole, Session
from trainfleet_exporter.providers.lease import Leased
from trainfleet_exporter.quantities import iso_time, mapping
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, SignedRequest

API = "sts"
VERSION = "2015-04-01"


@dataclass(frozen=True, slots=True)
class OpenStsDialect:
    """How STS is asked by somebody who has no keys yet (transport.Dialect): nothing is signed."""

    api: str = API

    async def prepare(self, call: Call, deadline: float) -> object:
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        headers = {
            "host": host,
            "content-type": "application/x-www-form-urlencoded",
            "x-acs-action": call.operation,
            "x-acs-date": iso_time(time.time()),
            "x-acs-signature-nonce": uuid.uuid4().hex,
            "x-acs-version": VERSION,
        }
        return SignedRequest(call.method, call.path, headers, call.body)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        return judge(answer)


async def assume_role(client: ApiClient, role: AssumedRole, deadline: float) -> Leased[Keys]:
    """AssumeRole. Raises CloudError."""
    query = {"RoleArn": role.role_arn, **_of_session(role.session)}
    if role.external_id is not None:
        query["ExternalId"] = role.external_id.reveal()
    secrets = () if role.external_id is None else (query["ExternalId"],)
    call = Call(operation="AssumeRole", path="/", method="POST", query=query, secrets=secrets)
    return _keys_of(await client.call(call, deadline=deadline), call)


async def assume_role_with_oidc(client: ApiClient, role: OidcRole, deadline: float) -> Leased[Keys]:
    """AssumeRoleWithOIDC; the token is in the body, for addresses are logged by whoever passes them on."""
    form = {
        "OIDCProviderArn": role.provider_arn,
        "RoleArn": role.role_arn,
        "OIDCToken": role.token.reveal(),
        **_of_session(role.session),
    }
    call = Call(
        operation="AssumeRoleWithOIDC",
        path="/",
        method="POST",
        body=urlencode(form).encode(),
        secrets=(form["OIDCToken"],),
    )
    return _keys_of(await client.call(call, deadline=deadline), call)


def _of_session(session: Session) -> dict[str, str]:
    told = {"RoleSessionName": session.name, "DurationSeconds": str(session.seconds)}
    return told | ({"Policy": session.policy} if session.policy else {})


def _keys_of(answer: object, call: Call) -> Leased[Keys]:
    return leased_keys(mapping(answer, "Credentials") if isinstance(answer, dict) else {}, call.operation)
