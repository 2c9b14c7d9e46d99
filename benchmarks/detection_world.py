"""Weeks of training fleets by the author of the rules, for choosing thresholds: `python -m benchmarks detection`.

A world has the six sources of usage of the second generator, and its classes. What happens and how it looks is drawn
here, from the studies in docs/detection.md. Fail-slow is in 1.5 % of jobs on one node, 40 % on four and 59 % of large
ones, for 10, 24 and 72 minutes on average (GREYHOUND). 24 % of jobs fail, and 10 % are preempted (Meta). Most of a step
of RL is generation, which draws little power (HybridFlow, arXiv 2409.19256).

Hangs, idle holders and slow machines are more frequent than published, so that there are enough of each to count.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from benchmarks.detection_second_world import (
    FAILED,
    HANG,
    IDLE,
    LOOP,
    MINUTES,
    PLATFORM,
    QUEUED,
    SLOW,
    SOURCES,
    STRAGGLER,
    Card,
    Event,
    Job,
    Source,
    World,
    add,
    failed,
    lasting,
    pick,
)

_V100 = Card("V100", "gpu", (180, 285), (48, 80), (36, 50))
_H20 = Card("GU8T", "gpu", (300, 480), (85, 135), (65, 90))
_SNT9 = Card("ascend-snt9", "npu", (200, 300), (70, 90), (65, 85))
"""Watts of a card in training, in a hang and idle: the shares of pytorch#118369 on the limits of other models."""
_KINDS = {"data parallel": 0.42, "rl": 0.14, "roles": 0.09, "pipeline": 0.12, "session": 0.12, "preparation": 0.11}
_PODS = {1: 0.4, 2: 0.12, 3: 0.1, 4: 0.2, 8: 0.18}
"""Pods of a job of data parallel training or RL, and the share of such jobs."""
_SLOW = {1: (0.015, 10), 2: (0.4, 24), 3: (0.4, 24), 4: (0.4, 24), 8: (0.59, 72)}
"""By pods: the share of jobs with fail-slow, and its mean minutes."""


def simulate(seed: int, slots: int) -> World:
    """Draw a world. The same seed makes the same world."""
    world = World(seed, [], [])
    for source in SOURCES:
        for slot in range(slots):
            random = Random(f"first {seed} {source.name} {slot}")
            minute, number = random.randrange(-2000, 600), 0
            while minute < MINUTES - 300:
                world.jobs.append(job := _job(random, source, f"f{seed}-{source.name}-{slot}-{number}", minute))
                world.events.extend(_live(random, job))
                minute, number = job.end + random.randrange(10, 200), number + 1
    return world


def _job(random: Random, source: Source, job_id: str, minute: int) -> Job:
    kind = pick(random, _KINDS)
    pods = {"roles": random.choice((3, 4, 6)), "pipeline": random.choice((4, 8)), "session": 1, "preparation": 1}
    count = pods.get(kind) or random.choices(list(_PODS), list(_PODS.values()))[0]
    cards = 1 if kind == "preparation" else 8 if count > 1 else random.choice((1, 4, 8, 8))
    card = _SNT9 if source.cards[0].kind == "npu" else random.choice((_V100, _H20))
    job = Job(job_id, source, kind, card, count, cards, minute)
    if kind in ("data parallel", "pipeline") and count * cards > 1 and random.random() < 0.3:
        job.evaluates = random.choice((90, 120, 240, 480))
    return job


def _live(random: Random, job: Job) -> Iterator[Event]:
    """Write the job's timeline; yield its events."""
    waits = lasting(random, 4, 2.0, 0, 1440)
    minute = add(job, "queued", job.submitted, waits)
    if waits >= 60:
        yield Event(job.job_id, QUEUED, job.submitted, minute, "yes" if waits >= 75 else "may")
    minute = add(job, "starting", minute, lasting(random, 4, 0.6, 1, 30))
    if random.random() < 0.05 and job.source.platform != "aws_sagemaker":
        yield from _loop(random, job, minute)
        return
    minute = add(job, "warm-up", minute, lasting(random, 8, 0.6, 2, 45))
    end = minute + lasting(random, 30 * 60, 0.8, 240, 2 * MINUTES)
    strength = 1.0
    for at, fault in sorted(_faults(random, job, minute, end)):
        if at > minute or fault == "hang at the start":
            minute = _work(random, job, minute, at, strength)
            yield from _suffer(random, job, fault, minute)
            minute, strength = job.end, random.uniform(0.75, 1.1) if fault == "new phase" else strength
        if job.status != "running":
            break
    else:
        minute = _work(random, job, minute, max(end, minute + 30), strength)
        job.status = random.choices(("succeeded", FAILED, "stopped"), (0.62, 0.24, 0.14))[0]
        if job.status == FAILED:
            is_node = random.random() < 0.15
            if is_node:
                yield Event(job.job_id, PLATFORM, minute, minute + 60, "yes", how="NodeFailure")
            yield failed(job, "NodeFailure" if is_node else "")._replace(wish="may" if is_node else "yes")
    if job.end >= MINUTES:
        job.status = "running"
    for spell in job.timeline:
        if spell.what == "gap" and len(spell.minutes) >= 30:
            wish = "yes" if spell.end - spell.start >= 45 else "may"
            yield Event(job.job_id, IDLE, spell.start, spell.end, wish, how="session")


def _faults(random: Random, job: Job, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield the minutes and kinds of planned faults."""
    first, last = max(begin, 0) + 15, min(end, MINUTES - 90)
    many = job.pods * job.cards > 1
    shares = {"hang": 0.25 * many, "hang at the start": 0.03 * many, "dead": 0.1, "idle": 0.08}
    shares |= {"slow": _SLOW[min(job.pods, 4) if job.pods < 8 else 8][0], "new phase": 0.15, "stall": 0.3}
    shares |= {"straggler": 0.5 * (job.pods > 2), "restart": min(0.0065 * job.pods * (end - begin) / 1440 + 0.1, 0.5)}
    if job.kind == "session" or first >= last:
        return
    for kind, share in shares.items():
        if random.random() < share:
            yield begin if kind == "hang at the start" else random.randrange(first, last), kind


def _loop(random: Random, job: Job, minute: int) -> Iterator[Event]:
    begun = minute
    for _ in range(random.randint(3, 8)):
        minute = add(job, "warm-up", minute, random.randint(2, 6))
        job.faults.append((minute, "process", "ExitedWithCode"))
        minute = add(job, "restarting", minute, random.randint(2, 5))
    add(job, "warm-up", minute, 3)
    yield Event(job.job_id, LOOP, begun, job.end, "yes" if job.end - begun > 25 else "may")
    yield failed(job)


def _again(random: Random, job: Job, minute: int) -> None:
    """Start the processes of a job again."""
    job.faults.append((minute, "process", "ExitedWithCode"))
    minute = add(job, "restarting", minute, lasting(random, 5, 0.6, 2, 30))
    add(job, "warm-up", minute, lasting(random, 8, 0.6, 2, 45))


def _suffer(random: Random, job: Job, fault: str, minute: int) -> Iterator[Event]:
    """Add a fault to the timeline; yield its truth. The status shows whether the job survives."""
    pod, of = random.randrange(job.pods), job.job_id
    if fault.startswith("hang"):
        # A watchdog ends some hangs after 10 or 30 minutes. A user ends the others later, or after a weekend.
        watched = random.random()
        limit = 10 if watched < 0.12 else 30 if watched < 0.3 else 3000
        lasts = min(lasting(random, 150, 0.9, 35, 2500), limit)
        how = pick(random, {"hang": 0.6, "hang, one at 0": 0.22, "hang, card lost": 0.18 * (limit > 30)})
        end = add(job, how, minute, lasts, pod=pod)
        yield Event(of, HANG, minute, end, "yes" if lasts >= 45 else "may", pod, how)
        if random.random() < 0.5 and job.source.platform != "aws_sagemaker":
            _again(random, job, end)
        else:
            job.status = "stopped"
    elif fault in ("dead", "idle"):
        lasts = lasting(random, 90 if fault == "dead" else 400, 0.7, 10, 3000)
        yield Event(of, IDLE, minute, add(job, fault, minute, lasts), "yes" if lasts >= 45 else "may", how=fault)
        job.status = "stopped" if fault == "idle" else "running"
    elif fault == "straggler":
        what, lasts = random.choice(("throttled", "busy CPU")), lasting(random, 75, 1.0, 10, 900)
        end = add(job, what, minute, lasts, pod=pod, strength=random.uniform(0.45, 0.88))
        yield Event(of, STRAGGLER, minute, end, "yes" if lasts >= 45 else "may", pod, what)
    elif fault == "slow":
        lasts = lasting(random, _SLOW[min(job.pods, 4) if job.pods < 8 else 8][1], 1.0, 1, 600)
        speed, what = random.uniform(0.35, 0.92), "slow network" if job.pods > 1 else "slow input"
        end = add(job, what, minute, lasts, strength=speed)
        yield Event(of, SLOW, minute, end, "yes" if lasts >= 60 and speed <= 0.75 else "may", how=what)
    elif fault == "stall":
        lasts = lasting(random, 8, 0.9, 1, 120)
        end = add(job, "stall", minute, lasts, strength=random.uniform(0.02, 0.8))
        yield Event(of, SLOW, minute, end, "may", how="stall")
    elif fault == "restart":
        cause = "node" if job.source.platform != "aws_sagemaker" else "other"
        _again(random, job, minute)
        job.faults[-1] = (minute, cause, "NodeNotReady")
        yield Event(of, PLATFORM, minute, job.end, "may", how="restart")


def _work(random: Random, job: Job, minute: int, end: int, strength: float) -> int:
    """Append healthy work until `end` or a little later; return its end."""
    if job.kind == "preparation" and not any(spell.what == "prepare" for spell in job.timeline):
        minute = add(job, "prepare", minute, min(random.uniform(15, 70), max(end - minute, 0)))
    saves, takes = random.choice((30, 60, 120, 240)), random.choice((0, 1, 2, 5))
    evaluates = random.uniform(180, 720) if random.random() < 0.5 else 1e9
    waits, lasts = job.evaluates or 1e9, random.choice((6, 10, 20, 35, 60))
    saved = evaluated = waited = minute
    while minute < end:
        if job.kind == "rl":
            minute = add(job, "generate", minute, random.uniform(2, 9))
            minute = add(job, "train", minute, random.uniform(2, 6), strength=strength)
        elif job.kind == "session":
            minute = add(job, "train", minute, lasting(random, 40, 0.9, 3, 600))
            idle = lasting(random, 100, 1.1, 3, 1500)
            minute = add(job, "gap", minute, idle)
        elif minute - waited >= waits:
            minute = waited = add(job, "rank 0", minute, lasts * random.uniform(0.7, 1.3), pod=0)
        elif minute - evaluated >= evaluates:
            speed = random.uniform(0.35, 0.95)
            minute = evaluated = add(job, "evaluation", minute, lasting(random, 12, 0.7, 2, 90), strength=speed)
        elif minute - saved >= saves:
            saved = minute
            minute = add(job, "checkpoint", minute, takes)
        else:
            following = min(saved + saves, evaluated + evaluates, waited + waits, end)
            minute = add(job, "train", minute, max(following - minute, 1), strength=strength)
    return minute
