"""The queue in front of an API host: a token bucket and a number of slots, first come first served by priority."""

from __future__ import annotations

import asyncio
import math

from trainfleet_exporter.errors import CloudError, RequestTimedOut, Throttled
from trainfleet_exporter.transport.calls import Limits, Priority

# Float arithmetic leaves a token or a pause short by a rounding error when its timer fires; the timer would then be set
# for a time that the clock cannot tell from now.
_ROUNDING = 1e-6


class Limiter:
    """Grants turns: `requests_per_second` with bursts of a second's worth, `concurrency` at a time.

    Whoever cannot have a turn before the deadline is told at once. Times are those of the running loop.
    """

    def __init__(self, host: str, limits: Limits) -> None:
        self._host = host
        self._rate = limits.requests_per_second
        self._burst = float(max(1, math.ceil(self._rate)))
        self._tokens = self._burst
        self._filled_at = -math.inf
        self._free = limits.concurrency
        self._paused_until = -math.inf
        self._waiting: dict[Priority, dict[asyncio.Future[None], float]] = {each: {} for each in Priority}
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, priority: Priority, deadline: float) -> None:
        """Wait for a turn, to be given back by `release`.

        Throttled where a pause, RequestTimedOut where the limits do not let it come before `deadline` (loop time).
        """
        self._refuse_if_late(priority, deadline)
        turn = asyncio.get_running_loop().create_future()
        self._waiting[priority][turn] = deadline
        self._grant()
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as error:
            self._waiting[priority].pop(turn, None)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release(used=False)  # granted in the very moment in which we gave up
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
        """Grant nothing for so long; who cannot wait for that is told now."""
        now = asyncio.get_running_loop().time()
        self._paused_until = max(self._paused_until, now + seconds)
        for queue in self._waiting.values():
            for turn, deadline in list(queue.items()):
                if deadline <= self._paused_until:
                    del queue[turn]
                    if not turn.done():
                        turn.set_exception(self._paused(now, ""))
        self._grant()

    def _grant(self) -> None:
        now = asyncio.get_running_loop().time()
        self._refill(now)
        while self._free and now >= self._paused_until - _ROUNDING and self._tokens >= 1 - _ROUNDING:
            turn = self._next()
            if turn is None:
                break
            self._free -= 1
            self._tokens -= 1
            turn.set_result(None)
        self._wake_again(now)

    def _refill(self, now: float) -> None:
        if self._filled_at > -math.inf:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now

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
            raise self._paused(now, f" and {ahead} calls wait ahead" if start < deadline else "")
        raise RequestTimedOut(
            f"{self._host}: {ahead} calls wait ahead, more than {self._rate:g} requests a second "
            f"let through in the {deadline - now:.1f} s that this poll has left"
        )

    def _too_late(self, deadline: float) -> CloudError:
        now = asyncio.get_running_loop().time()
        if self._paused_until > max(now, deadline):
            return self._paused(now, "")
        return RequestTimedOut(f"{self._host}: the poll's time ended before the request limits gave it a turn")

    def _paused(self, now: float, besides: str) -> Throttled:
        seconds = self._paused_until - now
        return Throttled(f"{self._host} asked to wait {seconds:.1f} s{besides}, longer than this poll has left")
