"""The accounts of a config, and how their limits and spent calls carry over when another config replaces it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from trainfleet_exporter.budgets.billing import BillingPeriod
from trainfleet_exporter.budgets.budget import Budget
from trainfleet_exporter.budgets.ledger import Ledger
from trainfleet_exporter.config import AccountKey, Limits, ProviderConfig
from trainfleet_exporter.transport import Account, CallLimits


class BudgetedAccount(Account):
    """An account with budgets of the ledger, by API."""

    budgets: Mapping[str, Budget]


class Accounts:
    """The accounts in use. A new config takes two steps, `draft` and `install`, so that a rejected one has no effect.

    `billing` has the billing period of each platform. `may_call` says whether a call may begin now.
    """

    def __init__(
        self, ledger: Ledger, billing: Mapping[str, BillingPeriod], may_call: Callable[[], bool] = lambda: True
    ) -> None:
        self._ledger = ledger
        self._billing = billing
        self._may_call = may_call
        self._accounts: dict[AccountKey, BudgetedAccount] = {}
        self._account_of: dict[str, AccountKey] = {}
        """By provider."""
        self._counted: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        """By provider and API, the calls by month that this process made and that its account's budget contains."""

    def draft(self, configs: Iterable[ProviderConfig]) -> dict[AccountKey, BudgetedAccount]:
        """Return the accounts of these providers. Unchanged accounts are the current objects."""
        members: defaultdict[AccountKey, list[ProviderConfig]] = defaultdict(list)
        for config in configs:
            members[config.account_key].append(config)
        return {key: self._draft(key, found) for key, found in members.items()}

    def install(self, configs: Sequence[ProviderConfig], accounts: Mapping[AccountKey, BudgetedAccount]) -> None:
        """Replace the present accounts by drafts. Spent calls follow the providers that made them."""
        limits = {config.account_key: config.limits.monthly_calls for config in configs}
        used = {(key, api): budget for key, account in accounts.items() for api, budget in account.budgets.items()}
        unknown = {each: budget for each, budget in used.items() if not self._ledger.knows(*each)}
        for (key, api), budget in used.items():
            self._ledger.adopt(key, budget, limits[key][api])
        after = {config.name: config.account_key for config in configs}
        self._move(after, unknown)
        self._ledger.retire(used.keys())
        for provider, api in list(self._counted):
            if provider not in after:
                del self._counted[provider, api]
        self._accounts, self._account_of = dict(accounts), after

    def attempted(self, provider: str, api: str) -> None:
        """Record a call of a provider."""
        key = self._account_of.get(provider)
        budget = None if key is None else self._accounts[key].budgets.get(api)
        if budget is not None:
            self._counted[provider, api][budget.month.name] += 1

    def _draft(self, key: AccountKey, members: Sequence[ProviderConfig]) -> BudgetedAccount:
        config, present = members[0], self._accounts.get(key)
        calls, limits = config.limits.monthly_calls, _limits(config.limits)
        if present is None or present.limits != limits:
            return BudgetedAccount(key.name, limits, self._budgets(key, members), self._may_call)
        if {api: budget.calls for api, budget in present.budgets.items()} != dict(calls):
            return present.with_budgets(self._budgets(key, members))
        return present

    def _budgets(self, key: AccountKey, members: Sequence[ProviderConfig]) -> dict[str, Budget]:
        return {
            api: self._ledger.draft(key, api, calls, self._billing_of(members, api))
            for api, calls in members[0].limits.monthly_calls.items()
        }

    def _billing_of(self, members: Sequence[ProviderConfig], api: str) -> BillingPeriod | None:
        """The billing period of an API: that of the platform that has it."""
        having = [config for config in members if api in config.apis]
        return self._billing.get((having or members)[0].platform)

    def _move(self, after: Mapping[str, AccountKey], unknown: Mapping[tuple[AccountKey, str], Budget]) -> None:
        """Move the calls of providers that change their account; those of an account that is left, completely."""
        leaving: defaultdict[AccountKey, list[str]] = defaultdict(list)
        for name, target in after.items():
            if (source := self._account_of.get(name, target)) != target:
                leaving[source].append(name)
        for source, names in leaving.items():
            is_left = source not in after.values()
            for api, spent in self._ledger.spent(source).items():
                own = {name: self._counted.get((name, api), Counter()) for name in names}
                total = sum(own.values(), Counter())
                for target in {after[name] for name in names}:
                    moved = sum((own[name] for name in names if after[name] == target), Counter())
                    if is_left:  # the rest was made by others, or before this process could know by whom
                        moved.update({month: calls - total[month] for month, calls in spent.items()})
                        if (budget := unknown.get((target, api))) is not None:
                            budget.assume_nothing()
                    self._ledger.add(target, api, moved)
                if not is_left:
                    self._ledger.add(source, api, {month: -calls for month, calls in total.items()})
            if is_left:
                self._ledger.forget(source)


def _limits(given: Limits) -> CallLimits:
    return CallLimits(requests_per_second=given.requests_per_second, concurrency=given.concurrency)
