"""The exporter's own metrics, by prometheus-client.

Counters and histograms are kept; gauges are read from the collectors' states at each scrape, so that they are never
older than the state and disappear with their collector. A page that was built earlier brings the states of that moment
(see `Telemetry.exposition`), so that the gauges are never newer than its samples.

prometheus-client's own writer takes about 5 µs a sample and so holds the event loop for 30 ms at each scrape of
20 providers. Here the text of a series up to its value is made once, and a sample takes about 1 µs.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Self, cast

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, Sample
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

import trainfleet_exporter
from trainfleet_exporter.page.formats import Format, head
from trainfleet_exporter.page.text import escape_label
from trainfleet_exporter.sharding import WHOLE, Shard

DROP_REASONS = ("no_data", "stale", "out_of_range", "unlisted", "duplicate", "malformed", "too_long")
# Polls answer in tens of milliseconds near the cloud and in seconds across the world.
_LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
_EXPONENT_FROM = 1e6
"""From here on Go, and prometheus-client with it, writes an exponent where Python does not."""


@dataclass(slots=True)
class CollectorState:
    """The state of one collector of one provider. Times are Unix seconds, durations seconds."""

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
    """Whether the collector was removed: failures and drops of a poll that ends later are not counted."""


_COLLECTOR_GAUGES = (
    (
        "success",
        "success",
        "1 if every part of the collector's latest poll succeeded, else 0. Absent before the first poll ends.",
    ),
    (
        "duration_seconds",
        "duration",
        "Duration in seconds of the collector's latest poll or cycle of per-job polls. Absent until one ends.",
    ),
    (
        "interval_seconds",
        "interval",
        "Current poll interval in seconds: the configured one, or a longer one if limits require it.",
    ),
    (
        "last_success_timestamp_seconds",
        "last_success",
        "Unix time in seconds of the latest poll in which every part succeeded; 0 without one.",
    ),
    ("series", "series", "Series that the collector publishes."),
    ("parts", "parts", "Parts that the collector publishes, such as workspaces, jobs or metrics."),
    (
        "parts_failed",
        "parts_failed",
        "Parts whose latest poll failed, including those whose last good values are still published.",
    ),
    (
        "oldest_part_timestamp_seconds",
        "oldest_part",
        "Unix time in seconds at which the oldest published part was polled. Absent if no part is published.",
    ),
)
"""Name after the common prefix, field of CollectorState (None has no sample), HELP."""


class _StateGauges(Collector):
    """Gauges read at each scrape: from the collectors' states, or from `standings` while they are set."""

    def __init__(self) -> None:
        self.states: list[CollectorState] = []
        self.standings: Sequence[CollectorState] | None = None
        self.budgets: dict[tuple[str, str], int] = {}
        self.expiries: dict[str, Callable[[], float | None]] = {}
        self.leads: Callable[[], bool] | None = None
        self.write_errors: dict[str, Callable[[], int]] = {}

    def collect(self) -> Iterator[Metric]:
        states = self.states if self.standings is None else self.standings
        yield _gauge(
            "trainfleet_provider_up",
            "1 if the latest poll of at least one collector of the provider succeeded, else 0.",
            ("provider",),
            self._providers_up(states).items(),
        )
        for suffix, field, text in _COLLECTOR_GAUGES:
            values = (((state.provider, state.collector), getattr(state, field)) for state in states)
            yield _gauge(f"trainfleet_exporter_collector_{suffix}", text, ("provider", "collector"), values)
        yield _gauge(
            "trainfleet_exporter_api_budget_calls",
            "Calls that limits.monthly_calls allows this exporter in 30 days. Providers of one account share them.",
            ("provider", "api"),
            self.budgets.items(),
        )
        yield _gauge(
            "trainfleet_exporter_credentials_expiry_timestamp_seconds",
            "Unix time in seconds at which the credentials in use expire. Absent if they do not expire.",
            ("provider",),
            (((provider,), expires()) for provider, expires in self.expiries.items()),
        )
        if self.leads is not None:
            text = "1 if this exporter holds the lease and polls, 0 if it is on standby. Absent without --lease."
            yield _gauge("trainfleet_exporter_leader", text, (), [((), self.leads())])
        text = "Failed writes of the lease, or of the ledger of jobs. A job that the ledger lost counts as one, too."
        writes = CounterMetricFamily("trainfleet_exporter_write_errors", text, labels=("target",))
        for target, errors in self.write_errors.items():
            writes.add_metric((target,), errors())
        yield writes

    def _providers_up(self, states: Iterable[CollectorState]) -> Mapping[tuple[str], bool]:
        up: dict[tuple[str], bool] = {}
        for state in states:
            up[state.provider,] = up.get((state.provider,), False) or bool(state.success)
        return up


def _gauge(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float | None]]
) -> GaugeMetricFamily:
    """A family of the values that are known."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for label_values, value in values:
        if value is not None:
            family.add_metric(label_values, value)
    return family


class Telemetry:
    """The exporter's own metrics, in a separate registry."""

    def __init__(self, shard: Shard = WHOLE) -> None:
        self.started = time.time()
        """Unix seconds."""
        self.reload_failed = False
        """Whether the latest reading of the config file failed."""
        self.config_loaded = self.started
        """When the config file was last read with success, in Unix seconds."""
        gauges = CollectorRegistry()
        self._states = _StateGauges()
        gauges.register(self._states)
        self._reload_succeeded = prometheus.Gauge(
            "trainfleet_exporter_config_last_reload_successful",
            "1 if the latest load of the config file succeeded, 0 if it failed and the old config stays in use.",
            registry=gauges,
        )
        self._config_loaded = prometheus.Gauge(
            "trainfleet_exporter_config_last_reload_success_timestamp_seconds",
            "Unix time in seconds of the latest successful load of the config file.",
            registry=gauges,
        )
        self.reloaded(success=True)
        prometheus.Gauge(
            "trainfleet_exporter_shard_ordinal",
            "Number of this shard, counted from 0.",
            registry=gauges,
        ).set(shard.ordinal)
        prometheus.Gauge(
            "trainfleet_exporter_total_shards", "Number of shards; 1 if the exporter runs alone.", registry=gauges
        ).set(shard.total)
        prometheus.ProcessCollector(registry=gauges)
        prometheus.PlatformCollector(registry=gauges)
        prometheus.Gauge(
            "trainfleet_exporter_build_info",
            "Version, revision and Python version of the exporter; always 1.",
            ("version", "revision", "python_version"),
            registry=gauges,
        ).labels(trainfleet_exporter.__version__, trainfleet_exporter.__revision__, platform.python_version()).set(1)
        self.registry = CollectorRegistry()
        self.registry.register(gauges)
        self._requests = Counter(
            "trainfleet_exporter_api_requests_total",
            "Attempts to call a cloud API, including retries, by outcome.",
            ("provider", "api", "operation", "outcome"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "trainfleet_exporter_api_request_duration_seconds",
            "Duration in seconds of attempts to call a cloud API.",
            ("provider", "api"),
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._errors = Counter(
            "trainfleet_exporter_collector_errors_total",
            "Errors in polls of a collector, by reason.",
            ("provider", "collector", "reason"),
            registry=self.registry,
        )
        self._dropped = Counter(
            "trainfleet_exporter_dropped_readings_total",
            "Readings and objects that the exporter dropped, by reason. too_long also counts shortened label values.",
            ("provider", "collector", "reason"),
            registry=self.registry,
        )
        self._parts = (gauges, self._requests, self._latency, self._errors, self._dropped)

    def attempt(self, provider: str, *, api: str, operation: str, outcome: str, seconds: float) -> None:
        """Count one attempt to call an API, which took `seconds`."""
        self._requests.labels(provider, api, operation, outcome).inc()
        self._latency.labels(provider, api).observe(seconds)

    def watch(self, state: CollectorState) -> None:
        """Show a collector from now on, its drop counters from 0, so that a first drop is seen as an increase."""
        self._states.states.append(state)
        for reason in DROP_REASONS:
            self._dropped.labels(state.provider, state.collector, reason)

    def unwatch(self, provider: str) -> None:
        """Remove the gauges of a provider. Its counters stay: it may be watched again."""
        states = self._states
        for state in states.states:
            state.gone = state.gone or state.provider == provider
        states.states = [state for state in states.states if not state.gone]
        states.expiries.pop(provider, None)
        states.budgets = {key: budget for key, budget in states.budgets.items() if key[0] != provider}
        forget_label_texts()

    def forget_provider(self, provider: str) -> None:
        """Remove the counters of a provider that was deleted."""
        for metric in (self._requests, self._latency, self._errors, self._dropped):
            metric.remove_by_labels({"provider": provider})

    def forget_collector(self, provider: str, collector: str) -> None:
        """Remove the counters of a collector that was deleted."""
        for metric in (self._errors, self._dropped):
            metric.remove_by_labels({"provider": provider, "collector": collector})

    def arrange(self, providers: Sequence[str]) -> None:
        """Show the gauges of the providers in this order."""
        place = {provider: number for number, provider in enumerate(providers)}
        states = self._states
        states.states.sort(key=lambda state: place[state.provider])
        states.expiries = dict(sorted(states.expiries.items(), key=lambda item: place[item[0]]))
        states.budgets = dict(sorted(states.budgets.items(), key=lambda item: place[item[0][0]]))

    def reloaded(self, *, success: bool) -> None:
        """Note that the config was read: with success it is in use from now on, else the one before stays."""
        self.reload_failed = not success
        self._reload_succeeded.set(success)
        if success:
            self.config_loaded = time.time()
            self._config_loaded.set(self.config_loaded)

    def watch_credentials(self, provider: str, expires: Callable[[], float | None]) -> None:
        """Show when a provider's credentials expire (Unix seconds), while `expires` returns a time."""
        self._states.expiries[provider] = expires

    def watch_lease(self, leads: Callable[[], bool]) -> None:
        """Show whether this exporter holds the lease."""
        self._states.leads = leads

    def watch_writes(self, target: str, errors: Callable[[], int]) -> None:
        """Show how many writes of `target` have failed since the start."""
        self._states.write_errors[target] = errors

    def watch_budget(self, provider: str, api: str, calls: int) -> None:
        """Show how many calls of one API the account of a provider may make in 30 days."""
        self._states.budgets[provider, api] = calls

    def failed(self, state: CollectorState, reason: str) -> None:
        """Count a failure of a collector's part."""
        if not state.gone:
            self._errors.labels(state.provider, state.collector, reason).inc()

    def dropped(self, state: CollectorState, reason: str, count: int = 1) -> None:
        """Count readings that are not shown; `reason` is one of DROP_REASONS."""
        if not state.gone:
            self._dropped.labels(state.provider, state.collector, reason).inc(count)

    def standings(self) -> Sequence[CollectorState]:
        """Copy the collectors' states of now, for a page that is sent later (see `exposition`)."""
        return [copy(state) for state in self._states.states]

    def calls(self) -> list[tuple[str, str, str, int]]:
        """Return provider, API, outcome and number of the attempts to call an operation, for each that there were."""
        return [(provider, api, outcome, int(count)) for (provider, api, _, outcome), count in self._requests.counts()]

    def credential_expiries(self) -> dict[str, float | None]:
        """Return when the credentials of each provider expire, in Unix seconds; None for those that do not."""
        return {provider: expires() for provider, expires in self._states.expiries.items()}

    def exposition(self, *, openmetrics: bool, standings: Sequence[CollectorState] | None = None) -> bytes:
        """Write the exporter's own metrics as text, in OpenMetrics without the closing `# EOF`.

        `standings` are the states of the moment at which the page was built that these metrics are sent with.
        """
        self._states.standings = standings
        try:
            return write(self._parts, Format.OPENMETRICS if openmetrics else Format.TEXT)
        finally:
            self._states.standings = None


class _Instrument(MetricWrapperBase):
    """A metric with labels that can write its sample lines. It has no `_created` series."""

    def _metric_init(self) -> None:
        super()._metric_init()  # type: ignore[no-untyped-call]
        labels = tuple(zip(self._labelnames, self._labelvalues, strict=True))
        self._starts = [
            f"{self._name}{sample.name}{_label_text((*labels, *sample.labels.items()))} "
            for sample in self._child_samples()
        ]
        """The line of each sample up to its value."""

    def _child_samples(self) -> Iterable[Sample]:
        # prometheus-client can leave `_created` out only for the whole process, whose other metrics are not ours.
        return [sample for sample in super()._child_samples() if sample.name != "_created"]

    def _values(self) -> Iterable[float]:
        """The values of the samples, in their order."""
        raise NotImplementedError

    def lines(self) -> Iterator[str]:
        """The sample lines of all children, in the order in which they were created."""
        children = cast("Mapping[Sequence[str], Self]", self._metrics)
        for child in children.values():
            yield from map(_line, child._starts, child._values())


class Counter(_Instrument, prometheus.Counter):
    """A counter with labels."""

    def _values(self) -> Iterable[float]:
        return (self._value.get(),)

    def counts(self) -> list[tuple[Sequence[str], float]]:
        """Return the label values and the count of each child, in the order in which they were created."""
        children = cast("Mapping[Sequence[str], Self]", self._metrics)
        return [(labels, child._value.get()) for labels, child in children.items()]


class Histogram(_Instrument, prometheus.Histogram):
    """A histogram with labels."""

    def _values(self) -> Iterable[float]:
        counts = list(accumulate(bucket.get() for bucket in self._buckets))
        return *counts, counts[-1], self._sum.get()


class _Heading(NamedTuple):
    """A family as its HELP and TYPE lines show it: a counter's name ends in `_total`."""

    name: str
    help: str
    kind: str


def write(collectors: Iterable[Collector], fmt: Format) -> bytes:
    """Write the families of the collectors as lines of a page, without the page's end."""
    lines: list[str] = []
    for collector in collectors:
        if isinstance(collector, _Instrument):
            lines.extend(_head(family, fmt) for family in collector.describe())
            lines.extend(collector.lines())
            continue
        for family in collector.collect():
            lines.append(_head(family, fmt))
            for name, labels, value, *_ in family.samples:
                lines.append(_line(f"{name}{_cached_label_text(tuple(labels.items()))} ", float(value)))
    return "".join(lines).encode()


def forget_label_texts() -> None:
    """Free the label texts of series that are not shown any more."""
    _cached_label_text.cache_clear()


def _head(family: Metric, fmt: Format) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return head(_Heading(name, family.documentation, family.type), fmt).decode()


def _line(start: str, value: float) -> str:
    return f"{start}{value!r}\n" if -_EXPONENT_FROM < value < _EXPONENT_FROM else f"{start}{floatToGoString(value)}\n"


def _label_text(labels: Iterable[tuple[str, str]]) -> str:
    """The labels in braces, sorted by name; empty for a series without labels."""
    text = ",".join(f'{name}="{escape_label(value)}"' for name, value in sorted(labels))
    return f"{{{text}}}" if text else ""


_cached_label_text = lru_cache(maxsize=4096)(_label_text)
