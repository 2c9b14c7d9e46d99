"""Something that is had for a while and renewed before it ends: temporary keys, tokens.

    none ──have──► fresh ──margin before the end──► due ──renewed──► fresh
                     │                               │ renewal fails: used on until its end, tried again a while later
                     └──refused by a service──► none (unless it is minutes old: another would be refused just so)

One renewal at a time, whoever finds out. What is due but still good is used by everybody else meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.quantities import iso_time

log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN = 300.0
"""Seconds before what failed is tried again: too many wrong passwords lock an account, and services are shared."""


@dataclass(frozen=True, slots=True)
class Leased(Generic[T]):
    """A value and the Unix time at which it ends."""

    value: T = field(repr=False)
    expires: float


class Lease(Generic[T]):
    """Keeps one leased value.

    `what` names it in the log (`STS keys of role x`), never its content. `fetch` gets a deadline (loop time), answers a
    new one and may raise CloudError. `margin` is how many seconds before its end it is renewed; one that lives shorter
    is used for half its life. `basis` answers what `fetch` builds on (a password, a token file's text): what a service
    refused is not tried again for five minutes unless the basis changed.
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
        self._number = 0
        self._renew_at = self._issued = 0.0
        self._refusal: tuple[object, float, AccessDenied] | None = None
        """What was built on, until when it is not tried again (Unix seconds), and what the service said."""
        self._renewing = asyncio.Lock()

    @property
    def expires(self) -> float | None:
        """When what is held ends (Unix seconds); None while nothing is."""
        return None if self._held is None else self._held.expires

    @property
    def held(self) -> T | None:
        """What is held, whether or not it has ended; None while nothing is."""
        return None if self._held is None else self._held.value

    async def have(self, deadline: float) -> int:
        """Have a valid one in `held`, renewing it where it is time; its number, for `refused`. Raises CloudError."""
        if self._is_due() and not (self._is_good() and self._renewing.locked()):
            async with self._renewing:
                if self._is_due():
                    await self._renew(deadline)
        return self._number

    def refused(self, number: int) -> bool:
        """A service refused the one of that number: whether another one is worth a try.

        One that is minutes old was not refused for its age: another one would be refused just so.
        """
        if number != self._number:
            return True
        if time.time() - self._issued < AGAIN:
            return False
        self._held = None
        self._renew_at = 0.0
        return True

    def _is_good(self) -> bool:
        return self._held is not None and time.time() < self._held.expires

    def _is_due(self) -> bool:
        return self._held is None or time.time() >= self._renew_at

    async def _renew(self, deadline: float) -> None:
        try:
            held = await self._ask(deadline)
        except CloudError as error:
            if not self._is_good():
                raise
            self._renew_at = time.time() + AGAIN
            assert self._held is not None
            log.warning(
                "%s could not be renewed and are used until %s: %s", self._what, iso_time(self._held.expires), error
            )
            return
        now = time.time()
        first = self._number == 0
        self._held, self._issued, self._number = held, now, self._number + 1
        self._renew_at = max(held.expires - self._margin, now + (held.expires - now) / 2)
        log.info("%s %s, valid until %s", self._what, "received" if first else "renewed", iso_time(held.expires))

    async def _ask(self, deadline: float) -> Leased[T]:
        basis = self._basis()
        if self._refusal is not None:
            before, until, said = self._refusal
            if before == basis and time.time() < until:
                raise AccessDenied(said.message, operation=said.operation, status=said.status, code=said.code)
        try:
            held = await self._fetch(deadline)
        except AccessDenied as error:
            self._refusal = (basis, time.time() + AGAIN, error)
            raise
        self._refusal = None
        return held
