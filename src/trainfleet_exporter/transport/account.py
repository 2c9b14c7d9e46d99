"""The rate limits and monthly budgets that the providers of one account share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Self

from trainfleet_exporter.transport.calls import CallBudget, CallLimits
from trainfleet_exporter.transport.limiter import Limiter


class Account:
    """One cloud account: a limiter for each API at each host, shared by all providers, and the monthly budgets.

    `budgets` are by API; an API without an entry has no budget. `may_call` returns whether a call may begin now; a
    standby exporter makes none.
    """

    def __init__(
        self,
        name: str,
        limits: CallLimits,
        budgets: Mapping[str, CallBudget] | None = None,
        may_call: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self.limits = limits
        self.budgets: Mapping[str, CallBudget] = budgets or {}
        self.may_call = may_call
        self._limiters: dict[tuple[str, str], Limiter] = {}

    def limiter(self, host: str, api: str) -> Limiter:
        """Return the limiter of one API at one host."""
        key = (host, api)
        if key not in self._limiters:
            self._limiters[key] = Limiter(host, self.limits)
        return self._limiters[key]

    def with_budgets(self, budgets: Mapping[str, CallBudget]) -> Self:
        """Return the account with other budgets. Both share the rate limiters and their current rates."""
        other = copy.copy(self)
        other.budgets = budgets
        return other
