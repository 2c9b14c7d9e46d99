"""Rules of a config beyond single values: names, timeouts, plain http, and the common limits of an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.config.durations import format_duration
from trainfleet_exporter.config.scalars import broken_reference, may_hint, near_region, show
from trainfleet_exporter.config.schema import AccountKey, Global, Limits, ProviderConfig
from trainfleet_exporter.config.translate import Problem, unknown_key
from trainfleet_exporter.config.tree import Document, Loc, Node, Row, Scalar, Table, show_path
from trainfleet_exporter.config.urls import is_loopback
from trainfleet_exporter.config.wording import PLACEHOLDER, Rule


@dataclass(frozen=True, slots=True)
class Draft:
    """The valid sections, the tree that they are part of, and the places with errors."""

    document: Document
    settings: Global | None
    providers: Mapping[int, ProviderConfig]
    """By their position in the file; one with faults may lack required fields."""
    spoilt: frozenset[Loc]

    def sound(self, *loc: str | int) -> bool:
        """Return whether no error was found at `loc`, in its content or around it."""
        return not any(spoilt[: len(loc)] == loc[: len(spoilt)] for spoilt in self.spoilt)

    def given(self, *loc: str | int) -> bool:
        """Return whether the file has a value there, so that an error can name its line."""
        return self.document.find(loc) is not None


def check(draft: Draft) -> Iterator[Problem]:
    """Find the errors between values that are each valid."""
    yield from _names(draft.document)
    yield from _misspelt_regions(draft)
    yield from _timeouts(draft)
    yield from _missing_collectors(draft)
    yield from _plain_http(draft)
    yield from _repeated_items(draft)
    yield from _monthly_calls(draft)
    yield from _accounts(draft)


def placeholders(document: Document) -> Iterator[Problem]:
    """Every value that is still the one of an example, such as `YOUR_ACCESS_KEY_ID`."""
    seen: set[int] = set()  # an alias puts one value in many places

    def walk(node: Node, loc: Loc) -> Iterator[Problem]:
        if isinstance(node, Scalar):
            if found := PLACEHOLDER.search(node.expansion.text):
                yield Problem(loc, Rule.PLACEHOLDER.format(found=found[0]))
        elif node is not None and id(node) not in seen:
            seen.add(id(node))
            items = node.items() if isinstance(node, Table) else enumerate(node)
            for key, inner in items:
                yield from walk(inner, (*loc, key))

    for key in ("global", "providers"):
        yield from walk(document.root.get(key), (key,))


def shared_limits(providers: Sequence[ProviderConfig]) -> tuple[ProviderConfig, ...]:
    """The providers with the limits of their account, which one of them may state for all."""
    stated = {provider.account: provider.limits for provider in providers if _states_limits(provider)}
    return tuple(
        provider.model_copy(update={"limits": stated.get(provider.account, provider.limits)})
        if provider.account is not None
        else provider
        for provider in providers
    )


def _names(document: Document) -> Iterator[Problem]:
    first: dict[str, int] = {}
    providers = document.find(("providers",))
    for index, provider in enumerate(providers if isinstance(providers, Row) else ()):
        loc: Loc = ("providers", index, "name")
        name = provider.get("name") if isinstance(provider, Table) else None
        if not isinstance(name, Scalar) or broken_reference(name):
            continue
        text = name.expansion.text
        if text in first:
            yield Problem(loc, Rule.REPEATED_NAME.format(found=show(name), first=first[text]))
        first.setdefault(text, document.line(loc))


def _misspelt_regions(draft: Draft) -> Iterator[Problem]:
    for index, provider in draft.providers.items():
        loc: Loc = ("providers", index, "region")
        if not draft.given(*loc) or not draft.sound(*loc) or provider.given_endpoints():
            continue
        if near := near_region(provider.region, provider.known_regions):
            value = draft.document.find(loc)
            hint = near if may_hint(value) else ""
            yield Problem(loc, Rule.MISSPELT_REGION.hinted(hint, found=show(value)))


def _timeouts(draft: Draft) -> Iterator[Problem]:
    """A poll of a bulk collector must have ended before the next one is due."""
    settings = draft.settings
    if settings is None or not draft.sound("global", "poll_timeout"):
        return
    timeout, every = settings.poll_timeout, settings.poll_interval
    limits: dict[Loc, float] = {}
    if draft.sound("global", "poll_interval"):
        limits["global", "poll_interval"] = every
    for index, provider in draft.providers.items():
        for key, collector in provider.bulk_collectors().items():
            loc: Loc = ("providers", index, "collectors", key, "interval")
            if collector.enabled and collector.interval is not None and draft.sound(*loc):
                limits[loc] = collector.interval
    for loc, interval in limits.items():
        if timeout < interval:
            continue
        # Point at what the file says: the interval, or else the timeout that the default interval is too short for.
        if draft.given(*loc):
            given = draft.given("global", "poll_timeout")
            limit = format_duration(timeout) + ("" if given else " by default")
            yield Problem(loc, Rule.INTERVAL_TOO_SHORT.format(found=format_duration(interval), limit=limit))
        else:
            yield Problem(
                ("global", "poll_timeout"),
                Rule.TIMEOUT_TOO_LONG.format(
                    found=format_duration(timeout),
                    other=show_path(loc),
                    limit=f"{format_duration(interval)} by default",
                ),
            )


def _missing_collectors(draft: Draft) -> Iterator[Problem]:
    for index, provider in draft.providers.items():
        for needed, (collector, others) in provider.needed().items():
            waiting = [key for key, other in others.items() if other.enabled]
            loc: Loc = ("providers", index, "collectors", needed, "enabled")
            if not collector.enabled and waiting and draft.sound(*loc):
                yield Problem(loc, Rule.NEEDED_COLLECTOR.format(others=" and ".join(waiting)))


def _plain_http(draft: Draft) -> Iterator[Problem]:
    for index, provider in draft.providers.items():
        if provider.http.allow_plain_http or not draft.sound("providers", index, "http", "allow_plain_http"):
            continue
        for key, url in provider.given_endpoints().items():
            loc: Loc = ("providers", index, "endpoints", key)
            if url.startswith("http://") and not is_loopback(url) and draft.sound(*loc):
                yield Problem(loc, Rule.PLAIN_HTTP.format(found=show(url)))


def _repeated_items(draft: Draft) -> Iterator[Problem]:
    """A workspace that is named twice would be polled twice."""
    for index in draft.providers:
        items = draft.document.find(("providers", index, "workspaces"))
        seen: set[str] = set()
        for position, item in enumerate(items if isinstance(items, Row) else ()):
            loc: Loc = ("providers", index, "workspaces", position)
            if not isinstance(item, Scalar) or not draft.sound(*loc):
                continue
            if item.expansion.text in seen:
                yield Problem(loc, Rule.REPEATED_ITEM.format(found=show(item)))
            seen.add(item.expansion.text)


def _monthly_calls(draft: Draft) -> Iterator[Problem]:
    for index, provider in draft.providers.items():
        loc: Loc = ("providers", index, "limits", "monthly_calls")
        calls = draft.document.find(loc)  # not what validation left of it: a key may be wrong and its value as well
        for api in calls if isinstance(calls, Table) and type(provider) is not ProviderConfig else ():
            if api not in provider.apis:
                yield Problem((*loc, api), unknown_key(api, provider.apis))


def _states_limits(provider: ProviderConfig) -> bool:
    return "limits" in provider.model_fields_set


def _accounts(draft: Draft) -> Iterator[Problem]:
    """Providers of one account state equal limits, or none of them but one."""
    accounts: dict[AccountKey, list[int]] = {}
    for index, provider in draft.providers.items():
        if provider.account is not None and draft.sound("providers", index, "limits"):
            accounts.setdefault(provider.account_key, []).append(index)
    for account, indexes in accounts.items():
        stated = {index: draft.providers[index].limits for index in indexes if _states_limits(draft.providers[index])}
        if len(stated) > 1:
            yield from _limits_of(draft, account, indexes, stated)


def _limits_of(
    draft: Draft, account: AccountKey, indexes: Sequence[int], stated: Mapping[int, Limits]
) -> Iterator[Problem]:
    first = min(stated)
    shown = show(account.name)
    for index in indexes:
        loc: Loc = ("providers", index, "limits")
        if index not in stated:
            yield Problem(loc, Rule.LIMITS_PARTLY.format(count=len(stated), account=shown))
        elif stated[index] != stated[first]:
            other: Loc = ("providers", first, "limits")
            line = draft.document.line(other)
            yield Problem(loc, Rule.LIMITS_DIFFER.format(other=show_path(other), line=line, account=shown))
