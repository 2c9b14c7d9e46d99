"""What every credential can do, and those that need no request: keys that are given, and keys in files."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.errors import AccessDenied, BadAnswer
from trainfleet_exporter.providers.credentials.files import RotatingFiles
from trainfleet_exporter.providers.credentials.refreshable import Issued
from trainfleet_exporter.quantities import iso_time, utc_time
from trainfleet_exporter.sealed import Sealed

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Credential(Protocol[T_co]):
    """What calls are signed with (also a providers.registry.Identity)."""

    @property
    def origin(self) -> str:
        """Where it comes from, in words; never the credential, nor the id of a key."""
        ...

    @property
    def expires(self) -> float | None:
        """When the latest one expires or expired (Unix seconds); None if it does not, and before the first."""
        ...

    @property
    def edition(self) -> object:
        """Changes when the credential changes. Asks nothing, and never fails."""
        ...

    async def prepare(self, deadline: float) -> object:
        """Make `current` valid by `deadline` (loop time); return its edition, for `refused`. Raises CloudError."""
        ...

    def current(self) -> T_co:
        """The one to sign an attempt with. `AccessDenied` if it has expired, or its file is unusable."""
        ...

    def refused(self, mark: object) -> bool:
        """Whether a call that was refused with the edition `mark` is worth another try."""
        ...


@dataclass(frozen=True, slots=True)
class Keys(Sealed):
    """An access key, and the security token that goes with a temporary one."""

    access_key_id: str = field(repr=False)
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def quotable(self) -> tuple[str, ...]:
        """The parts that a request carries, and that its refusal may quote."""
        return tuple(part for part in (self.access_key_id, self.security_token) if part)


def issued_keys(
    key_id: str | None,
    secret: str | None,
    token: str | None,
    expiration: str | None,
    *,
    operation: str,
    incomplete: str,
    expired: str,
) -> Issued[Keys]:
    """The temporary keys of an answer; `expiration` is an ISO 8601 time.

    Raises BadAnswer with the text `incomplete` if a part is missing, and AccessDenied with the text `expired`, in which
    {ended} is when the keys expired and {here} is the time of this machine.
    """
    expires = utc_time({"expiration": expiration}, "expiration")
    if expires is None or any(unusable(part or "") for part in (key_id, secret, token)):
        raise BadAnswer(incomplete, operation=operation)
    if expires <= time.time():
        message = expired.format(ended=iso_time(expires), here=iso_time(time.time()))
        raise AccessDenied(message, operation=operation)
    return Issued(Keys(key_id or "", secret or "", token), expires)


@dataclass(frozen=True, slots=True)
class FixedCredential(Generic[T]):
    """A credential that never changes (Credential)."""

    origin: str
    value: T = field(repr=False)
    expires: float | None = None
    edition: object = None

    async def prepare(self, deadline: float) -> object:
        """Nothing to prepare."""
        return None

    def current(self) -> T:
        """The only one."""
        return self.value

    def refused(self, mark: object) -> bool:
        """There is no other one to try."""
        return False


class FileCredential(Generic[T]):
    """A credential that is in files, as a whole or in part (Credential). `assemble` makes it of their contents."""

    expires: float | None = None

    def __init__(self, origin: str, files: RotatingFiles[T], assemble: Callable[[tuple[T, ...]], Keys]) -> None:
        self.origin = origin
        self._files = files
        self._assemble = assemble

    @property
    def edition(self) -> object:
        """How often the files have changed so far."""
        with suppress(AccessDenied):
            self._files.current()
        return self._files.edition

    async def prepare(self, deadline: float) -> object:
        """Read the files if they have changed."""
        self._files.current()
        return self._files.edition

    def current(self) -> Keys:
        """The keys of the files."""
        return self._assemble(self._files.current())

    def refused(self, mark: object) -> bool:
        """Whether the files have changed. Keys that were refused are not used until a rotation has settled."""
        return mark != self._files.edition or self._files.take_now()
