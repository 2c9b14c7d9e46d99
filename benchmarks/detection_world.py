"""Weeks of training jobs for `python -m benchmarks detection`: what each does minute by minute, and what goes wrong.

How often faults happen and how long they last is drawn from published studies, never from our rules:

- Meta, arXiv 2410.21680: sizes of jobs, how they end (24 % fail, 10 % are preempted or requeued), 6.5 failures of nodes
  in 1,000 node-days.
- GREYHOUND, arXiv 2410.12588: fail-slow in 1.5 % of jobs on one node, 40 % on four and 59 % of large ones; it lasts 10,
  24 and 72 minutes on average, and sub-minutes to ten hours in all; jobs take 1.34 times as long.
- ByteDance, arXiv 2505.05713: 42.5 % of jobs are slowed by stragglers, mostly by uneven work and not by a machine.
- Minder, arXiv 2411.01791: faults of machines show in several metrics of one machine; by hand they take half an hour
  and more to find.

The studies do not say how utilization, power and traffic look in minutes. These shapes are assumptions, drawn widely.
Hangs, idle holders and slow machines are more frequent than published, so that there are enough of each to count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

MINUTES = 7 * 24 * 60
"""A week."""
JOBS = 24
"""Jobs in a week. Most of them hold their accelerators for a day or two."""
NODES = 100
_SIZES = ((1, 0.45), (2, 0.12), (3, 0.08), (4, 0.17), (8, 0.13), (16, 0.05))
"""Nodes of a job, and the share of such jobs."""


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode of a `kind` between two minutes. `subject` is a job, a pod, a pool or a workspace."""

    kind: str
    subject: str
    start: int
    end: int
    pod: int | None = None
    strength: float = 1.0
    """The remaining share of the speed, in episodes about speed."""

    @property
    def minutes(self) -> int:
        """Return its length."""
        return self.end - self.start


@dataclass(slots=True)
class Job:
    """One job: its submission, start and end, and a timeline of its whole life."""

    job_id: str
    pods: int
    submitted: int
    start: int
    end: int
    status: str
    """Its final status; `running` if the week ends first."""
    reason: str = ""
    """The cause of its failure."""
    timeline: list[Episode] = field(default_factory=list)
    """Episodes one after the other, without gaps."""
    restarts: list[int] = field(default_factory=list)
    evictions: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Week:
    """All events of a week. `pool` has by minute: abnormal nodes, allocated share, queued accelerators."""

    jobs: Sequence[Job]
    pool: Sequence[tuple[int, float, int]]
    ended: Sequence[tuple[int, int]]
    """By minute: the short jobs of a workspace that have succeeded and failed so far."""
    quota: Sequence[float]
    """By minute: the used share of the quota of jobs."""
    episodes: Sequence[Episode]


def simulate(seed: int, jobs: int = JOBS) -> Week:
    """Draw a week."""
    random = Random(f"detection {seed}")
    made = [_job(Random(f"{seed} {number}"), f"j{seed}-{number}") for number in range(jobs)]
    pool, of_pool = _pool(random)
    ended, of_workspace = _endings(random)
    quota, of_quota = _quota(random)
    episodes = [episode for job in made for episode in (*job.timeline, *_ends(job))]
    return Week(made, pool, ended, quota, [*episodes, *of_pool, *of_workspace, *of_quota])


def _lasting(random: Random, median: float, sigma: float, least: float = 1, most: float = 600) -> int:
    """Return minutes of a log-normal length."""
    return round(min(max(random.lognormvariate(math.log(median), sigma), least), most))


def _mean_lasting(random: Random, mean: float) -> int:
    """Return minutes of a log-normal length with this mean, from a minute to ten hours."""
    return _lasting(random, mean / math.exp(0.5), 1.0)


def _job(random: Random, job_id: str) -> Job:
    pods = random.choices([size for size, _ in _SIZES], [share for _, share in _SIZES])[0]
    submitted = random.randrange(5 * 24 * 60)
    start = submitted + _lasting(random, 4, 2.0, most=1440)
    end = start + _lasting(random, 30 * 60, 0.8, least=180, most=MINUTES)
    status = random.choices(["succeeded", "failed", "stopped"], [0.62, 0.24, 0.14])[0]
    if end >= MINUTES - 1:
        end, status = MINUTES, "running"
    reason = random.choices(["ContainerExitedWithError", "NodeFailure"], [0.85, 0.15])[0] if status == "failed" else ""
    job = Job(job_id, pods, submitted, start, end, status, reason)
    if random.random() < 0.12:
        _interactive(random, job)
    else:
        _training(random, job)
    return job


def _interactive(random: Random, job: Job) -> None:
    """Draw a notebook or debug session: some work, and long hours without work."""
    at, idle = job.start, random.random() < 0.5
    while at < job.end:
        minutes = _lasting(random, 130, 1.0, least=3, most=1500) if idle else _lasting(random, 40, 0.9, least=3)
        until = min(at + minutes, job.end)
        job.timeline.append(Episode("idle" if idle else "work", job.job_id, at, until))
        at, idle = until, not idle


def _training(random: Random, job: Job) -> None:
    """Draw work with checkpoints, evaluations, stalls and faults."""
    planned = sorted(_faults(random, job), key=lambda episode: episode.start)
    checkpoints = random.choice([30, 60, 120, 240])
    evaluates = random.uniform(180, 720) if random.random() < 0.6 else math.inf
    at = job.start
    at = _add(job, "startup", at, _lasting(random, 8, 0.6, least=2, most=45))
    saved = evaluated = at
    while at < job.end:
        if planned and planned[0].start <= at:
            at = _suffer(random, job, at, planned.pop(0))
        elif at - evaluated >= evaluates:
            # Some jobs evaluate during the training. Some generate, at little power and without traffic.
            speed = random.uniform(0.35, 0.95)
            at = evaluated = _add(job, "evaluation", at, _lasting(random, 12, 0.7, least=2, most=90), strength=speed)
        elif at - saved >= checkpoints:
            at = saved = _add(job, "checkpoint", at, _lasting(random, 1.5, 0.8, most=20))
        elif random.random() < 0.0006:
            speed = random.uniform(0.05, 0.8)
            at = _add(job, "data stall", at, _lasting(random, 6, 0.9, most=120), strength=speed)
        else:
            at = _add(job, "work", at, 1)


def _add(job: Job, kind: str, at: int, minutes: int, *, pod: int | None = None, strength: float = 1.0) -> int:
    until = min(at + minutes, job.end)
    last = job.timeline[-1] if job.timeline else None
    if kind == "work" and last is not None and last.kind == kind:
        job.timeline[-1] = Episode(kind, job.job_id, last.start, until)
    elif until > at:
        job.timeline.append(Episode(kind, job.job_id, at, until, pod, strength))
    return until


def _faults(random: Random, job: Job) -> Iterator[Episode]:
    """Yield the planned faults with their minutes of the job's life."""

    def planned(kind: str, minutes: int, *, pod: int | None = None, strength: float = 1.0) -> Episode:
        start = random.randrange(job.start + 15, max(job.end, job.start + 16))
        return Episode(kind, job.job_id, start, start + minutes, pod, strength)

    if random.random() < (0.06 if job.pods == 1 else 0.25):
        # A watchdog ends some hangs after 10 or 30 minutes. A user ends the others later.
        watched = random.random()
        limit = 10 if watched < 0.15 else 30 if watched < 0.4 else 600
        yield planned("hang", min(_lasting(random, 100, 0.7, least=30), limit), pod=random.randrange(job.pods))
    if random.random() < 0.07:
        yield planned("dead", _lasting(random, 90, 0.7, least=10))
    slow = {1: (0.015, 10), 2: (0.4, 24), 3: (0.4, 24), 4: (0.4, 24)}.get(job.pods, (0.59, 72))
    if random.random() < slow[0]:
        yield planned("fail-slow", _mean_lasting(random, slow[1]), strength=random.uniform(0.35, 0.92))
    if job.pods >= 3 and random.random() < 0.45:
        pod = random.randrange(job.pods)
        yield planned("straggler", _lasting(random, 45, 0.9), pod=pod, strength=random.uniform(0.4, 0.85))
    failures = 0.0065 * job.pods * (job.end - job.start) / 1440 + 0.1
    if random.random() < failures:
        yield planned("restart", _lasting(random, 6, 0.6, least=2))
    if random.random() < 0.03:
        yield planned("crash loop", 0)
    if random.random() < 0.1:
        yield planned("eviction", _lasting(random, 15, 0.8, least=2), pod=random.randrange(job.pods))
    if random.random() < 0.15:
        yield planned("new phase", 10**6, strength=random.uniform(0.7, 1.1))


def _suffer(random: Random, job: Job, at: int, fault: Episode) -> int:
    """Add a fault and its consequences to the timeline; return the minute at which work continues."""
    if fault.kind == "new phase":  # the job continues at another speed, stored in `level`
        job.timeline.append(Episode("new phase", job.job_id, at, at, strength=fault.strength))
        return at
    if fault.kind == "crash loop":
        begin = at
        for _ in range(random.randint(3, 8)):
            job.restarts.append(at)
            at = _add(job, "restart", at, random.randint(2, 5))
            at = _add(job, "startup", at, random.randint(2, 6))
        job.timeline.append(Episode("crash loop", job.job_id, begin, at))
        return at
    if fault.kind in {"restart", "eviction"}:
        job.restarts.append(at)
        if fault.kind == "eviction":
            job.evictions.append(at)
            job.timeline.append(Episode("eviction", job.job_id, at, at + 60))
        at = _add(job, "requeued" if fault.kind == "eviction" else "restart", at, fault.minutes)
        return _add(job, "startup", at, _lasting(random, 8, 0.6, least=2, most=45))
    at = _add(job, fault.kind, at, fault.minutes, pod=fault.pod, strength=fault.strength)
    if fault.kind in {"hang", "dead"} and at < job.end:
        job.restarts.append(at)
        at = _add(job, "restart", at, _lasting(random, 4, 0.5))
        at = _add(job, "startup", at, _lasting(random, 8, 0.6, least=2, most=45))
    return at


def _ends(job: Job) -> Iterator[Episode]:
    if job.start > job.submitted:
        yield Episode("queued", job.job_id, job.submitted, min(job.start, MINUTES))
    if job.status == "failed":
        kind = "platform fault" if job.reason == "NodeFailure" else "failed"
        yield Episode(kind, job.job_id, job.end, min(job.end + 30, MINUTES))


def _pool(random: Random) -> tuple[list[tuple[int, float, int]], list[Episode]]:
    """Draw nodes that fail and recover, and hours in which the pool is full."""
    abnormal, share, queued = [0] * MINUTES, [0.0] * MINUTES, [0] * MINUTES
    episodes = []
    for minute in range(MINUTES):
        daily = 0.75 + 0.12 * math.sin(minute / 1440 * 2 * math.pi)
        share[minute] = min(daily + random.gauss(0, 0.01), 0.93)
        if random.random() < 0.0065 * NODES / 1440:
            lasts = _lasting(random, 240, 1.0, least=12)
            episodes.append(Episode("node failure", "pool", minute, min(minute + lasts, MINUTES)))
        elif random.random() < 2 / MINUTES:
            episodes.append(Episode("node flap", "pool", minute, min(minute + random.randint(1, 8), MINUTES)))
        if random.random() < 8 / MINUTES:
            lasts = _lasting(random, 70, 1.0, least=2)
            episodes.append(Episode("full pool", "pool", minute, min(minute + lasts, MINUTES)))
    for episode in episodes:
        for minute in range(episode.start, episode.end):
            if episode.kind == "full pool":
                share[minute], queued[minute] = random.uniform(0.955, 1.0), random.randint(8, 64)
            else:
                abnormal[minute] += 1
    return list(zip(abnormal, share, queued, strict=True)), episodes


def _endings(random: Random) -> tuple[list[tuple[int, int]], list[Episode]]:
    """Draw short jobs of a workspace: two an hour, of which 24 % fail, and hours with a broken image."""
    start = random.randrange(6 * 1440)
    broken = Episode("broken image", "batch", start, start + random.randint(300, 720))
    succeeded = failed = 0
    ended = []
    for minute in range(MINUTES):
        if random.random() < 2 / 60:
            bad = random.random() < (0.9 if broken.start <= minute < broken.end else 0.24)
            succeeded, failed = succeeded + (not bad), failed + bad
        ended.append((succeeded, failed))
    return ended, [broken]


def _quota(random: Random) -> tuple[list[float], list[Episode]]:
    start = random.randrange(6 * 1440)
    full = Episode("quota", "p", start, start + _lasting(random, 120, 0.8, least=20))
    return [0.93 if full.start <= minute < full.end else 0.6 for minute in range(MINUTES)], [full]
