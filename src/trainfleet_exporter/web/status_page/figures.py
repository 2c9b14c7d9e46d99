"""The figures of the status page: jobs and accelerators, how each provider is polled, and whether that is complete."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from trainfleet_exporter.exposition.text import is_too_long
from trainfleet_exporter.model import FINISHED, Job, JobCount, JobTime, JobUsage, ProviderFacts, Readings, Status
from trainfleet_exporter.telemetry import CollectorState, Standing

IDLE_RATIO = 0.05
"""Accelerators whose utilization is below this are idle; the shipped alert rules say the same."""
ROWS = 50
"""How many rows or cards of one kind are shown; there may be any number of providers."""
IDLE_ROWS = 15
"""The number of idle jobs on the page."""

_STALE_INTERVALS = 3.0
"""A collector is stale if no poll has ended for so many of its intervals."""
_STALE_SECONDS = 60.0
"""Added to that: short intervals may be late by more of their length."""
_GOOD_OUTCOMES = frozenset({"ok", "no_data"})
"""Outcomes of calls that are not failures."""
_UTILIZATION = "values.accelerator_utilization"

_JOBS = "trainfleet_jobs"
_JOB_USED = "trainfleet_job_accelerator_utilization_ratio"
_PROVIDER = "trainfleet_provider_info"
_PHASE_SECONDS = "trainfleet_job_phase_seconds"
_HELD_FAMILIES = frozenset({"trainfleet_job_holds_resources", "trainfleet_job_requested_accelerators"})
_FAMILIES = (
    _JOBS,
    *sorted(_HELD_FAMILIES),
    _JOB_USED,
    "trainfleet_job_info",
    "trainfleet_job_status",
    "trainfleet_job_started_timestamp_seconds",
    _PROVIDER,
    _PHASE_SECONDS,
)
"""Families that publish what the page shows. What `metrics.deny` hides there is not on the page either."""


@dataclass(slots=True)
class Held:
    """Accelerators of one kind that jobs of one provider hold; `busy` is the sum of held x utilization."""

    provider: str
    kind: str
    held: float = 0
    idle: float = 0
    unmeasured: float = 0
    busy: float = 0
    unknown: float = 0
    """Requested by jobs that may hold them or not."""

    @property
    def utilization(self) -> float | None:
        """0 to 1, of the accelerators whose utilization is known; None if it is known of none."""
        measured = self.held - self.unmeasured
        return self.busy / measured if measured > 0 else None


@dataclass(frozen=True, slots=True)
class IdleJob:
    """A job that holds accelerators of one kind and does not use them."""

    provider: str
    job: Job
    kind: str
    held: float
    utilization: float

    @property
    def models(self) -> list[str]:
        found = self.job.accelerators
        return list(dict.fromkeys(each.model for each in found if each.kind == self.kind and each.count and each.model))


@dataclass(slots=True)
class Fleet:
    """Jobs and accelerators of all providers, which are named as in the config."""

    jobs: dict[str, Counter[Status]] = field(default_factory=dict)
    """By provider and status."""
    held: list[Held] = field(default_factory=list)
    held_seconds: Counter[str] = field(default_factory=Counter)
    """Accelerator-seconds of the jobs with a history, by phase without `queued`."""
    idle: list[IdleJob] = field(default_factory=list)
    """Those that hold most."""
    idle_jobs: int = 0
    """How many there are."""
    places: dict[str, str] = field(default_factory=dict)
    """Platform and region by provider."""
    hidden: list[str] = field(default_factory=list)
    """Families of the page that `metrics.deny` hides."""

    @property
    def hides_held(self) -> bool:
        return not _HELD_FAMILIES.isdisjoint(self.hidden)

    @property
    def hides_idle(self) -> bool:
        return self.hides_held or _JOB_USED in self.hidden


def read_fleet(parts: Iterable[tuple[str, Sequence[object]]], deny: Sequence[str]) -> Fleet:
    """Make the figures of published objects, given part by part with their provider; `deny` is `metrics.deny`."""
    fleet = Fleet(hidden=[family for family in _FAMILIES if any(fnmatchcase(family, glob) for glob in deny)])
    jobs: list[tuple[str, Job]] = []
    ratios: dict[tuple[str, str, str], float] = {}
    spent: dict[tuple[str, str], JobTime] = {}
    for provider, found in ((provider, found) for provider, objects in parts for found in objects):
        match found:
            case Job():
                jobs.append((provider, found))
            case JobCount() if _JOBS not in fleet.hidden:
                fleet.jobs.setdefault(provider, Counter())[found.status] += found.count
            case JobUsage(job_id=job_id, values=values) if values.accelerator_utilization is not None:
                ratios[provider, job_id, values.accelerator] = values.accelerator_utilization
            case Readings() if found.of is JobUsage and found.field == _UTILIZATION:
                for subject, value in zip(found.subjects, found.values, strict=True):
                    ratios[provider, subject.keys[0], found.accelerator] = value
            case JobTime() if _PHASE_SECONDS not in fleet.hidden:
                spent[provider, found.job_id] = found
            case ProviderFacts() if _PROVIDER not in fleet.hidden:
                fleet.places[provider] = " · ".join(filter(None, (found.platform, found.region)))
    if not fleet.hides_held:
        _count_held(fleet, jobs, {} if fleet.hides_idle else ratios)
        for provider, job in jobs:
            time, cards = spent.get((provider, job.job_id), JobTime("", ())), sum(_by_kind(job).values())
            for each in time.phases:
                fleet.held_seconds[each.phase] += each.seconds * cards  # type: ignore[assignment]
            fleet.held_seconds["preparing"] -= time.unheld * cards  # type: ignore[assignment]
        del fleet.held_seconds["queued"]
    return fleet


def _count_held(fleet: Fleet, jobs: Sequence[tuple[str, Job]], ratios: Mapping[tuple[str, str, str], float]) -> None:
    """Count the accelerators that jobs hold, and which of them are idle. An unknown utilization never counts as 0."""
    held: dict[tuple[str, str], Held] = {}
    idle: dict[tuple[str, str, str], tuple[float, Job]] = {}
    for provider, job in jobs:
        if job.holds_resources is False or is_too_long(job.job_id):
            continue
        for kind, count in _by_kind(job).items():
            place = held.setdefault((provider, kind), Held(provider, kind))
            if job.holds_resources is None:
                place.unknown += count
                continue
            place.held += count
            ratio = ratios.get((provider, job.job_id, kind))
            if ratio is None:
                place.unmeasured += count
                continue
            place.busy += count * ratio
            if ratio < IDLE_RATIO:
                place.idle += count
                idle[provider, job.job_id, kind] = count, job
    fleet.held = list(held.values())
    fleet.idle_jobs = len(idle)
    largest = heapq.nlargest(IDLE_ROWS, idle, key=lambda key: (idle[key][0], -ratios[key]))
    fleet.idle = [IdleJob(key[0], idle[key][1], key[2], idle[key][0], ratios[key]) for key in largest]


def _by_kind(job: Job) -> dict[str, float]:
    counts: dict[str, float] = {}
    for accelerators in job.accelerators:
        if accelerators.count:
            counts[accelerators.kind] = counts.get(accelerators.kind, 0) + accelerators.count
    return counts


class Health(IntEnum):
    """The health of a collector or a provider, the worst first."""

    DOWN = 0
    """No collector's latest poll succeeded (trainfleet_provider_up is 0)."""
    FAILING = 1
    """In the latest poll, at least one part failed."""
    STALE = 2
    """No poll has ended for too long."""
    WAITING = 3
    """The first poll has not ended."""
    OK = 4


@dataclass(frozen=True, slots=True)
class PolledCollector:
    state: CollectorState
    health: Health


@dataclass(slots=True)
class ApiCalls:
    """The billed calls of one API since the start."""

    api: str
    calls: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """By outcome."""


@dataclass(slots=True)
class PolledProvider:
    name: str
    collectors: list[PolledCollector] = field(default_factory=list)
    """The worst first."""
    apis: dict[str, ApiCalls] = field(default_factory=dict)
    expires: float | None = None  # Unix seconds, of its credentials

    def count(self, health: Health) -> int:
        return sum(found.health is health for found in self.collectors)

    @property
    def health(self) -> Health:
        worst = min((found.health for found in self.collectors), default=Health.WAITING)
        succeeds = any(found.state.success for found in self.collectors)
        return Health.DOWN if worst is Health.FAILING and not succeeds else worst

    @property
    def is_new(self) -> bool:
        """Whether no poll of any collector has succeeded yet."""
        return not any(found.state.last_success for found in self.collectors)

    @property
    def lacks_jobs(self) -> bool:
        """Whether a collector of jobs publishes nothing because its polls fail; others may still publish some."""
        return any(
            found.state.collector.startswith("job") and not found.state.parts and found.health is not Health.OK
            for found in self.collectors
        )


def read_providers(
    standing: Standing, calls: Iterable[tuple[str, str, str, int]], now: float
) -> dict[str, PolledProvider]:
    """Return how each provider is polled at a Unix time, in the order of the config. `calls` are `Telemetry.calls`."""
    providers: dict[str, PolledProvider] = {}
    for state in standing.states:
        provider = providers.setdefault(state.provider, PolledProvider(state.provider))
        provider.collectors.append(PolledCollector(state, _health(state, now)))
    for provider in providers.values():
        provider.collectors.sort(key=lambda found: found.health)

    # Counters stay when a provider is removed.
    for name, api, outcome, count in calls:
        if name in providers:
            found = providers[name].apis.setdefault(api, ApiCalls(api))
            found.calls += count
            if outcome not in _GOOD_OUTCOMES and count:
                found.failures[outcome] += count
    for name, expires in standing.expiries.items():
        if name in providers:
            providers[name].expires = expires
    return providers


def _health(state: CollectorState, now: float) -> Health:
    if state.success is None:
        return Health.WAITING
    if not state.success:
        return Health.FAILING
    is_late = now - state.last_success > _STALE_INTERVALS * state.interval + _STALE_SECONDS
    return Health.STALE if is_late else Health.OK


_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="{colour}"/></svg>'
)
_APPEARANCE = {
    Health.DOWN: ("#c62828", "down"),
    Health.FAILING: ("#c62828", "failing"),
    Health.STALE: ("#b26a00", "stale"),
    Health.WAITING: ("#6b7280", "at first poll"),
    Health.OK: ("#2e7d32", ""),
}


class JobTotal(NamedTuple):
    """A number of jobs. `is_complete`: all of it is known. None and complete: the platforms have no such state."""

    value: int | None
    is_complete: bool


class View:
    """The figures of one page. `providers` are in the order of the config; times are Unix seconds."""

    def __init__(self, fleet: Fleet, providers: Mapping[str, PolledProvider], standing: Standing) -> None:
        self.fleet = fleet
        self.providers = providers
        self.names = list(providers)
        self.started = standing.started
        self.reload_failed = standing.reload_failed
        self.config_loaded = standing.config_loaded

        # How polling goes.
        by_health = sorted(providers.values(), key=lambda provider: provider.health)
        self.healths = Counter(provider.health for provider in by_health)
        self.health = by_health[0].health if by_health else Health.WAITING
        self.healthy = self.healths[Health.OK]
        self.icon = _ICON.format(colour=_APPEARANCE[self.health][0])
        self.in_trouble = [provider for provider in by_health[:ROWS] if provider.health < Health.WAITING]
        self.others = [provider for provider in by_health[:ROWS] if provider.health >= Health.WAITING]
        self.rest = Counter(provider.health for provider in by_health[ROWS:])
        collectors = [found.health for provider in by_health for found in provider.collectors]
        self.collectors = len(collectors)
        self.troubled = sum(health < Health.WAITING for health in collectors)
        self.is_all_ok = all(health is Health.OK for health in collectors)

        # How far the figures of jobs can be trusted: some may be old or incomplete.
        holders = {found.provider for found in fleet.held}
        self.doubtful = [name for name, provider in providers.items() if provider.health is not Health.OK]
        self.doubtful_holders = [name for name in self.doubtful if name in holders]
        self.silent = [name for name in self.doubtful if name not in holders]
        # Jobs are lacking where polls fail; a doubtful provider that shows no job at all may have some.
        self.lacking = {name for name, provider in providers.items() if provider.lacks_jobs}
        self.lacking |= set(self.silent) - fleet.jobs.keys()

        # Jobs and accelerators.
        place = {name: number for number, name in enumerate(providers)}
        self.held_rows = sorted(fleet.held, key=lambda found: (place.get(found.provider, len(place)), found.kind))
        kinds = Counter[str]()
        for found in fleet.held:
            kinds[found.kind] += found.held  # type: ignore[assignment]  # a count may be a fraction
        self.held_by_kind = sorted((kind, count) for kind, count in kinds.items() if count)
        self.held = sum(found.held for found in fleet.held)
        self.idle = sum(found.idle for found in fleet.held)
        self.unmeasured = sum(found.unmeasured for found in fleet.held)
        # While no provider works, an empty list means nothing.
        self.is_held_known = (bool(fleet.held) or self.healthy > 0) and not fleet.hides_held
        # 0 is not complete where jobs may hold the accelerators that they request.
        is_zero_sure = self.held > 0 or not any(found.unknown for found in fleet.held)
        self.is_held_complete = not self.lacking and is_zero_sure
        self.is_idle_known = not fleet.hides_idle and not 0 < self.held == self.unmeasured

    def verdict(self, noun: str) -> str:
        """Sum the health up in a few words: without a noun they fit a browser's tab."""
        if not self.providers:
            return "No providers"
        if self.health is Health.OK:
            return "OK"
        return f"{self.healths[self.health]} of {len(self.providers)} {noun}{_APPEARANCE[self.health][1]}"

    def total(self, status: Status, providers: Sequence[str] | None = None) -> JobTotal:
        """Return the number of jobs of these providers, or of all of them, in a state."""
        chosen = self.names if providers is None else providers
        counts = [self.fleet.jobs.get(provider, Counter[Status]()) for provider in chosen]
        known = [found[status] for found in counts if status in found]
        # A provider that counts any live state (or any finished one) counts all of them that its platform has.
        is_complete = all(
            any((other in FINISHED) == (status in FINISHED) for other in found)
            for found in counts
            if status not in found
        )
        if not known:
            return JobTotal(None, is_complete)
        return JobTotal(sum(known), is_complete and self.lacking.isdisjoint(chosen))
