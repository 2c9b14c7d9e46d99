"""What backfills spend of the month's budgets, so that a command that is given again goes on with what is left.

It is kept in the spool, call by call. At the end of each run it goes over to `global.state_file`, unless a daemon keeps
that: then it stays where it is, and counts beside what the daemon says was spent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from trainfleet_exporter.accounts import Accounts, holder_of
from trainfleet_exporter.backfill.spool import Spool
from trainfleet_exporter.config import Config, ProviderConfig
from trainfleet_exporter.state import StateFile
from trainfleet_exporter.transport import KEPT_AFTER_MONTH, Account, Ledger
from trainfleet_exporter.transport.calendar import Month
from trainfleet_exporter.transport.state_file import Spent, read_state, tells_of_another_part

_FACT = "spent"
_Months = Mapping[Month, int]


class Spending:
    """The budgets of one provider's account, by API, as a backfill finds them and draws on them."""

    def __init__(self, spool: Spool, config: Config, provider: ProviderConfig) -> None:
        self._spool = spool
        self._path = config.global_.state_file
        self._holder = holder_of(provider)
        self._calls = provider.limits.monthly_calls
        self._before, self._own = _recalled(spool)
        """By API: what others had spent when we first knew, and what we did that no state file tells of."""
        self._hand_over()
        known = {} if self._path is None else read_state(self._path)
        for api, months in self._before.items():
            known[self._holder, api] = {**months, **known.get((self._holder, api), {})}
        ledger = Ledger(None)  # which is not to displace the daemon's: a backfill may take days
        ledger.move(None, known, owned=True)
        self.account: Account = Accounts(ledger).draft([provider])[self._holder]
        for api, budget in self.account.budgets.items():
            self._before[api] = budget.spent
            budget.add(self._own.get(api, {}))

    def attempted(self, api: str) -> None:
        """A call was made: keep what has been spent."""
        budget = self.account.budgets.get(api)
        if budget is None:
            return
        before = self._before[api]
        self._own[api] = {month: calls - before.get(month, 0) for month, calls in budget.spent.items()}
        self._keep()

    def close(self) -> None:
        """Tell the state file, where nobody keeps it."""
        self._hand_over()

    def _hand_over(self) -> None:
        if self._path is None or not any(any(months.values()) for months in self._own.values()):
            return
        state = StateFile(self._path)
        try:
            if not state.owned or tells_of_another_part(self._path):
                return
            ledger = Ledger(self._path)
            for api, months in self._own.items():
                if api in self._calls:
                    ledger.budget(self._holder, api, self._calls[api]).add(months)
            ledger.close()
            if not self._is_told(read_state(self._path)):
                return  # the log has why it cannot be written
        finally:
            state.release()
        self._before, self._own = {}, {}
        self._keep()

    def _is_told(self, spent: Spent) -> bool:
        return all(
            spent.get((self._holder, api), {}).get(month, 0) >= calls
            for api, months in self._own.items()
            for month, calls in months.items()
            if api in self._calls
        )

    def _keep(self) -> None:
        page = {"before": _written(self._before), "own": _written(self._own)}
        self._spool.note(_FACT, json.dumps(page).encode())


def _recalled(spool: Spool) -> tuple[dict[str, _Months], dict[str, _Months]]:
    data = spool.recall(_FACT)
    if data is None:
        return {}, {}
    page = json.loads(data)
    return _read(page["before"]), _read(page["own"])


def _written(spent: Mapping[str, _Months]) -> dict[str, dict[str, int]]:
    return {api: {str(month): calls for month, calls in months.items()} for api, months in spent.items()}


def _read(page: Mapping[str, Mapping[str, int]]) -> dict[str, _Months]:
    """What is of months that are not over, or only just: as long as the state file keeps them."""
    since = time.time() - KEPT_AFTER_MONTH
    return {
        api: {month: calls for text, calls in months.items() if (month := Month.parse(text)).ends > since}
        for api, months in page.items()
    }
