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

A standby that can read the lease may lack the right to write it. So it proves this right by a dry run: at the start,
once a minute, and at each look while there is a problem. Only a successful write, or dry run, ends a problem.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from trainfleet_exporter.errors import LeaseConflict, LeaseUnavailable
from trainfleet_exporter.lease.kubernetes import DURATION, KubernetesLease, Record
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.redaction import redact

log = logging.getLogger(__name__)

T = TypeVar("T")

MARGIN = 2.0
"""Seconds by which the holder stops polling earlier."""
RENEW_SECONDS = 2.0
"""From one write of the holder to the next, and from one look of a standby to the next."""
_RENEW_AGAIN_SECONDS = 0.5
"""From a failed renewal of the holder to the next: it has few seconds left."""
_PROOF_SECONDS = 60.0
"""From one dry run of a standby to the next."""
_RESPONSE_SECONDS = 3.0
"""Seconds in which the API server must answer."""
_RELEASE_SECONDS = 1.0
_USUAL_CONFLICTS = 2
"""Conflicts in a row that other writers explain. More are a problem."""


class Role(Enum):
    """The state of the exporter. UNDECIDED: it has not seen a holder yet."""

    UNDECIDED = "undecided"
    STANDBY = "standby"
    LEADER = "leader"


def steady_clock() -> float:
    """Return the seconds of a clock that cannot be set. If possible, it continues while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Elector:
    """The part of one exporter in the election. `changed` is called when it begins to hold the lease, and as soon as it
    does not hold it any more; it must not wait. Belongs to one event loop.
    """

    def __init__(
        self,
        lease: KubernetesLease,
        identity: str,
        changed: Callable[[bool], None],
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.identity = identity
        self.role = Role.UNDECIDED
        self.term = 0
        """The term of the lease that this exporter holds, or has held last."""
        self.write_errors = 0
        """Writes and dry runs that failed. A lost race for the lease is none."""
        self._lease = lease
        self._changed = changed
        self._clock = steady_clock if clock is None else clock
        self._seen = Record()
        self._seen_at = float("-inf")
        """When the version of `_seen` was first seen."""
        self._deadline = float("-inf")
        """Until when it may poll."""
        self._proven_at = float("-inf")
        """When a write or a dry run succeeded last."""
        self._conflicts = 0
        """In a row."""
        self._problems: set[str] = set()
        """Kinds of errors since the latest successful write. Each is logged once."""

    @property
    def may_poll(self) -> bool:
        """Whether a call to a cloud may begin now."""
        return self.role is Role.LEADER and self._clock() < self._deadline

    @property
    def may_take(self) -> bool:
        """Whether the exporter could write the lease, by its latest write or dry run."""
        return self._proven_at > float("-inf") and not self._problems

    @property
    def holder(self) -> str:
        """Return the identity of the holder, if it is known, without secrets."""
        return redact(self._seen.holder)

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            try:
                wait = await (self._renew() if self.role is Role.LEADER else self._watch())
            except LeaseConflict as error:
                self._conflicts += 1
                if self._conflicts > _USUAL_CONFLICTS:
                    self.write_errors += 1
                    self._note("conflict", str(error))
                wait = RENEW_SECONDS
            except LeaseUnavailable as error:
                self._note(error.kind, str(error))
                wait = _RENEW_AGAIN_SECONDS if self.role is Role.LEADER else RENEW_SECONDS
            except Exception as error:
                if self._begins(type(error).__name__):
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
                    await self._lease.write(self._seen, "", self.term)
                except LeaseConflict:  # the latest renewal may have succeeded without an answer
                    found = await self._lease.read()
                    if found.holder == self.identity:
                        await self._lease.write(found, "", self.term)
        except (LeaseConflict, LeaseUnavailable, TimeoutError) as error:
            facts = fields(error=str(error) or f"no answer within {_RELEASE_SECONDS:.0f} s")
            log.warning("cannot release the lease; it expires", extra=facts)
        else:
            log.info("lease released")

    async def _renew(self) -> float:
        """One renewal. Returns the seconds until the next."""
        started = self._clock()
        if started >= self._deadline:
            self._lose("it could not be renewed in time")
            return 0.0
        try:
            self._seen = await self._written(self._lease.write(self._seen, self.identity, self.term))
        except LeaseConflict:
            # An earlier write may have succeeded without an answer. Then the next one succeeds.
            self._seen = await self._answer(self._lease.read())
            if self._seen.holder != self.identity:
                self._lose("another exporter holds it" if self._seen.version else "it was deleted")
                return 0.0
            if self._conflicts:
                raise
            self._conflicts = 1
            return 0.0
        self._deadline = started + DURATION - MARGIN
        return RENEW_SECONDS - (self._clock() - started)

    async def _watch(self) -> float:
        """One look at the record, and the attempt to take it if it is free. Returns the seconds until the next."""
        found = await self._answer(self._lease.read())
        if found.version and found.version != self._seen.version:
            self._seen_at = self._clock()
        self._seen = found
        if not found.version:
            self._seen = await self._written(self._lease.create())
            self._seen_at = self._clock()
            return RENEW_SECONDS
        was_released = found.holder == "" and found.term > 0
        is_free = was_released or found.holder == self.identity
        if not is_free and self._left() > 0:
            if found.holder and self.role is Role.UNDECIDED:
                self.role = Role.STANDBY
                log.info("standing by: another exporter holds the lease", extra=fields(holder=self.holder))
            if self._problems or self._clock() >= self._proven_at + _PROOF_SECONDS:
                await self._written(self._lease.write(found, found.holder, found.term, dry_run=True))
            return min(RENEW_SECONDS, self._left())
        started = self._clock()
        # An earlier write may have begun the next term without an answer.
        has_begun = found.holder == self.identity and found.term > self.term
        term = found.term if has_begun else found.term + 1
        self._seen = await self._written(self._lease.write(found, self.identity, term))
        self._deadline = started + DURATION - MARGIN
        if self._clock() < self._deadline:
            self.role, self.term = Role.LEADER, term
            log.info("leading: this exporter holds the lease", extra=fields(holder=self.identity, term=term))
            self._changed(True)
        return RENEW_SECONDS

    def _left(self) -> float:
        """Seconds until another holder's lease expires."""
        return self._seen_at + DURATION - self._clock()

    async def _answer(self, call: Awaitable[T]) -> T:
        """Return the response of the API server in time, a leader's before its deadline; else LeaseUnavailable."""
        most = self._deadline - self._clock() if self.role is Role.LEADER else _RESPONSE_SECONDS
        try:
            async with asyncio.timeout(min(most, _RESPONSE_SECONDS)):
                return await call
        except TimeoutError:
            raise LeaseUnavailable("the API server: no answer in time", kind="timeout") from None

    async def _written(self, call: Awaitable[Record]) -> Record:
        """Return the record of a write or a dry run, which ends a problem if it succeeds."""
        try:
            record = await self._answer(call)
        except LeaseUnavailable:
            self.write_errors += 1
            raise
        if self._problems:
            log.info("the lease can be written again")
        self._problems.clear()
        self._conflicts = 0
        self._proven_at = self._clock()
        return record

    def _lose(self, reason: str) -> None:
        self.role = Role.STANDBY
        log.warning("lease lost; all polls end", extra=fields(reason=reason, holder=self.holder))
        self._seen_at = self._clock()
        self._changed(False)

    def _note(self, kind: str, error: str) -> None:
        if self._begins(kind):
            log.warning("cannot use the lease", extra=fields(error=error))

    def _begins(self, kind: str) -> bool:
        """Note a problem. Returns whether it is a new one."""
        is_new = kind not in self._problems
        self._problems.add(kind)
        return is_new
