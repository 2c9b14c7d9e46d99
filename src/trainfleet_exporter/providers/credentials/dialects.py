"""How an API is asked with a credential, and how one is asked by a caller that has none yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.providers.credentials.credential import Credential
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest

T = TypeVar("T")
Judge: TypeAlias = Callable[[HttpAnswer], CloudError | None]
"""See transport.Dialect.judge."""


class SignedDialect(Generic[T]):
    """Base of the dialects (transport.Dialect) that sign with a credential."""

    def __init__(self, api: str, credential: Credential[T]) -> None:
        self.api = api
        self.credential = credential

    async def prepare(self, call: Call, deadline: float) -> object:
        """Make the credential valid."""
        return await self.credential.prepare(deadline)

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Return whether the service rejected the credential of `mark`, and another one can be tried."""
        # An error without a status: the credential expired, or its file vanished, while the call waited for its turn.
        return (error.status is None or self.blames_credential(error)) and self.credential.refused(mark)

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether another credential might be accepted. It is not if a permission is missing or a clock is
        wrong."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OpenDialect:
    """An API that is asked without a credential (transport.Dialect)."""

    api: str
    judge: Judge
    headers: Callable[[Call], Mapping[str, str]] = lambda call: {}
    """What each attempt sends besides `host`."""
    token: tuple[str, Secret] | None = None
    """A header whose value is secret, by its name."""
    target: Secret | None = None
    """Replaces the path and query of every call, where those are secret."""

    async def prepare(self, call: Call, deadline: float) -> object:
        """Nothing to prepare."""
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """There is no credential to replace."""
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        """The request as it is."""
        headers, secrets = {"host": host, **self.headers(call)}, []
        target = f"{call.path}?{query}" if (query := urlencode(call.query, quote_via=quote)) else call.path
        if self.token is not None:
            name, value = self.token
            headers[name] = value.reveal()
            secrets.append(headers[name])
        if self.target is not None:
            target = self.target.reveal()
            secrets.append(target)
        return SignedRequest(call.method, target, headers, call.body, tuple(secrets))
