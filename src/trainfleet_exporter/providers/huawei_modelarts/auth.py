"""Who asks: an access key that signs, or a user whose IAM token is carried; and in which project.

A token lives 24 hours. It is had anew before it expires, and when the gateway says that it must be (401
`APIGW.0307`); one renewal at a time, whoever finds out. The project's id may be left out of the config: then the
token tells it, or IAM by the region's name.

https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html (tokens)
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError
from trainfleet_exporter.providers.huawei_modelarts.signing import sign
from trainfleet_exporter.quantities import mapping, mappings, text, utc_time
from trainfleet_exporter.transport import ApiClient, Call

_RENEW_BEFORE = 1800.0
"""Seconds before its end at which a token is renewed: it also dies up to half an hour early when rights change."""
_AGAIN = 300.0
"""Seconds before what failed is tried again: too many wrong passwords lock an account."""
_TOKEN_OPERATION = "KeystoneCreateUserTokenByPassword"  # noqa: S105 - an operation's name
TOKEN_HEADER = "X-Subject-Token"  # noqa: S105 - a header's name


@dataclass(frozen=True, slots=True)
class AccessKeys:
    """An access key, perhaps a temporary one with its token."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Password:
    """An IAM user's password. A HUAWEI ID account cannot have tokens this way."""

    username: str
    password: str = field(repr=False)
    domain_name: str


Credential = AccessKeys | Password


class Identity:
    """Signs for one project. `current` gives the credential that is valid now."""

    def __init__(self, current: Callable[[], Credential], *, region: str, project_id: str | None) -> None:
        self._current = current
        self._region = region
        self._project_id = project_id
        self._iam: ApiClient | None = None
        self._token = ""
        self._renew_at = self._issued = self._expires = 0.0
        self._refused: tuple[Credential, float, str] | None = None
        """A credential that IAM refused, until when it is not tried again (Unix seconds), and what IAM said."""
        self._renewing = asyncio.Lock()

    def use(self, iam: ApiClient) -> None:
        """The client that asks IAM; it signs through this very identity."""
        self._iam = iam

    @property
    def project_id(self) -> str:
        """The project's id, or an empty text while it is not known."""
        return self._project_id or ""

    async def prepare(self, deadline: float) -> str:
        """Have a token that is valid, where tokens are used; and the project's id, which is returned."""
        if isinstance(self._current(), Password) and time.time() >= self._renew_at:
            async with self._renewing:
                if time.time() >= self._renew_at:
                    await self._renew_if_possible(deadline)
        if not self._project_id:
            async with self._renewing:
                if not self._project_id:
                    await self._find_project(deadline)
        return self.project_id

    def reject(self, token: str) -> bool:
        """A service refused this token: whether another one is worth a try.

        A token that is minutes old was not refused for its age: another one would be refused just so.
        """
        if not token:
            return False
        if token == self._token:
            if time.time() - self._issued < _AGAIN:
                return False
            self._renew_at = self._expires = 0.0
        return True

    async def _renew_if_possible(self, deadline: float) -> None:
        """Renew the token; where that fails, go on with the one that is still valid, and try again a while later."""
        credential = self._current()
        if self._refused is not None and self._refused[0] == credential and time.time() < self._refused[1]:
            raise AccessDenied(self._refused[2], operation=_TOKEN_OPERATION)  # the same password is not tried again
        try:
            await self._renew(deadline)
        except CloudError as error:
            if isinstance(error, AccessDenied):
                self._refused = (credential, time.time() + _AGAIN, error.message)
            if time.time() >= self._expires:
                raise
            self._renew_at = time.time() + _AGAIN

    @property
    def token(self) -> str:
        """The token in use; empty where requests are signed."""
        return self._token

    def headers(self, call: Call, host: str, *, content_type: str | None) -> dict[str, str]:
        """What authenticates one attempt."""
        credential = self._current()
        if isinstance(credential, Password):
            return {"host": host, "X-Auth-Token": self._token} | (
                {"content-type": content_type} if content_type else {}
            )
        return sign(
            method=call.method,
            path=call.path,
            query=call.query,
            host=host,
            access_key=credential.access_key,
            secret_key=credential.secret_key,
            security_token=credential.security_token,
            project_id=self._project_id,
            now=time.time(),
            content_type=content_type,
            body=call.body,
        )

    async def _renew(self, deadline: float) -> None:
        credential = self._current()
        assert self._iam is not None
        assert isinstance(credential, Password)
        user = {
            "name": credential.username,
            "password": credential.password,
            "domain": {"name": credential.domain_name},
        }
        scope = {"project": {"id": self._project_id} if self._project_id else {"name": self._region}}
        headers: dict[str, str] = {}
        body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
        call = Call(
            operation=_TOKEN_OPERATION,
            path="/v3/auth/tokens",
            method="POST",
            query={"nocatalog": "true"},
            body=json.dumps(body).encode(),
            receive_headers=headers.update,
        )
        answer = await self._iam.call(call, deadline=deadline)
        token, told = (
            headers.get(TOKEN_HEADER.lower(), ""),
            mapping(answer, "token") if isinstance(answer, dict) else {},
        )
        expires = utc_time(told, "expires_at")
        if not token or expires is None:
            raise BadAnswer("IAM's answer has no token, or does not say when it expires", operation=call.operation)
        self._token, self._issued, self._expires, self._refused = token, time.time(), expires, None
        # A token that lives shorter than the margin is used for half its life.
        self._renew_at = max(expires - _RENEW_BEFORE, time.time() + (expires - time.time()) / 2)
        self._project_id = self._project_id or text(mapping(told, "project"), "id") or None

    async def _find_project(self, deadline: float) -> None:
        assert self._iam is not None
        call = Call(operation="KeystoneListProjects", path="/v3/projects", query={"name": self._region})
        answer = await self._iam.call(call, deadline=deadline)
        found = [text(row, "id") for row in mappings(answer if isinstance(answer, dict) else {}, "projects")]
        if len(found) != 1 or not found[0]:
            raise AccessDenied(
                f"{len(found)} projects are named {self._region}; say which by project_id", operation=call.operation
            )
        self._project_id = found[0]
