"""Advice from the figures of a diagnosis: what to change, by the keys of the config."""

from __future__ import annotations

from collections.abc import Iterator

from trainfleet_exporter.diagnose.report import CallsReport, CollectorReport, EndpointReport, ProviderReport

_WORRY = 0.5
"""Largest share of its time that a bulk collector should need. Above it, a slightly slower cloud makes polls fail."""
_FULL = 0.8
"""Largest share of an API's rate limit that polls should use. Above it, they wait for each other."""
_EXPLAINED = ("auth", "not_ready", "network", "timeout", "throttled", "deadline")
"""Reasons with advice of their own, or of which another problem is usually the cause."""


def advise(report: ProviderReport) -> Iterator[str]:
    """Yield what to change, most urgent first."""
    causes = list(_causes(report))
    yield from causes
    others = [found for found in report.problems if found.reason not in _EXPLAINED]
    for problem in others or ([] if causes else report.problems):
        yield f"check {', '.join(problem.collectors)}: {problem.message}"
    polled = {row.collector: row.success for row in report.collectors}
    if unended := [name for name, success in polled.items() if success is None]:
        yield f"run it again to its end: not known yet are {', '.join(unended)}"
    elif "workspaces" in polled and not report.series.get("trainfleet_workspace_info") and not report.problems:
        yield "no workspace is visible: add the identity to the workspaces"
    for collector in report.collectors:
        yield from _times(collector)
    for calls in report.calls:
        yield from _calls(calls)


def _causes(report: ProviderReport) -> Iterator[str]:
    """Yield what makes several calls fail, each once."""
    yield from dict.fromkeys(f"grant the identity {found.right}" for found in report.missing_rights)
    lacking = {found.operation for found in report.missing_rights}
    refused = [found for found in report.problems if found.reason == "auth" and found.operation not in lacking]
    for message in dict.fromkeys(found.message.removeprefix(f"{found.operation}: ") for found in refused):
        yield f"fix the credentials (from {report.credentials}): {message}"
    for row in report.endpoints:
        if _is_dead(row):
            yield f"cannot reach {row.api} at {row.url}: check endpoints.{row.api}, http.proxy_url and the network"
        if row.outcomes.get("throttled"):
            yield f"{row.api} throttles: lower limits.requests_per_second, or use longer intervals"


def _is_dead(row: EndpointReport) -> bool:
    return bool(row.outcomes) and row.outcomes.keys() <= {"network", "timeout"}


def _times(row: CollectorReport) -> Iterator[str]:
    if row.per_object and row.needs > row.has:
        yield (
            f"{row.collector} needs about {row.needs:.0f} s for a cycle of {row.has:.0f} s, so its cycles take longer: "
            "raise its interval or limits, or poll fewer jobs"
        )
    elif not row.per_object and row.needs > row.has * _WORRY:
        yield (
            f"{row.collector} needs about {row.needs:.0f} s of the {row.has:.0f} s of global.poll_timeout: raise its "
            "interval and poll_timeout, or limits, or poll fewer workspaces"
        )


def _calls(row: CallsReport) -> Iterator[str]:
    if row.minute_of_account > row.minute_limit * _FULL:
        yield (
            f"{row.api} needs {row.minute_of_account:.0f} of the {row.minute_limit:.0f} calls a minute that "
            "limits.requests_per_second allows, so polls wait for each other: use longer intervals, or raise the limit "
            "if the cloud allows it"
        )
    month, more = row.of_account, "at least " if row.at_least else ""
    whose = "" if month == row.month else " (with the other providers of the account)"
    if row.budget is not None and month > row.budget:
        yield (
            f"{row.api} needs {more}{month:,.0f} calls in 30 days{whose}, and limits.monthly_calls is {row.budget:,}: "
            f"the exporter stretches intervals to about {month / row.budget:.1f} times their length"
        )
    elif row.budget is None and row.free is not None and month > row.free / 2:
        yield (
            f"{row.api} needs {more}{month:,.0f} calls a month{whose}, and {row.free:,} are free for the whole "
            f"account: set limits.monthly_calls: {{{row.api}: N}}, or use longer intervals"
        )
