"""Something that is had for a while and renewed before it ends: temporary keys, tokens.

    none ──have──► fresh ──margin before the end──► due ──renewed──► fresh
                     │                               │ renewal fails: used on until its end, tried again a while later
                     └──refused by a service──► taken back: replaced at once, but once in five minutes at most, since a
                                                service that refuses every one must not cost a request for each call

One renewal at a time, whoever finds out. What is due but still good is used by everybody else meanwhile. A failure is
everybody's as well: it is told again, and nobody asked, until its pause is over.

It is renewed, and it ends, by the wall clock or by the loop's, whichever comes first: a wall clock that was set back
would keep what the service has long refused.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trainfleet_exporter.errors import (
    AccessDenied,
    BudgetSpent,
    CircuitOpen,
    CloudError,
    NotFound,
    RequestRefused,
)
from trainfleet_exporter.process.redaction import HoldsSecrets
from trainfleet_exporter.quantities import iso_time
from trainfleet_exporter.transport.retry import wait_hint

log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN = 300.0
"""Seconds before what was refused is tried again: too many wrong passwords lock an account, and services are shared."""
PAUSE = 30.0
"""Seconds before what failed in passing is tried again: not by every call of a poll, but by the next poll as a rule."""
REFUSALS = (AccessDenied, NotFound, RequestRefused)
"""What asking again does not mend."""
_NOT_ASKED = (CircuitOpen, BudgetSpent)
"""What made no attempt: whoever holds them back knows best for how long."""


@dataclass(frozen=True, slots=True)
class Leased(HoldsSecrets, Generic[T]):
    """A value and the Unix time at which it ends."""

    value: T = field(repr=False)
    expires: float


@dataclass(frozen=True, slots=True)
class _Failure(HoldsSecrets):
    basis: object = field(repr=False)
    error: CloudError
    began: float
    """Unix seconds."""
    pause: float


class Setback:
    """How asking for something failed lately: told again, rather than asked again, until a pause is over.

    `basis` is what was asked with (a password, an edition of keys): with another one there is no pause.
    """

    def __init__(self) -> None:
        self._failure: _Failure | None = None

    def check(self, basis: object) -> None:
        """Raise the CloudError that was noted, while its pause lasts."""
        failure = self._failure
        # A clock that was set back must not make anybody wait.
        if failure is not None and failure.basis == basis and 0 <= time.time() - failure.began < failure.pause:
            raise copy.copy(failure.error)

    def note(self, basis: object, error: CloudError) -> None:
        """Asking failed just now."""
        if isinstance(error, _NOT_ASKED):
            return
        pause = AGAIN if isinstance(error, REFUSALS) else max(PAUSE, wait_hint(error.retry_after) or 0.0)
        # A copy: whoever gets the error itself writes into it which operation it was in the way of.
        self._failure = _Failure(basis, copy.copy(error), time.time(), pause)

    def clear(self) -> None:
        """Asking succeeded."""
        self._failure = None


def failure_of_all(failures: Sequence[CloudError], message: str) -> CloudError:
    """That none of several places had anything, with this text.

    No refusal if one of them could not say so: that one may have something after all.
    """
    unsure = [error for error in failures if not isinstance(error, REFUSALS)]
    if not unsure:
        return AccessDenied(message)
    first = next((error for error in unsure if error.transient), unsure[0])
    return type(first)(message, retry_after=first.retry_after)


class Lease(Generic[T]):
    """Keeps one leased value.

    `what` names it in the log (`p: STS keys of role x`), never its content. `fetch` gets a deadline (loop time),
    answers a new one and may raise CloudError. `margin` is how many seconds before its end it is renewed; one that
    lives shorter is used for half its life. `basis` answers what `fetch` builds on (a password, a token file's text):
    what failed is not tried again for a while unless the basis changed.
    """

    def __init__(
        self,
        what: str,
        fetch: Callable[[float], Awaitable[Leased[T]]],
        *,
        margin: float,
        basis: Callable[[], object] = lambda: None,
    ) -> None:
        self._what = what
        self._fetch = fetch
        self._margin = margin
        self._basis = basis
        self._held: Leased[T] | None = None
        self._is_taken_back = False
        self._number = 0
        self._renew_at = 0.0
        self._steady_renewal = self._steady_end = 0.0
        """Loop times."""
        self._taken_back_at = -math.inf
        """Loop time."""
        self._setback = Setback()
        self._renewing = asyncio.Lock()

    @property
    def expires(self) -> float | None:
        """When the latest one ends or ended (Unix seconds), even if it is of no use any more; None before the first."""
        return None if self._held is None else self._held.expires

    @property
    def has_ended(self) -> bool:
        """Whether there is none that has time left."""
        return self._held is None or time.time() >= self._held.expires or _steady() >= self._steady_end

    def current(self) -> T:
        """The latest one. `AccessDenied` before the first, and where it has ended: that is not to be shown to anybody.

        One that another call has had taken back meanwhile is handed out still: it is refused as well then, and that
        call comes back for a new one.
        """
        if self._held is None:
            raise AccessDenied("there are no credentials yet")
        if self.has_ended:
            raise AccessDenied(f"the temporary credentials ended at {iso_time(self._held.expires)}")
        return self._held.value

    async def have(self, deadline: float) -> int:
        """Have a valid one in `current`, renewing it where it is time; its number, for `refused`. Raises CloudError."""
        if self._is_due() and not (self._is_good() and self._renewing.locked()):
            async with self._renewing:
                if self._is_due():
                    await self._renew(deadline)
        return self._number

    def refused(self, number: int) -> bool:
        """A service refused the one of that number, or it ended before its turn came: whether another is worth a try.

        Not if a refusal replaced the one before it less than AGAIN seconds ago: then age was not the reason.
        """
        if number != self._number or self.has_ended or self._is_taken_back:
            return True
        now = _steady()
        if now - self._taken_back_at < AGAIN:
            return False
        self._is_taken_back, self._taken_back_at = True, now
        return True

    def _is_good(self) -> bool:
        return not self._is_taken_back and not self.has_ended

    def _is_due(self) -> bool:
        return not self._is_good() or time.time() >= self._renew_at or _steady() >= self._steady_renewal

    async def _renew(self, deadline: float) -> None:
        try:
            held = await self._ask(deadline)
        except CloudError as error:
            if not self._is_good():
                raise
            assert self._held is not None
            # From the end on it is due in any case.
            self._renew_at, self._steady_renewal = time.time() + AGAIN, _steady() + AGAIN
            log.warning(
                "%s could not be renewed and are used until %s: %s", self._what, iso_time(self._held.expires), error
            )
            return
        now, steady = time.time(), _steady()
        first = self._number == 0
        self._held, self._is_taken_back, self._number = held, False, self._number + 1
        self._renew_at = max(held.expires - self._margin, now + (held.expires - now) / 2)
        self._steady_renewal, self._steady_end = steady + self._renew_at - now, steady + held.expires - now
        log.info("%s %s, valid until %s", self._what, "received" if first else "renewed", iso_time(held.expires))

    async def _ask(self, deadline: float) -> Leased[T]:
        basis = self._basis()
        self._setback.check(basis)
        try:
            held = await self._fetch(deadline)
            if held.expires <= time.time():
                ended, here = iso_time(held.expires), iso_time(time.time())
                raise AccessDenied(f"what was issued ended at {ended}, and here it is {here}: is the clock right?")
        except CloudError as error:
            self._setback.note(basis, error)
            raise
        self._setback.clear()
        return held


def _steady() -> float:
    return asyncio.get_running_loop().time()
