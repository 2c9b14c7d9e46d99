"""Credentials of every cloud: keeps keys fresh and secret. How to find them is in `credentials.py` of each cloud.

    load(section, environ, http) ──► Keys ──► FetchedKeys: fetched again before they expire, and after a refusal
    keys of the config ─────────────────────► GivenKeys: files are read again when they change
    a credential ──► judging.SignedDialect: signs each attempt

A fetch starts from nothing each time, so there is no state between two fetches.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.redaction import HoldsSecrets, remember
from trainfleet_exporter.transport.json_fields import iso_time
from trainfleet_exporter.transport.retry import wait_hint

log = logging.getLogger(__name__)

REFRESH_MARGIN = 900.0
"""Seconds before their expiration at which keys are refreshed, or at half their life if that is later."""
RECHECK = 300.0
"""Seconds after which keys without an expiration are fetched again, because profile files are replaced."""
PROFILE = "profile "
"""Part of the origin of keys of a profile, also of its role."""
REFUSAL_PAUSE, FAILURE_PAUSE = 300.0, 30.0
"""Seconds before a fetch is repeated that was refused (too many wrong passwords lock an account), or that failed."""
_KEY_ID = re.compile(r"LTAI[A-Za-z0-9]{12,26}|STS\.[A-Za-z0-9]{10,}|[A-Z0-9]{20}")
"""Key ids of the clouds. Their secrets have 30 characters or more, of both cases."""


@dataclass(frozen=True, slots=True)
class Keys(HoldsSecrets):
    """An access key, and the security token of a temporary one."""

    access_key_id: str = field(repr=False)
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    expires: float | None = None
    """Unix seconds; None if they do not expire, or if their source does not say."""
    origin: str = field(default="", compare=False)
    """Their source in words."""
    project_id: str = ""
    """The project of the source, on clouds that have projects."""

    def __post_init__(self) -> None:
        for name, part in zip(("key id", "secret", "security token"), self.parts(), strict=False):
            if reason := unusable_secret(part):
                raise AccessDenied(f"the {name} of {self.origin or 'the answer'} cannot be used: {reason}")
        if _KEY_ID.fullmatch(self.access_key_secret) and not _KEY_ID.fullmatch(self.access_key_id):
            raise AccessDenied(f"the key id and the secret of {self.origin or 'the answer'} are swapped")
        self.remember()

    def remember(self) -> None:
        """Redact them from now on. Call it at each use, so that newer keys do not push them out."""
        remember(self.access_key_id, self.access_key_secret, self.security_token)

    def quotable(self) -> tuple[str, ...]:
        """The parts that a request carries, and that its refusal may quote."""
        return tuple(part for part in (self.access_key_id, self.security_token) if part)

    def parts(self) -> tuple[str, ...]:
        """All that is secret."""
        return (self.access_key_id, self.access_key_secret, *([self.security_token] if self.security_token else []))


K = TypeVar("K", bound=Keys)
Fetch: TypeAlias = Callable[[float], Awaitable[K]]
"""Returns keys by a deadline (loop time). Raises CloudError."""


class GivenKeys:
    """Keys of the config, or of files that it names, which are read again when they change."""

    def __init__(self, key_id: Secret, secret: Secret, token: Secret | None = None) -> None:
        self._parts = [key_id, secret, *([] if token is None else [token])]
        self._held: Keys | None = None
        self.origin, self.expires = key_id.source, None

    @classmethod
    def of(cls, keys: Keys) -> GivenKeys:
        """Return keys that never change, such as those that a role is assumed with."""
        return cls(*map(Secret, keys.parts()))

    async def keys(self, deadline: float) -> Keys:
        """The keys as they are now, by `deadline` (loop time). Raises CloudError."""
        return self.current()

    def current(self) -> Keys:
        """The keys as they are now, without waiting. The same object while they are the same."""
        key_id, secret, *token = fresh = tuple(part.reveal() for part in self._parts)
        if self._held is None or self._held.parts() != fresh:
            self._held = Keys(key_id, secret, token[0] if token else None, origin=self.origin)
        return self._held

    def refused(self, keys: object) -> bool:
        """Return whether a call that was rejected with these keys is worth another try: the files have changed."""
        return self.current() is not keys


class FetchedKeys(Generic[K]):
    """Keys that are fetched when they are due (one fetch at a time), and when a service refused them.

    Keys that are due but valid stay in use while others are fetched, or cannot be. After a failure, all calls get the
    same error until its pause is over. Keys expire by the cloud's clock or by the loop's, the earlier of the two.
    """

    def __init__(
        self,
        provider: str,
        origin: str,
        fetch: Fetch[K],
        *,
        clock: Callable[[], float],
        margin: float = REFRESH_MARGIN,
    ) -> None:
        """`clock` is that of the cloud in Unix seconds."""
        self._provider, self._origin, self._fetch, self._clock, self._margin = provider, origin, fetch, clock, margin
        self._held: K | None = None
        self._due = self._ends = 0.0
        self._fetched = (0.0, 0.0)
        """When the keys in use were fetched: Unix seconds, and loop time."""
        self._refused_at = -math.inf
        self._is_refused = self._is_failing = False
        self._lock = asyncio.Lock()
        self._back_off = BackOff()

    @property
    def origin(self) -> str:
        """The source in words: of the keys in use, or the one that is going to be asked."""
        return (self._held.origin if self._held is not None else "") or self._origin

    @property
    def expires(self) -> float | None:
        """When the latest keys expire or expired."""
        return None if self._held is None else self._held.expires

    def current(self) -> K:
        """The latest keys, also after a service refused them: a call with those is refused as well, and gets others."""
        if self._held is None:
            raise AccessDenied("no credentials have been received yet")
        if self._now() >= self._ends:
            raise AccessDenied(f"the temporary credentials expired at {iso_time(self._ends)}")
        return self._held

    async def keys(self, deadline: float) -> K:
        """The keys to use now."""
        if self._is_due() and not (self._is_valid() and self._lock.locked()):
            async with self._lock:
                if self._is_due():
                    await self._refresh(deadline)
        return self.current()

    def refused(self, keys: object) -> bool:
        """Return whether there are others, or will be. Not twice in five minutes: then age was not the reason."""
        if keys is not self._held or not self._is_valid():
            return True
        if self._now() - self._refused_at < REFUSAL_PAUSE:
            return False
        self._is_refused, self._refused_at = True, self._now()
        return True

    def _now(self) -> float:
        wall, steady = self._fetched
        return max(self._clock(), wall + asyncio.get_running_loop().time() - steady)

    def _is_valid(self) -> bool:
        return self._held is not None and not self._is_refused and self._now() < self._ends

    def _is_due(self) -> bool:
        return not self._is_valid() or self._now() >= self._due

    async def _refresh(self, deadline: float) -> None:
        try:
            self._back_off.check()
            keys = await self._fetch(deadline)
            self._check(keys)
        except CloudError as error:
            self._back_off.note(error)
            if not self._is_valid():
                raise
            self._due = self._now() + REFUSAL_PAUSE  # after its end it is due in any case
            if not self._is_failing:
                end = "never" if self._ends == math.inf else iso_time(self._ends)
                facts = fields(provider=self._provider, credential=self.origin, expires=end, error=error)
                log.warning("cannot refresh the credential; the old one is used until it expires", extra=facts)
            self._is_failing = True
            return
        self._back_off.clear()
        self._is_failing = False
        held = self._held
        self._fetched = now, _ = self._clock(), asyncio.get_running_loop().time()
        # The same object while nothing has changed: it is what `refused` compares.
        self._held, self._is_refused = (keys if held is None or keys != held else held), False
        self._ends = math.inf if keys.expires is None else keys.expires
        self._due = now + RECHECK if keys.expires is None else max(self._ends - self._margin, (now + self._ends) / 2)
        if self._held is not held:
            until = {} if keys.expires is None else {"expires": iso_time(keys.expires)}
            facts = fields(provider=self._provider, credential=self.origin, **until)
            log.info("credential received" if held is None else "credential refreshed", extra=facts)

    def _check(self, keys: K) -> None:
        """Refuse expired keys, and keys of a machine in place of a profile whose file may be gone for a moment."""
        if keys.expires is not None and keys.expires <= self._clock():
            ended, here = iso_time(keys.expires), iso_time(self._clock())
            raise AccessDenied(f"the keys expired at {ended}, and it is {here}: check the clock of this machine")
        held = self._held
        if held is not None and PROFILE in held.origin and PROFILE not in keys.origin:
            found = f"{held.origin} is gone, and the next source is {keys.origin}"
            raise AccessDenied(f"{found}; restore the profile, or restart the exporter to accept the other identity")


Credential: TypeAlias = GivenKeys | FetchedKeys[K]
"""What signs the calls of a provider (also a providers.registry.Identity)."""


class BackOff:
    """Remembers the latest failure, and raises it again until its pause is over."""

    def __init__(self) -> None:
        self._error: CloudError | None = None
        self._pause = (0.0, 0.0)

    def check(self) -> None:
        """Raise the noted error, if its pause is not over. A clock that was set back does not extend the pause."""
        if self._error is not None and self._pause[0] <= time.time() < self._pause[1]:
            raise copy.copy(self._error)

    def note(self, error: CloudError) -> None:
        """Begin the pause of a failure, unless one lasts. Without an attempt there is no pause."""
        if not error.attempted or self._pause[0] <= time.time() < self._pause[1]:
            return
        is_refused = isinstance(error, AccessDenied | NotFound | RequestRefused)
        pause = REFUSAL_PAUSE if is_refused else max(FAILURE_PAUSE, wait_hint(error.retry_after) or 0.0)
        # A copy, because ApiClient writes the name of the caller's operation into the error that it gets.
        self._error, self._pause = copy.copy(error), (time.time(), time.time() + pause)

    def clear(self) -> None:
        """The request succeeded."""
        self._error, self._pause = None, (0.0, 0.0)
