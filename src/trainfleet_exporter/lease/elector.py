"""Decides whether this exporter polls: it holds the lease, or stands by and watches the holder.

                   sees another holder                record unchanged for DURATION, or released
    UNDECIDED ───────────────────────────► STANDBY ─────────────────────────────────────► LEADER
        │                                     ▲                                              │
        │                                     └──── not renewed in time, or taken away ──────┘
        └───────────── no other holder ──────────────────────────────────────────────────────►

Why no two exporters poll at the same time:

1. The holder may poll until DURATION - MARGIN after the start of its latest successful write. The record was replaced
   after that start.
2. Another exporter writes only if it has seen the same version for DURATION by its own clock. It counts from the answer
   that showed the version for the first time, which is after the replacement.
3. A write that finds another version has no effect. So a write that a stopped process or the network delays cannot undo
   later changes.

4. A record that was deleted is made again without a holder, and then rule 2 holds for it.

No two clocks are compared, only spans of time. MARGIN is for clocks that run at different speeds. Each call to a cloud
asks `may_poll`, so that a process that was stopped begins none when it continues.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from trainfleet_exporter.errors import LeaseConflict, LeaseUnavailable
from trainfleet_exporter.lease.record import LeaseStore, Record
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

T = TypeVar("T")

DURATION = 10.0
"""Seconds without a change after which another exporter takes the lease."""
MARGIN = 2.0
"""Seconds by which the holder stops polling earlier."""
RENEW_SECONDS = 2.0
"""From one write of the holder to the next, and from one look of a standby to the next."""
_LOOK_AGAIN_SECONDS = 0.5
_STORE_SECONDS = 3.0
"""Seconds in which a store must answer."""
_RELEASE_SECONDS = 1.0


class Role(Enum):
    """The state of the exporter. UNDECIDED: it has not seen a holder yet."""

    UNDECIDED = "undecided"
    STANDBY = "standby"
    LEADER = "leader"


def steady_clock() -> float:
    """Return the seconds of a clock that cannot be set. If possible, it is one that continues while the machine
    sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Elector:
    """The part of one exporter in the election. `changed` is called when it begins to hold the lease, and as soon as it
    does not hold it any more; it must not wait. Belongs to one event loop.
    """

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        changed: Callable[[bool], None],
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.identity = identity
        self.role = Role.UNDECIDED
        self.term = 0
        """The term of the lease that this exporter holds, or has held last."""
        self._store = store
        self._changed = changed
        self._clock = steady_clock if clock is None else clock
        self._seen: Record | None = None
        self._seen_at = 0.0
        """When the version of `_seen` was first seen."""
        self._deadline = float("-inf")
        """Until when it may poll."""
        self._errors: set[str] = set()
        """Why the lease could not be reached since it was reached last. Each is logged once."""

    @property
    def may_poll(self) -> bool:
        """Whether a call to a cloud may begin now."""
        return self.role is Role.LEADER and self._clock() < self._deadline

    @property
    def holder(self) -> str:
        """Return the identity of the holder, if it is known."""
        return "" if self._seen is None else self._seen.holder

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            try:
                wait = await (self._renew() if self.role is Role.LEADER else self._watch())
            except LeaseConflict:
                wait = _LOOK_AGAIN_SECONDS
            except LeaseUnavailable as error:
                self._unreachable(str(error))
                wait = _LOOK_AGAIN_SECONDS if self.role is Role.LEADER else RENEW_SECONDS
            except Exception:
                log.exception("lease election failed: internal error")
                wait = RENEW_SECONDS
            if self.role is Role.LEADER:
                wait = min(wait, self._deadline - self._clock())
            await asyncio.sleep(max(0.0, wait))

    async def resign(self) -> None:
        """Release the lease, so that another exporter takes it at once. `run` and all polls must have ended."""
        if self.role is not Role.LEADER:
            return
        self.role = Role.STANDBY
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                try:
                    await self._store.write(self._record, "", self.term)
                except LeaseConflict:  # the latest renewal may have succeeded without an answer
                    found = await self._store.read()
                    if found.holder == self.identity:
                        await self._store.write(found, "", self.term)
        except (LeaseConflict, LeaseUnavailable, TimeoutError) as error:
            facts = fields(error=str(error) or f"no answer within {_RELEASE_SECONDS:.0f} s")
            log.warning("cannot release the lease; it expires", extra=facts)
        else:
            log.info("lease released")

    @property
    def _record(self) -> Record:
        return self._seen or Record()

    async def _renew(self) -> float:
        """One renewal. Returns the seconds until the next."""
        started = self._clock()
        left = self._deadline - started
        if left <= 0:
            self._lose("it could not be renewed in time")
            return 0.0
        try:
            record = await self._answer(self._store.write(self._record, self.identity, self.term), left)
        except LeaseConflict:
            # An earlier write may have succeeded without an answer.
            found = await self._answer(self._store.read(), self._deadline - self._clock())
            self._seen = found
            if found.holder != self.identity:
                self._lose("another exporter holds it" if found.version else "it was deleted")
            return 0.0
        self._seen = record
        self._deadline = started + DURATION - MARGIN
        return RENEW_SECONDS - (self._clock() - started)

    async def _watch(self) -> float:
        """One look at the record, and the attempt to take it if it is free. Returns the seconds until the next."""
        found = await self._answer(self._store.read())
        if self._seen is None or found.version != self._seen.version:
            self._seen_at = self._clock()
        self._seen = found
        if not found.version:
            await self._answer(self._store.create())
            return 0.0
        was_released = found.holder == "" and found.term > 0
        is_free = was_released or found.holder == self.identity
        left = self._seen_at + DURATION - self._clock()
        if not is_free and left > 0:
            if found.holder and self.role is Role.UNDECIDED:
                self.role = Role.STANDBY
                log.info("standing by: another exporter holds the lease", extra=fields(holder=found.holder))
            return min(RENEW_SECONDS, left)
        started = self._clock()
        # An earlier write may have begun the next term without an answer.
        has_begun = found.holder == self.identity and found.term > self.term
        term = found.term if has_begun else found.term + 1
        self._seen = await self._answer(self._store.write(found, self.identity, term))
        self._deadline = started + DURATION - MARGIN
        if self._clock() < self._deadline:
            self.role, self.term = Role.LEADER, self._record.term
            log.info("leading: this exporter holds the lease", extra=fields(holder=self.identity, term=self.term))
            self._changed(True)
        return RENEW_SECONDS

    async def _answer(self, call: Awaitable[T], most: float = _STORE_SECONDS) -> T:
        """Return the response of a store in time; LeaseUnavailable if it is late."""
        try:
            async with asyncio.timeout(min(most, _STORE_SECONDS)):
                answer = await call
        except TimeoutError:
            raise LeaseUnavailable("no answer in time") from None
        self._reached()
        return answer

    def _lose(self, reason: str) -> None:
        self.role = Role.STANDBY
        log.warning("lease lost; all polls end", extra=fields(reason=reason, holder=self.holder))
        self._seen_at = self._clock()
        self._changed(False)

    def _unreachable(self, error: str) -> None:
        if error not in self._errors:
            log.warning("cannot reach the lease", extra=fields(error=error))
        self._errors.add(error)

    def _reached(self) -> None:
        if self._errors:
            log.info("lease reached again")
        self._errors.clear()
