"""Temporary credentials: refreshed before they expire, and replaced when a service rejects them.

    none ──prepare──► fresh ──margin before the end──► due ──refreshed──► fresh
                        │                               │ refresh fails: used until the end, retried a while later
                        └──refused by a service──► replaced at once, but only once in five minutes: a service that
                                                   refuses every credential must not cost a request for each call

One refresh runs at a time. Meanwhile the other calls use a credential that is due but still valid. After a failure, all
calls get the same error, and no call tries again until the pause is over.

A credential is due, and expires, by the wall clock or by the loop's, the earlier of the two. Otherwise, if the wall
clock was set back, the exporter would keep a credential that the service rejects.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from trainfleet_exporter.errors import AccessDenied, CloudError, LeaseLost, NotFound, RequestRefused
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.redaction import HoldsSecrets
from trainfleet_exporter.providers.credentials.credential import Credential, Issued
from trainfleet_exporter.transport.json_fields import iso_time
from trainfleet_exporter.transport.retry import wait_hint

log = logging.getLogger(__name__)

T = TypeVar("T")

REFUSAL_PAUSE = 300.0
"""Seconds before a refused request is retried: too many wrong passwords lock an account, and services are shared."""
FAILURE_PAUSE = 30.0
"""Seconds before a transient failure is retried: by the next poll as a rule, and not by every call of this one."""
_REFUSALS = (AccessDenied, NotFound, RequestRefused)


@dataclass(frozen=True, slots=True)
class _Failure(HoldsSecrets):
    basis: object = field(repr=False)
    error: CloudError
    began: float
    """Unix seconds."""
    pause: float


class BackOff:
    """Remembers the latest failure of a request, and raises it again until its pause is over.

    `basis` identifies the input of the request (a password, an edition of keys). Another basis has no pause.
    """

    def __init__(self) -> None:
        self._failure: _Failure | None = None

    def check(self, basis: object) -> None:
        """Raise the CloudError that was noted, if its pause is not over."""
        failure = self._failure
        # A clock that was set back must not extend the pause.
        if failure is not None and failure.basis == basis and 0 <= time.time() - failure.began < failure.pause:
            raise copy.copy(failure.error)

    def note(self, basis: object, error: CloudError) -> None:
        """Begin the pause for a request that has just failed."""
        if isinstance(error, LeaseLost):  # no attempt was made; the lease decides how long to wait
            return
        refused = isinstance(error, _REFUSALS)
        pause = REFUSAL_PAUSE if refused else max(FAILURE_PAUSE, wait_hint(error.retry_after) or 0.0)
        # A copy, because ApiClient writes the name of the caller's operation into the error that it gets.
        self._failure = _Failure(basis, copy.copy(error), time.time(), pause)

    def clear(self) -> None:
        """The request succeeded."""
        self._failure = None


def failure_of_all(failures: Sequence[CloudError], message: str) -> CloudError:
    """Return the error, with this text, of a chain none of whose sources has a credential.

    It is a refusal only if every source refused: a source that could not answer may have one.
    """
    unsure = [error for error in failures if not isinstance(error, _REFUSALS)]
    if not unsure:
        return AccessDenied(message)
    first = next((error for error in unsure if error.transient), unsure[0])
    return type(first)(message, retry_after=first.retry_after)


class Refreshable(Credential[T]):
    """A temporary credential that is refreshed before it expires.

    The log names it by `provider` and `logged`, such as `STS keys of role x`. `origin` returns its source for users.
    `fetch` gets a deadline (loop time), returns a new credential, and may raise CloudError. The credential is refreshed
    `margin` seconds before it expires, or after half its life if that is later. `basis` returns what `fetch` needs (a
    password, the text of a token file). After a failure, another basis is tried at once.
    """

    def __init__(
        self,
        logged: str,
        fetch: Callable[[float], Awaitable[Issued[T]]],
        *,
        margin: float,
        provider: str = "",
        origin: Callable[[], str] = lambda: "",
        basis: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(origin)
        self._whose = {"provider": provider, "credential": logged}
        self._fetch = fetch
        self._margin = margin
        self._basis = basis
        self._held: Issued[T] | None = None
        self._is_refused = False
        self._refresh_at = 0.0
        self._steady_refresh = self._steady_end = 0.0
        """Loop times."""
        self._refused_at = -math.inf
        """Loop time."""
        self._back_off = BackOff()
        self._refreshing = asyncio.Lock()
        self._edition = 0

    @property
    def expires(self) -> float | None:
        """When the latest one expires or expired (Unix seconds), even if it was refused; None before the first."""
        return None if self._held is None else self._held.expires

    @property
    def edition(self) -> int:
        """How many were issued so far."""
        return self._edition

    def current(self) -> T:
        """The latest one, also after another call had it refused. `AccessDenied` before the first, and after its end.

        A call that uses a refused one is refused as well, and then gets a new one.
        """
        if self._held is None:
            raise AccessDenied("no credentials have been received yet")
        if self._has_expired():
            raise AccessDenied(f"the temporary credentials expired at {iso_time(self._held.expires)}")
        return self._held.value

    async def prepare(self, deadline: float) -> int:
        """Make `current` valid by `deadline` (loop time); return its edition, for `refused`. Raises CloudError."""
        if self._is_due() and not (self._is_valid() and self._refreshing.locked()):
            async with self._refreshing:
                if self._is_due():
                    await self._refresh(deadline)
        return self._edition

    def refused(self, mark: object) -> bool:
        """Return whether a rejected call with the edition `mark` is worth another try.

        Not if a refusal replaced the edition before it less than REFUSAL_PAUSE ago: then age was not the reason.
        """
        if mark != self._edition or self._has_expired() or self._is_refused:
            return True
        now = _steady()
        if now - self._refused_at < REFUSAL_PAUSE:
            return False
        self._is_refused, self._refused_at = True, now
        return True

    def _has_expired(self) -> bool:
        return self._held is None or time.time() >= self._held.expires or _steady() >= self._steady_end

    def _is_valid(self) -> bool:
        return not self._is_refused and not self._has_expired()

    def _is_due(self) -> bool:
        return not self._is_valid() or time.time() >= self._refresh_at or _steady() >= self._steady_refresh

    async def _refresh(self, deadline: float) -> None:
        try:
            held = await self._ask(deadline)
        except CloudError as error:
            if not self._is_valid():
                raise
            assert self._held is not None
            # After its end it is due in any case.
            self._refresh_at, self._steady_refresh = time.time() + REFUSAL_PAUSE, _steady() + REFUSAL_PAUSE
            facts = fields(**self._whose, expires=iso_time(self._held.expires), error=error)
            log.warning("cannot refresh the credential; the old one is used until it expires", extra=facts)
            return
        now, steady = time.time(), _steady()
        first = self._edition == 0
        self._held, self._is_refused, self._edition = held, False, self._edition + 1
        self._refresh_at = max(held.expires - self._margin, now + (held.expires - now) / 2)
        self._steady_refresh, self._steady_end = steady + self._refresh_at - now, steady + held.expires - now
        facts = fields(**self._whose, expires=iso_time(held.expires))
        log.info("credential received" if first else "credential refreshed", extra=facts)

    async def _ask(self, deadline: float) -> Issued[T]:
        basis = self._basis()
        self._back_off.check(basis)
        try:
            held = await self._fetch(deadline)
            if held.expires <= time.time():
                ended, here = iso_time(held.expires), iso_time(time.time())
                raise AccessDenied(
                    f"the issued credential expired at {ended}, and the time here is {here}: "
                    "check the clock of this machine"
                )
        except CloudError as error:
            self._back_off.note(basis, error)
            raise
        self._back_off.clear()
        return held


def _steady() -> float:
    return asyncio.get_running_loop().time()
