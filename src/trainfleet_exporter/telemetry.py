"""The exporter's own metrics, by prometheus-client, and what the exporter reports about its polls.

Counters and histograms are kept. Gauges of collectors come from a `Standing`: a page brings the one of its moment, so
that they are never newer than its samples and disappear with their collector.

prometheus-client's own writer takes about 5 µs a sample, which delays other scrapes. Here a sample takes about 2 µs.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import prometheus_client as prometheus
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

import trainfleet_exporter
from trainfleet_exporter.exposition.formats import Format, head
from trainfleet_exporter.exposition.text import escape_label
from trainfleet_exporter.lease import Role
from trainfleet_exporter.sharding import WHOLE, Shard

M = TypeVar("M", Counter, Gauge, Histogram)
DROP_REASONS = ("no_data", "stale", "out_of_range", "unlisted", "duplicate", "malformed", "too_long")
REJECT_REASONS = ("tls", "unauthorized", "busy", "invalid")
# Polls answer in tens of milliseconds near the cloud and in seconds across the world.
_LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
_EXPONENT_FROM = 1e6
"""From here on Go, and prometheus-client with it, writes an exponent where Python does not."""


@dataclass(frozen=True, slots=True)
class LastError:
    """The last error, for people. It outlives its poll, because the next one may take minutes."""

    at: float
    """Unix seconds."""
    part: str
    """The part that failed or was left out; empty for the whole collector."""
    text: str
    """One line without secrets."""


@dataclass(slots=True)
class CollectorState:
    """The state of one collector of one provider. Times are Unix seconds, durations seconds."""

    provider: str
    collector: str
    interval: float
    """The effective interval."""
    configured_interval: float = field(init=False)
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
    error: LastError | None = None
    """The last error, also a past one; None if there was none."""

    def __post_init__(self) -> None:
        self.configured_interval = self.interval


_COLLECTOR_GAUGES = {
    "success": "1 if every part of the collector's latest poll succeeded, else 0. Absent before the first poll ends.",
    "duration_seconds": (
        "Duration in seconds of the collector's latest poll or cycle of per-job polls. Absent until one ends."
    ),
    "interval_seconds": ("Current poll interval in seconds: the configured one, or a longer one if limits require it."),
    "configured_interval_seconds": "Configured poll interval in seconds.",
    "last_success_timestamp_seconds": (
        "Unix time in seconds of the latest poll in which every part succeeded; 0 without one."
    ),
    "series": "Series that the collector publishes.",
    "parts": "Parts that the collector publishes, such as workspaces, jobs or metrics.",
    "parts_failed": "Parts whose latest poll failed, including those whose last good values are still published.",
    "oldest_part_timestamp_seconds": (
        "Unix time in seconds at which the oldest published part was polled. Absent if no part is published."
    ),
}
"""By name after the common prefix, HELP. The name without its unit is the field of CollectorState."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the exporter polls at one moment: an immutable value that any thread may read. Times are Unix seconds."""

    started: float = 0.0
    reload_failed: bool = False
    """Whether the latest reading of the config file failed."""
    config_loaded: float = 0.0
    """When the config file was last read with success."""
    states: Sequence[CollectorState] = ()
    """Copies, in the order of the config."""
    budgets: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Calls that the account of a provider may make in 30 days, by provider and API."""
    expiries: Mapping[str, float | None] = field(default_factory=dict)
    """When the credentials of each provider expire; None for those that do not."""
    leads: bool | None = None
    """Whether this exporter holds the lease; None without one."""
    write_errors: Mapping[str, int] = field(default_factory=dict)
    """Failed writes by target."""
    waiting: Sequence[str] = ()
    """The collectors whose first poll has not ended."""
    denied: Sequence[str] = ()
    """`metrics.deny`: globs of families that are not published."""
    config_text: Callable[[], str] = str
    """Writes the config, which is immutable, without its secrets."""
    role: Role = Role.LEADER
    """Whether this exporter polls, another one does, or that is not certain yet."""
    may_take: bool = True
    """Whether this exporter may take the lease when its holder is lost."""
    notice: str = ""
    """A warning for the top of the status page."""
    sealed: dict[Format, bytes] = field(default_factory=dict)
    """The text of the own metrics, once their counters are those of another config (see `Telemetry.seal`)."""


class _Gauges(Collector):
    """The gauges of the collectors' states of now."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        return _gauges(self._standing())


def _gauges(standing: Standing) -> Iterator[Metric]:
    states, up = standing.states, dict[tuple[str], bool]()
    for state in states:
        up[state.provider,] = up.get((state.provider,), False) or bool(state.success)
    text = "1 if the latest poll of at least one collector of the provider succeeded, else 0."
    yield _gauge("trainfleet_provider_up", text, ("provider",), up.items())
    for suffix, text in _COLLECTOR_GAUGES.items():
        attribute = suffix.removesuffix("_seconds").removesuffix("_timestamp")
        values = (((state.provider, state.collector), getattr(state, attribute)) for state in states)
        yield _gauge(f"trainfleet_exporter_collector_{suffix}", text, ("provider", "collector"), values)
    text = "Calls that limits.monthly_calls allows this exporter in 30 days. Providers of one account share them."
    yield _gauge("trainfleet_exporter_api_budget_calls", text, ("provider", "api"), standing.budgets.items())
    text = "Unix time in seconds at which the credentials in use expire. Absent if they do not expire."
    expiries = [((provider,), expires) for provider, expires in standing.expiries.items()]
    yield _gauge("trainfleet_exporter_credentials_expiry_timestamp_seconds", text, ("provider",), expiries)
    if standing.leads is not None:
        text = "1 if this exporter holds the lease and polls, 0 if it is on standby. Absent without --lease."
        yield _gauge("trainfleet_exporter_leader", text, (), [((), standing.leads)])
    text = "Failed writes of the lease, or of the ledger of jobs. A job that the ledger lost counts as one, too."
    writes = CounterMetricFamily("trainfleet_exporter_write_errors", text, labels=("target",))
    for target, errors in standing.write_errors.items():
        writes.add_metric((target,), errors)
    yield writes


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
    """The exporter's own metrics, in a separate registry. Only counters may be counted in any thread."""

    def __init__(self, shard: Shard = WHOLE) -> None:
        # For the whole process, whose metrics are all ours.
        prometheus.disable_created_metrics()
        self._started = time.time()
        self._reload_failed = False
        self._loaded = self._started
        self._states: list[CollectorState] = []
        self._budgets: dict[tuple[str, str], int] = {}
        self._expiries: dict[str, Callable[[], float | None]] = {}
        self._leads: Callable[[], bool] | None = None
        self._write_errors: dict[str, Callable[[], int]] = {}
        self.registry = CollectorRegistry()
        """All of them, with the gauges of now."""
        self.registry.register(_Gauges(self.standing))
        self._kept = registry = CollectorRegistry()
        self.registry.register(registry)

        def own(kind: type[M], name: str, text: str, *labels: str, **options: Any) -> M:
            return kind(f"trainfleet_exporter_{name}", text, labels, registry=registry, **options)

        text = "1 if the latest load of the config file succeeded, 0 if it failed and the old config stays in use."
        self._reload_succeeded = own(Gauge, "config_last_reload_successful", text)
        text = "Unix time in seconds of the latest successful load of the config file."
        self._config_loaded = own(Gauge, "config_last_reload_success_timestamp_seconds", text)
        self.reloaded(success=True)
        own(Gauge, "shard_ordinal", "Number of this shard, counted from 0.").set(shard.ordinal)
        own(Gauge, "total_shards", "Number of shards; 1 if the exporter runs alone.").set(shard.total)
        prometheus.ProcessCollector(registry=registry)
        prometheus.PlatformCollector(registry=registry)
        text = "Version, revision and Python version of the exporter; always 1."
        build = trainfleet_exporter.__version__, trainfleet_exporter.__revision__, platform.python_version()
        own(Gauge, "build_info", text, "version", "revision", "python_version").labels(*build).set(1)
        text = "Attempts to call a cloud API, including retries, by outcome."
        self._requests = own(Counter, "api_requests_total", text, "provider", "api", "operation", "outcome")
        text, buckets = "Duration in seconds of attempts to call a cloud API.", _LATENCY_BUCKETS
        self._latency = own(Histogram, "api_request_duration_seconds", text, "provider", "api", buckets=buckets)
        whose = "provider", "collector", "reason"
        self._errors = own(Counter, "collector_errors_total", "Errors in polls of a collector, by reason.", *whose)
        text = "Readings and objects that the exporter dropped, by reason. too_long also counts shortened label values."
        self._dropped = own(Counter, "dropped_readings_total", text, *whose)
        text = "Connections and requests that the exporter's web server rejected, by reason."
        self._rejected = own(Counter, "http_rejected_total", text, "reason")
        for reason in REJECT_REASONS:
            self._rejected.labels(reason)

    def attempt(self, provider: str, api: str, operation: str, outcome: str, seconds: float) -> None:
        """Count one attempt to call an API, which took `seconds`."""
        self._requests.labels(provider, api, operation, outcome).inc()
        self._latency.labels(provider, api).observe(seconds)

    def watch(self, state: CollectorState) -> None:
        """Show a collector from now on, its drop counters from 0, so that a first drop is seen as an increase."""
        self._states.append(state)
        for reason in DROP_REASONS:
            self._dropped.labels(state.provider, state.collector, reason)

    def unwatch(self, provider: str) -> None:
        """Remove the gauges of a provider. Its counters stay: it may be watched again."""
        for state in self._states:
            state.gone = state.gone or state.provider == provider
        self._states = [state for state in self._states if not state.gone]
        self._expiries.pop(provider, None)
        self._budgets = {key: budget for key, budget in self._budgets.items() if key[0] != provider}

    def forget(self, provider: str, collector: str = "") -> None:
        """Remove the counters of a collector that was deleted, or of a whole provider."""
        labels = {"provider": provider, "collector": collector} if collector else {"provider": provider}
        for metric in (self._errors, self._dropped, *(() if collector else (self._requests, self._latency))):
            metric.remove_by_labels(labels)

    def arrange(self, providers: Sequence[str]) -> None:
        """Show the gauges of the providers in this order."""
        place = {provider: number for number, provider in enumerate(providers)}
        self._states.sort(key=lambda state: place[state.provider])
        self._expiries = dict(sorted(self._expiries.items(), key=lambda item: place[item[0]]))
        self._budgets = dict(sorted(self._budgets.items(), key=lambda item: place[item[0][0]]))

    def reloaded(self, *, success: bool) -> None:
        """Note that the config was read: with success it is in use from now on, else the one before stays."""
        self._reload_failed = not success
        self._reload_succeeded.set(success)
        if success:
            self._loaded = time.time()
            self._config_loaded.set(self._loaded)

    def watch_credentials(self, provider: str, expires: Callable[[], float | None]) -> None:
        """Show when a provider's credentials expire (Unix seconds), while `expires` returns a time."""
        self._expiries[provider] = expires

    def watch_lease(self, leads: Callable[[], bool]) -> None:
        """Show whether this exporter holds the lease."""
        self._leads = leads

    def watch_writes(self, target: str, errors: Callable[[], int]) -> None:
        """Show how many writes of `target` have failed since the start."""
        self._write_errors[target] = errors

    def watch_budget(self, provider: str, api: str, calls: int) -> None:
        """Show how many calls of one API the account of a provider may make in 30 days."""
        self._budgets[provider, api] = calls

    def failed(self, state: CollectorState, reason: str) -> None:
        """Count a failed call or part of a collector. No label names the part: the log and the status page do."""
        if not state.gone:
            self._errors.labels(state.provider, state.collector, reason).inc()

    def dropped(self, state: CollectorState, reason: str, count: int = 1) -> None:
        """Count readings that are not shown; `reason` is one of DROP_REASONS."""
        if not state.gone:
            self._dropped.labels(state.provider, state.collector, reason).inc(count)

    def rejected(self, reason: str) -> None:
        """Count a connection or request that the web server rejected; `reason` is one of REJECT_REASONS."""
        self._rejected.labels(reason).inc()

    def standing(self) -> Standing:
        """Return the collectors' states of now, for a page."""
        return Standing(
            started=self._started,
            reload_failed=self._reload_failed,
            config_loaded=self._loaded,
            states=[copy(state) for state in self._states],
            budgets=dict(self._budgets),
            expiries={provider: expires() for provider, expires in self._expiries.items()},
            leads=None if self._leads is None else self._leads(),
            write_errors={target: errors() for target, errors in self._write_errors.items()},
        )

    def seal(self, standing: Standing) -> None:
        """Keep the text that belongs to a page, because another config is about to change the counters."""
        standing.sealed.update({fmt: self.exposition(fmt, standing) for fmt in Format})

    def calls(self) -> list[tuple[str, str, str, int]]:
        """Return provider, API, outcome and number of the attempts to call an operation, for each that there were."""
        found = [sample for family in self._requests.collect() for sample in family.samples]
        return [(s.labels["provider"], s.labels["api"], s.labels["outcome"], int(s.value)) for s in found]

    def exposition(self, fmt: Format, standing: Standing | None = None) -> bytes:
        """Write the exporter's own metrics as text, without the end of a page.

        `standing` is that of the page which these metrics are sent with. Without it, it is that of now.
        """
        families = chain(_gauges(self.standing() if standing is None else standing), self._kept.collect())
        return "".join([line for family in families for line in _lines(family, fmt)]).encode()


def _lines(family: Metric, fmt: Format) -> Iterator[str]:
    """The lines of a family in one format."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    yield head(name, family.documentation, family.type, fmt).decode()
    for name, labels, value, *_ in family.samples:
        text = repr(float(value)) if -_EXPONENT_FROM < value < _EXPONENT_FROM else floatToGoString(value)
        yield f"{name}{_label_text(labels)} {text}\n"


def _label_text(labels: Mapping[str, str]) -> str:
    """The labels in braces, sorted by name; empty for a series without labels."""
    text = ",".join([f'{name}="{escape_label(labels[name])}"' for name in sorted(labels)])
    return f"{{{text}}}" if text else ""
