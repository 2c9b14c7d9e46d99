"""The fleet's figures, read from the sample lines that a scrape would be sent, and from nothing else.

So the page cannot say another thing than /metrics, follows `metrics.deny`, and works for any cloud; nothing is kept
for it between two requests. It reads four families whole (some 20 ms of work for 5,000 jobs, a millisecond at a time),
and looks up further ones only for the few jobs that it names.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.model import FINISHED, Status
from trainfleet_exporter.page import Page
from trainfleet_exporter.web.status_page.samples import row, rows, unescape

IDLE_RATIO = 0.05
"""Accelerators whose utilization is below this do nothing; the shipped alert rules say the same."""
IDLE_ROWS = 15
"""How many idle jobs are named."""

_JOBS = "trainfleet_jobs"
_HOLDS = "trainfleet_job_holds_resources"
_REQUESTED = "trainfleet_job_requested_accelerators"
_UTILIZATION = "trainfleet_job_accelerator_utilization_ratio"
_INFO = "trainfleet_job_info"
_STATUS = "trainfleet_job_status"
_STARTED = "trainfleet_job_started_timestamp_seconds"
_PROVIDER = "trainfleet_provider_info"
_INFO_LABELS = next(family.labels or () for family in FAMILIES if family.name == _INFO)
READ = (_JOBS, _HOLDS, _REQUESTED, _UTILIZATION, _INFO, _STATUS, _STARTED, _PROVIDER)


@dataclass(slots=True)
class Held:
    """Accelerators of one kind that jobs of one provider hold; `busy` is the sum of held x utilization."""

    provider: str
    kind: str
    held: float = 0
    idle: float = 0
    unmeasured: float = 0
    busy: float = 0
    untold: float = 0
    """Asked for by jobs of which it is not known whether they hold them."""

    @property
    def utilization(self) -> float | None:
        """0 to 1, of those whose usage is known; None where none's is."""
        measured = self.held - self.unmeasured
        return self.busy / measured if measured > 0 else None


@dataclass(slots=True)
class IdleJob:
    """A job that holds accelerators and does not use them. Empty texts and None are what nobody said."""

    provider: str
    job_id: str
    kind: str
    models: list[str]
    held: float
    utilization: float
    name: str = ""
    user: str = ""
    pool_id: str = ""
    status: str = ""
    started: float | None = None


@dataclass(slots=True)
class Fleet:
    """The figures of one snapshot. Providers are named as in the config."""

    jobs: dict[str, dict[str, int]] = field(default_factory=dict)
    """By provider and status."""
    held: list[Held] = field(default_factory=list)
    idle: list[IdleJob] = field(default_factory=list)
    """The largest ones."""
    idle_jobs: int = 0
    """How many there are."""
    places: dict[str, str] = field(default_factory=dict)
    """Platform and region by provider."""
    hidden: list[str] = field(default_factory=list)
    """Families that `metrics.deny` keeps from being read here."""

    def known(self, provider: str, status: Status) -> bool | None:
        """Whether a provider tells how many jobs are in a state; None where its platform has no such state.

        Whoever tells any of the live states (or of the finished ones) tells all of them that the platform has.
        """
        counts = self.jobs.get(provider, {})
        if status in counts:
            return True
        group = [other for other in counts if (other in FINISHED) == (status in FINISHED)]
        return None if group else False

    def total(self, status: Status, providers: Iterable[str]) -> tuple[int | None, bool]:
        """How many jobs of all providers are in a state, and whether all of those who could tell do."""
        known = {provider: self.known(provider, status) for provider in providers}
        told = [self.jobs[provider][status] for provider, tells in known.items() if tells]
        return sum(told) if told else None, False not in known.values()

    @property
    def hides_held(self) -> bool:
        """Whether it cannot be told who holds what."""
        return bool({_HOLDS, _REQUESTED} & set(self.hidden))

    @property
    def hides_idle(self) -> bool:
        """Whether it cannot be told what is idle."""
        return self.hides_held or _UTILIZATION in self.hidden


async def read_fleet(page: Page, deny: Sequence[str]) -> Fleet:
    """Read a page. `deny` are the globs of `metrics.deny`."""
    fleet = Fleet(hidden=[family for family in READ if any(fnmatchcase(family, glob) for glob in deny)])
    async for (provider, *place, _), _ in rows(page, _PROVIDER, "provider", "platform", "region", "project_id"):
        fleet.places[unescape(provider)] = " · ".join(unescape(word) for word in place if word)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    labels = ("provider", "workspace_id", "status", "platform_status")
    async for (provider, _, status, _), count in rows(page, _JOBS, *labels):
        counts[unescape(provider)][unescape(status)] += int(count)
    fleet.jobs = {provider: dict(found) for provider, found in counts.items()}
    if not fleet.hides_held:
        await _read_held(page, fleet)
    for job in fleet.idle:
        await _describe(page, job)
        job.provider, job.job_id = unescape(job.provider), unescape(job.job_id)
    return fleet


async def _read_held(page: Page, fleet: Fleet) -> None:
    """Who holds what, and what of it is idle. The utilization of a kind is known for a job or not, never taken as 0."""
    holds = {key: value == 1 async for key, value in rows(page, _HOLDS, "provider", "job_id")}
    labels = ("provider", "job_id", "accelerator")
    ratios = {key: value async for key, value in rows(page, _UTILIZATION, *labels)}
    held: dict[tuple[str, str], Held] = {}
    idle: dict[tuple[str, ...], IdleJob] = {}
    async for (provider, job_id, kind, model), count in rows(page, _REQUESTED, *labels, "accelerator_model"):
        holding = holds.get((provider, job_id))
        if not count or holding is False:
            continue
        place = held.setdefault((provider, kind), Held(unescape(provider), unescape(kind)))
        if holding is None:
            place.untold += count
            continue
        place.held += count
        ratio = ratios.get((provider, job_id, kind))
        if ratio is None:
            place.unmeasured += count
            continue
        place.busy += count * ratio
        if ratio < IDLE_RATIO:
            place.idle += count
            job = idle.setdefault(
                (provider, job_id, kind), IdleJob(provider, job_id, unescape(kind), [], 0, utilization=ratio)
            )
            job.held += count
            job.models += [unescape(model)] if model else []
    fleet.held = list(held.values())
    fleet.idle_jobs = len(idle)
    fleet.idle = heapq.nlargest(IDLE_ROWS, idle.values(), key=lambda job: (job.held, -job.utilization))


async def _describe(page: Page, job: IdleJob) -> None:
    """Say whose job it is, and since when."""
    key = (job.provider, job.job_id)
    if found := await row(page, _INFO, *key, *_INFO_LABELS):
        about = dict(zip(_INFO_LABELS, map(unescape, found[0]), strict=True))
        job.name, job.pool_id = about["job_name"], about["pool_id"]
        job.user = about["user_name"] or about["user_id"]
    if found := await row(page, _STATUS, *key, "status"):
        job.status = unescape(found[0][0])
    if found := await row(page, _STARTED, *key):
        job.started = found[1]
