"""The rate limits of an account, one for each API at each host: first come, first served.

throttled ──► half the rate, 5 % of the configured one at least ──a minute without──► 5 % of the configured one more
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from trainfleet_exporter.errors import LeaseLost, RequestTimedOut, Throttled
from trainfleet_exporter.transport.calls import CallLimits

_SMALLEST_SHARE = 0.05
_SLOWEST = 1 / 60
"""The lowest rate (requests a second) after halving, unless the configured rate is lower."""
_GROWTH = 0.05 / 60
"""The share of the configured rate by which the rate grows in a second without throttling."""
_ROUNDING_ERROR = 1e-6
"""Seconds. A timer for a shorter wait would be set for a time that the clock cannot distinguish from now."""


class Limiter:
    """Grants turns: `requests_per_second` with bursts of a second's worth, `concurrency` at a time.

    A call that cannot get a turn before its deadline fails at once. Times are those of the running loop.
    """

    def __init__(self, host: str, limits: CallLimits) -> None:
        self._host = host
        self._configured = self._rate = limits.requests_per_second
        self._rate_since = -math.inf
        """When the rate last had this value; it has grown since."""
        self._throttled_at = -math.inf
        self._paused_until = -math.inf
        self._due = -math.inf
        """When the next turn would be due without bursts (generic cell rate algorithm)."""
        self._queue = asyncio.Lock()
        self._waiting = 0
        self._slots = asyncio.Semaphore(limits.concurrency)

    @property
    def rate(self) -> float:
        """The current rate, in requests a second."""
        now = asyncio.get_running_loop().time()
        grown = self._rate + max(0.0, now - self._rate_since) * _GROWTH * self._configured
        return min(self._configured, grown)

    async def acquire(self, deadline: float, check: Callable[[], None] = lambda: None) -> None:
        """Wait for a turn. Give it back with `release`.

        Raise Throttled if a pause, or RequestTimedOut if the limits last beyond `deadline`. Call `check` before waiting
        and right before the turn: if it raises, the call takes no turn.
        """
        check()
        self._refuse_if_late(self._waiting, deadline)
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline), self._queue:
                await self._slots.acquire()
                try:
                    await self._wait(deadline, check)
                except BaseException:
                    self._slots.release()
                    raise
        except TimeoutError:
            raise RequestTimedOut(
                f"{self._host}: the poll's deadline passed while the call waited for its turn, at {self._in_words()}"
            ).not_attempted() from None
        finally:
            self._waiting -= 1

    def release(self, *, used: bool = True) -> None:
        """Give a turn back. The rate does not count a turn that was not used for an attempt."""
        if not used:
            self._due -= 1 / self.rate
        self._slots.release()

    def pause(self, seconds: float) -> None:
        """Grant no turns for this time."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)
        self._set_rate(self.rate, since=self._paused_until)  # a pause is no time without throttling

    def throttled(self, started: float) -> None:
        """Slow down, because an attempt that began at `started` (loop time) was throttled.

        Attempts in flight at the same time slow it down once.
        """
        now, rate = asyncio.get_running_loop().time(), self.rate
        is_first, self._throttled_at = started >= self._throttled_at, now
        if is_first:
            rate = min(rate, max(min(self._configured, _SLOWEST), _SMALLEST_SHARE * self._configured, rate / 2))
        self._set_rate(rate, since=max(now, self._paused_until))
        self._due = max(self._due, now + self._burst / rate)  # no burst now

    @property
    def _burst(self) -> float:
        return max(1.0, self.rate)

    def _set_rate(self, rate: float, *, since: float) -> None:
        self._rate, self._rate_since = rate, max(self._rate_since, since)

    def _start(self, ahead: int) -> float:
        """When a call begins that has so many others before it."""
        now, rate = asyncio.get_running_loop().time(), self.rate
        due = max(now, self._paused_until, self._due) + ahead / rate
        return max(now, self._paused_until, due - (self._burst - 1) / rate)

    async def _wait(self, deadline: float, check: Callable[[], None]) -> None:
        """Wait for the rate and for the end of a pause, which may begin meanwhile."""
        loop = asyncio.get_running_loop()
        check()
        while (wait := self._start(0) - loop.time()) > _ROUNDING_ERROR:
            self._refuse_if_late(0, deadline)
            await asyncio.sleep(wait)
            check()
        self._due = max(loop.time(), self._due) + 1 / self.rate

    def _refuse_if_late(self, ahead: int, deadline: float) -> None:
        if self._start(ahead) < deadline - _ROUNDING_ERROR:  # a call that begins at the deadline is cut off
            return
        now = asyncio.get_running_loop().time()
        if self._paused_until > now:
            besides = f" and {ahead} calls wait before this one" if self._paused_until < deadline else ""
            seconds = self._paused_until - now
            raise Throttled(
                f"{self._host} asked to wait {seconds:.1f} s{besides}, which is after the poll's deadline; "
                f"{self._in_words()}"
            ).not_attempted()
        raise RequestTimedOut(
            f"{self._host}: {ahead} calls wait before this one; {self._in_words()} "
            f"are too few for the {deadline - now:.1f} s until the poll's deadline"
        ).not_attempted()

    def _in_words(self) -> str:
        text = f"{self.rate:.3g} requests a second"
        return text if self.rate == self._configured else f"{text} (after throttling; else {self._configured:g})"


class Account:
    """One cloud account: a limiter for each API at each host, shared by all providers.

    `may_call` returns whether a call may begin now; a standby exporter makes none.
    """

    def __init__(self, name: str, limits: CallLimits, may_call: Callable[[], bool] = lambda: True) -> None:
        self.name = name
        self.limits = limits
        self._may_call = may_call
        self._limiters: dict[tuple[str, str], Limiter] = {}

    def limiter(self, host: str, api: str) -> Limiter:
        """Return the limiter of one API at one host."""
        return self._limiters.setdefault((host, api), Limiter(host, self.limits))

    def check(self) -> None:
        """Raise LeaseLost if no call may begin now: the process may have been stopped at any time before."""
        if not self._may_call():
            raise LeaseLost("not tried: another exporter may hold the lease by now")
