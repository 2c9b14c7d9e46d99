"""Retries: at most two for each call, until its poll gives the operation up. The next poll begins afresh."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Final

from trainfleet_exporter.errors import CloudError, RequestTimedOut, ServerTrouble, Throttled, Unreachable

MAX_ATTEMPTS = 3
_BACKOFF_BASE = 0.2
_LONGEST_HINT = 3600.0
_MOST_FAILURES = 5 * MAX_ATTEMPTS
"""Failed attempts in a row before the poll gives an operation up: five calls with their retries."""
_Outage = ServerTrouble | RequestTimedOut | Unreachable


@dataclass(slots=True)
class _Failures:
    """Failed attempts of one operation in a row."""

    count: int = 0
    last: _Outage | None = None
    given_up_until: float = 0.0
    """Loop time."""


@dataclass(slots=True, eq=False)
class Caller:
    """One poll of a collector. Two of them are never equal."""

    collector: str
    calls: Counter[str] = field(default_factory=Counter)
    """Its calls so far by API, retries included."""
    _failures: dict[Hashable, _Failures] = field(default_factory=dict)

    def check(self, operation: Hashable, host: str) -> None:
        """Raise the kind of the last error if the poll has given this operation up."""
        failures = self._failures.get(operation)
        if failures is None or failures.count < _MOST_FAILURES:
            return
        if asyncio.get_running_loop().time() >= failures.given_up_until:
            del self._failures[operation]  # a cycle over many objects goes on
            return
        assert failures.last is not None
        status = f"HTTP {failures.last.status} " if failures.last.status else ""
        reason = failures.last.message.removeprefix(f"{host}: ")
        raise type(failures.last)(
            f"{host}: not tried, because too many attempts in a row failed in this poll; last: {status}{reason}"
        ).not_attempted()

    def succeeded(self, operation: Hashable) -> None:
        """The service answered a call of this operation."""
        self._failures.pop(operation, None)

    def failed(self, operation: Hashable, error: CloudError, deadline: float) -> None:
        """An attempt failed. After too many in a row, the poll gives the operation up until `deadline`, which is that
        of the call: the poll's, or that of one object in a cycle over many.

        A rejection proves that the operation works; throttling proves nothing.
        """
        if isinstance(error, _Outage):
            failures = self._failures.setdefault(operation, _Failures())
            before, failures.last = failures.count, error
            failures.count += MAX_ATTEMPTS if isinstance(error, RequestTimedOut) else 1  # which is not repeated
            if before < _MOST_FAILURES <= failures.count:
                failures.given_up_until = deadline
        elif not isinstance(error, Throttled):
            self.succeeded(operation)


CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)
"""The poll of this task. None outside of polls."""


def backoff(attempt: int, random: Random) -> float:
    """Return the seconds to wait after this attempt (1 or more), by full jitter.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    return random.uniform(0, _BACKOFF_BASE * 2.0 ** (attempt - 1))


def wait_hint(retry_after: float | None) -> float | None:
    """Return a service's hint in seconds if it is plausible, else None.

    The limit is an hour: a wrong header must not stop calls to a host permanently.
    """
    if retry_after is None or not math.isfinite(retry_after) or retry_after <= 0:
        return None
    return min(retry_after, _LONGEST_HINT)
