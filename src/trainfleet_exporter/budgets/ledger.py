"""All budgets, and the state file that keeps them over a restart.

The file never has fewer calls than were spent: it is written ahead of the calls, and exactly at a clean stop. One
process keeps it; others that run at the same time (`once`, `diagnose`) only read it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from trainfleet_exporter.budgets.billing import BillingPeriod
from trainfleet_exporter.budgets.budget import Budget
from trainfleet_exporter.budgets.clock import BudgetClock
from trainfleet_exporter.budgets.state_file import Spent, StateFile, read_state, state_page
from trainfleet_exporter.config import AccountKey
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)


class Ledger:
    """The budgets of all accounts, kept in `file` if this process owns it, else only read from it.

    A file that cannot be read is one warning, and then as if there were none; so is one that cannot be written. The
    record of an account that left the config is kept until the month is over. `part` names the shard whose part of the
    limits is spent here: a file of another part counts as none.
    """

    def __init__(self, file: StateFile | None = None, *, clock: BudgetClock | None = None, part: str = "") -> None:
        self._clock = BudgetClock() if clock is None else clock
        self._part = part
        self._term: int | None = None
        """The latest term of the lease in which this process polled."""
        self._least: Spent = {}
        """Calls that are on record although others, which are not, were made as well."""
        self._budgets: dict[tuple[AccountKey, str], Budget] = {}
        self._file = _opened(StateFile(None) if file is None else file)
        self._spent: Spent = {} if self._file.path is None else read_state(self._file.path, part=part)
        """The record. That of a budget is the budget's own `record`."""

    def budget(self, account: AccountKey, api: str, calls: int, billing: BillingPeriod | None = None) -> Budget:
        """The budget of one API, with this limit from now on."""
        budget = self.draft(account, api, calls, billing)
        self.adopt(account, budget, calls)
        return budget

    def draft(self, account: AccountKey, api: str, calls: int, billing: BillingPeriod | None = None) -> Budget:
        """The present budget, unchanged, or a new one that has no effect before `adopt`."""
        key = (account, api)
        if key in self._budgets:
            return self._budgets[key]
        return Budget(api, calls, billing=billing, clock=self._clock, known=self._spent.get(key))

    def adopt(self, account: AccountKey, budget: Budget, calls: int) -> None:
        """Install a drafted budget with this limit."""
        budget.calls = calls
        key = (account, budget.api)
        if self._budgets.get(key) is not budget:
            self._budgets[key] = budget
            budget.know(self._least.get(key, {}))
            self._spent[key] = budget.record
            budget.saved_by(self._save)

    def knows(self, account: AccountKey, api: str) -> bool:
        """Return whether the record has calls of an account to one API."""
        return (account, api) in self._spent

    def spent(self, account: AccountKey) -> dict[str, dict[str, int]]:
        """By API and month, what is on record of an account."""
        return {api: months for (whose, api), months in self._record().items() if whose == account}

    def add(self, account: AccountKey, api: str, calls: Mapping[str, int]) -> None:
        """Calls by month that were counted for another account (below 0: for this one, and belong to another)."""
        record = self._spent.setdefault((account, api), {})
        for month, count in calls.items():
            record[month] = max(0, record.get(month, 0) + count)

    def forget(self, account: AccountKey) -> None:
        """Delete the record of an account, because other accounts took it over."""
        for key in [key for key in self._spent if key[0] == account]:
            del self._spent[key]
            self._drop(key)

    def retire(self, used: Collection[tuple[AccountKey, str]]) -> None:
        """Keep only the record of budgets that are not used any more, and no record of months that are over."""
        record = self._record()
        for key in [key for key in self._spent if key not in used]:
            self._drop(key)
            self._spent[key] = record[key]
            if not record[key]:
                del self._spent[key]

    def move(self, file: StateFile, known: Spent) -> Callable[[], None]:
        """Keep another file from now on. Of what it says (`known`) and the record the larger counts.

        Nothing is written before `write_soon`. The result writes the file that was kept until now for a last time: it
        waits for the disk, and may be called in a thread.
        """
        leave = self._last_page()
        for key, months in known.items():
            if (budget := self._budgets.get(key)) is not None:
                budget.know(months)
            else:
                record = self._spent.setdefault(key, {})
                record.update({month: max(calls, record.get(month, 0)) for month, calls in months.items()})
        self._file = _opened(file)
        for budget in self._budgets.values():
            budget.saved_by(self._save)
        return leave

    def take_over(self, file: StateFile, known: Spent, *, written_in: int | None, term: int) -> None:
        """Keep this file from now on, in this term of the lease. It was `written_in` an earlier one.

        The record is complete if the file, or this process, knows the term before. Else others made calls that are not
        on record: the elapsed share of each budget counts as spent, at least.
        """
        self.move(file, known)
        if term - 1 not in (written_in, self._term):
            self._least, self._spent = self._spent, {}
        self._term = term

    def write_soon(self) -> None:
        """Write the file without waiting, because the record has moved between accounts."""
        if self._spent:
            self._save(False)

    def close(self) -> None:
        """Write exactly what was spent, at a clean stop."""
        self._last_page()()

    def _last_page(self) -> Callable[[], None]:
        if not self._keeps() or not self._budgets:
            return lambda: None
        term = self._term or 0
        return self._file.last_page(state_page(self._record(), part=self._part, term=term), term=term)

    def _save(self, at_once: bool) -> None:
        if self._keeps() and (at_once or not self._file.busy):
            bounds = self._record(ahead=True)
            page = state_page(bounds, part=self._part, term=self._term or 0)
            self._file.save(page, at_once=at_once, then=partial(self._saved, self._file, bounds))

    def _keeps(self) -> bool:
        """Return whether this process writes the file. The holder of a lease tries again to own it: the previous
        holder, or a single poll, may have owned it only for a while."""
        if self._term is not None and self._file.acquire_again():
            log.info("state file acquired; calls of this process are recorded", extra=fields(file=self._file.path))
        return self._file.kept

    def _saved(self, file: StateFile, bounds: Spent) -> None:
        """Record the end of a write. After a failed write, calls continue without the file, and single calls do not
        retry it."""
        if file is self._file:
            for key, budget in self._budgets.items():
                budget.saved(bounds.get(key, {}))

    def _drop(self, key: tuple[AccountKey, str]) -> None:
        if (budget := self._budgets.pop(key, None)) is not None:
            budget.saved_by(None)

    def _record(self, *, ahead: bool = False) -> Spent:
        """The calls of months that are not over; `ahead`: with those that may be made before the next writing.

        Where there is no budget, the cloud's billing period is unknown. That its months end by UTC is near enough: if a
        record is dropped too early, the elapsed share counts as spent.
        """
        now = min(self._clock.look().times)  # a clock that is ahead must not end the present month
        found: Spent = {}
        for key, months in self._spent.items():
            billing, calls = BillingPeriod(), months
            if (budget := self._budgets.get(key)) is not None:
                billing, calls = budget.billing, budget.bounds if ahead else budget.spent
            found[key] = {month: count for month, count in calls.items() if billing.keeps(month, now)}
        return found


def _opened(file: StateFile) -> StateFile:
    if not file.owned:
        facts = fields(file=file.path)
        log.warning("another exporter owns the state file; calls of this process are not recorded", extra=facts)
    return file
