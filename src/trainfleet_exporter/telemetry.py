"""What the exporter says about itself.

Counters and durations are tables of our own; the gauges are read from the collectors' own states when a scrape asks, so
that they cannot be older than the truth and vanish with what they describe; or as they were when the page was made that
the scrape is sent, so that they cannot be newer than what they tell of. What the process and Python say of
themselves is left to prometheus-client.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

import prometheus_client as prometheus
from prometheus_client.exposition import generate_latest as text_exposition
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_exposition
from prometheus_client.registry import CollectorRegistry

import trainfleet_exporter
from trainfleet_exporter.own_series import Counts, Durations, Figures, Heading, Table, Values
from trainfleet_exporter.page import Format
from trainfleet_exporter.sharding import WHOLE, Shard

DROP_REASONS = ("no_data", "stale", "out_of_range", "unlisted", "duplicate", "malformed", "too_long")
# Polls answer in tens of milliseconds near the cloud and in seconds across the world.
_LATENCY_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


@dataclass(slots=True)
class CollectorState:
    """What is known of one collector of one provider. Times are Unix seconds, durations seconds."""

    provider: str
    collector: str
    interval: float
    success: bool | None = None
    """Whether every part of the latest poll succeeded; None before the first one ended."""
    duration: float | None = None
    last_success: float = 0.0
    parts: int = 0
    parts_failed: int = 0
    oldest_part: float | None = None
    series: int = 0
    gone: bool = False
    """Whether the collector is no more: what it still tells, being late, is not counted."""


class Standing(NamedTuple):
    """What a collector's state was at one moment, in the same units."""

    provider: str
    collector: str
    interval: float
    success: bool | None
    duration: float | None
    last_success: float
    parts: int
    parts_failed: int
    oldest_part: float | None
    series: int


_standing = attrgetter(*Standing._fields)


class BudgetFigures(Protocol):
    """A month's budget of calls (transport.Budget)."""

    @property
    def calls(self) -> int: ...
    @property
    def remaining(self) -> int: ...


class _States(Table):
    """Gauges made from the collectors' states at the time of the scrape, or from `standings` where they are given."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.shard = shard
        self.guest_of: set[str] = set()
        """The providers of which another shard says whether they are up."""
        self.standings: Sequence[Standing] | None = None
        self.states: list[CollectorState] = []
        self.expiries: dict[str, Callable[[], float | None]] = {}
        self.budgets: dict[tuple[str, str], BudgetFigures] = {}
        self.reload_succeeded = True
        self.config_loaded_at = time.time()

    def families(self) -> Iterator[tuple[Heading, Figures]]:
        standings = self.now() if self.standings is None else self.standings
        homes = (standing for standing in standings if standing.provider not in self.guest_of)
        yield _PROVIDER_UP, _PROVIDER_UP.figures(_provider_up(homes))
        for heading, read in _OF_COLLECTORS:
            values = (((standing.provider, standing.collector), read(standing)) for standing in standings)
            yield heading, heading.figures((labels, value) for labels, value in values if value is not None)
        yield _BUDGET, _BUDGET.figures((key, budget.calls) for key, budget in self.budgets.items())
        yield _BUDGET_REST, _BUDGET_REST.figures((key, budget.remaining) for key, budget in self.budgets.items())
        expiries = (((provider,), expires()) for provider, expires in self.expiries.items())
        yield _EXPIRY, _EXPIRY.figures((labels, moment) for labels, moment in expiries if moment is not None)
        yield _RELOAD_SUCCEEDED, _RELOAD_SUCCEEDED.figures([((), self.reload_succeeded)])
        yield _CONFIG_LOADED, _CONFIG_LOADED.figures([((), self.config_loaded_at)])
        yield _ORDINAL, _ORDINAL.figures([((), self.shard.ordinal)])
        yield _TOTAL, _TOTAL.figures([((), self.shard.total)])

    def now(self) -> list[Standing]:
        """How the collectors stand at this moment."""
        return [Standing._make(_standing(state)) for state in self.states]


def _provider_up(standings: Iterable[Standing]) -> Iterable[tuple[Values, float]]:
    up: dict[Values, float] = {}
    for standing in standings:
        up[standing.provider,] = up.get((standing.provider,), False) or bool(standing.success)
    return up.items()


_Figure = Callable[[Standing], float | None]
"""Reads what is known of a collector; None is not shown."""


def _of_collectors(suffix: str, read: _Figure, text: str) -> tuple[Heading, _Figure]:
    return Heading(f"trainfleet_exporter_collector_{suffix}", text, ("provider", "collector")), read


_PROVIDER_UP = Heading(
    "trainfleet_provider_up",
    "1 when the latest poll of some collector of the provider succeeded, else 0.",
    ("provider",),
)
_OF_COLLECTORS = (
    _of_collectors(
        "success",
        lambda standing: standing.success,
        "1 if every part of the collector's latest poll succeeded, 0 if one failed; absent before the first.",
    ),
    _of_collectors(
        "duration_seconds",
        lambda standing: standing.duration,
        "How long the collector's latest poll (or cycle of per-job polls) took.",
    ),
    _of_collectors(
        "interval_seconds",
        lambda standing: standing.interval,
        "The interval that the collector keeps now: the configured one, or longer where limits stretch it.",
    ),
    _of_collectors(
        "last_success_timestamp_seconds",
        lambda standing: standing.last_success,
        "When the collector last polled with every part succeeding; 0 before the first time.",
    ),
    _of_collectors("series", lambda standing: standing.series, "How many series the collector shows now."),
    _of_collectors(
        "parts", lambda standing: standing.parts, "How many parts (workspaces, pools, jobs) the collector shows now."
    ),
    _of_collectors(
        "parts_failed",
        lambda standing: standing.parts_failed,
        "How many parts failed in their latest poll, whether or not their last good answer is still shown.",
    ),
    _of_collectors(
        "oldest_part_timestamp_seconds",
        lambda standing: standing.oldest_part,
        "When the oldest part that is shown was read; absent while none is.",
    ),
)
_BUDGET = Heading(
    "trainfleet_exporter_api_budget_calls",
    "Calls that limits.monthly_calls allows in a calendar month in UTC+8; providers of one account share them.",
    ("provider", "api"),
)
_BUDGET_REST = Heading(
    "trainfleet_exporter_api_budget_remaining_calls",
    "Calls of the month's budget that are left, which providers of one account share. What was spent before the "
    "exporter knew of it is taken to be the month's elapsed share.",
    ("provider", "api"),
)
_EXPIRY = Heading(
    "trainfleet_exporter_credentials_expiry_timestamp_seconds",
    "When the credentials in use end; absent for those that do not. They are renewed before.",
    ("provider",),
)
_RELOAD_SUCCEEDED = Heading(
    "trainfleet_exporter_config_last_reload_successful",
    "1 if the latest reading of the config file succeeded, 0 if it failed and the config before stays in use.",
)
_CONFIG_LOADED = Heading(
    "trainfleet_exporter_config_last_reload_success_timestamp_seconds",
    "When the config file was last read with success.",
)
_ORDINAL = Heading(
    "trainfleet_exporter_shard_ordinal",
    "Which of several exporters that share the work this one is, counted from 0.",
)
_TOTAL = Heading("trainfleet_exporter_total_shards", "How many exporters share the work; 1 is alone.")
_REQUESTS = Heading(
    "trainfleet_exporter_api_requests_total",
    "Attempts to call a cloud API, as they are billed, by how they ended.",
    ("provider", "api", "operation", "outcome"),
    "counter",
)
_LATENCY = Heading(
    "trainfleet_exporter_api_request_duration_seconds",
    "Duration of attempts to call a cloud API.",
    ("provider", "api"),
    "histogram",
)
_ERRORS = Heading(
    "trainfleet_exporter_collector_errors_total",
    "Failures of a collector's parts, by reason.",
    ("provider", "collector", "reason"),
    "counter",
)
_DROPPED = Heading(
    "trainfleet_exporter_dropped_readings_total",
    "Readings and objects that were not shown, by reason; too_long also counts label values that were cut.",
    ("provider", "collector", "reason"),
    "counter",
)


class _Runtime(CollectorRegistry):
    """What the process and Python say of themselves, by prometheus-client, and which exporter this is."""

    def __init__(self) -> None:
        super().__init__()
        prometheus.ProcessCollector(registry=self)
        prometheus.PlatformCollector(registry=self)
        build = prometheus.Gauge(
            "trainfleet_exporter_build_info",
            "Constant 1, labelled by the exporter's version, revision and Python version.",
            ("version", "revision", "python_version"),
            registry=self,
        )
        version, revision = trainfleet_exporter.__version__, trainfleet_exporter.__revision__
        build.labels(version, revision, platform.python_version()).set(1)

    def text(self, fmt: Format) -> bytes:
        """As lines of an exposition page, without its end."""
        write = openmetrics_exposition if fmt is Format.OPENMETRICS else text_exposition
        page: bytes = write(self)
        return page.removesuffix(fmt.end)


class Telemetry:
    """The exporter's own metrics, in a registry of their own."""

    def __init__(self, shard: Shard = WHOLE) -> None:
        self._states = _States(shard)
        self._requests, self._errors, self._dropped = Counts(_REQUESTS), Counts(_ERRORS), Counts(_DROPPED)
        self._latency = Durations(_LATENCY, _LATENCY_BOUNDS)
        counted = (self._requests, self._latency, self._errors, self._dropped)
        self._parts: tuple[Table | _Runtime, ...] = (self._states, _Runtime(), *counted)
        self.registry = CollectorRegistry()
        for part in self._parts:
            self.registry.register(part)

    def attempt(self, provider: str, *, api: str, operation: str, outcome: str, seconds: float) -> None:
        """Count one attempt to call an API."""
        self._requests.add(provider, api, operation, outcome)
        self._latency.add(provider, api, seconds=seconds)

    def watch(self, state: CollectorState) -> None:
        """Show a collector from now on, its drop counters from 0, so that a first drop is seen as an increase."""
        self._states.states.append(state)
        for reason in DROP_REASONS:
            self._dropped.add(state.provider, state.collector, reason, count=0)

    def unwatch(self, provider: str) -> None:
        """Show no gauge of a provider any more. Its counters stay: it may be watched again."""
        for state in self._states.states:
            state.gone = state.gone or state.provider == provider
        self._states.states = [state for state in self._states.states if not state.gone]
        self._states.expiries.pop(provider, None)
        self._states.budgets = {key: budget for key, budget in self._states.budgets.items() if key[0] != provider}

    def set_guest(self, provider: str, *, is_guest: bool) -> None:
        """Leave it to another shard to say whether a provider is up; or say it."""
        self._states.guest_of.discard(provider)
        if is_guest:
            self._states.guest_of.add(provider)

    def forget_provider(self, provider: str) -> None:
        """Let go of the counters of a provider that is no more."""
        self._states.guest_of.discard(provider)
        for table in (self._requests, self._latency, self._errors, self._dropped):
            table.forget(provider=provider)

    def forget_collector(self, provider: str, collector: str) -> None:
        """Let go of the counters of a collector that a provider has no more."""
        for table in (self._errors, self._dropped):
            table.forget(provider=provider, collector=collector)

    def arrange(self, providers: Sequence[str]) -> None:
        """Show the gauges of the providers in this order."""
        place = {provider: number for number, provider in enumerate(providers)}
        states = self._states
        states.states.sort(key=lambda state: place[state.provider])
        states.expiries = dict(sorted(states.expiries.items(), key=lambda item: place[item[0]]))
        states.budgets = dict(sorted(states.budgets.items(), key=lambda item: place[item[0][0]]))

    def reloaded(self, *, success: bool) -> None:
        """The config was read again: it is in use, or another one is kept because it is not fit for use."""
        self._states.reload_succeeded = success
        if success:
            self._states.config_loaded_at = time.time()

    def watch_credentials(self, provider: str, expires: Callable[[], float | None]) -> None:
        """Show when a provider's credentials end, as long as `expires` tells a time (Unix seconds)."""
        self._states.expiries[provider] = expires

    def watch_budget(self, provider: str, api: str, budget: BudgetFigures) -> None:
        """Show the monthly budget that a provider's calls of one API draw on."""
        self._states.budgets[provider, api] = budget

    def failed(self, state: CollectorState, reason: str) -> None:
        """Count a failure of a collector's part."""
        if state.gone:
            return
        self._errors.add(state.provider, state.collector, reason)

    def dropped(self, state: CollectorState, reason: str, count: int = 1) -> None:
        """Count readings that are not shown; `reason` is one of DROP_REASONS."""
        if state.gone:
            return
        self._dropped.add(state.provider, state.collector, reason, count=count)

    def standings(self) -> Sequence[Standing]:
        """How the collectors stand now, for a page that is sent later (see `exposition`)."""
        return self._states.now()

    def exposition(self, *, openmetrics: bool, standings: Sequence[Standing] | None = None) -> bytes:
        """The exporter's own metrics as text, in OpenMetrics without the closing `# EOF`. `standings`, where they are
        given, are those of the page that this is sent with."""
        fmt = Format.OPENMETRICS if openmetrics else Format.TEXT
        self._states.standings = standings
        try:
            return b"".join(part.text(fmt) for part in self._parts)
        finally:
            self._states.standings = None
