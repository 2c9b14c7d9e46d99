"""The calls that backfills spend of the month's budgets, so that a repeated command continues with the rest.

The spool stores each call. At the end of a run, the calls are added to `global.state_file`, unless a daemon owns that
file. Then they stay in the spool, and count in addition to the calls of the daemon.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from trainfleet_exporter.backfill.spool import Spool
from trainfleet_exporter.budgets import Accounts, BillingPeriod, Ledger, Spent, StateFile, is_of_shard, read_state
from trainfleet_exporter.config import Config, ProviderConfig

_FACT = "spent"
_Months = Mapping[str, int]
"""Calls by month."""


class Spending:
    """The budgets of one provider's account, by API, that a backfill reads and spends."""

    def __init__(self, spool: Spool, config: Config, provider: ProviderConfig, billing: BillingPeriod) -> None:
        self._spool = spool
        self._path = config.global_.state_file
        self._account_key = provider.account_key
        self._calls = provider.limits.monthly_calls
        self._billing = billing
        self._before, self._own = _recalled(spool, billing)
        """By API: the calls of others at the start, and our own calls that no state file contains."""
        self._hand_over()
        known = {} if self._path is None else read_state(self._path)
        for api, months in self._before.items():
            known[self._account_key, api] = {**months, **known.get((self._account_key, api), {})}
        ledger = Ledger()  # must not lock out the daemon: a backfill may take days
        ledger.move(StateFile(None), known)
        accounts = Accounts(ledger, {provider.platform: billing})
        drafts = accounts.draft([provider])
        accounts.install([provider], drafts)
        self.account = drafts[self._account_key]
        for api, budget in self.account.budgets.items():
            self._before[api] = budget.spent
            ledger.add(self._account_key, api, self._own.get(api, {}))

    def attempted(self, api: str) -> None:
        """Store a call."""
        budget = self.account.budgets.get(api)
        if budget is None:
            return
        before = self._before[api]
        self._own[api] = {month: calls - before.get(month, 0) for month, calls in budget.spent.items()}
        self._keep()

    def close(self) -> None:
        """Add the calls to the state file, unless another process owns it."""
        self._hand_over()

    def _hand_over(self) -> None:
        if self._path is None or not any(any(months.values()) for months in self._own.values()):
            return
        state = StateFile(self._path)
        try:
            if not state.owned or is_of_shard(self._path):
                return
            ledger = Ledger(state)
            for api, months in self._own.items():
                if api in self._calls:
                    ledger.budget(self._account_key, api, self._calls[api], self._billing)
                    ledger.add(self._account_key, api, months)
            ledger.close()
            if not self._is_recorded(read_state(self._path)):
                return  # the log has the error
        finally:
            state.release()
        self._before, self._own = {}, {}
        self._keep()

    def _is_recorded(self, spent: Spent) -> bool:
        return all(
            spent.get((self._account_key, api), {}).get(month, 0) >= calls
            for api, months in self._own.items()
            for month, calls in months.items()
            if api in self._calls
        )

    def _keep(self) -> None:
        self._spool.note(_FACT, json.dumps({"before": self._before, "own": self._own}).encode())


def _recalled(spool: Spool, billing: BillingPeriod) -> tuple[dict[str, _Months], dict[str, _Months]]:
    data = spool.recall(_FACT)
    if data is None:
        return {}, {}
    page = json.loads(data)
    return _recent(page["before"], billing), _recent(page["own"], billing)


def _recent(page: Mapping[str, _Months], billing: BillingPeriod) -> dict[str, _Months]:
    """Return the months that are not over or have just ended: those that the state file keeps."""
    now = time.time()
    return {
        api: {month: calls for month, calls in months.items() if billing.keeps(month, now)}
        for api, months in page.items()
    }
