"""The accounts of a config, and what becomes of them, and of what they spent, when another config takes its place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trainfleet_exporter.config import Limits as ConfigLimits
from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.transport import Account, Budget, Holder, Ledger, Limits
from trainfleet_exporter.transport.calendar import Month


def holder_of(config: ProviderConfig) -> Holder:
    """Whose budgets a provider draws on: its account's, or its own."""
    return Holder("provider", config.name) if config.account is None else Holder("account", config.account)


@dataclass(slots=True)
class _Gain:
    """What a holder takes over of the calls of one API; `whole` if that is all that another one had spent."""

    calls: Counter[Month] = field(default_factory=Counter)
    whole: bool = False


class Accounts:
    """Who may ask how much. Two steps, so that a config which is not put to use leaves no trace: `draft`, `install`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._accounts: dict[Holder, Account] = {}
        self._holders: dict[str, Holder] = {}
        """Of each provider, by its name."""
        self._counted: defaultdict[tuple[str, str], Counter[Month]] = defaultdict(Counter)
        """How many calls of an API, which its holder's budget holds too, a provider has made since it was there."""

    def draft(self, configs: Iterable[ProviderConfig]) -> dict[Holder, Account]:
        """The accounts of these providers: those that there are where nothing changes for them."""
        drafts: dict[Holder, Account] = {}
        for config in configs:
            holder = holder_of(config)
            if holder not in drafts:
                drafts[holder] = self._draft(holder, config)
        return drafts

    def install(self, configs: Sequence[ProviderConfig], accounts: Mapping[Holder, Account]) -> None:
        """Put drafts to use in place of the accounts that there were. What was spent follows the providers."""
        after = {config.name: holder_of(config) for config in configs}
        limits = {holder_of(config): config.limits.monthly_calls for config in configs}
        gains = self._moved(after)
        known = {(holder, api) for holder in {holder for holder, _ in gains} for api in self._ledger.spent(holder)}
        for holder, account in accounts.items():
            for api, budget in account.budgets.items():
                self._ledger.adopt(holder, budget, limits[holder][api])
                gain = gains.get((holder, api))
                if gain is not None and gain.whole and (holder, api) not in known:
                    budget.assume_nothing()
        for (holder, api), gain in gains.items():
            self._ledger.add(holder, api, gain.calls)
        self._ledger.retire({(holder, api) for holder, account in accounts.items() for api in account.budgets})
        for provider, api in list(self._counted):
            if provider not in after:
                del self._counted[provider, api]
        self._accounts, self._holders = dict(accounts), after

    def attempted(self, provider: str, api: str) -> None:
        """A provider made a call."""
        holder = self._holders.get(provider)
        budget = None if holder is None else self._accounts[holder].budgets.get(api)
        if budget is not None:
            self._counted[provider, api][Month.at(budget.now)] += 1

    def _draft(self, holder: Holder, config: ProviderConfig) -> Account:
        there, calls = self._accounts.get(holder), config.limits.monthly_calls
        limits = _limits(config.limits)
        apart = {api: of for api in config.apis if (of := _limits(config.limits.of(api))) != limits}
        if there is not None and (there.limits, there.apart) == (limits, apart):
            if {api: budget.calls for api, budget in there.budgets.items()} == dict(calls):
                return there
            return there.with_budgets(self._budgets(holder, calls))
        return Account(holder.name, limits, self._budgets(holder, calls), apart)

    def _budgets(self, holder: Holder, calls: Mapping[str, int]) -> dict[str, Budget]:
        return {api: self._ledger.draft(holder, api, limit) for api, limit in calls.items()}

    def _moved(self, after: Mapping[str, Holder]) -> dict[tuple[Holder, str], _Gain]:
        """Take what moving providers spent from the holders that they leave, for those that they come to."""
        gains: defaultdict[tuple[Holder, str], _Gain] = defaultdict(_Gain)
        leaving: defaultdict[Holder, list[str]] = defaultdict(list)
        for name, target in after.items():
            source = self._holders.get(name, target)
            if source != target:
                leaving[source].append(name)
        for source, names in leaving.items():
            stays = source in after.values()
            for api, spent in self._ledger.spent(source).items():
                own = {name: self._counted.get((name, api), Counter()) for name in names}
                known = sum(own.values(), Counter())
                rest = Counter(spent)  # made by others, or before the exporter knew by whom
                rest.subtract(known)
                for target in {after[name] for name in names}:
                    gain = gains[target, api]
                    gain.whole = gain.whole or not stays
                    for calls in (*([] if stays else [rest]), *(own[name] for name in names if after[name] == target)):
                        gain.calls.update(calls)
                if stays:
                    self._ledger.add(source, api, {month: -calls for month, calls in known.items()})
            if not stays:
                self._ledger.forget(source)
        return gains


def _limits(given: ConfigLimits) -> Limits:
    return Limits(requests_per_second=given.requests_per_second, concurrency=given.concurrency)
