"""The interface of every credential, and the keys that most of them have."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.errors import AccessDenied, BadAnswer
from trainfleet_exporter.process.redaction import HoldsSecrets, remember
from trainfleet_exporter.transport.json_fields import iso_time, utc_time

T_co = TypeVar("T_co", covariant=True)
_INCOMPLETE = "the answer lacks keys, or does not say when they expire"
_EXPIRED = "the keys in the answer expired at {ended}, and the time here is {here}: check the clock of this machine"


class Credential(Generic[T_co]):
    """A credential that signs calls (also a providers.registry.Identity). This base never changes, and never
    expires."""

    def __init__(self, origin: Callable[[], str]) -> None:
        self._origin = origin

    @property
    def origin(self) -> str:
        """Its source in words, without the credential or the id of a key."""
        return self._origin()

    @property
    def expires(self) -> float | None:
        """When the latest one expires or expired (Unix seconds); None if it does not, and before the first."""
        return None

    @property
    def edition(self) -> object:
        """Changes when the credential changes. Asks nothing, and never fails."""
        return None

    async def prepare(self, deadline: float) -> object:
        """Make `current` valid by `deadline` (loop time); return its edition, for `refused`. Raises CloudError."""
        return None

    def current(self) -> T_co:
        """The one to sign an attempt with. `AccessDenied` if it has expired, or its file is unusable."""
        raise NotImplementedError

    def refused(self, mark: object) -> bool:
        """Return whether a rejected call with the edition `mark` is worth another try."""
        return False


class FixedCredential(Credential[T_co]):
    """A credential that is given."""

    def __init__(self, origin: str, value: T_co) -> None:
        super().__init__(lambda: origin)
        self._value = value

    def current(self) -> T_co:
        """The only one."""
        return self._value


@dataclass(frozen=True, slots=True)
class Keys(HoldsSecrets):
    """An access key, and the security token that goes with a temporary one."""

    access_key_id: str = field(repr=False)
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.remember()

    def remember(self) -> None:
        """Have them redacted. To be called at each use, so that newer keys do not push them out."""
        remember(self.access_key_id, self.access_key_secret, self.security_token)

    def quotable(self) -> tuple[str, ...]:
        """The parts that a request carries, and that its refusal may quote."""
        return tuple(part for part in (self.access_key_id, self.security_token) if part)


@dataclass(frozen=True, slots=True)
class Issued(HoldsSecrets, Generic[T_co]):
    """A temporary credential and when it expires (Unix seconds)."""

    value: T_co = field(repr=False)
    expires: float


class KeysAnswer(Protocol):
    """Temporary keys as the struct of an answer has them. The expiration is an ISO 8601 time."""

    access_key_id: str | None
    access_key_secret: str | None
    security_token: str | None
    expiration: str | None


def issued_keys(
    answer: KeysAnswer | None, operation: str, *, incomplete: str = _INCOMPLETE, expired: str = _EXPIRED
) -> Issued[Keys]:
    """The temporary keys of an answer.

    Raises BadAnswer with the text `incomplete` if a part is missing, and AccessDenied with the text `expired`, in which
    {ended} is when the keys expired and {here} is the time of this machine.
    """
    if answer is None:
        raise BadAnswer(incomplete, operation=operation)
    keys = Keys(answer.access_key_id or "", answer.access_key_secret or "", answer.security_token or "")
    expires = utc_time({"expiration": answer.expiration}, "expiration")
    if expires is None or any(map(unusable, (keys.access_key_id, keys.access_key_secret, keys.security_token or ""))):
        raise BadAnswer(incomplete, operation=operation)
    if expires <= time.time():
        message = expired.format(ended=iso_time(expires), here=iso_time(time.time()))
        raise AccessDenied(message, operation=operation)
    return Issued(keys, expires)
