"""Credentials as requests need them: those that are given, and those that are had for a while and renewed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from trainfleet_exporter.config import Secret
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys, Credential
from trainfleet_exporter.providers.key_files import KeyFiles
from trainfleet_exporter.providers.lease import Lease

T = TypeVar("T")
CredentialT = TypeVar("CredentialT", bound=Credential)


class GivenKeys:
    """Keys that never change (auth.Source)."""

    expires: float | None = None

    def __init__(self, origin: str, keys: AccessKeys) -> None:
        self.origin = origin
        self._keys = keys

    async def prepare(self, deadline: float) -> object:
        return None

    def current(self) -> AccessKeys:
        return self._keys

    def refused(self, mark: object) -> bool:
        """There are no others."""
        return False


class FileKeys(Generic[T]):
    """Keys of which some or all are in files that are followed (auth.Source).

    `assemble` makes them of what the files hold.
    """

    expires: float | None = None

    def __init__(self, origin: str, files: KeyFiles[T], assemble: Callable[[tuple[T, ...]], AccessKeys]) -> None:
        self.origin = origin
        self._files = files
        self._assemble = assemble

    async def prepare(self, deadline: float) -> object:
        self._files.current()
        return self._files.edition

    def current(self) -> AccessKeys:
        return self._assemble(self._files.current())

    def refused(self, mark: object) -> bool:
        """Others are worth a try where the files have rotated, even if that has not settled yet."""
        return mark != self._files.edition or self._files.take_now()


def in_words(secret: Secret) -> str:
    """Where a secret comes from, for the middle of a sentence."""
    return {"config file": "the config file", "environment": "the environment"}.get(secret.source, secret.source)


class RenewedCredential(Generic[CredentialT]):
    """A credential that is leased (auth.Source)."""

    def __init__(self, origin: str, lease: Lease[CredentialT]) -> None:
        self.origin = origin
        self._lease = lease

    @property
    def expires(self) -> float | None:
        return self._lease.expires

    async def prepare(self, deadline: float) -> object:
        return await self._lease.have(deadline)

    def current(self) -> CredentialT:
        return self._lease.current()

    def refused(self, mark: object) -> bool:
        return isinstance(mark, int) and self._lease.refused(mark)
