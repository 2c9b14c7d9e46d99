"""The queue of an API host: a token bucket and a number of slots, first come first served by priority.

The bucket's rate is the configured one until the service throttles:

    throttled ──► half, 5 % of the configured rate at least ──a minute without──► 5 % of the configured rate more
    throttled, with an allowed rate ──► that pace, and for an hour no more than it
"""

from __future__ import annotations

import asyncio
import math

from trainfleet_exporter.errors import CloudError, RequestTimedOut, Throttled
from trainfleet_exporter.transport.calls import CallLimits, Priority

# Float arithmetic leaves a token or a pause short by a rounding error when its timer fires; the timer would then be set
# for a time that the clock cannot distinguish from now.
_ROUNDING_ERROR = 1e-6


_SMALLEST_SHARE = 0.05
_SLOWEST = 1 / 60
"""The lowest rate (requests a second) after halving, unless the configured rate is lower."""
_SLOWEST_PACE = 1 / 3600
_GROWTH = 0.05 / 60
"""The share of the configured rate by which the rate grows in a second without throttling."""
_PACE_HOLDS = 3600.0


class Limiter:
    """Grants turns: `requests_per_second` with bursts of a second's worth, `concurrency` at a time.

    The rate is lower for a while after the service throttled. A call that cannot get a turn before its deadline fails
    at once. Times are those of the running loop.
    """

    def __init__(self, host: str, limits: CallLimits) -> None:
        self._host = host
        self._configured = limits.requests_per_second
        self._rate = self._configured
        self._pace = math.inf
        self._pace_ends = -math.inf
        self._throttled_at = -math.inf
        self._grown_at = -math.inf
        self._tokens = self._burst
        self._filled_at = -math.inf
        self._free = limits.concurrency
        self._paused_until = -math.inf
        self._waiting: dict[Priority, dict[asyncio.Future[None], float]] = {each: {} for each in Priority}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def rate(self) -> float:
        """The current rate, in requests a second."""
        self._refill(asyncio.get_running_loop().time())
        return self._rate

    async def acquire(self, priority: Priority, deadline: float) -> None:
        """Wait for a turn. Give it back with `release`.

        Raise Throttled if a pause, or RequestTimedOut if the limits last beyond `deadline` (loop time).
        """
        self._refuse_if_late(priority, deadline)
        if not any(self._waiting.values()) and self._may_grant(asyncio.get_running_loop().time()):
            self._take()  # at once, as mostly
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[priority][turn] = deadline
        self._grant()
        if turn.done():
            turn.result()
            return
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as error:
            self._waiting[priority].pop(turn, None)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release(used=False)  # granted at the moment of giving up
            if isinstance(error, TimeoutError):
                raise self._too_late(deadline) from None
            raise

    def release(self, *, used: bool = True) -> None:
        """Give a turn back; one that was not used for an attempt gives its token back as well."""
        self._free += 1
        if not used:
            self._tokens = min(self._burst, self._tokens + 1)
        self._grant()

    def pause(self, seconds: float) -> None:
        """Grant no turns for this time. Calls that cannot wait for its end fail now."""
        now = asyncio.get_running_loop().time()
        self._refill(now)
        self._paused_until = max(self._paused_until, now + seconds)
        self._grown_at = max(self._grown_at, self._paused_until)  # a pause is no time without throttling
        for queue in self._waiting.values():
            for turn, deadline in list(queue.items()):
                if deadline <= self._paused_until:
                    del queue[turn]
                    if not turn.done():
                        turn.set_exception(self._paused(now, ""))
        self._grant()

    def throttled(self, started: float, pace: float | None = None) -> None:
        """Slow down, because an attempt that began at `started` (loop time) was throttled.

        Attempts in flight at the same time slow it down once. `pace` is the rate that the service allows, in requests a
        second.
        """
        now = asyncio.get_running_loop().time()
        self._refill(now)
        again, self._throttled_at = started >= self._throttled_at, now
        if pace is not None and pace < self._rate:
            self._rate = max(pace, min(self._configured, _SLOWEST_PACE))
        elif again:
            least = min(self._configured, max(_SLOWEST, _SMALLEST_SHARE * self._configured))
            self._rate = min(self._rate, max(least, self._rate / 2))
        if pace is not None:
            self._pace, self._pace_ends = max(pace, _SLOWEST_PACE), now + _PACE_HOLDS
        self._grown_at = max(self._grown_at, now)
        self._tokens = min(self._burst, self._tokens)
        self._grant()

    @property
    def _burst(self) -> float:
        return float(max(1, math.ceil(self._rate)))

    def _grant(self) -> None:
        now = asyncio.get_running_loop().time()
        self._refill(now)
        while self._may_grant(now):
            turn = self._next()
            if turn is None:
                break
            self._take()
            turn.set_result(None)
        self._wake_again(now)

    def _may_grant(self, now: float) -> bool:
        return self._free > 0 and now >= self._paused_until - _ROUNDING_ERROR and self._tokens >= 1 - _ROUNDING_ERROR

    def _take(self) -> None:
        self._free -= 1
        self._tokens -= 1

    def _refill(self, now: float) -> None:
        if self._filled_at > -math.inf:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._rate < self._configured and now > self._grown_at:
            most = self._configured if now >= self._pace_ends else min(self._configured, self._pace)
            grown = self._rate + (now - self._grown_at) * _GROWTH * self._configured
            self._rate = max(self._rate, min(most, grown))
            self._grown_at = now

    def _next(self) -> asyncio.Future[None] | None:
        for queue in self._waiting.values():
            while queue:
                turn = next(iter(queue))
                del queue[turn]
                if not turn.done():  # cancelled, and its task has not run yet
                    return turn
        return None

    def _wake_again(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._free and any(self._waiting.values()):  # without a free slot, release() wakes
            when = max(self._paused_until, now + (1 - self._tokens) / self._rate)
            self._timer = asyncio.get_running_loop().call_at(when, self._grant)

    def _refuse_if_late(self, priority: Priority, deadline: float) -> None:
        now = asyncio.get_running_loop().time()
        if deadline <= now:
            raise self._too_late(deadline)
        self._refill(now)
        ahead = sum(len(queue) for other, queue in self._waiting.items() if other <= priority)
        start = max(now, self._paused_until)
        tokens = min(self._burst, self._tokens + (start - now) * self._rate)
        if start < deadline and start + (ahead + 1 - tokens) / self._rate < deadline:
            return
        if start > now:
            raise self._paused(now, f" and {ahead} calls wait before this one" if start < deadline else "")
        raise RequestTimedOut(
            f"{self._host}: {ahead} calls wait before this one; {self._rate_in_words()} "
            f"are too few for the {deadline - now:.1f} s until the poll's deadline"
        )

    def _too_late(self, deadline: float) -> CloudError:
        now = asyncio.get_running_loop().time()
        if self._paused_until > max(now, deadline):
            return self._paused(now, "")
        return RequestTimedOut(
            f"{self._host}: the poll's deadline passed while the call waited for its turn, at {self._rate_in_words()}"
        )

    def _paused(self, now: float, besides: str) -> Throttled:
        seconds = self._paused_until - now
        slow = "" if self._rate == self._configured else f"; {self._rate_in_words()}"
        return Throttled(
            f"{self._host} asked to wait {seconds:.1f} s{besides}, which is after the poll's deadline{slow}"
        )

    def _rate_in_words(self) -> str:
        text = f"{self._rate:.3g} requests a second"
        return text if self._rate == self._configured else f"{text} (after throttling; else {self._configured:g})"
