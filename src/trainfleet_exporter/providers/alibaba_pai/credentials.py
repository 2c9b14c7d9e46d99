"""The keys that requests are signed with: given ones, ones of files that rotate, and ones that are had for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from trainfleet_exporter.errors import AccessDenied, BadAnswer
from trainfleet_exporter.process.redaction import HoldsSecrets, remember
from trainfleet_exporter.providers.key_files import KeyFiles
from trainfleet_exporter.providers.lease import Lease, Leased
from trainfleet_exporter.quantities import iso_time, text, utc_time

T = TypeVar("T")

MARGIN = 900.0
"""Seconds before their end at which temporary keys are renewed, as the vendor's own clients do."""
_TOKEN_CODES = ("InvalidSecurityToken", "InvalidAccessKeyId")
_KEY_CODES = (*_TOKEN_CODES, "SignatureDoesNotMatch")


@dataclass(frozen=True, slots=True)
class Keys(HoldsSecrets):
    """One consistent set of keys, to sign one attempt with."""

    access_key_id: str = field(repr=False)
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        remember(self.access_key_id, self.access_key_secret, self.security_token)

    def told(self) -> tuple[str, ...]:
        """What of them a request tells, and its refusal may quote."""
        return tuple(part for part in (self.access_key_id, self.security_token) if part)


class KeySource(Protocol):
    """Where keys come from (and a providers.registry.Identity)."""

    @property
    def origin(self) -> str:
        """In words, for people; never what the keys are, nor the id of one."""
        ...

    @property
    def expires(self) -> float | None:
        """Unix seconds at which the latest keys end or ended; None for those that do not, or before there were any."""
        ...

    @property
    def edition(self) -> object:
        """Another one whenever other keys are to be had; asks nobody, and never fails."""
        ...

    async def prepare(self, deadline: float) -> object:
        """Have keys that are valid (transport.Dialect); returns their edition. Raises CloudError."""
        ...

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Whether other keys than those of the edition `mark` are to be had, and worth a try."""
        ...

    def current(self) -> Keys:
        """The keys to sign with. `AccessDenied` where there are none."""
        ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys that are there without asking anybody. `origin` says in words where they come from, never what they are."""

    origin: str
    current: Callable[[], Keys]
    expires: float | None = None
    edition: object = None

    async def prepare(self, deadline: float) -> object:
        """Keys that are given need no preparation."""
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Keys that are given are the only ones."""
        return False


class FileKeys(Generic[T]):
    """Keys of which some or all are in files. `assemble` makes them of what the files hold, in the files' order."""

    expires: float | None = None

    def __init__(self, origin: str, files: KeyFiles[T], assemble: Callable[[tuple[T, ...]], Keys]) -> None:
        self.origin = origin
        self._files = files
        self._assemble = assemble

    @property
    def edition(self) -> object:
        with suppress(AccessDenied):
            self._files.current()
        return self._files.edition

    async def prepare(self, deadline: float) -> object:
        self._files.current()
        return self._files.edition

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Refused keys are not kept until a rotation has settled: what the files hold now is worth a try."""
        if mark != self._files.edition:
            return True
        return error.code.startswith(_KEY_CODES) and self._files.take_now()

    def current(self) -> Keys:
        return self._assemble(self._files.current())


class LeasedKeys:
    """Temporary keys: renewed before their end, and had anew where a service takes them no more."""

    def __init__(self, origin: Callable[[], str], lease: Lease[Keys]) -> None:
        self._origin = origin
        self._lease = lease
        self._edition: int | None = None

    @property
    def origin(self) -> str:
        return self._origin()

    @property
    def expires(self) -> float | None:
        return self._lease.expires

    @property
    def edition(self) -> object:
        return self._edition

    async def prepare(self, deadline: float) -> object:
        self._edition = await self._lease.have(deadline)
        return self._edition

    def refused(self, error: AccessDenied, mark: object) -> bool:
        # A call that waited so long for its turn that its keys ended was refused here, by nobody's code.
        about_keys = error.code.startswith(_TOKEN_CODES) or (error.status is None and self._lease.has_ended)
        return about_keys and isinstance(mark, int) and self._lease.refused(mark)

    def current(self) -> Keys:
        return self._lease.current()


def leased_keys(told: Mapping[str, Any], operation: str) -> Leased[Keys]:
    """Temporary keys as STS, the metadata service and credentials URIs tell them. Raises CloudError."""
    keys = Keys(text(told, "AccessKeyId"), text(told, "AccessKeySecret"), text(told, "SecurityToken"))
    expires = utc_time(told, "Expiration")
    if not (keys.access_key_id and keys.access_key_secret and keys.security_token) or expires is None:
        raise BadAnswer("the answer lacks keys, or does not say when they end", operation=operation)
    if expires <= time.time():
        here = iso_time(time.time())
        raise AccessDenied(
            f"the keys in the answer ended at {iso_time(expires)}, and here it is {here}: is the clock right?",
            operation=operation,
        )
    return Leased(keys, expires)
