"""The worlds of the second generator as the exporter shows them: its families, one sample a minute, in OpenMetrics.

A poll finds a reading that is one to four minutes old, and the page shows it until the next poll two minutes later, at
most until it is 15 minutes old. Polls fail for 3 to 40 minutes every two days, and readings of a pod are missing for 2
to 30 minutes every two days. Pools, nodes, histograms, cores and bytes of memory are left out.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple, TextIO

from benchmarks.detection_second_world import MINUTES, NOT_RUNNING, SOURCES, Job, Source, Spell, World

START = 1000 * 486 * 3600
"""A Unix time, on a Wednesday, at which a block of 486 hours begins, so that all samples are in one block."""
_OLDEST = 15
_RETAINED = 60
_TIMES = [f" {START + minute * 60}\n" for minute in range(MINUTES)]
_NOISE = [Random(f"noise {number}").gauss(0, 1) for number in range(4099)]  # shared by all cards: it is cheap
_WORDS: Mapping[str, Mapping[str, str]] = {
    "alibaba_pai": {"queued": "Queuing", "starting": "EnvPreparing", "restarting": "Running", "running": "Running"},
    "huawei_modelarts": {
        "queued": "Pending",
        "creating": "Creating",
        "succeeded": "Completed",
        "stopped": "Terminated",
    },
    "aws_sagemaker": {"queued": "Pending", "starting": "Downloading", "running": "Training", "succeeded": "Completed"},
}
"""The platform's own words for a status, where they differ from it."""
_PHASES = {"queued": "queued", "starting": "preparing", "restarting": "recovering"}


PodCards = list[tuple[float, float] | None]
Means = tuple[float, float, float, float, float]
"""Utilization, watts of a card, CPU, share of the usual traffic, bytes a second written."""


class Reading(NamedTuple):
    """What a pod does in a minute: ratios, bytes a second, and by card its ratio and watts; None for a lost card."""

    cpu: float
    memory: float
    utilization: float
    card_memory: float
    receive: float
    transmit: float
    read: float
    write: float
    watts: float
    cards: PodCards


_READ = (
    ("cpu_utilization_ratio", "cpu", ""),
    ("memory_utilization_ratio", "memory", ""),
    ("accelerator_utilization_ratio", "utilization", "kind"),
    ("accelerator_memory_utilization_ratio", "card_memory", "kind"),
    ("network_receive_bytes_per_second", "receive", "rate"),
    ("network_transmit_bytes_per_second", "transmit", "rate"),
    ("disk_read_bytes_per_second", "read", "rate"),
    ("disk_write_bytes_per_second", "write", "rate"),
    ("accelerator_power_watts", "watts", "power"),
)
"""The end of a family's name, the field of a reading, and what it needs: a label, or a source that serves it."""


class Shape:
    """How a job looks while it works: drawn once a job."""

    def __init__(self, random: Random, job: Job) -> None:
        self.random, self.job = random, job
        small = job.kind in ("session", "preparation", "evaluation") or job.cards < 8
        self.utilization = random.uniform(0.45, 0.98) if small else random.uniform(0.9, 0.99)
        self.watts = random.uniform(*job.card.training) * (random.uniform(0.55, 1.0) if small else 1.0)
        self.hanging, self.idle = random.uniform(*job.card.hanging), random.uniform(*job.card.idle)
        self.cpu, self.memory = random.uniform(0.08, 0.4), random.uniform(0.15, 0.6)
        self.spread = random.choice((0.01, 0.015, 0.02, 0.05))  # [whatif] lengths of sequences vary in a fifth
        # Bytes a second that containers count: RDMA passes them in half of the jobs with several pods.
        is_counted = job.pods > 1 and random.random() < 0.5
        self.traffic = random.uniform(2e8, 2e9) if is_counted else random.uniform(2e3, 2e5)
        self.input, self.by_network = random.uniform(1e6, 1.5e8), random.random() < 0.6
        self.pods: list[tuple[float, float]] = []  # shares of utilization, and of the watts above idle
        for pod in range(job.pods):
            share, watts = 1.0, random.gauss(1, 0.015)  # cards of one model differ by some percent
            if job.kind == "roles" and pod >= job.pods / 2:  # reward and reference models wait most of the time
                share, watts = random.uniform(0.1, 0.4), random.uniform(0.1, 0.4)
            elif job.kind == "pipeline" and pod in (0, job.pods - 1):  # [whatif] first and last stage
                watts *= random.uniform(0.8, 0.92) if pod else random.uniform(0.9, 1.0)
            self.pods.append((share, watts))

    def reading(self, spell: Spell, minute: int, pod: int) -> Reading:
        """Return what a pod does in a minute of a spell. Another generator has another one."""
        return reading(self, spell, minute, pod)


def reading(shape: Shape, spell: Spell, minute: int, pod: int) -> Reading:
    """Return what a pod does in a minute of a spell."""
    job, random = shape.job, shape.random
    spins = 1.0 if job.card.kind == "gpu" else 0.005  # [power]
    share, above = shape.pods[pod]
    busy = shape.utilization * share
    full = shape.idle + (shape.watts - shape.idle) * above
    full *= 1 + 0.012 * math.sin(minute / 229) + shape.spread * _NOISE[minute * 31 % 4099] * 0.5
    what, is_one, work = spell.what, pod == spell.pod, spell.strength
    utilization, watts, cpu, flow, written = busy, full, shape.cpu, 1.0, 2e4
    cards: PodCards | None = None
    if what == "train":
        watts, flow = shape.idle + (full - shape.idle) * work, work
    elif what == "generate":
        rest = Random(hash((job.submitted, spell.start, pod))).uniform(0.5, 0.9)
        level = 1.0 if minute - spell.start < rest * (spell.end - spell.start) else 0.35
        utilization, watts = (0.4 + 0.5 * share) * level, shape.idle + (full - shape.idle) * 0.42 * level  # [polca]
        flow = 0.05
    elif what.startswith("hang"):
        (utilization, watts, cpu, flow, written), cards = _hanging(shape, what, pod, is_one, spins)
    elif what in ("rank 0", "stall"):
        utilization, watts, cpu, flow, written = spins, shape.hanging, shape.cpu * 0.3 + 0.03, 0.0, 0.0
        if is_one:  # one card evaluates or saves, its neighbours wait
            cpu, written = min(shape.cpu + 0.1, 1.0), 1.5e8 if job.evaluates > 200 else 2e4
            lead = (0.0, shape.idle) if job.evaluates > 200 else (0.8, shape.idle + (full - shape.idle) * 0.6)
            cards = [lead, *[(spins, shape.hanging)] * (job.cards - 1)]
    elif what == "throttled":
        flow, utilization = work, busy if is_one else busy * work + spins * (1 - work)
        watts = shape.idle + (full - shape.idle) * (work * 0.8) if is_one else full * work + shape.hanging * (1 - work)
    elif what == "busy CPU":
        flow, cpu = work, random.uniform(0.92, 0.99) if is_one else shape.cpu * work
        utilization = busy * work if is_one else busy * work + spins * (1 - work)
        watts = full * work + (shape.idle if is_one else shape.hanging) * (1 - work)
    elif what == "slow network":
        flow, utilization = work, busy * work + spins * (1 - work)
        watts = full * work + shape.hanging * (1 - work)
    elif what == "starved":
        flow, utilization, watts = work, busy * work, full * work + shape.idle * (1 - work)
        cpu = min(shape.cpu * 2.5, 0.97) if spell.start % 2 else shape.cpu * work
    else:
        utilization, watts, cpu, flow, written = _apart(shape, what)
    return measured(shape, minute, pod, (utilization, watts, cpu, flow, written), cards)


def _apart(shape: Shape, what: str) -> Means:
    """Spells without training."""
    random, idle = shape.random, shape.idle
    if what in ("warm-up", "load"):
        return random.uniform(0, 0.15), idle * 1.08, random.uniform(0.1, 0.5), 1.5, 2e4
    if what in ("prepare", "score"):
        return 0.0, idle, random.uniform(0.4, 0.95), 0.2, random.uniform(1e6, 8e7)
    if what in ("checkpoint", "finish"):
        return random.uniform(0, 0.1), idle * 1.1, shape.cpu * 0.8 + 0.03, 0.1, random.uniform(1e8, 1e9)
    return 0.0, idle, random.uniform(0.003, 0.02), 0.0, 0.0  # "idle" and "gap"


def _hanging(shape: Shape, what: str, pod: int, is_one: bool, spins: float) -> tuple[Means, PodCards | None]:
    spinning, still = (spins, shape.hanging), (0.0, shape.idle * 1.1)
    if what == "hang on the CPU":
        return (*still, 0.02, 0.0, 0.0), None
    cards: PodCards = [spinning] * shape.job.cards
    if what == "hang, half at 0":
        cards[pod % 2 :: 2] = [still] * len(cards[pod % 2 :: 2])
    elif is_one and what in ("hang, one at 0", "hang, card lost"):
        cards[-1] = still if what == "hang, one at 0" else None
    return (*spinning, shape.cpu * 0.3 + 0.03, 0.0, 0.0), cards


def measured(shape: Shape, minute: int, pod: int, means: Means, cards: PodCards | None) -> Reading:
    """Add noise; make cards of means, and means of cards."""
    utilization, watts, cpu, flow, written = means
    salt = minute * 7 + pod * 1031
    jitter = 1 + 0.008 * _NOISE[salt % 4099]
    shown: PodCards = []
    for number in range(shape.job.cards):
        card = (utilization, watts) if cards is None else cards[number]
        if card is None:
            shown.append(None)
            continue
        noise = _NOISE[(salt + number * 131) % 4099]
        shown.append((min(max(card[0] * (1 + 0.01 * noise), 0), 1), card[1] * jitter * (1 + 0.012 * noise)))
    there = [card for card in shown if card is not None] or [(0.0, 0.0)]
    beats = 4e3 * (1 + 0.3 * abs(_NOISE[(salt + 17) % 4099]))
    moved = shape.traffic * flow * (1 + 0.04 * _NOISE[(salt + 29) % 4099])
    data = shape.input * min(flow, 1) * (1 + 0.15 * _NOISE[(salt + 41) % 4099])
    return Reading(
        cpu=min(max(cpu * (1 + 0.05 * _NOISE[(salt + 3) % 4099]), 0.002), 1),
        memory=shape.memory,
        utilization=sum(card[0] for card in there) / len(there),
        card_memory=0.5 + 0.45 * shape.utilization,
        receive=beats + moved + (data if shape.by_network else 0),
        transmit=beats + moved + (written if shape.by_network else 0),
        read=0 if shape.by_network else max(data, 0),
        write=0 if shape.by_network else written,
        watts=sum(card[1] for card in there),
        cards=shown,
    )


def _gaps(random: Random, lengths: Sequence[int]) -> Iterator[range]:
    """Yield the minutes of gaps, one in two days."""
    minute = 0
    while (minute := minute + round(random.expovariate(1 / 2880)) + 30) < MINUTES:
        yield range(minute, minute := min(minute + random.choice(lengths), MINUTES))


def shown(job: Job, failing: Collection[int], random: Random) -> list[int]:
    """Return for each minute of the week the minute of the reading that the page shows; -1 for none."""
    runs = {minute for spell in job.timeline if spell.what not in NOT_RUNNING for minute in spell.minutes}
    found, now, phase = [-1] * MINUTES, -1, random.randrange(2)
    for minute in range(max(job.submitted, 0), min(job.end + 2, MINUTES)):
        if minute % 2 == phase and minute not in failing:
            newest = minute - random.randint(*job.source.lag)
            now = next((one for one in range(newest, max(newest - _OLDEST, now), -1) if one in runs), now)
        if now >= 0 and minute - now <= _OLDEST:
            found[minute] = now
    return found


def _of_pod(whole: Sequence[int], random: Random) -> list[int]:
    """Return the same for one pod, whose readings are missing at times."""
    found = list(whole)
    for gap in _gaps(random, range(2, 31)):
        for one in gap:
            held = whole[gap.start - 1]
            found[one] = held if held >= 0 and one - held <= _OLDEST and whole[one] >= 0 else -1
    return found


def write(world: World, path: Path, look: type[Shape] = Shape) -> None:
    """Write the samples of all providers as OpenMetrics with timestamps. Another generator has other shapes of jobs."""
    with path.open("w", encoding="utf-8") as stream:
        for source in SOURCES:
            jobs = [job for job in world.jobs if job.source is source]
            failing = {m for gap in _gaps(Random(f"outages {world.seed} {source.name}"), (3, 5, 12, 40)) for m in gap}
            for job in jobs:
                random = Random(f"readings {world.seed} {job.job_id}")
                _write_job(stream, job)
                _write_usage(stream, job, shown(job, failing, random), random, look)
            _write_provider(stream, source, jobs, failing)
        _series(stream, "up", 'job="trainfleet-exporter",instance="exporter:10075"', _all(1))
        _series(stream, "trainfleet_exporter_config_last_reload_successful", "", _all(1))
        stream.write("# EOF\n")


def _all(value: object) -> Iterator[tuple[int, object]]:
    return ((minute, value) for minute in range(MINUTES))


def _series(stream: TextIO, name: str, labels: str, samples: Iterable[tuple[int, object]]) -> None:
    head = f"{name}{{{labels}}} "
    stream.writelines(f"{head}{value}{_TIMES[minute]}" for minute, value in samples)


def pod_id(job: Job, pod: int) -> str:
    """Return the name of a pod as the cloud makes it."""
    names = {"aws_sagemaker": f"algo-{pod + 1}", "huawei_modelarts": f"worker-{pod}"}
    return names.get(job.source.platform, f"{job.job_id}-worker-{pod}")


def _write_job(stream: TextIO, job: Job) -> None:
    platform, of = job.source.platform, f'provider="{job.source.name}",job_id="{job.job_id}"'
    rows: defaultdict[tuple[str, str], list[tuple[int, object]]] = defaultdict(list)
    ended = Spell(job.status, job.end, job.end + _RETAINED)
    spent, restarts, began = Counter[str](), 0, 0
    for spell in (*job.timeline, ended):
        status = job.status if spell is ended else spell.what if spell.what in NOT_RUNNING else "running"
        if platform == "huawei_modelarts":  # v2 has no status of starting or of starting again
            status = {"starting": "creating", "restarting": "running"}.get(status, status)
        word, phase = _WORDS[platform].get(status, status.title()), _PHASES.get(spell.what, "running")
        restarts += spell.what == "restarting"
        began = began or (spell.start if spell.what not in NOT_RUNNING else 0)
        for minute in spell.minutes:
            rows["job_status", f',status="{status}"'].append((minute, 1))
            rows["job_platform_status", f',platform_status="{word}"'].append((minute, 1))
            holds = spell is not ended and status not in ("queued", "creating")
            rows["job_holds_resources", ""].append((minute, int(holds)))
            rows["job_restarts_total", ""].append((minute, restarts))
            if began:
                rows["job_started_timestamp_seconds", ""].append((minute, START + began * 60))
            for known in spent.keys() | ({phase} if spell is not ended else set()):
                more = (minute - spell.start) * 60 if known == phase and spell is not ended else 0
                rows["job_phase_seconds", f',phase="{known}"'].append((minute, spent[known] + more))
        spent[phase] += (spell.end - spell.start) * 60
    names = f'job_name="{job.kind}",job_type="PyTorchJob",workspace_id="w1",pool_id="pool-{job.source.name}"'
    kind = f',accelerator="{job.card.kind}",accelerator_model="{job.card.model}"'
    always = {("job_info", f',{names},user_id="u1",user_name="u1",resource_type="r",payment_type=""'): 1}
    always["job_created_timestamp_seconds", ""] = START + job.submitted * 60
    live = {("job_requested_nodes", ""): job.pods, ("job_requested_accelerators", kind): job.pods * job.cards}
    role = {"alibaba_pai": "Worker", "aws_sagemaker": "algo"}.get(platform, "worker")
    for pod in range(job.pods):
        node = f'role="{role}",node_name="node-{job.submitted}-{pod}",pod_ip=""'
        live["pod_info", f',pod_id="{pod_id(job, pod)}",{node}'] = 1
    final = {("job_finished_timestamp_seconds", ""): START + job.end * 60}
    if job.reason:
        final["job_status_reason", f',reason="{job.reason}"'] = 1
    submitted, end = max(job.submitted, 0), max(job.end, 0)
    for facts, start, stop in ((always, submitted, ended.end), (live, submitted, end), (final, end, ended.end)):
        for key, value in facts.items():
            rows[key] += ((minute, value) for minute in range(start, min(stop, MINUTES)))
    for cause, code in dict.fromkeys((cause, code) for _, cause, code in job.faults):
        times = [at for at, *words in job.faults if words == [cause, code]]
        rows["job_faults_total", f',cause="{cause}",platform_cause="{code}"'] += (
            (minute, sum(at <= minute for at in times)) for minute in range(max(times[0], 0), min(ended.end, MINUTES))
        )
    for (name, labels), samples in rows.items():
        _series(stream, f"trainfleet_{name}", of + labels, samples)


def _write_usage(stream: TextIO, job: Job, whole: list[int], random: Random, look: type[Shape]) -> None:
    source, of = job.source, f'provider="{job.source.name}",job_id="{job.job_id}"'
    shape = look(random, job)
    spells = {minute: spell for spell in job.timeline for minute in spell.minutes}
    by_pod = [_of_pod(whole, random) for _ in range(job.pods)]
    read = {
        minute: [shape.reading(spells[minute], minute, pod) for pod in range(job.pods)]
        for minute in sorted({minute for shows in (whole, *by_pod) for minute in shows if minute >= 0})
    }
    kind = f',accelerator="{job.card.kind}"'
    for suffix, name, needs in _READ:
        if (needs == "rate" and not source.has_rates) or (needs == "power" and not source.has_power):
            continue
        label = kind if needs == "kind" else ""
        values = {minute: [getattr(one, name) for one in pods] for minute, pods in read.items()}
        total = {minute: sum(of_pods) for minute, of_pods in values.items()}
        if suffix.endswith("_ratio"):
            total = {minute: value / job.pods for minute, value in total.items()}
        _shown(stream, f"trainfleet_job_{suffix}", of + label, whole, total)
        for pod, shows in enumerate(by_pod):
            labels = f'{of},pod_id="{pod_id(job, pod)}"{label}'
            _shown(stream, f"trainfleet_pod_{suffix}", labels, shows, {m: values[m][pod] for m in values})
    if source.has_devices:
        for pod, shows in enumerate(by_pod):
            for card in range(job.cards):
                labels = f'{of},pod_id="{pod_id(job, pod)}",device="{card}"{kind}'
                there = {minute: pods[pod].cards[card] for minute, pods in read.items()}
                for number, suffix in enumerate(("utilization_ratio", "power_watts")):
                    values_of = {m: pair[number] for m, pair in there.items() if pair is not None}
                    _shown(stream, f"trainfleet_device_{suffix}", labels, shows, values_of)
    named = f'{of},source="{source.source}"'
    _series(stream, "trainfleet_job_usage_info", named, ((m, 1) for m, at in enumerate(whole) if at >= 0))
    if source.source not in ("aom", "task_metrics"):
        dated = ((m, START + at * 60) for m, at in enumerate(whole) if at >= 0)
        _series(stream, "trainfleet_job_usage_timestamp_seconds", of, dated)


def _shown(stream: TextIO, name: str, labels: str, shows: Sequence[int], values: Mapping[int, float]) -> None:
    """Write a series: at each minute the reading that the page shows."""
    texts = {minute: f"{value:.4g}" for minute, value in values.items()}
    _series(stream, name, labels, ((minute, texts[at]) for minute, at in enumerate(shows) if at in texts))


def _write_provider(stream: TextIO, source: Source, jobs: Sequence[Job], failing: Collection[int]) -> None:
    rows: dict[tuple[str, str], Iterable[tuple[int, object]]] = {("provider_up", ""): _all(1)}
    rows["provider_info", f'platform="{source.platform}",region="r1",project_id=""'] = _all(1)
    for status in ("succeeded", "failed", "stopped"):
        ends = [job.end for job in jobs if job.status == status and job.end < MINUTES]
        counted = [(minute, sum(0 < end <= minute for end in ends)) for minute in range(MINUTES)]
        rows["jobs_finished_total", f'workspace_id="w1",status="{status}"'] = counted
    for collector, interval in (("jobs", 60), ("usage", 120)):
        named = f'collector="{collector}"'
        fails = failing if collector == "usage" else ()
        good = accumulate([0 if minute in fails else START + minute * 60 for minute in range(MINUTES)], max)
        rows["exporter_collector_success", named] = [(m, int(m not in fails)) for m in range(MINUTES)]
        rows["exporter_collector_interval_seconds", named] = _all(interval)
        rows["exporter_collector_last_success_timestamp_seconds", named] = enumerate(good)
    for (name, labels), samples in rows.items():
        joined = f'provider="{source.name}"{"," if labels else ""}{labels}'
        _series(stream, f"trainfleet_{name}", joined, samples)
