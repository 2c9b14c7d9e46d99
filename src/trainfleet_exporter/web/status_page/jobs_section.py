"""Jobs by status, for each provider and for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainfleet_exporter.model import Status
from trainfleet_exporter.web.status_page.fleet import Fleet
from trainfleet_exporter.web.status_page.markup import Child, Html, element
from trainfleet_exporter.web.status_page.parts import ROWS, Trust, at_least, doubted, hidden, note, section, unknown
from trainfleet_exporter.web.status_page.words import name, several

_TONES = {Status.FAILED: "bad", Status.UNKNOWN: "warn", Status.RUNNING: "good"}


def jobs_section(fleet: Fleet, providers: Sequence[str], trust: Trust) -> Html:
    """The section. `providers` are in the order of the config."""
    return section(
        "jobs",
        "Jobs by status",
        *([hidden("trainfleet_jobs")] if "trainfleet_jobs" in fleet.hidden else _cards(fleet, providers, trust)),
        aside="finished ones of the last 30 days, or as job_window says",
    )


def _cards(fleet: Fleet, providers: Sequence[str], trust: Trust) -> Iterator[Child]:
    if len(providers) > 1 and fleet.jobs:
        together = {status: total_jobs(fleet, status, providers, trust) for status in Status}
        yield _card(f"All {len(providers)} providers together", together, doubted() if trust.doubtful else None)
    for provider in providers[:ROWS]:
        if provider in fleet.jobs:
            cells = {status: total_jobs(fleet, status, [provider], trust) for status in Status}
            yield _card(name(provider), cells, doubted() if provider in trust.doubtful else None)
        else:
            nothing = element("p", unknown(), ": no counts are published now")
            yield element("div", element("h3", name(provider)), nothing, class_="card")
    if len(providers) > ROWS:
        yield note(f"{several(len(providers) - ROWS, 'more provider')}: see the metrics.")
    if fleet.jobs:
        yield note("– is a state that the platform does not have.")


def total_jobs(fleet: Fleet, status: Status, providers: Sequence[str], trust: Trust) -> Child:
    """How many jobs of these providers are in a state; at least, where not all of it is known."""
    total, complete = fleet.total(status, providers)
    if total is None:
        return "–" if complete else unknown()
    return at_least(total, complete=complete and not trust.lacking.intersection(providers))


def _card(title: Child, cells: Mapping[Status, Child], warning: Child = None) -> Html:
    entries = [
        element(
            "div",
            element("dt", status),
            element("dd", cell),
            class_="none" if cell in ("0", "–") else _TONES.get(status),
        )
        for status, cell in cells.items()
    ]
    return element("div", element("h3", title), warning, element("dl", *entries, class_="counts"), class_="card")
