"""How polling goes, read from the exporter's own metrics as a scrape would see them, and the last errors in words."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from trainfleet_exporter.telemetry import Telemetry

_STALE_INTERVALS = 3.0
"""A poll that has not ended in so many of its intervals hangs, whatever the latest one said."""
_STALE_SECONDS = 60.0
"""Added to that, because short intervals are allowed to be late by more of their length."""
_GOOD = {"ok", "no_data"}
"""Outcomes of calls that are no failures."""


class LastError(Protocol):
    """What went wrong last (polling.poll.LastError)."""

    @property
    def at(self) -> float: ...
    @property
    def part(self) -> str: ...
    @property
    def text(self) -> str: ...


class State(IntEnum):
    """How a collector or a provider is, the worst first."""

    DOWN = 0
    """No collector's latest poll succeeded (trainfleet_provider_up is 0)."""
    FAILING = 1
    """In the latest poll a part failed, at least."""
    STALE = 2
    """No poll has ended for too long."""
    WAITING = 3
    """The first poll has not ended."""
    OK = 4


@dataclass(slots=True)
class CollectorFigures:
    """One collector. Times are Unix seconds, durations seconds, None what is not known (yet)."""

    collector: str
    success: bool | None = None
    duration: float | None = None
    interval: float = 0.0
    last_success: float | None = None
    oldest_part: float | None = None
    parts: int = 0
    parts_failed: int = 0
    series: int = 0
    error: LastError | None = None

    def state(self, now: float) -> State:
        """How it is at a Unix time."""
        if self.success is None:
            return State.WAITING
        if not self.success:
            return State.FAILING
        late = now - (self.last_success or 0.0) > _STALE_INTERVALS * self.interval + _STALE_SECONDS
        return State.STALE if late else State.OK


@dataclass(slots=True)
class ApiFigures:
    """The calls of one API since the start, as they are billed, and the month's budget of them."""

    api: str
    calls: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    """By outcome."""
    budget: float | None = None
    remaining: float | None = None


@dataclass(slots=True)
class ProviderFigures:
    """One provider, in the order of the config."""

    name: str
    collectors: dict[str, CollectorFigures] = field(default_factory=dict)
    apis: dict[str, ApiFigures] = field(default_factory=dict)
    expires: float | None = None
    """When its credentials end."""

    def state(self, now: float) -> State:
        """As the worst of its collectors."""
        worst = min((found.state(now) for found in self.collectors.values()), default=State.WAITING)
        succeeds = any(found.success for found in self.collectors.values())
        return State.DOWN if worst is State.FAILING and not succeeds else worst

    def lacks_jobs(self, now: float) -> bool:
        """Whether a collector of jobs shows nothing because its polls have not succeeded, or not for too long.

        What others of the provider show of jobs is then not all of it.
        """
        return any(
            found.collector.startswith("job") and not found.parts and found.state(now) is not State.OK
            for found in self.collectors.values()
        )


@dataclass(slots=True)
class Own:
    """The exporter's account of itself."""

    providers: dict[str, ProviderFigures] = field(default_factory=dict)
    started: float | None = None
    reload_failed: bool = False
    config_read: float | None = None


_COLLECTOR = "trainfleet_exporter_collector_"
_API = "trainfleet_exporter_api_"


async def read_own(telemetry: Telemetry, errors: Mapping[tuple[str, str], LastError | None]) -> Own:
    """Read all of it, family by family."""
    own = Own()
    figures: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    calls: list[tuple[str, str, str, int]] = []
    for family in telemetry.registry.collect():
        for sample in family.samples:
            labels = sample.labels
            if sample.name == f"{_API}requests_total":
                calls.append((labels["provider"], labels["api"], labels["outcome"], int(sample.value)))
            else:
                key = labels.get("provider", ""), labels.get("collector", labels.get("api", ""))
                figures[sample.name][key] = sample.value
        await asyncio.sleep(0)
    for name, collector in figures[f"{_COLLECTOR}interval_seconds"]:
        provider = own.providers.setdefault(name, ProviderFigures(name))
        provider.collectors[collector] = _collector(figures, name, collector, errors.get((name, collector)))
    for name, api, outcome, count in calls:
        if name in own.providers:  # counters outlive a provider that is being replaced
            found = own.providers[name].apis.setdefault(api, ApiFigures(api))
            found.calls += count
            if outcome not in _GOOD and count:
                found.failures[outcome] = found.failures.get(outcome, 0) + count
    for (name, api), budget in figures[f"{_API}budget_calls"].items():
        if name in own.providers:  # one that a reload adds meanwhile is on the next page
            found = own.providers[name].apis.setdefault(api, ApiFigures(api))
            found.budget, found.remaining = budget, figures[f"{_API}budget_remaining_calls"].get((name, api))
    for (name, _), expires in figures["trainfleet_exporter_credentials_expiry_timestamp_seconds"].items():
        if name in own.providers:
            own.providers[name].expires = expires
    own.started = figures["process_start_time_seconds"].get(_NOBODY)
    own.reload_failed = figures["trainfleet_exporter_config_last_reload_successful"].get(_NOBODY) == 0
    own.config_read = figures["trainfleet_exporter_config_last_reload_success_timestamp_seconds"].get(_NOBODY)
    return own


_NOBODY = ("", "")
"""The key of what is no provider's."""


def _collector(
    figures: Mapping[str, Mapping[tuple[str, str], float]], provider: str, collector: str, error: LastError | None
) -> CollectorFigures:
    def get(suffix: str) -> float | None:
        return figures.get(_COLLECTOR + suffix, {}).get((provider, collector))

    success = get("success")
    return CollectorFigures(
        collector,
        success=None if success is None else success == 1,
        duration=get("duration_seconds"),
        interval=get("interval_seconds") or 0.0,
        last_success=get("last_success_timestamp_seconds") or None,
        oldest_part=get("oldest_part_timestamp_seconds"),
        parts=int(get("parts") or 0),
        parts_failed=int(get("parts_failed") or 0),
        series=int(get("series") or 0),
        error=error,
    )
