"""A circuit breaker with one trial at a time. Each poll may make one trial at once, even while the breaker stays open.
Otherwise a poll that begins right after an outage would fail, and its values would be late by another interval.
"""

from __future__ import annotations

import asyncio
from weakref import WeakSet

from trainfleet_exporter.errors import CircuitOpen
from trainfleet_exporter.transport.calls import CALLER, Caller

_THRESHOLD = 5
_FIRST_OPEN = 1.0


class Permit:
    """A permit for one attempt. The first call of one of its three methods settles it."""

    def __init__(self, breaker: Breaker, *, trial: bool) -> None:
        self._breaker: Breaker | None = breaker
        self.trial = trial

    def succeeded(self) -> None:
        """The attempt showed that the target works."""
        if breaker := self._settle():
            breaker._close()

    def failed(self, what: str) -> None:
        """The attempt showed that the target does not work; `what` happened."""
        # After a late success has closed the circuit, a trial is an attempt like any other.
        decides = self._breaker is not None and self._breaker._trial is self
        if breaker := self._settle():
            breaker._count(what, trial=decides)

    def abandon(self) -> None:
        """The attempt was not made, or showed nothing about the target: the next one is a trial again."""
        self._settle()

    def _settle(self) -> Breaker | None:
        breaker, self._breaker = self._breaker, None
        if breaker is not None and self.trial and breaker._trial is self:
            breaker._end_trial()
        return breaker


class Breaker:
    """Closed while attempts succeed; open after 5 failures in a row, for 1 s and twice as long each time up to
    `max_open` seconds; then, or for a poll that has not seen it fail yet, half-open: one trial at a time decides. Any
    success closes it and forgets.
    """

    def __init__(self, name: str, *, max_open: float) -> None:
        self._name = name
        self._max_open = max_open
        self._failures = 0
        self._first_failure = 0.0
        self._last_error = ""
        self._open_for = 0.0
        self._open_until: float | None = None
        self._trial: Permit | None = None
        self._trial_ended = asyncio.Event()
        self._seen: WeakSet[Caller] = WeakSet()
        """The polls that have seen it fail since it last worked."""

    def refusal(self, at: float) -> str:
        """Return why no attempt is allowed at loop time `at`; empty if one is allowed."""
        if self._open_until is None or (self._trial is None and (at >= self._open_until or self._is_new())):
            return ""
        now = asyncio.get_running_loop().time()
        wait = self._open_until - now
        until = f"next try in {wait:.1f} s" if wait > 0 else "a trial is under way"
        return (
            f"{self._name}: not tried: failing for {now - self._first_failure:.1f} s, "
            f"{self._failures} times in a row; {until}; last: {self._last_error}"
        )

    def check(self) -> None:
        """Raise CircuitOpen if the breaker would reject an attempt now."""
        if reason := self.refusal(asyncio.get_running_loop().time()):
            raise CircuitOpen(reason)

    @property
    def is_trying(self) -> bool:
        """Whether a trial is in progress."""
        return self._trial is not None

    async def settled(self, deadline: float) -> None:
        """Wait for the end of a running trial, by loop time `deadline`: it shows whether attempts succeed. If it fails,
        all polls that waited for it count it as their own trial and make no other.
        """
        if not self.is_trying:
            return
        failures = self._failures
        try:
            async with asyncio.timeout_at(deadline):
                while self._trial is not None:
                    await self._trial_ended.wait()
        except TimeoutError:
            return
        if self._failures > failures:
            self._see()

    def admit(self) -> Permit:
        """Return a permit for an attempt now, or raise CircuitOpen. The permit must be settled."""
        self.check()
        permit = Permit(self, trial=self._open_until is not None)
        if permit.trial:
            self._trial = permit
            self._trial_ended.clear()
        return permit

    def _is_new(self) -> bool:
        caller = CALLER.get()
        return caller is not None and caller not in self._seen

    def _see(self) -> None:
        if (caller := CALLER.get()) is not None:
            self._seen.add(caller)

    def _end_trial(self) -> None:
        self._trial = None
        self._trial_ended.set()

    def _close(self) -> None:
        self._failures = 0
        self._open_for = 0.0
        self._open_until = None
        self._seen.clear()
        self._end_trial()

    def _count(self, what: str, *, trial: bool) -> None:
        now = asyncio.get_running_loop().time()
        if self._failures == 0:
            self._first_failure = now
        self._failures += 1
        self._last_error = what
        self._see()
        # Attempts that were running when it opened may fail late and prove nothing new. Only the failure of a trial
        # does.
        if trial or (self._open_until is None and self._failures >= _THRESHOLD):
            self._open_for = min(self._max_open, self._open_for * 2 or _FIRST_OPEN)
            self._open_until = now + self._open_for
