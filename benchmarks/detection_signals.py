"""How the jobs of the first generator look, minute by minute: utilization, power, CPU and traffic of each pod.

Studies do not publish these shapes. Shares of power are those of pytorch#118369; the others are assumptions.
"""

from __future__ import annotations

import math
from random import Random

from benchmarks import detection_second_samples as second
from benchmarks.detection_second_samples import Means, PodCards, Reading, measured
from benchmarks.detection_second_world import Job, Spell

_WAVES = [Random(f"wave {number}").gauss(1, 0.012) for number in range(4093)]
"""The common noise of all pods of a job, by minute."""


class Shape(second.Shape):
    """The constant properties of one job."""

    def __init__(self, random: Random, job: Job) -> None:
        self.random, self.job = random, job
        self.utilization = random.uniform(0.72, 0.99)
        self.watts = random.uniform(*job.card.training)
        self.hanging, self.idle = random.uniform(*job.card.hanging), random.uniform(*job.card.idle)
        self.cpu, self.memory = random.uniform(0.1, 0.5), random.uniform(0.2, 0.7)
        # RDMA passes the counters of containers in half of the jobs. A job with one pod only reads data.
        is_counted = job.pods > 1 and random.random() < 0.5
        self.traffic = random.lognormvariate(math.log(2e9), 0.8) if is_counted else random.uniform(1e3, 1e5)
        self.input, self.by_network = random.lognormvariate(math.log(2e7), 1.2), random.random() < 0.5
        is_uneven = random.random() < 0.425
        self.pods = [self._pod(random, pod, is_uneven) for pod in range(job.pods)]
        self.salt = random.randrange(4093)

    def _pod(self, random: Random, pod: int, is_uneven: bool) -> tuple[float, float]:
        """Return a pod's lasting shares of utilization and of the power above idle."""
        if self.job.kind == "roles" and pod == self.job.pods - 1:  # a reward model
            return random.uniform(0.15, 0.5), random.uniform(0.15, 0.5)
        if self.job.kind == "pipeline" and pod == self.job.pods - 1:
            return 1.0, random.uniform(0.72, 0.95)
        uneven = random.uniform(0.82, 1.08) if is_uneven and random.random() < 0.3 else 1.0
        return (uneven + 1) / 2, uneven * random.gauss(1, 0.01)

    def reading(self, spell: Spell, minute: int, pod: int) -> Reading:
        """Return what a pod does in a minute of a spell."""
        means, cards = _means(self, spell, minute, pod)
        return measured(self, minute, pod, means, cards)


def _means(shape: Shape, spell: Spell, minute: int, pod: int) -> tuple[Means, PodCards | None]:
    random, idle, what, speed = shape.random, shape.idle, spell.what, spell.strength
    wave = _WAVES[(shape.salt + minute) % 4093]
    share, above = shape.pods[pod]
    busy, more = shape.utilization * share * wave, (shape.watts - idle) * above * wave
    spins = 1.0 if shape.job.card.kind == "gpu" else 0.004
    is_one, waits = pod == spell.pod, shape.cpu * 0.35 + 0.02
    spinning = (spins, shape.hanging)
    if what.startswith("hang") or what == "rank 0":
        cards: PodCards = [spinning] * shape.job.cards
        if is_one and what != "hang":
            lead = (0.7, idle + more * 0.5) if what == "rank 0" else (0.0, idle)
            cards[-1] = None if what == "hang, card lost" else lead
        return (*spinning, shape.cpu if is_one and what == "rank 0" else waits, 0.0, 0.0), cards
    if what in ("throttled", "busy CPU"):
        # Each of the others waits in the collective operations for the slow pod. Traffic is that of the slowest.
        if not is_one:
            watts = idle + more * speed + (shape.hanging - idle) * (1 - speed)
            return (busy * speed + spins * (1 - speed), watts, shape.cpu, speed, 2e4), None
        if what == "throttled":
            return (busy, idle + more * speed * 0.85, shape.cpu, speed, 2e4), None
        return (busy * speed, idle + more * speed, random.uniform(0.9, 1.0), speed, 2e4), None
    if what == "slow network":
        watts = idle + more * speed + (shape.hanging - idle) * (1 - speed)
        return (busy * speed + spins * (1 - speed), watts, shape.cpu, speed, 2e4), None
    if what in ("slow input", "stall"):
        return (busy * speed, idle + more * speed, shape.cpu * speed, speed, 2e4), None
    if what == "evaluation":  # some evaluate without traffic
        flow = (spell.start % 5) / 10
        return (busy * random.uniform(0.8, 1.05), idle + more * speed * random.gauss(1, 0.05), shape.cpu, flow, 0), None
    if what == "generate":
        level = random.uniform(0.6, 1.0) if (minute + 3 * pod) % 5 else 0.35
        return (busy * level, idle + more * 0.4 * level, shape.cpu * 0.8, 0.03, 2e4), None
    if what == "train":
        return (busy, idle + more * speed, shape.cpu, speed * wave, 2e4), None
    apart: dict[str, Means] = {
        "warm-up": (random.uniform(0, 0.1), idle * 1.1, random.uniform(0.1, 0.6), 1.0, 2e4),
        "checkpoint": (busy * random.uniform(0, 0.3), idle * 1.3, shape.cpu, 0.2, 5e8),
        "prepare": (0.0, idle, random.uniform(0.55, 0.98), 0.3, 5e7),
    }
    return apart.get(what, (random.uniform(0, 0.012), idle, random.uniform(0.003, 0.02), 0.0, 0.0)), None
