"""What the providers of one account share: rate limits and monthly budgets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Self

from trainfleet_exporter.transport.calls import CallBudget, CallLimits
from trainfleet_exporter.transport.limiter import Limiter


class Account:
    """One cloud account: a limiter for each API at each host, whichever provider calls it, and the monthly budgets.

    `budgets` are by API; one without has no budget. `apart` are limits by API, of those to which `limits` does not
    apply. `may_call` says whether a call may begin now; an exporter that stands by makes none.
    """

    def __init__(
        self,
        name: str,
        limits: CallLimits,
        budgets: Mapping[str, CallBudget] | None = None,
        apart: Mapping[str, CallLimits] | None = None,
        may_call: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self.limits = limits
        self.apart: Mapping[str, CallLimits] = apart or {}
        self.budgets: Mapping[str, CallBudget] = budgets or {}
        self.may_call = may_call
        self._limiters: dict[tuple[str, str], Limiter] = {}

    def limiter(self, host: str, api: str) -> Limiter:
        """The limiter of one API at one host."""
        key = (host, api)
        if key not in self._limiters:
            self._limiters[key] = Limiter(host, self.apart.get(api, self.limits))
        return self._limiters[key]

    def with_budgets(self, budgets: Mapping[str, CallBudget]) -> Self:
        """The account with other budgets. Both share the rate limiters, with the rates that they have found."""
        other = copy.copy(self)
        other.budgets = budgets
        return other
