"""IAM tokens for a user's password.

A token lives 24 hours. It is had anew before it ends, and when the gateway says that it must be (401 `APIGW.0307`).

https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.huawei_modelarts.auth import Token
from trainfleet_exporter.providers.huawei_modelarts.sources import RenewedCredential, in_words
from trainfleet_exporter.providers.lease import Lease, Leased
from trainfleet_exporter.quantities import mapping, text, utc_time
from trainfleet_exporter.transport import ApiClient, Call

_MARGIN = 1800.0
"""Seconds before its end at which a token is renewed: it also dies up to half an hour early when rights change."""
_OPERATION = "KeystoneCreateUserTokenByPassword"
_HEADER = "X-Subject-Token"


@dataclass(frozen=True, slots=True)
class User:
    """An IAM user. A HUAWEI ID account cannot have tokens this way."""

    name: str
    password: Secret
    domain_name: str


def password_tokens(
    provider: str, user: User, iam: ApiClient, *, region: str, project_id: str
) -> RenewedCredential[Token]:
    """Tokens of a user, for the password as it is now; for a project, or the one named like the region.

    `iam` asks without a credential; `provider` names whose they are, in the log.
    """

    async def fetch(deadline: float) -> Leased[Token]:
        scope = {"project": {"id": project_id} if project_id else {"name": region}}
        password = user.password.reveal()
        who = {"name": user.name, "password": password, "domain": {"name": user.domain_name}}
        identity = {"methods": ["password"], "password": {"user": who}}
        headers: dict[str, str] = {}
        call = Call(
            operation=_OPERATION,
            path="/v3/auth/tokens",
            method="POST",
            query={"nocatalog": "true"},
            body=json.dumps({"auth": {"identity": identity, "scope": scope}}).encode(),
            secrets=(password,),
            receive_headers=headers.update,
        )
        answer = await iam.call(call, deadline=deadline)
        told = mapping(answer, "token") if isinstance(answer, dict) else {}
        token, expires = headers.get(_HEADER.lower(), ""), utc_time(told, "expires_at")
        if not token or expires is None:
            raise BadAnswer("IAM's answer has no token, or does not say when it expires", operation=_OPERATION)
        return Leased(Token(token, text(mapping(told, "project"), "id")), expires)

    lease = Lease(f"{provider}: IAM tokens of user {user.name}", fetch, margin=_MARGIN, basis=user.password.now)
    return RenewedCredential(f"IAM password of user {user.name}, from {in_words(user.password)}", lease)
