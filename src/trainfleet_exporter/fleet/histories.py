"""The histories of jobs: seconds by phase, counters of faults and recoveries, histograms of waits. For any cloud.

    a cloud's answer ──translation──► Records of a row ──count────────┐
                                      Records of a detail ──note_detail──┴─► objects of a job, and of the fleet

Counters count what is dated after the exporter's start: an answer repeats a job's whole history at every poll. A fault
without a date is not counted. Times are Unix seconds. An interval without an end lasts until now: the API reports it as
in progress.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from trainfleet_exporter.model import (
    FINISHED,
    Cause,
    ClassicHistogram,
    FaultCount,
    Job,
    JobEnd,
    JobFaults,
    JobTime,
    NodeFaults,
    Phase,
    PhaseTime,
    PodExit,
    PoolWaits,
    RecoveryCount,
    Status,
)
from trainfleet_exporter.providers.judging import ServerClock

_WHILE: Mapping[Phase, Collection[Status]] = {
    "checking": (Status.STARTING,),
    "preparing": (Status.STARTING,),
    "queued": (Status.QUEUED, Status.CREATING, Status.STARTING, Status.RESTARTING),
    "recovering": (Status.RUNNING, Status.RESTARTING, Status.QUEUED, Status.CREATING, Status.STARTING),
    "finishing": (Status.RUNNING, Status.STOPPING),
    "running": (Status.RUNNING, Status.RESTARTING, Status.STOPPING),
}
"""All phases, and the statuses of a job in which each continues. In others, the history is older than the status.

Of intervals that overlap, the first phase counts: a job that waits within a recovery is not counted twice.
"""
_PRECEDENCE: Sequence[Phase] = tuple(_WHILE)
_RANK = {phase: rank for rank, phase in enumerate(_PRECEDENCE)}
_STATES = {status for statuses in _WHILE.values() for status in statuses} - {Status.STOPPING}
"""A job that stops may have done so in any phase."""


class Interval(Struct, frozen=True, gc=False):
    """A time that a job spent on one phase. `end` is None while it lasts."""

    phase: Phase
    start: float
    end: float | None
    holds: bool = True
    """Whether the job held its accelerators. While it is queued, it never does."""


class JobFault(Struct, frozen=True, gc=False):
    """Something that broke. `part` names what broke (a task, a pod), so that faults of one second differ."""

    at: float
    cause: Cause
    platform_cause: str = ""
    part: str = ""
    nodes: tuple[tuple[str, Cause], ...] = ()
    """The nodes that the platform holds responsible, each with its own cause."""


class Recovery(Struct, frozen=True, gc=False):
    """An attempt to recover from a fault that has ended. `seconds` is None if the API does not report it."""

    start: float
    strategy: str
    result: str
    seconds: float | None
    part: str = ""


class Records(Struct, frozen=True, gc=False):
    """The history in one response. None: the response has nothing about that."""

    intervals: tuple[Interval, ...] | None = None
    faults: tuple[JobFault, ...] | None = None
    recoveries: tuple[Recovery, ...] = ()
    recovery_intervals: tuple[Interval, ...] = ()
    """Intervals of recoveries; apart from the others, which a newer answer may replace."""
    exit_codes: tuple[tuple[str, int], ...] = ()
    """Tasks that have ended, and their exit codes."""
    released: float | None = None
    """When the job released accelerators that were reserved after its work."""


class Elapsed(Struct, frozen=True, gc=False):
    """Seconds by phase, and the phase that lasts: with the seconds that it has had before, and since when it lasts."""

    over: tuple[PhaseTime, ...]
    """The phases that do not last."""
    lasting: Phase | None = None
    before: float = 0.0
    since: float = 0.0

    def until(self, now: float | None) -> tuple[PhaseTime, ...]:
        """Seconds by phase. The current phase counts until `now`; None: until its last known time."""
        if self.lasting is None:
            return self.over
        more = 0.0 if now is None or now < self.since else now - self.since
        return (*self.over, PhaseTime(self.lasting, self.before + more))


def elapsed(intervals: Iterable[Interval]) -> Elapsed:
    """Add up intervals by phase. Each second counts once: see `_WHILE`."""
    events: list[tuple[float, int, int]] = []
    for interval in intervals:
        rank = _RANK[interval.phase]
        events.append((interval.start, rank, 1))
        if interval.end is not None:
            events.append((interval.end, rank, -1))
    events.sort()
    seconds: dict[int, float] = {}
    under_way = [0] * len(_PRECEDENCE)
    current: int | None = None
    last = 0.0
    for at, rank, change in events:
        if current is not None:
            seconds[current] = seconds.get(current, 0.0) + at - last
        last = at
        under_way[rank] += change
        current = next((rank for rank, count in enumerate(under_way) if count > 0), None)
    for _, rank, _ in events:
        seconds.setdefault(rank, 0.0)  # a phase of no length has been
    over = tuple(PhaseTime(_PRECEDENCE[rank], seconds[rank]) for rank in sorted(seconds) if rank != current)
    return Elapsed(over) if current is None else Elapsed(over, _PRECEDENCE[current], seconds[current], last)


BOUNDS = (10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 259200.0, 604800.0)
"""Upper bounds of the buckets of waits, in seconds."""
_MAY_COME_BACK = 7 * 86400.0
"""Seconds for which the start and the faults of a job that is no longer listed are remembered: it may come back."""


class _Waits:
    """The observations of one histogram."""

    def __init__(self) -> None:
        self._counts, self._sum = [0] * (len(BOUNDS) + 1), 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def histogram(self) -> ClassicHistogram | None:
        *counts, count = accumulate(self._counts)
        return ClassicHistogram(BOUNDS, tuple(counts), count, self._sum) if count else None


@dataclass(slots=True)
class _Known:
    """The history of one job, which was created at the Unix time `created`."""

    created: float | None = None
    row: Records | None = None
    detail: Records | None = None
    is_new: bool = True
    """Whether the latest records have not been counted yet."""
    intervals: tuple[Interval, ...] | None = None
    """Of the latest answer that has any: the record of a job that ended in the queue may have none any more. Those of
    recoveries are not among them."""
    elapsed: Elapsed = field(default_factory=lambda: Elapsed(()))
    unheld: float = 0.0
    """See JobTime."""
    seen_until: float | None = None
    """When the job was last seen in the phase that lasts."""
    is_behind: bool = False
    """Whether the job was seen in a status that the phase that lasts does not have: it has not lasted."""
    faults: dict[tuple[float, str], tuple[JobFault, JobFault]] | None = None
    """All that any answer had, also before the exporter's start: as counted, and with the latest cause that was named.
    None if no answer says what faults there were."""
    recoveries: dict[tuple[float, str], Recovery] = field(default_factory=dict)
    constant: tuple[object, ...] = ()
    """Its objects that do not change with time."""

    def take(self, records: Records) -> None:
        """Take over what a new answer says."""
        self.is_new, self.is_behind = True, False
        if records.intervals is not None:
            self.intervals = records.intervals
        if records.faults is not None:
            self.faults = self.faults or {}
            for fault in records.faults:
                first, last = self.faults.get((fault.at, fault.part), (fault, fault))
                counted = replace(first, nodes=fault.nodes or first.nodes)  # they and causes come late
                self.faults[fault.at, fault.part] = counted, fault if fault.platform_cause else last
        for new in records.recoveries:
            key = new.start, new.part  # its strategy may come later
            known = self.recoveries.setdefault(key, new)
            if known.seconds is None and new.seconds is not None:  # the result may come before the end
                self.recoveries[key] = replace(known, seconds=new.seconds)

    @property
    def spent(self) -> list[Interval]:
        """All intervals."""
        answers = [records for records in (self.row, self.detail) if records is not None]
        return [*(self.intervals or ()), *(found for records in answers for found in records.recovery_intervals)]

    def recovered(self) -> tuple[Interval, ...]:
        """The recoveries of the latest detail, if none lasts any more."""
        given = self.detail.recovery_intervals if self.detail else ()
        return tuple(replace(each, end=each.end or self.seen_until) for each in given)

    def held_until(self, finished: float | None) -> tuple[float, float]:
        """Return the seconds for which a job that ended at `finished` held its accelerators, and those of them lost.

        A job loses the time of all phases but running. Between the last phase and its end, it stops or its accelerators
        stay reserved; unless it waited last.
        """
        held = [found if found.holds else replace(found, phase="queued") for found in self.spent]
        seconds = {each.phase: each.seconds for each in elapsed(held).until(finished) if each.phase != "queued"}
        ends = [(each.end or math.inf, each.start, place, each.phase) for place, each in enumerate(held)]
        last, *_, phase = max(ends, default=(math.inf, 0.0, 0, ""))
        rest = finished - last if finished is not None and phase != "queued" else 0.0
        total = math.fsum(seconds.values())
        return total + max(0.0, rest), total - seconds.get("running", 0.0)


class JobHistories:
    """The histories of a provider's jobs. Faults from before the exporter's start do not count."""

    def __init__(self, clock: ServerClock) -> None:
        self._clock, self._known, self._began = clock, dict[str, _Known](), 0.0
        """The last: when the exporter began, as the first poll knew it: a clock that is set moves no counter."""
        self.phase_of: Callable[[Job], Phase | None] | None = None
        """What the status of a job says that its time is spent on now, if that is certain: its history may be older."""
        self._pools: defaultdict[str, tuple[_Waits, _Waits]] = defaultdict(lambda: (_Waits(), _Waits()))
        """By pool, how long jobs waited and prepared."""
        self._observed: dict[tuple[str, int, float | None], float] = {}
        """By job, histogram of its pool and creation of the job, when the job started."""
        self._nodes: dict[tuple[str, str], Counter[Cause]] = {}
        self._blamed: dict[tuple[str, str, float], float] = {}
        """By job, node and date of the fault, that date: what has been counted for nodes."""

    def count(self, job: Job, row: Records | None, *, since: float) -> None:
        """Take over what a row of a list says, if it has a history, and count what is new in that of the job. Its start
        is observed if it is later than `since`."""
        known = self._known.get(job.job_id)
        if known is not None and job.created is not None:
            known.created = known.created or job.created
            known = known if known.created == job.created else None  # the history of an earlier job with this id
        if row is not None and known is None:
            known = _Known(job.created)
        if known is None:
            self._known.pop(job.job_id, None)
            return
        self._known[job.job_id] = known
        if row is not None and known.row is not row and known.row != row:
            known.row = row
            known.take(row)
        if not known.is_new:
            return
        known.is_new, known.elapsed = False, elapsed(known.spent)
        launches = [each for each in known.spent if not each.holds and each.phase != "queued"]
        known.unheld = math.fsum([each.end - each.start for each in launches if each.end])
        self._count_faults(job, known)
        self._observe(job, known, since)

    def note_detail(self, job_id: str, records: Records, phase: Phase | None, now: float) -> None:
        """Take over what the detail of a job says at a Unix time, by when what lasts has lasted if it is this phase."""
        known = self._known.setdefault(job_id, _Known())
        starts = {each.start for each in records.recovery_intervals}
        kept = [each for each in known.recovered() if each.start not in starts]
        known.detail = replace(records, recovery_intervals=(*records.recovery_intervals, *kept))
        known.take(records)
        known.seen_until = now if phase and elapsed(known.spent).lasting == phase else known.seen_until

    def objects(self, job: Job, now: float, *, is_seen: bool = True) -> Iterator[object]:
        """Return the objects of a job's history: JobTime, JobFaults, PodExit. `is_seen`: its status is as of `now`."""
        known = self._known.get(job.job_id)
        if known is None:
            return
        if self.phase_of and self.phase_of(job) == "running" and known.elapsed.lasting == "recovering" and known.detail:
            known.detail = replace(known.detail, recovery_intervals=known.recovered())
            known.elapsed = elapsed(known.spent)
        lasting = known.elapsed.lasting
        if job.status in FINISHED:
            known.is_behind |= lasting not in (None, "running") and (job.started or 0.0) > known.elapsed.since
            known.seen_until = (not known.is_behind and job.finished) or known.seen_until
        elif is_seen and lasting is not None:
            is_behind = self.phase_of(job) != lasting if self.phase_of else job.status not in _WHILE[lasting]
            known.seen_until = known.seen_until if is_behind else now
            known.is_behind = is_behind if job.status in _STATES else known.is_behind
        if phases := known.elapsed.until(known.seen_until):
            yield JobTime(job.job_id, phases, known.unheld)
        yield from known.constant

    def last_fault(self, job_id: str, word: str) -> float:
        """Return the Unix time of the latest fault of a job that the platform gives this cause; 0 without one."""
        faults = (self._known[job_id].faults or {}) if job_id in self._known else {}
        return max([fault.at for fault, _ in faults.values() if fault.platform_cause == word], default=0.0)

    def end(self, job: Job, seen: float) -> JobEnd:
        """Return the whole life of a job that has ended. A poll found the end at the Unix time `seen`."""
        known = self._known.get(job.job_id, _Known())
        released = [each.released or 0.0 for each in (known.row, known.detail) if each is not None]
        job = replace(job, finished=max(job.finished or 0.0, *released, 0.0) or None)
        phases = held_for = lost = None
        if known.intervals is not None and not known.is_behind:
            phases = known.elapsed.until(known.seen_until)
            held_for, lost = known.held_until(job.finished or known.seen_until)
        elif known.intervals is not None and job.finished is not None:
            begun = max(job.started or 0.0, known.seen_until or 0.0, known.elapsed.since)  # of what the history lacks
            held_for = known.held_until(known.seen_until)[0] + max(0.0, job.finished - begun)
        elif job.started is not None and job.finished is not None:
            held_for = max(0.0, job.finished - job.started)
        has_faults = known.faults is not None
        return JobEnd(
            job=job,
            seen=seen,
            phases=phases,
            held=held_for,
            lost=lost,
            faults=None if known.faults is None else _fault_counts(last for _, last in known.faults.values()),
            recoveries=len(known.recoveries) if has_faults else None,
            recovery_seconds=sum(each.seconds or 0.0 for each in known.recoveries.values()) if has_faults else None,
        )

    def fleet(self) -> list[object]:
        """Return the objects of all jobs together: NodeFaults, PoolWaits."""
        nodes = [
            NodeFaults(pool_id, node, tuple(FaultCount(cause, "", count) for cause, count in sorted(causes.items())))
            for (pool_id, node), causes in self._nodes.items()
        ]
        waits = [PoolWaits(key, *[each.histogram() for each in both]) for key, both in self._pools.items()]
        return [*nodes, *waits]

    def keep_only(self, job_ids: Set[str], now: float) -> None:
        """Forget the histories of all other jobs."""
        horizon = now - _MAY_COME_BACK
        self._known = {key: known for key, known in self._known.items() if key in job_ids}
        self._observed = {key: at for key, at in self._observed.items() if at >= horizon or key[0] in job_ids}
        self._blamed = {key: at for key, at in self._blamed.items() if at >= horizon or key[0] in job_ids}
        named = {node for _, node, _ in self._blamed}  # a machine of no pool may never be used again
        self._nodes = {key: causes for key, causes in self._nodes.items() if key[0] or key[1] in named}

    def _count_faults(self, job: Job, known: _Known) -> None:
        """Show what is dated after the exporter's start, and count it for nodes."""
        exits = [PodExit(job.job_id, pod_id, code) for pod_id, code in (known.row or Records()).exit_codes]
        known.constant, self._began = tuple(exits), self._began or self._clock.began
        if known.faults is None:
            return
        faults = [fault for fault, _ in known.faults.values() if fault.at >= self._began]
        recoveries = [recovery for recovery in known.recoveries.values() if recovery.start >= self._began]
        counted = Counter((recovery.strategy, recovery.result) for recovery in recoveries)
        shown = JobFaults(
            job_id=job.job_id,
            faults=_fault_counts(faults),
            recoveries=tuple(RecoveryCount(*key, count) for key, count in counted.items()),
            recovery_seconds=sum(recovery.seconds or 0.0 for recovery in recoveries),
        )
        known.constant = *exits, shown
        for fault in faults:
            for node, cause in fault.nodes:
                if (job.job_id, node, fault.at) not in self._blamed:
                    self._blamed[job.job_id, node, fault.at] = fault.at
                    self._nodes.setdefault((job.pool_id, node), Counter())[cause] += 1

    def _observe(self, job: Job, known: _Known, since: float) -> None:
        """Observe the first start of a job, if that is later than `since`: how long it waited and prepared before."""
        intervals = known.intervals or ()
        at = min((found.start for found in intervals if found.phase == "running"), default=-math.inf)
        if at <= since:
            return
        before = [replace(each, end=min(each.end or at, at)) for each in intervals if each.start < at or each.end == at]
        spent: dict[str, float] = {found.phase: found.seconds for found in elapsed(before).over}
        prepared = [spent[phase] for phase in ("preparing", "checking") if phase in spent]
        waits = spent.get("queued", 0.0 if before else None), sum(prepared) if prepared else None
        for kind, seconds in enumerate(waits):
            lives = {(job.job_id, kind, known.created), (job.job_id, kind, None)}  # an answer may lack the creation
            if seconds is not None and not self._observed.keys() & lives:
                self._observed[job.job_id, kind, known.created] = at
                self._pools[job.pool_id][kind].observe(seconds)


def _fault_counts(faults: Iterable[JobFault]) -> tuple[FaultCount, ...]:
    counts = Counter((fault.cause, fault.platform_cause) for fault in faults)
    return tuple(FaultCount(cause, word, count) for (cause, word), count in counts.items())
