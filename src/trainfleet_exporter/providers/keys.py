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
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.secrets import unusable_secret
from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.redaction import HoldsSecrets, remember
from trainfleet_exporter.transport.json_fields import iso_time
from trainfleet_exporter.transport.retry import wait_hint

T = TypeVar("T")
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
        remember(*self.parts())

    def quotable(self) -> tuple[str, ...]:
        """The parts that a request carries, and that its refusal may quote."""
        return tuple(part for part in (self.access_key_id, self.security_token) if part)

    def parts(self) -> tuple[str, ...]:
        """All that is secret."""
        return (self.access_key_id, self.access_key_secret, *([self.security_token] if self.security_token else []))


class GivenKeys:
    """Keys of the config, or of files that it names, which are read again when they change."""

    def __init__(self, key_id: Secret, secret: Secret, token: Secret | None = None) -> None:
        self._parts = [key_id, secret, *([] if token is None else [token])]
        self.origin, self.expires = key_id.source, None

    async def keys(self, deadline: float) -> Keys:
        """The keys as they are now, by `deadline` (loop time). Raises CloudError."""
        return self.current()

    def current(self) -> Keys:
        """The keys as they are now, without waiting."""
        key_id, secret, *token = (part.reveal() for part in self._parts)
        return Keys(key_id, secret, token[0] if token else None, origin=self.origin)

    def refused(self, keys: object) -> bool:
        """Return whether a call that was rejected with these keys is worth another try: the files have changed."""
        return self.current() != keys


class FetchedKeys:
    """Keys that are fetched when they are due (one fetch at a time), and when a service refused them.

    Valid keys stay in use while others are fetched, or cannot be. After a failure, all calls get the same error until
    its pause is over.
    """

    def __init__(
        self, provider: str, origin: str, fetch: Callable[[float], Awaitable[Keys]], *, clock: Callable[[], float]
    ) -> None:
        """`fetch` takes a deadline (loop time) and raises CloudError. `clock` is the cloud's in Unix seconds."""
        self.origin = origin
        """The source in words: of the keys in use, or the one that is going to be asked."""
        self.expires: float | None = None
        """When the latest keys expire or expired."""
        self._provider, self._fetch, self._clock = provider, fetch, clock
        self._held: Keys | None = None
        self._due = self._ends = 0.0
        """By the clock. Keys that were refused have ended."""
        self._refused_at = -math.inf
        self._lock = asyncio.Lock()
        self._back_off = BackOff()

    def current(self) -> Keys:
        """The keys to use, without waiting."""
        if self._held is None or not self._is_valid():
            raise AccessDenied("the temporary credentials have expired or were rejected")
        remember(*self._held.parts())  # at each use, so that newer keys do not push them out of redaction
        return self._held

    async def keys(self, deadline: float) -> Keys:
        """The keys to use now."""
        if self._clock() >= self._due and not (self._is_valid() and self._lock.locked()):
            async with self._lock:
                if self._clock() >= self._due:
                    await self._refresh(deadline)
        return self.current()

    def refused(self, keys: object) -> bool:
        """Return whether there are others, or will be. Not twice in five minutes: then age was not the reason."""
        if keys != self._held or not self._is_valid():
            return True
        now = asyncio.get_running_loop().time()
        if now - self._refused_at < REFUSAL_PAUSE:
            return False
        self._refused_at, self._due, self._ends = now, 0.0, 0.0
        return True

    def _is_valid(self) -> bool:
        return self._clock() < self._ends

    async def _refresh(self, deadline: float) -> None:
        try:
            keys = await self._back_off.run(lambda: self._fetch_usable(deadline))
        except CloudError as error:
            if not self._is_valid():
                raise
            self._due = min(self._clock() + REFUSAL_PAUSE, self._ends)
            facts = self._facts(error=error)
            log.warning("cannot refresh the credential; the old one is used until it expires", extra=facts)
            return
        now, before = self._clock(), self._held
        self._held, self.origin, self.expires = keys, keys.origin or self.origin, keys.expires
        self._ends = math.inf if keys.expires is None else keys.expires
        self._due = now + RECHECK if keys.expires is None else max(self._ends - REFRESH_MARGIN, (now + self._ends) / 2)
        if keys != before:
            log.info("credential received" if before is None else "credential refreshed", extra=self._facts())

    def _facts(self, **more: object) -> Mapping[str, object]:
        end = {} if self.expires is None else {"expires": iso_time(self.expires)}
        return fields(provider=self._provider, credential=self.origin, **end, **more)

    async def _fetch_usable(self, deadline: float) -> Keys:
        """Refuse expired keys, and keys of a machine in place of a profile whose file may be gone for a moment."""
        keys = await self._fetch(deadline)
        if keys.expires is not None and keys.expires <= self._clock():
            ended, here = iso_time(keys.expires), iso_time(self._clock())
            raise AccessDenied(f"the keys expired at {ended}, and it is {here}: check the clock of this machine")
        if self._held is not None and PROFILE in self.origin and PROFILE not in keys.origin:
            found = f"{self.origin} is gone, and the next source is {keys.origin}"
            raise AccessDenied(f"{found}; restore the profile, or restart the exporter to accept the other identity")
        return keys


Credential: TypeAlias = GivenKeys | FetchedKeys
"""What signs the calls of a provider (also a providers.registry.Identity)."""


class BackOff:
    """Makes a request, and after its failure raises that error again until a pause is over."""

    def __init__(self) -> None:
        self._error: CloudError | None = None
        self._until = -math.inf

    async def run(self, request: Callable[[], Awaitable[T]]) -> T:
        """The result of the request. Raises CloudError. A request that was not sent makes no pause."""
        clock = asyncio.get_running_loop().time
        if self._error is not None and clock() < self._until:
            raise copy.copy(self._error)
        try:
            return await request()
        except CloudError as error:
            if error.attempted:
                is_refused = isinstance(error, AccessDenied | NotFound | RequestRefused)
                pause = REFUSAL_PAUSE if is_refused else max(FAILURE_PAUSE, wait_hint(error.retry_after) or 0.0)
                # A copy, because ApiClient writes the name of the caller's operation into the error that it gets.
                self._error, self._until = copy.copy(error), clock() + pause
            raise
