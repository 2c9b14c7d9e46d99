"""Weeks of training fleets by a second hand: the author read papers and reports, and has not seen the alert rules.

A world has six providers, one for each source of usage of the three clouds. Each job has a timeline without gaps, and
each problem a truth: job, kind, from, to, and whether an alert is wanted. Faults come more often than in reality, so
that few weeks show many of them. `REALISTIC` has the real rates, by which the report weighs true alarms.

Sources, as cited below:

- [llama3] The Llama 3 Herd of Models (Meta, 2024), section 3.3.4: 466 interruptions in 54 days on 16,384 H100, 419
  unexpected, 78 % of them by hardware. That is one in 2,100 days of a card.
- [rsc] Revisiting Reliability in Large-Scale ML Research Clusters (HPCA 2025): 2.3 to 6.5 failures in 1,000 node days.
- [byterobust] Robust LLM Training Infrastructure at ByteDance (SOSP 2025): 778,135 jobs in three months had about
  55,000 incidents: 10 % hangs, 0.8 % slow jobs, 17 % restarts by hand, the rest with an error.
- [minder] Minder (NSDI 2025): people need half an hour or more to find the machine. Load falls on all of them at once.
- [greyhound] Greyhound, earlier FALCON (ATC 2025, arXiv 2410.12588): 16 of 27 large jobs were slow for some time, by
  34.6 % on average. Slow computation: under 2 % of jobs, 10 minutes on average. Slow communication: 40 % of jobs with
  several nodes, 24 minutes on average, up to ten hours. All pods slow down together.
- [whatif] Understanding Stragglers in Large Model Training (OSDI 2025): uneven stages of pipelines and uneven lengths
  of sequences are the most frequent causes, slow machines are rare (under 2 % of jobs).
- [acme] Characterization of LLM Development in the Datacenter (NSDI 2024): 40 % of jobs fail, most in minutes. An
  evaluation loads for a third of its time and scores on the CPU for a fifth. Cards are busy or idle, little between.
- [megascale] MegaScale (NSDI 2024): 2,048 cards started in 17 minutes at first; 0.5 % of machines are 10 % slower.
- [philly] Large-Scale Multi-Tenant GPU Clusters (ATC 2019): queues of minutes to a day, jobs that fail at each retry.
- [power] Watts of cards: NeMo #9291, H100 that hang draw 100 W at 100 % utilization, 500 to 690 W in training; NCCL
  #1550, 129 to 152 W of 700 W in a hang, one card at 100 % and the others at 0 %; pytorch #118369, A100, 77 W in a
  hang; NCCL #1967, H100 idle, 69 to 71 W; pytorch #53395, A100 idle, 51 W; vllm-ascend #1130, 910B3 idle, 89 to 98 W;
  vllm-ascend #8972, NPUs that hang read 0. nccl-tests #193: a rank that waits keeps one core busy.
- [barrier] accelerate #314, #1752, #3861: rank 0 evaluates, saves or reads for 30 to 90 minutes while all others wait
  in a collective until its timeout of 10 or 30 minutes, which users raise.
- [rl] HybridFlow/verl (EuroSys 2025): generation takes over half of an RL step; RLHFuse (NSDI 2025): long answers
  leave most cards without work at the end of a generation.
- [polca] POLCA (ASPLOS 2024): training reaches the limit of power, generation of tokens draws much less.
- [xid] NVIDIA's catalogue of XID errors: 79, the card has fallen off the bus, and its readings end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import NamedTuple

MINUTES = 7 * 24 * 60
SLOTS = 12  # of a provider: the jobs of a slot run one after another
SATURDAY = 3 * 24 * 60  # the week begins on a Wednesday


class Card(NamedTuple):
    """A model of accelerators as the exporter labels it, and its watts: in training, in a hang, idle [power]."""

    model: str
    kind: str
    training: tuple[float, float]
    hanging: tuple[float, float]
    idle: tuple[float, float]


A100 = Card("A100", "gpu", (290, 385), (70, 90), (50, 62))
H100 = Card("H100", "gpu", (500, 690), (98, 152), (68, 85))
SNT9B = Card("ascend-snt9b", "npu", (270, 350), (88, 105), (88, 98))


class Source(NamedTuple):
    """A provider with one source of usage, and what that source serves."""

    name: str
    platform: str
    source: str
    cards: tuple[Card, ...]
    lag: tuple[int, int]
    """Minutes from a reading to the poll that finds it."""
    has_rates: bool = False
    has_power: bool = False
    has_devices: bool = False


SOURCES = (
    Source("pai-cloudmonitor", "alibaba_pai", "cloudmonitor", (A100, H100), (1, 3), True, False, True),
    Source("pai-job-metrics", "alibaba_pai", "job_metrics", (A100,), (1, 2), True),
    Source("modelarts-aom-gpu", "huawei_modelarts", "aom", (A100,), (1, 4), True, True, True),
    Source("modelarts-aom-npu", "huawei_modelarts", "aom", (SNT9B,), (1, 4), True, True, True),
    Source("modelarts-tasks", "huawei_modelarts", "task_metrics", (SNT9B,), (1, 2)),
    Source("sagemaker", "aws_sagemaker", "cloudwatch", (A100, H100), (1, 3)),
)
"""CloudMonitor has power of cards only. The lags are guesses: no cloud documents them."""

HANG, SLOW, STRAGGLER, IDLE = "hang", "slow", "straggler", "idle"
STUCK, QUEUED, FAILED, LOOP, PLATFORM = "stuck", "queued", "failed", "crash loop", "platform fault"
REALISTIC: Mapping[str, float] = {
    HANG: 2.0,  # [llama3] 16 cards a job: 5 incidents, [byterobust] a tenth of them; hangs in new code come on top
    SLOW: 6.0,  # [greyhound] 40 % of jobs with several nodes, few of them for an hour; and input that is too slow
    STRAGGLER: 1.0,  # [greyhound] [whatif] under 2 % of jobs
    IDLE: 20.0,  # [acme] cards are busy or idle; jobs that end late, and sessions over night
    STUCK: 1.0,
    QUEUED: 8.0,  # [philly] the tail of the waits
    FAILED: 25.0,  # [acme] 40 % of jobs, of the short ones that follow one another
    LOOP: 1.0,  # [philly]
    PLATFORM: 6.0,  # [llama3] [rsc] 11,200 days of a card are 5 to 9 incidents
}
"""Events in a week for 100 jobs that run all the time, 16 cards each. Rates without a source are the author's guess."""


class Spell(NamedTuple):
    """What a job does between two minutes. `pod` is the one that differs, `strength` the remaining share of speed."""

    what: str
    start: int
    end: int
    pod: int = -1
    strength: float = 1.0

    @property
    def minutes(self) -> range:
        return range(max(self.start, 0), min(self.end, MINUTES))


class Event(NamedTuple):
    """The truth about one problem. `wish` is yes, no, or may: an alert is neither wanted nor wrong."""

    job_id: str
    kind: str
    start: int
    end: int
    wish: str
    pod: int = -1
    how: str = ""
    """The shape, for the list of what was missed."""


@dataclass(slots=True)
class Job:
    """One job and its life. The minutes of its timeline begin at its submission, which may be before the week."""

    job_id: str
    source: Source
    kind: str
    card: Card
    pods: int
    cards: int
    """Of each pod."""
    submitted: int
    timeline: list[Spell] = field(default_factory=list)
    status: str = "running"
    """At its end; `running` if the week ends first."""
    reason: str = ""
    faults: list[tuple[int, str, str]] = field(default_factory=list)
    """Minute, cause and the platform's code, as the exporter counts them."""
    evaluates: int = 0
    """Minutes between two waits for rank 0; 0 for none."""

    @property
    def end(self) -> int:
        return self.timeline[-1].end

    @property
    def held(self) -> int:
        """Return the minutes of the week in which it holds cards."""
        return sum(len(spell.minutes) for spell in self.timeline if spell.what != "queued")

    def at(self, minute: int) -> Spell | None:
        return next((spell for spell in self.timeline if spell.start <= minute < spell.end), None)


class World(NamedTuple):
    """A week of all providers."""

    seed: int
    jobs: list[Job]
    events: list[Event]


NOT_RUNNING = frozenset({"queued", "starting", "restarting"})
_KINDS = {"pretraining": 0.1, "finetuning": 0.3, "rl": 0.18, "roles": 0.1, "pipeline": 0.1}
_KINDS |= {"session": 0.03, "preparation": 0.1, "evaluation": 0.09}
_PODS = {"pretraining": (2, 4, 4, 8), "finetuning": (1, 1, 1, 2), "rl": (1, 1, 2, 4), "roles": (3, 4), "pipeline": (4,)}
_HOURS = {"finetuning": (4, 50), "rl": (12, 90), "roles": (12, 72), "session": (20, 72), "preparation": (5, 24)}
_HOURS |= {"evaluation": (2, 10)}
_FAULTS = {HANG: 0.21, STRAGGLER: 0.2, SLOW: 0.17, IDLE: 0.07, PLATFORM: 0.1, FAILED: 0.03, LOOP: 0.05}
_FAULTS |= {"stall": 0.04, "new phase": 0.05, "": 0.08}
_CODES = {
    "alibaba_pai": (("ECCError", "accelerator"), ("NodeNotReady", "node"), ("GpuDrop", "accelerator")),
    "huawei_modelarts": (("npu_fault", "accelerator"), ("node_fault", "node"), ("link_fault", "node")),
    "aws_sagemaker": (("Restarting", "other"), ("Interrupted", "preempted")),
}
_USERS = {"alibaba_pai": "PodFailed", "huawei_modelarts": "exited with code 1", "aws_sagemaker": "AlgorithmError"}


def simulate(seed: int, slots: int = SLOTS) -> World:
    """Draw a world. The same seed makes the same world."""
    world = World(seed, [], [])
    for source in SOURCES:
        for slot in range(slots):
            random = Random(f"second {seed} {source.name} {slot}")
            minute, number = random.choice((-random.randrange(60, 4000), random.randrange(0, 600))), 0
            while minute < MINUTES - 240:
                world.jobs.append(job := _job(random, source, f"s{seed}-{source.name}-{slot}-{number}", minute))
                world.events.extend(_live(random, job))
                minute, number = job.end + random.randrange(20, 300), number + 1
    return world


def _job(random: Random, source: Source, job_id: str, minute: int) -> Job:
    kind = pick(random, _KINDS)
    pods = random.choice(_PODS.get(kind, (1,)))
    cards = 8 if pods > 1 else random.choice((1, 2, 4, 8, 8)) if kind not in ("session", "preparation") else 1
    job = Job(job_id, source, kind, random.choice(source.cards), pods, cards, minute)
    if kind in ("pretraining", "finetuning") and pods * cards > 1 and random.random() < 0.25:
        job.evaluates = random.choice((120, 180, 240, 360))  # [barrier]
    return job


def lasting(random: Random, median: float, spread: float, least: float, most: float) -> int:
    """Draw minutes from a log-normal distribution within limits."""
    return round(min(max(random.lognormvariate(math.log(median), spread), least), most))


def _live(random: Random, job: Job) -> Iterator[Event]:
    """Write the job's timeline; yield its events."""
    minute = job.submitted
    waits = lasting(random, 8, 1.3, 0, 110) if random.random() > 0.12 else lasting(random, 400, 0.6, 60, 2000)
    minute = add(job, "queued", minute, waits)
    if waits >= 60:
        yield Event(job.job_id, QUEUED, job.submitted, minute, "yes" if waits >= 300 else "may")
    starts = random.randrange(60, 400) if random.random() < 0.04 else lasting(random, 4, 0.5, 1, 18)  # large images
    if starts >= 60:
        yield Event(job.job_id, STUCK, minute, minute + starts, "yes" if starts >= 90 else "may")
    minute = add(job, "starting", minute, starts)
    low, high = _HOURS.get(job.kind, (100, 300))
    end = minute + random.randrange(low * 60, high * 60)
    fault = _fault(random, job)
    if fault == LOOP:
        yield from _loop(random, job, minute)
        return
    # [megascale]; compilation of kernels and graphs takes up to 40 minutes
    minute, strength = add(job, "warm-up", minute, lasting(random, 5, 0.7, 1, 45)), 1.0
    at = minute if fault == HANG and random.random() < 0.15 else _later(random, minute, end, 30)  # first step, or later
    while fault and at < end and job.status == "running":
        if at > minute:
            minute = _work(random, job, minute, at, strength)
        yield from _suffer(random, job, fault, minute)
        if fault == "new phase":  # [llama3] batches and sequences grow: other power and traffic from then on, healthy
            strength = random.uniform(0.86, 1.1)
        minute, fault = job.end, random.choice((_fault(random, job), "")).replace(LOOP, FAILED)
        at = _later(random, minute, end, 600)
    if job.status == "running":
        minute = _work(random, job, minute, max(end, minute + 60), strength)
        add(job, "finish", minute, random.randrange(2, 15))
        job.status = "succeeded"
    if job.end >= MINUTES:
        job.status = "running"
    yield from _nights(job)


def _fault(random: Random, job: Job) -> str:
    """Draw a fault that can happen to a job."""
    fault = pick(random, _FAULTS)
    fault = HANG if fault == STRAGGLER and job.pods < 2 else fault
    is_alone = fault == HANG and job.pods * job.cards < 2
    # SageMaker starts a job again only after its own errors.
    ends = fault == LOOP and (job.kind == "session" or job.source.platform == "aws_sagemaker")
    return FAILED if is_alone or ends else fault


def _later(random: Random, minute: int, end: int, least: int) -> int:
    """Draw the minute of a fault that is within the job and the week; `end` if there is no room."""
    first, last = max(minute, 0) + least, min(end, MINUTES - 120)
    return random.randrange(first, last) if first < last else end


def pick(random: Random, shares: Mapping[str, float]) -> str:
    return random.choices(list(shares), list(shares.values()))[0]


def add(job: Job, what: str, minute: int, minutes: float, *, pod: int = -1, strength: float = 1.0) -> int:
    """Append a spell; return its end."""
    end = minute + max(round(minutes), 0)
    if end > minute:
        job.timeline.append(Spell(what, minute, end, pod, strength))
    return end


def _loop(random: Random, job: Job, minute: int) -> Iterator[Event]:
    """A job that fails soon after each start, until its restarts are used up [philly]."""
    begun, allowed = minute, random.choice((6, 10, 20))
    for number in range(allowed + 1):
        minute = add(job, "warm-up", minute, random.randrange(2, 7))
        if number < allowed:
            job.faults.append((minute, "process", "ExitedWithCode"))
            minute = add(job, "restarting", minute, random.randrange(1, 4))
    yield Event(job.job_id, LOOP, begun, minute, "yes" if minute > 30 else "may")
    yield failed(job)


def failed(job: Job, reason: str = "") -> Event:
    job.status, job.reason = "failed", reason or _USERS[job.source.platform]
    return Event(job.job_id, FAILED, job.end, job.end + 60, "yes")


def _nights(job: Job) -> Iterator[Event]:
    """Idle times of a session: wanted from one hour on."""
    for _, start, end, *_ in (spell for spell in job.timeline if spell.what == "gap" and len(spell.minutes) >= 40):
        yield Event(job.job_id, IDLE, start, end, "yes" if end - start >= 60 else "may", how="session")


def _suffer(random: Random, job: Job, fault: str, minute: int) -> Iterator[Event]:
    """Let a fault happen at a minute. The status shows whether the job survives."""
    if fault == HANG:
        yield from _hang(random, job, minute)
    elif fault == IDLE:
        stays = lasting(random, 420, 0.8, 70, 3000)
        yield Event(job.job_id, IDLE, minute, add(job, "idle", minute, stays), "yes", how="after the work")
        job.status = "stopped"
    elif fault == PLATFORM:
        yield from _node_fault(random, job, minute)
    elif fault == FAILED:
        yield failed(job)
    elif fault != "new phase":
        yield _slowed(random, job, fault, minute)


def _slowed(random: Random, job: Job, fault: str, minute: int) -> Event:
    """A fault that ends by itself [greyhound]; longer than on average, so that an alert can be wanted."""
    if fault == "stall":  # storage that does not answer
        end = add(job, "stall", minute, lasting(random, 25, 0.6, 8, 90))
        return Event(job.job_id, HANG, minute, end, "may", how="stall")
    if fault == STRAGGLER:
        what, pod = random.choice(("throttled", "busy CPU")), random.randrange(job.pods)
        lasts = lasting(random, 90, 1.0, 15, 900)
        end = add(job, what, minute, lasts, pod=pod, strength=random.uniform(0.5, 0.85))
        return Event(job.job_id, STRAGGLER, minute, end, "yes" if lasts >= 45 else "may", pod, what)
    is_network = job.pods > 1 and random.random() < 0.6
    what, speed = ("slow network", (0.5, 0.85)) if is_network else ("starved", (0.3, 0.75))
    lasts, strength = lasting(random, 110, 1.0, 15, 900), random.uniform(*speed)
    end = add(job, what, minute, lasts, strength=strength)
    is_steady = job.kind not in ("session", "evaluation", "preparation")  # else nothing to compare with
    wish = "yes" if lasts >= 60 and strength <= 0.75 and is_steady else "may"
    return Event(job.job_id, SLOW, minute, end, wish, how=what)


def _hang(random: Random, job: Job, minute: int) -> Iterator[Event]:
    """A hang until a watchdog or a person ends it.

    Shapes [power]: all cards spin; one card, or half of them, is at 0 %; all wait on the CPU (a data loader that is
    locked, or an engine of generation that has died); a card falls off the bus [xid]. Ascend cards read 0 in each.
    """
    watchdog = random.random() < 0.3
    lasts = random.choice((10, 30, 30)) if watchdog else lasting(random, 240, 0.8, 35, 1500)
    if not watchdog and random.random() < 0.2 and minute < SATURDAY + 2000:
        lasts = max(SATURDAY + 2880 + 540 - minute, 600)  # people look on Monday morning
    shapes = {"hang": 0.4, "hang, one at 0": 0.25, "hang, half at 0": 0.1, "hang on the CPU": 0.13}
    how = pick(random, shapes if watchdog else shapes | {"hang, card lost": 0.12})
    pod = random.randrange(job.pods)
    end = add(job, how, minute, lasts, pod=pod)
    yield Event(job.job_id, HANG, minute, end, "yes" if lasts >= 45 else "may", pod, how)
    if random.random() < 0.4 and job.source.platform != "aws_sagemaker":
        job.faults.append((end, "process", "ExitedWithCode"))  # the platform starts the processes again
        end = add(job, "restarting", end, random.randrange(2, 15))
        add(job, "warm-up", end, lasting(random, 5, 0.7, 1, 45))
    elif random.random() < 0.5:
        yield failed(job)
    else:
        job.status = "stopped"


def _node_fault(random: Random, job: Job, minute: int) -> Iterator[Event]:
    """A fault of a card, a node or a link: the platform starts the job again, or the job fails [llama3] [rsc]."""
    code, cause = random.choice(_CODES[job.source.platform])
    if random.random() < 0.75:
        job.faults.append((minute, cause, code))
        down = lasting(random, 9, 0.6, 3, 60)
        if cause == "preempted":
            begun, minute = minute, add(job, "queued", minute, lasting(random, 30, 1.0, 3, 400))
            if minute - begun >= 60:
                yield Event(job.job_id, QUEUED, begun, minute, "yes" if minute - begun >= 300 else "may")
        minute = add(job, "restarting", minute, down)
        yield Event(
            job.job_id,
            PLATFORM,
            minute - down,
            minute,
            "yes" if cause in ("accelerator", "node") else "may",
            how="restart",
        )
        add(job, "warm-up", minute, lasting(random, 5, 0.7, 1, 45))
    else:
        reasons = ("UncorrectableECC", "HostFailure", "DeviceUnavailable")
        reason = "InternalServerError" if job.source.platform == "aws_sagemaker" else random.choice(reasons)
        yield Event(job.job_id, PLATFORM, minute, minute + 60, "yes", how=reason)
        yield failed(job, reason)._replace(wish="may")  # one end of a job needs one alert


def _work(random: Random, job: Job, minute: int, end: int, strength: float = 1.0) -> int:
    """Append healthy work until about `end`; return the minute at which it really ends."""
    if job.kind == "rl":
        while minute < end:  # [rl]
            minute = add(job, "generate", minute, random.uniform(3, 12))
            minute = add(job, "train", minute, random.uniform(2, 8), strength=strength)
    elif job.kind == "session":
        while minute < end:
            hour = minute % 1440 // 60
            minute = add(job, "train", minute, random.uniform(5, 70))
            gap = random.uniform(400, 800) if hour >= 20 or hour < 7 else lasting(random, 12, 0.9, 2, 90)
            minute = add(job, "gap", minute, min(gap, end - minute))
    elif job.kind == "evaluation":
        while minute < end:  # [acme]
            minute = add(job, "load", minute, random.uniform(2, 8))
            minute = add(job, "generate", minute, random.uniform(8, 30))
            minute = add(job, "score", minute, random.uniform(2, 18))
    else:
        if job.kind == "preparation" and not any(spell.what == "prepare" for spell in job.timeline):
            minute = add(job, "prepare", minute, min(random.uniform(20, 60), end - minute))
        saves, takes = random.choice((30, 60, 120)), random.choice((0, 1, 2, 4))  # 0: in the background
        lasts = random.choice((5, 12, 20, 30, 45, 90))
        marks = range(minute, end, saves)
        waits = job.evaluates or 10**9
        since = 0
        for mark, following in pairwise((*marks, end)):
            if minute >= following:
                continue
            minute = add(job, "train", minute, following - max(minute, mark), strength=strength)
            since += saves
            minute = add(job, "checkpoint", minute, takes)
            if since >= waits and minute + lasts < end:
                since = 0
                minute = add(job, "rank 0", minute, random.uniform(0.8, 1.2) * lasts, pod=0)
    return minute
