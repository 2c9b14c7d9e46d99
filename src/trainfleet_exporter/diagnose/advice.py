"""Advice from the figures of a diagnosis: what to change, by the keys of the config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainfleet_exporter.diagnose.report import CallsReport, CollectorReport, EndpointReport, Failure, MissingRight

_WORRY = 0.5
"""Largest share of its time that a bulk collector should need. Above it, a slightly slower cloud makes polls fail."""
_FULL = 0.8
"""Largest share of an API's rate limit that polls should use. Above it, they wait for each other."""


def advise(
    *,
    origin: str,
    endpoints: Sequence[EndpointReport],
    missing: Sequence[MissingRight],
    problems: Sequence[Failure],
    collectors: Sequence[CollectorReport],
    calls: Sequence[CallsReport],
    rate: float,
    workspaces: int,
) -> Iterator[str]:
    """Yield what to change, most urgent first.

    `origin` is the source of the credentials, `rate` the allowed requests a second to each API, and `workspaces` the
    number of visible workspaces.
    """
    dead = {row.api: row for row in endpoints if _is_dead(row)}
    for right in dict.fromkeys(found.right for found in missing):
        yield f"grant the identity {right}"
    lacking = {found.operation for found in missing}
    others = [problem for problem in problems if problem.operation not in lacking]
    yield from _refusals(origin, others)
    for api, row in dead.items():
        yield f"cannot reach {api} at {row.url}: check endpoints.{api}, http.proxy_url and the network"
    for row in endpoints:
        if row.outcomes.get("throttled"):
            yield f"{row.api} throttles: lower limits.requests_per_second, or use longer intervals"
    yield from _rest(others, anything_said=bool(missing or dead))
    if workspaces == 0 and not problems:
        yield "no workspace is visible: add the identity to the workspaces"
    yield from _times(collectors, rate)
    yield from _rates(calls)
    yield from _months(calls)


def _is_dead(row: EndpointReport) -> bool:
    unreached = row.outcomes.get("network", 0) + row.outcomes.get("timeout", 0)
    return unreached > 0 and unreached == sum(row.outcomes.values())


def _refusals(origin: str, problems: Sequence[Failure]) -> Iterator[str]:
    """Report each reason why the cloud rejects the credentials, once."""
    said = [problem.message.removeprefix(f"{problem.operation}: ") for problem in problems if problem.reason == "auth"]
    for message in dict.fromkeys(said):  # once for all operations
        if "the clock of this machine is off" in message:
            yield f"set the clock: {message}"
        else:
            yield f"fix the credentials (from {origin}): {message}"


def _rest(problems: Iterable[Failure], *, anything_said: bool) -> Iterator[str]:
    """Report what no other advice explains. Leave out consequences of a problem that is already reported."""
    said = anything_said
    for problem in problems:
        if problem.reason == "auth":
            said = True
        elif problem.reason not in ("not_ready", "network", "timeout", "throttled", "deadline"):
            said = True
            yield f"check {', '.join(problem.collectors)}: {problem.message}"
    if not said:
        for problem in problems:
            if problem.reason != "throttled":
                yield f"check {', '.join(problem.collectors)}: {problem.message}"


def _times(collectors: Iterable[CollectorReport], rate: float) -> Iterator[str]:
    for collector in collectors:
        name, needs, has = collector.collector, collector.needs, collector.has
        limit = "because the cloud responds slowly" if collector.slow_cloud else f"at {rate:g} requests a second"
        faster = "" if collector.slow_cloud else ", or raise limits.requests_per_second if the cloud allows it"
        if collector.per_object and needs > has:
            yield (
                f"{name} needs about {needs:.0f} s for a cycle of {has:.0f} s ({limit}), so its cycles take longer: "
                f"raise its interval, or poll fewer jobs{faster}"
            )
        elif not collector.per_object and needs > has * _WORRY:
            yield (
                f"{name} needs about {needs:.0f} s of the {has:.0f} s of global.poll_timeout ({limit}): raise "
                f"its interval and poll_timeout, or poll fewer workspaces{faster}"
            )


def _rates(calls: Iterable[CallsReport]) -> Iterator[str]:
    for found in calls:
        if found.minute_of_account > found.minute_limit * _FULL:
            yield (
                f"{found.api} needs {found.minute_of_account:.0f} of the {found.minute_limit:.0f} calls a minute that "
                f"limits.requests_per_second allows, so polls wait for each other: use longer intervals, or "
                f"raise the limit if the cloud allows it"
            )


def _months(calls: Iterable[CallsReport]) -> Iterator[str]:
    for found in calls:
        month, more = found.of_account, "at least " if found.at_least else ""
        whose = "" if month == found.month else " (with the other providers of the account)"
        if found.budget is not None and month > found.budget:
            yield (
                f"{found.api} needs {more}{month:,.0f} calls in 30 days{whose}, and limits.monthly_calls is "
                f"{found.budget:,}: the exporter stretches intervals to about {month / found.budget:.1f} times their "
                f"length"
            )
        elif found.budget is None and found.free is not None and month > found.free / 2:
            yield (
                f"{found.api} needs {more}{month:,.0f} calls a month{whose}, and {found.free:,} are free for the whole "
                f"account: set limits.monthly_calls: {{{found.api}: N}}, or use longer intervals"
            )
