"""The poll that makes a call: it counts its calls, and gives up operations that fail. The next poll begins afresh."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from trainfleet_exporter.errors import CloudError, RequestTimedOut, ServerTrouble, Throttled, Unreachable
from trainfleet_exporter.transport.retry import MAX_ATTEMPTS

_ENOUGH = 5 * MAX_ATTEMPTS
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
        if failures is None or failures.count < _ENOUGH:
            return
        if asyncio.get_running_loop().time() >= failures.given_up_until:
            del self._failures[operation]  # a cycle over many objects goes on
            return
        assert failures.last is not None
        status = f"HTTP {failures.last.status} " if failures.last.status else ""
        reason = failures.last.message.removeprefix(f"{host}: ")
        raise type(failures.last)(
            f"{host}: not tried, because {_ENOUGH} attempts in a row failed in this poll; last: {status}{reason}"
        )

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
            failures.count += 1
            failures.last = error
            if failures.count == _ENOUGH:
                failures.given_up_until = deadline
        elif not isinstance(error, Throttled):
            self.succeeded(operation)


CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)
"""The poll of this task. None outside of polls."""
