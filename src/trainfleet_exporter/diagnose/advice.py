"""From what was measured to what to change, in words that name the config's own keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainfleet_exporter.diagnose.report import CallsReport, CollectorReport, EndpointReport, MissingRight

_WORRY = 0.5
"""A sweep that needs more than this share of its time fails as soon as the cloud is a little slower."""


def advise(
    *,
    endpoints: Sequence[EndpointReport],
    missing: Sequence[MissingRight],
    collectors: Sequence[CollectorReport],
    calls: Sequence[CallsReport],
    rate: float,
    workspaces: int,
) -> Iterator[str]:
    """What to change, most urgent first. `rate` is limits.requests_per_second; `workspaces` how many are shown."""
    yield from _rights(missing)
    yield from _answers(endpoints)
    if not workspaces and not missing and all(collector.success for collector in collectors):
        yield "no workspace is visible: make the identity a member of those whose jobs it shall see"
    yield from _times(collectors, rate)
    yield from _months(calls)


def _rights(missing: Iterable[MissingRight]) -> Iterator[str]:
    for right in dict.fromkeys(found.right for found in missing):
        yield f"grant the identity {right}"


def _answers(endpoints: Iterable[EndpointReport]) -> Iterator[str]:
    for endpoint in endpoints:
        outcomes = endpoint.outcomes
        if outcomes.get("throttled"):
            yield f"{endpoint.api} throttles: set limits.requests_per_second lower, or intervals longer"
        unreached = outcomes.get("network", 0) + outcomes.get("timeout", 0)
        if unreached and unreached == sum(outcomes.values()):
            yield (
                f"{endpoint.api} cannot be reached at {endpoint.url}: check endpoints.{endpoint.api}, http.proxy_url "
                f"and the way there"
            )


def _times(collectors: Iterable[CollectorReport], rate: float) -> Iterator[str]:
    for collector in collectors:
        name, needs, has = collector.collector, max(collector.needs, collector.seconds), collector.has
        if collector.rolls and needs > has:
            yield (
                f"{name} needs about {needs:.0f} s for a cycle of {has:.0f} s, at {rate:g} requests a second, and will "
                f"stretch it: give it a longer interval or fewer jobs, or raise limits.requests_per_second if the "
                f"cloud allows it"
            )
        elif not collector.rolls and needs > has * _WORRY:
            yield (
                f"{name} needs about {needs:.0f} s of the {has:.0f} s that global.poll_timeout gives it, at {rate:g} "
                f"requests a second: give it a longer interval and all a longer poll_timeout, poll fewer workspaces, "
                f"or raise limits.requests_per_second if the cloud allows it"
            )


def _months(calls: Iterable[CallsReport]) -> Iterator[str]:
    for found in calls:
        if found.budget is not None and found.month > found.budget:
            times = found.month / found.budget
            yield (
                f"{found.api} takes {found.month:,.0f} calls a month of a budget of {found.budget:,}: polls will be "
                f"stretched to about {times:.1f} times their intervals"
            )
        elif found.budget is None and found.free is not None and found.month > found.free / 2:
            yield (
                f"{found.api} takes {found.month:,.0f} calls a month of the {found.free:,} that the whole account has "
                f"free: set limits.monthly_calls: {{{found.api}: N}}, or a longer interval"
            )
