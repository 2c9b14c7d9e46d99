"""The rate limits that the providers of one account share."""

from __future__ import annotations

from collections.abc import Callable

from trainfleet_exporter.transport.calls import CallLimits
from trainfleet_exporter.transport.limiter import Limiter


class Account:
    """One cloud account: a limiter for each API at each host, shared by all providers.

    `may_call` returns whether a call may begin now; a standby exporter makes none.
    """

    def __init__(self, name: str, limits: CallLimits, may_call: Callable[[], bool] = lambda: True) -> None:
        self.name = name
        self.limits = limits
        self.may_call = may_call
        self._limiters: dict[tuple[str, str], Limiter] = {}

    def limiter(self, host: str, api: str) -> Limiter:
        """Return the limiter of one API at one host."""
        key = (host, api)
        if key not in self._limiters:
            self._limiters[key] = Limiter(host, self.limits)
        return self._limiters[key]
