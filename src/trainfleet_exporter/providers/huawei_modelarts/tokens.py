"""IAM tokens for a user's password.

A token lives 24 hours. It is had anew before it ends, and when the gateway says that it must be (401 `APIGW.0307`).

https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.huawei_modelarts.auth import Token
from trainfleet_exporter.providers.huawei_modelarts.sources import RenewedCredential
from trainfleet_exporter.providers.lease import Lease, Leased
from trainfleet_exporter.quantities import mapping, text, utc_time
from trainfleet_exporter.transport import ApiClient, Call

_MARGIN = 1800.0
"""Seconds before its end at which a token is renewed: it also dies up to half an hour early when rights change."""
_OPERATION = "KeystoneCreateUserTokenByPassword"
_HEADER = "X-Subject-Token"


@dataclass(frozen=True, slots=True)
class Password:
    """An IAM user's password. A HUAWEI ID account cannot have tokens this way."""

    username: str
    password: str = field(repr=False)
    domain_name: str


def password_tokens(
    username: str, read: Callable[[], Password], iam: ApiClient, *, region: str, project_id: str
) -> RenewedCredential[Token]:
    """Tokens of a user, whose password `read` gives as it is now; for a project, or the one named like the region.

    `iam` asks without a credential.
    """

    async def fetch(deadline: float) -> Leased[Token]:
        user = read()
        scope = {"project": {"id": project_id} if project_id else {"name": region}}
        identity = {
            "methods": ["password"],
            "password": {
                "user": {"name": user.username, "password": user.password, "domain": {"name": user.domain_name}}
            },
        }
        headers: dict[str, str] = {}
        call = Call(
            operation=_OPERATION,
            path="/v3/auth/tokens",
            method="POST",
            query={"nocatalog": "true"},
            body=json.dumps({"auth": {"identity": identity, "scope": scope}}).encode(),
            receive_headers=headers.update,
        )
        answer = await iam.call(call, deadline=deadline)
        told = mapping(answer, "token") if isinstance(answer, dict) else {}
        token, expires = headers.get(_HEADER.lower(), ""), utc_time(told, "expires_at")
        if not token or expires is None:
            raise BadAnswer("IAM's answer has no token, or does not say when it expires", operation=_OPERATION)
        return Leased(Token(token, text(mapping(told, "project"), "id")), expires)

    lease = Lease(f"IAM tokens of user {username}", fetch, margin=_MARGIN, basis=read)
    return RenewedCredential(f"IAM password of user {username}", lease)
