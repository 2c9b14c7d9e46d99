"""The figures of the status page: jobs and accelerators, made of model objects, and how each provider is polled."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from trainfleet_exporter.model import FINISHED, HeldTime, Job, JobCount, JobUsage, ProviderFacts, Readings, Status
from trainfleet_exporter.page.text import is_too_long
from trainfleet_exporter.polling.poll import LastError
from trainfleet_exporter.process.yielding import yield_to_loop
from trainfleet_exporter.telemetry import CollectorState, Telemetry

IDLE_RATIO = 0.05
"""Accelerators whose utilization is below this are idle; the shipped alert rules say the same."""
IDLE_ROWS = 15
"""The number of idle jobs on the page."""

_OBJECTS_PER_SLICE = 500
"""Objects that are read, in a millisecond at most, before other tasks of the event loop run."""
_STALE_INTERVALS = 3.0
"""A collector is stale if no poll has ended for so many of its intervals."""
_STALE_SECONDS = 60.0
"""Added to that: short intervals may be late by more of their length."""
_GOOD_OUTCOMES = frozenset({"ok", "no_data"})
"""Outcomes of calls that are not failures."""
_UTILIZATION = "values.accelerator_utilization"

_JOBS = "trainfleet_jobs"
_JOB_HOLDS = "trainfleet_job_holds_resources"
_JOB_REQUESTED = "trainfleet_job_requested_accelerators"
_JOB_USED = "trainfleet_job_accelerator_utilization_ratio"
_JOB_INFO = "trainfleet_job_info"
_JOB_STATUS = "trainfleet_job_status"
_STARTED = "trainfleet_job_started_timestamp_seconds"
_PROVIDER = "trainfleet_provider_info"
_PHASE_SECONDS = "trainfleet_job_phase_seconds"
_FAMILIES = (_JOBS, _JOB_HOLDS, _JOB_REQUESTED, _JOB_USED, _JOB_INFO, _JOB_STATUS, _STARTED, _PROVIDER, _PHASE_SECONDS)
"""Families that publish what the page shows. What `metrics.deny` hides there is not on the page either."""

T = TypeVar("T")


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


@dataclass(slots=True)
class IdleJob:
    """A job that holds accelerators of one kind and does not use them. Empty texts and None are not known."""

    provider: str
    job_id: str
    kind: str
    held: float
    utilization: float
    models: list[str]
    name: str
    user: str
    pool_id: str
    status: str
    started: float | None


@dataclass(frozen=True, slots=True)
class JobTotal:
    """A number of jobs. `is_complete`: all of it is known. None and complete: the platforms have no such state."""

    value: int | None
    is_complete: bool


@dataclass(slots=True)
class Fleet:
    """Jobs and accelerators of all providers, which are named as in the config."""

    jobs: dict[str, Counter[Status]] = field(default_factory=dict)
    """By provider and status."""
    held: list[Held] = field(default_factory=list)
    held_times: list[HeldTime] = field(default_factory=list)
    """One for each provider with jobs that are known to have held accelerators in the last 24 hours."""
    idle: list[IdleJob] = field(default_factory=list)
    """Those that hold most."""
    idle_jobs: int = 0
    """How many there are."""
    places: dict[str, str] = field(default_factory=dict)
    """Platform and region by provider."""
    hidden: list[str] = field(default_factory=list)
    """Families of the page that `metrics.deny` hides."""

    def total(self, status: Status, providers: Collection[str], lacking: frozenset[str]) -> JobTotal:
        """Return the number of jobs of these providers in a state. `lacking` are providers that do not show all of
        their jobs."""
        counts = [self.jobs.get(provider, Counter[Status]()) for provider in providers]
        known = [found[status] for found in counts if status in found]
        # A provider that counts any live state (or any finished one) counts all of them that its platform has.
        is_complete = all(
            any((other in FINISHED) == (status in FINISHED) for other in found)
            for found in counts
            if status not in found
        )
        if not known:
            return JobTotal(None, is_complete)
        return JobTotal(sum(known), is_complete and lacking.isdisjoint(providers))

    @property
    def hides_held(self) -> bool:
        """Whether held accelerators are hidden."""
        return _JOB_HOLDS in self.hidden or _JOB_REQUESTED in self.hidden

    @property
    def hides_idle(self) -> bool:
        """Whether idle accelerators are hidden."""
        return self.hides_held or _JOB_USED in self.hidden

    @property
    def hides_jobs(self) -> bool:
        """Whether the numbers of jobs are hidden."""
        return _JOBS in self.hidden


async def read_fleet(parts: Iterable[tuple[str, Sequence[object]]], deny: Sequence[str]) -> Fleet:
    """Make the figures of published objects, given part by part with their provider; `deny` is `metrics.deny`.

    Takes about 15 ms for 5,000 jobs, and yields to the event loop each millisecond.
    """
    fleet = Fleet(hidden=[family for family in _FAMILIES if any(fnmatchcase(family, glob) for glob in deny)])
    jobs: list[tuple[str, Job]] = []
    ratios: dict[tuple[str, str, str], float] = {}
    async for provider, found in _slices([(provider, found) for provider, objects in parts for found in objects]):
        match found:
            case Job():
                jobs.append((provider, found))
            case JobCount() if not fleet.hides_jobs:
                fleet.jobs.setdefault(provider, Counter())[found.status] += found.count
            case JobUsage(job_id=job_id, values=values) if values.accelerator_utilization is not None:
                ratios[provider, job_id, values.accelerator] = values.accelerator_utilization
            case Readings() if found.of is JobUsage and found.field == _UTILIZATION:
                async for subject, value in _slices(list(zip(found.subjects, found.values, strict=True))):
                    ratios[provider, subject.keys[0], found.accelerator] = value
            case HeldTime() if not (fleet.hides_held or _PHASE_SECONDS in fleet.hidden):
                fleet.held_times.append(found)
            case ProviderFacts() if _PROVIDER not in fleet.hidden:
                fleet.places[provider] = " · ".join(filter(None, (found.platform, found.region)))
    if not fleet.hides_held:
        await _count_held(fleet, jobs, {} if fleet.hides_idle else ratios)
    return fleet


async def _count_held(
    fleet: Fleet, jobs: Sequence[tuple[str, Job]], ratios: Mapping[tuple[str, str, str], float]
) -> None:
    """Count the accelerators that jobs hold, and which of them are idle. An unknown utilization never counts as 0."""
    held: dict[tuple[str, str], Held] = {}
    idle: dict[tuple[str, str, str], tuple[float, Job]] = {}
    async for provider, job in _slices(jobs):
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
    fleet.idle = [_idle_job(key, *idle[key], ratios[key], fleet.hidden) for key in largest]


def _by_kind(job: Job) -> dict[str, float]:
    counts: dict[str, float] = {}
    for accelerators in job.accelerators:
        if accelerators.count:
            counts[accelerators.kind] = counts.get(accelerators.kind, 0) + accelerators.count
    return counts


def _idle_job(key: tuple[str, str, str], held: float, job: Job, utilization: float, hidden: Collection[str]) -> IdleJob:
    provider, job_id, kind = key
    has_info = _JOB_INFO not in hidden
    models = [found.model for found in job.accelerators if found.kind == kind and found.count and found.model]
    return IdleJob(
        provider=provider,
        job_id=job_id,
        kind=kind,
        held=held,
        utilization=utilization,
        models=list(dict.fromkeys(models)),
        name=job.name if has_info else "",
        user=job.user_name or job.user_id if has_info else "",
        pool_id=job.pool_id if has_info else "",
        status="" if _JOB_STATUS in hidden else job.status,
        started=None if _STARTED in hidden else job.started,
    )


async def _slices(found: Sequence[T]) -> AsyncIterator[T]:
    """Give one after another, and let other tasks run now and then."""
    for start in range(0, len(found), _OBJECTS_PER_SLICE):
        for one in found[start : start + _OBJECTS_PER_SLICE]:
            yield one
        await yield_to_loop()


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
    """One collector."""

    state: CollectorState
    health: Health
    error: LastError | None


@dataclass(slots=True)
class ApiCalls:
    """The billed calls of one API since the start."""

    api: str
    calls: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """By outcome."""


@dataclass(slots=True)
class PolledProvider:
    """One provider."""

    name: str
    collectors: list[PolledCollector] = field(default_factory=list)
    """The worst first."""
    apis: dict[str, ApiCalls] = field(default_factory=dict)
    expires: float | None = None
    """When its credentials end, in Unix seconds."""

    def count(self, health: Health) -> int:
        """The number of its collectors with this health."""
        return sum(found.health is health for found in self.collectors)

    @property
    def health(self) -> Health:
        """The health of its worst collector."""
        worst = min((found.health for found in self.collectors), default=Health.WAITING)
        succeeds = any(found.state.success for found in self.collectors)
        return Health.DOWN if worst is Health.FAILING and not succeeds else worst

    @property
    def lacks_jobs(self) -> bool:
        """Whether a collector of jobs publishes nothing because its polls fail; others may still publish some."""
        return any(
            found.state.collector.startswith("job") and not found.state.parts and found.health is not Health.OK
            for found in self.collectors
        )


def read_providers(
    telemetry: Telemetry, errors: Mapping[tuple[str, str], LastError | None], now: float
) -> dict[str, PolledProvider]:
    """Return how each provider is polled at a Unix time, in the order of the config. `errors` are the last ones."""
    providers: dict[str, PolledProvider] = {}
    for state in telemetry.standings():
        provider = providers.setdefault(state.provider, PolledProvider(state.provider))
        error = errors.get((state.provider, state.collector))
        provider.collectors.append(PolledCollector(state, _health(state, now), error))
    for provider in providers.values():
        provider.collectors.sort(key=lambda found: found.health)

    # Counters stay when a provider is removed.
    for name, api, outcome, count in telemetry.calls():
        if name in providers:
            found = providers[name].apis.setdefault(api, ApiCalls(api))
            found.calls += count
            if outcome not in _GOOD_OUTCOMES and count:
                found.failures[outcome] += count
    for name, expires in telemetry.credential_expiries().items():
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
