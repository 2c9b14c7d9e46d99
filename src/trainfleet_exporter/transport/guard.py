"""The guard of one API host: its limiter, its breakers and its budget of retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from trainfleet_exporter.errors import CloudError, LeaseLost, RequestTimedOut, ServerTrouble, Throttled, Unreachable
from trainfleet_exporter.transport.breaker import Breaker, Permit
from trainfleet_exporter.transport.calls import Priority
from trainfleet_exporter.transport.limiter import Limiter
from trainfleet_exporter.transport.retry import RetryBudget


class HostGuard:
    """Guards all calls of one provider to one API at one host. The whole account shares its limiter.

    One breaker is for connecting. Each operation has its own breaker for failures after connecting, so that a broken
    operation does not affect others.
    """

    def __init__(
        self,
        host: str,
        limiter: Limiter,
        *,
        may_call: Callable[[], bool] = lambda: True,
        breaker_max_open: float,
    ) -> None:
        self.host = host
        self.limiter = limiter
        self.may_call = may_call
        self.retries = RetryBudget()
        self._breaker_max_open = breaker_max_open
        self._connecting = Breaker(host, max_open=breaker_max_open)
        self._operations: dict[str, Breaker] = {}
        self._throttled = 0
        self._throttled_at = 0.0

    async def enter(self, operation: str, priority: Priority, deadline: float) -> Turn:
        """Wait for permission to make one attempt.

        Raise CircuitOpen, Throttled or RequestTimedOut if there is none in time.
        """
        breakers = (self._connecting, self._breaker(operation))
        while True:
            for breaker in breakers:
                await breaker.settled(deadline)
                breaker.check()
            await self.limiter.acquire(priority, deadline)
            if not any(breaker.is_trying for breaker in breakers):
                break
            self.limiter.release(used=False)  # an earlier call in the queue has begun a trial
        permits: list[Permit] = []
        try:
            for breaker in breakers:
                permits.append(breaker.admit())  # noqa: PERF401  # the first must be given back if the second fails
        except CloudError:
            for permit in permits:
                permit.abandon()
            self.limiter.release(used=False)
            raise
        return Turn(self, *permits)

    def will_refuse(self, operation: str, at: float) -> bool:
        """Return whether a breaker will be open at loop time `at`."""
        return any(breaker.refusal(at) for breaker in (self._connecting, self._breaker(operation)))

    def throttled(self, started: float) -> int:
        """Record a throttled attempt. Return how many times in a row the host has throttled.

        Attempts in flight at the same time count once: `started` is the begin of this one.
        """
        if self._throttled == 0 or started >= self._throttled_at:
            self._throttled += 1
            self._throttled_at = asyncio.get_running_loop().time()
        return self._throttled

    def not_throttled(self) -> None:
        """Record that the host accepted an attempt."""
        self._throttled = 0

    def _breaker(self, operation: str) -> Breaker:
        if operation not in self._operations:
            self._operations[operation] = Breaker(self.host, max_open=self._breaker_max_open)
        return self._operations[operation]


class Turn:
    """The permission to make one attempt. As a context manager, it returns on exit what was not settled.

    `used` is true after the first byte is sent: an unused turn costs no token.
    """

    def __init__(self, guard: HostGuard, connecting: Permit, operation: Permit) -> None:
        self._guard = guard
        self._connecting = connecting
        self._operation = operation
        self.used = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abandon()
        self._guard.limiter.release(used=self.used)

    def charge(self) -> None:
        """Begin an attempt, which is billed. Raise LeaseLost if another exporter may poll by now."""
        if not self._guard.may_call():  # here, because the process may have been stopped at any time before
            raise LeaseLost("not tried: another exporter may hold the lease by now")
        self.used = True

    def abandon(self) -> None:
        """The attempt proved nothing about the host or the operation."""
        self._connecting.abandon()
        self._operation.abandon()

    def connected(self) -> None:
        """The connection is open, with any further result."""
        self._connecting.succeeded()

    def not_connected(self, error: CloudError) -> None:
        """The connection to the host failed. This proves nothing about the operation."""
        self._connecting.failed(self._without_host(error))
        self._operation.abandon()

    def answered(self) -> None:
        """The operation works."""
        self.connected()
        self._operation.succeeded()

    def failed(self, error: CloudError) -> None:
        """The attempt failed after connecting. A rejection proves that the operation works; throttling proves
        nothing."""
        self.connected()
        if isinstance(error, ServerTrouble | RequestTimedOut | Unreachable):
            status = f"HTTP {error.status} " if error.status else ""
            self._operation.failed(status + self._without_host(error))
        elif not isinstance(error, Throttled):
            self._operation.succeeded()

    def _without_host(self, error: CloudError) -> str:
        return error.message.removeprefix(f"{self._guard.host}: ")  # the breaker's own message names it
