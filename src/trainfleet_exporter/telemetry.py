"""What the exporter says about itself.

prometheus-client keeps the counters and the histogram; the gauges are read from the collectors' own states when a
scrape asks, so that they cannot be older than the truth and vanish with what they describe.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import prometheus_client as prometheus
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest as text_exposition
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_exposition
from prometheus_client.registry import Collector, CollectorRegistry

import trainfleet_exporter

# `_created` samples would double the number of counters for a time that process_start_time_seconds already tells.
prometheus.disable_created_metrics()

DROP_REASONS = ("no_data", "stale", "out_of_range", "unlisted", "duplicate", "malformed")
# Polls answer in tens of milliseconds near the cloud and in seconds across the world.
_LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


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


class BudgetFigures(Protocol):
    """A month's budget of calls (transport.Budget)."""

    @property
    def calls(self) -> int: ...
    @property
    def remaining(self) -> int: ...


class _States(Collector):
    """Gauges made from the collectors' states at the time of the scrape."""

    def __init__(self) -> None:
        self.states: list[CollectorState] = []
        self.expiries: dict[str, Callable[[], float | None]] = {}
        self.budgets: dict[tuple[str, str], BudgetFigures] = {}
        self.reload_succeeded = True
        self.config_loaded_at = time.time()

    def collect(self) -> Iterator[Metric]:
        yield self._provider_up()
        name = "trainfleet_exporter_collector_"
        yield self._gauge(
            name + "success",
            "1 if every part of the collector's latest poll succeeded, 0 if one failed; absent before the first.",
            ((s, None if s.success is None else float(s.success)) for s in self.states),
        )
        yield self._gauge(
            name + "duration_seconds",
            "How long the collector's latest poll (or cycle of per-job polls) took.",
            ((s, s.duration) for s in self.states),
        )
        yield self._gauge(
            name + "interval_seconds",
            "The interval that the collector keeps now: the configured one, or longer where limits stretch it.",
            ((s, s.interval) for s in self.states),
        )
        yield self._gauge(
            name + "last_success_timestamp_seconds",
            "When the collector last polled with every part succeeding; 0 before the first time.",
            ((s, s.last_success) for s in self.states),
        )
        yield self._gauge(
            name + "series",
            "How many series the collector shows now.",
            ((s, s.series) for s in self.states),
        )
        yield self._gauge(
            name + "parts",
            "How many parts (workspaces, pools, jobs) the collector shows now.",
            ((s, s.parts) for s in self.states),
        )
        yield self._gauge(
            name + "parts_failed",
            "How many parts failed in their latest poll, whether or not their last good answer is still shown.",
            ((s, s.parts_failed) for s in self.states),
        )
        yield self._gauge(
            name + "oldest_part_timestamp_seconds",
            "When the oldest part that is shown was read; absent while none is.",
            ((s, s.oldest_part) for s in self.states),
        )
        yield from self._budgets()
        yield self._expiry()
        yield GaugeMetricFamily(
            "trainfleet_exporter_config_last_reload_successful",
            "1 if the latest reading of the config file succeeded, 0 if it failed and the config before stays in use.",
            value=float(self.reload_succeeded),
        )
        yield GaugeMetricFamily(
            "trainfleet_exporter_config_last_reload_success_timestamp_seconds",
            "When the config file was last read with success.",
            value=self.config_loaded_at,
        )

    def _gauge(self, name: str, text: str, values: Iterable[tuple[CollectorState, float | None]]) -> Metric:
        gauge = GaugeMetricFamily(name, text, labels=("provider", "collector"))
        for state, value in values:
            if value is not None:
                gauge.add_metric((state.provider, state.collector), value)
        return gauge

    def _expiry(self) -> Metric:
        gauge = GaugeMetricFamily(
            "trainfleet_exporter_credentials_expiry_timestamp_seconds",
            "When the credentials in use end; absent for those that do not. They are renewed before.",
            labels=("provider",),
        )
        for provider, expires in self.expiries.items():
            if (moment := expires()) is not None:
                gauge.add_metric((provider,), moment)
        return gauge

    def _budgets(self) -> Iterator[Metric]:
        labels = ("provider", "api")
        whole = GaugeMetricFamily(
            "trainfleet_exporter_api_budget_calls",
            "Calls that limits.monthly_calls allows in a calendar month in UTC+8; providers of one account share them.",
            labels=labels,
        )
        rest = GaugeMetricFamily(
            "trainfleet_exporter_api_budget_remaining_calls",
            "Calls of the month's budget that are left, which providers of one account share. What was spent before "
            "the exporter knew of it is taken to be the month's elapsed share.",
            labels=labels,
        )
        for key, budget in self.budgets.items():
            whole.add_metric(key, budget.calls)
            rest.add_metric(key, budget.remaining)
        yield whole
        yield rest

    def _provider_up(self) -> Metric:
        gauge = GaugeMetricFamily(
            "trainfleet_provider_up",
            "1 when the latest poll of some collector of the provider succeeded, else 0.",
            labels=("provider",),
        )
        for provider in dict.fromkeys(state.provider for state in self.states):
            up = any(state.success for state in self.states if state.provider == provider)
            gauge.add_metric((provider,), float(up))
        return gauge


class Telemetry:
    """The exporter's own metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._states = _States()
        self.registry.register(self._states)
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.PlatformCollector(registry=self.registry)
        build = prometheus.Gauge(
            "trainfleet_exporter_build_info",
            "Constant 1, labelled by the exporter's version, revision and Python version.",
            ("version", "revision", "python_version"),
            registry=self.registry,
        )
        build.labels(trainfleet_exporter.__version__, trainfleet_exporter.__revision__, platform.python_version()).set(
            1
        )
        self._requests = prometheus.Counter(
            "trainfleet_exporter_api_requests_total",
            "Attempts to call a cloud API, as they are billed, by how they ended.",
            ("provider", "api", "operation", "outcome"),
            registry=self.registry,
        )
        self._latency = prometheus.Histogram(
            "trainfleet_exporter_api_request_duration_seconds",
            "Duration of attempts to call a cloud API.",
            ("provider", "api"),
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._errors = prometheus.Counter(
            "trainfleet_exporter_collector_errors_total",
            "Failures of a collector's parts, by reason.",
            ("provider", "collector", "reason"),
            registry=self.registry,
        )
        self._dropped = prometheus.Counter(
            "trainfleet_exporter_dropped_readings_total",
            "Readings and objects that were not shown, by reason.",
            ("provider", "collector", "reason"),
            registry=self.registry,
        )

    def attempt(self, provider: str, *, api: str, operation: str, outcome: str, seconds: float) -> None:
        """Count one attempt to call an API."""
        self._requests.labels(provider, api, operation, outcome).inc()
        self._latency.labels(provider, api).observe(seconds)

    def watch(self, state: CollectorState) -> None:
        """Show a collector from now on, its drop counters from 0, so that a first drop is seen as an increase."""
        self._states.states.append(state)
        for reason in DROP_REASONS:
            self._dropped.labels(state.provider, state.collector, reason)

    def unwatch(self, provider: str) -> None:
        """Show no gauge of a provider any more. Its counters stay: it may be watched again."""
        for state in self._states.states:
            state.gone = state.gone or state.provider == provider
        self._states.states = [state for state in self._states.states if not state.gone]
        self._states.expiries.pop(provider, None)
        self._states.budgets = {key: budget for key, budget in self._states.budgets.items() if key[0] != provider}

    def forget_provider(self, provider: str) -> None:
        """Let go of the counters of a provider that is no more."""
        for counter in (self._requests, self._latency, self._errors, self._dropped):
            counter.remove_by_labels({"provider": provider})

    def forget_collector(self, provider: str, collector: str) -> None:
        """Let go of the counters of a collector that a provider has no more."""
        for counter in (self._errors, self._dropped):
            counter.remove_by_labels({"provider": provider, "collector": collector})

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
        self._errors.labels(state.provider, state.collector, reason).inc()

    def dropped(self, state: CollectorState, reason: str, count: int = 1) -> None:
        """Count readings that are not shown; `reason` is one of DROP_REASONS."""
        if state.gone:
            return
        self._dropped.labels(state.provider, state.collector, reason).inc(count)

    def exposition(self, *, openmetrics: bool) -> bytes:
        """The exporter's own metrics as text, in OpenMetrics without the closing `# EOF`."""
        if not openmetrics:
            return text_exposition(self.registry)
        text: bytes = openmetrics_exposition(self.registry)
        return text.removesuffix(b"# EOF\n")
