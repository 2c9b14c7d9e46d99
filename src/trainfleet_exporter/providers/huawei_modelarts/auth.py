"""Who asks: keys that sign, or an IAM token that is carried; and in which project.

Where keys and tokens come from is a `Source` (sources.py and its neighbours). The project's id may be left out of the
config: then the source tells it, or IAM by the region's name.

https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html (tokens)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, RequestRefused
from trainfleet_exporter.process.redaction import HoldsSecrets, remember
from trainfleet_exporter.providers.huawei_modelarts.signing import sign
from trainfleet_exporter.providers.lease import Setback
from trainfleet_exporter.quantities import mappings, text
from trainfleet_exporter.transport import ApiClient, Call, Transport


@dataclass(frozen=True, slots=True)
class AccessKeys(HoldsSecrets):
    """An access key, perhaps a temporary one with its token."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        remember(self.access_key, self.secret_key, self.security_token)

    def told(self) -> tuple[str, ...]:
        """What of them a request tells, and its refusal may quote."""
        return tuple(part for part in (self.access_key, self.security_token) if part)


@dataclass(frozen=True, slots=True)
class Token(HoldsSecrets):
    """An IAM token, and the project that it is good for (empty where IAM did not say)."""

    text: str = field(repr=False)
    project_id: str = ""

    def __post_init__(self) -> None:
        remember(self.text)

    def told(self) -> tuple[str, ...]:
        """What of it a request tells, and its refusal may quote."""
        return (self.text,)


Credential = AccessKeys | Token


class Authentication(NamedTuple):
    """What authenticates one attempt."""

    headers: dict[str, str]
    secrets: tuple[str, ...]
    """See SignedRequest."""
    proofs: tuple[str, ...] = ()
    """See SignedRequest."""


class Source(Protocol):
    """Where the credential of a request comes from."""

    @property
    def origin(self) -> str:
        """In words, for people; never what the credential is."""
        ...

    @property
    def expires(self) -> float | None:
        """Unix seconds at which the latest one ends or ended; None for one that does not, or before there was any."""
        ...

    async def prepare(self, deadline: float) -> object:
        """Have a valid one in `current`, by `deadline` (loop time); its mark, for `refused`. Raises CloudError."""
        ...

    def current(self) -> Credential:
        """The one to sign an attempt with (`AccessDenied` if a file that holds it is unreadable, or it has ended)."""
        ...

    def refused(self, mark: object) -> bool:
        """A service refused the one of that mark: whether another one is worth a try."""
        ...


class Identity:
    """Authenticates calls for one project. An empty `project_id` is had from the source, or from IAM.

    `endpoints` are those that the source asks, by their label `api`; `closing` is a transport that only it uses.
    """

    def __init__(
        self,
        source: Source,
        *,
        region: str,
        project_id: str,
        endpoints: Mapping[str, str],
        closing: Transport | None = None,
    ) -> None:
        self.endpoints = endpoints
        self._source = source
        self._closing = closing
        self._region = region
        self._project_id = project_id
        self._iam: ApiClient | None = None
        self._finding = asyncio.Lock()
        self._not_found = Setback()

    def use(self, iam: ApiClient) -> None:
        """The client that asks IAM for projects; it authenticates through this very identity."""
        self._iam = iam

    async def aclose(self) -> None:
        """Close the source's own connections."""
        if self._closing is not None:
            await self._closing.aclose()

    @property
    def project_id(self) -> str:
        """The project's id, or an empty text while it is not known."""
        return self._project_id

    @property
    def origin(self) -> str:
        """Where the credential in use comes from (providers.registry.Identity)."""
        return self._source.origin

    @property
    def expires(self) -> float | None:
        """When the latest credential ends or ended, in Unix seconds; None where it does not."""
        return self._source.expires

    async def prepare(self, deadline: float) -> object:
        """Have a credential that is valid (transport.Dialect)."""
        return await self._source.prepare(deadline)

    def refused(self, mark: object) -> bool:
        """A service refused the credential of `mark`: whether another one is worth a try."""
        return self._source.refused(mark)

    async def project(self, deadline: float) -> str:
        """The project's id: the configured one, the token's, or IAM's by the region's name."""
        if not self._project_id:
            async with self._finding:
                if not self._project_id:
                    mark = await self.prepare(deadline)
                    credential = self._source.current()
                    self._project_id = credential.project_id if isinstance(credential, Token) else ""
                if not self._project_id:
                    self._not_found.check(mark)
                    try:
                        self._project_id = await self._find_project(deadline)
                    except CloudError as error:
                        self._not_found.note(mark, error)
                        raise
        return self._project_id

    def headers(self, call: Call, host: str, *, content_type: str | None) -> Authentication:
        """What authenticates one attempt, and what in it must not be quoted."""
        credential = self._source.current()
        if isinstance(credential, Token):
            headers = {"host": host, "X-Auth-Token": credential.text}
            return Authentication(headers | ({"content-type": content_type} if content_type else {}), credential.told())
        signed = sign(
            method=call.method,
            path=call.path,
            query=call.query,
            host=host,
            access_key=credential.access_key,
            secret_key=credential.secret_key,
            security_token=credential.security_token,
            project_id=self._project_id or None,
            now=time.time(),
            content_type=content_type,
            body=call.body,
        )
        return Authentication(signed.headers, credential.told(), signed.proofs)

    async def _find_project(self, deadline: float) -> str:
        assert self._iam is not None
        call = Call(operation="KeystoneListProjects", path="/v3/projects", query={"name": self._region})
        try:
            answer = await self._iam.call(call, deadline=deadline)
        except (NotFound, RequestRefused) as error:
            raise AccessDenied.of(error) from None  # it says nothing of what is to be asked for in the project
        if not isinstance(answer.get("projects"), list):
            raise BadAnswer("the answer has no list of projects", operation=call.operation)
        found = list(dict.fromkeys(text(row, "id") for row in mappings(answer, "projects")))
        if len(found) != 1 or not found[0]:
            raise AccessDenied(
                f"{len(found)} projects are named {self._region}; say which by project_id", operation=call.operation
            )
        return found[0]
