"""Signals of a simulated job for each minute: utilization, power and traffic of each pod.

Studies do not publish these shapes. They are assumptions: a hung collective spins at a third of the power and without
traffic, an idle accelerator draws a seventh, and otherwise power follows the speed of the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.detection_world import Episode, Job

_IDLE_POWER = 0.14
"""Of full power."""
_NOT_TIME = {"new phase", "crash loop", "eviction"}
"""Kinds of episodes that only mark an event. The others fill their time."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of one job in one minute, for each pod."""

    use: Sequence[float]
    power: Sequence[float]
    """Watts."""
    network: Sequence[float]
    """Bytes per second, both ways."""


class _Shape:
    """The constant properties of one job."""

    def __init__(self, random: Random, job: Job) -> None:
        self.full_power = random.choice([400.0, 700.0]) * 8
        self.use, self.power = random.uniform(0.72, 0.99), random.uniform(0.6, 0.95)
        several = job.pods > 1  # one node only reads data
        self.traffic = random.lognormvariate(math.log(4e9 if several else 3e7), 0.8 if several else 1.3)
        is_uneven = random.random() < 0.425
        self.parts = [
            random.uniform(0.82, 1.08) if is_uneven and random.random() < 0.3 else 1.0 for _ in range(job.pods)
        ]
        """The share of the work of each pod."""
        self.own = [random.gauss(1, 0.008) for _ in range(job.pods)]
        self.hung_power = min(max(random.gauss(0.27, 0.06), 0.15), 0.5)
        self.is_one_dead = random.random() < 0.4
        """Whether a hang begins with a pod that does nothing, while the others spin."""
        self.is_slow_seen = random.random() < 0.75
        """Whether a slow machine shows in its utilization as well."""
        self.slow = random.choices(["power", "network", "host"], [0.4, 0.35, 0.25])[0]


def readings(random: Random, job: Job) -> Iterator[Readings]:
    """Yield each minute of a job from its start on."""
    shape, level = _Shape(random, job), 1.0
    for episode in job.timeline:
        if episode.kind == "new phase":
            level *= episode.strength
        if episode.kind in _NOT_TIME:
            continue
        # Some jobs evaluate and synchronize now and then, some do not.
        eased = random.uniform(0.0, 0.4) if random.random() < 0.6 else 0.0
        for _ in range(episode.minutes):
            yield _of_pods(random, job, episode, shape, _mean(random, episode, shape, level, eased))


def _mean(random: Random, episode: Episode, shape: _Shape, level: float, eased: float) -> tuple[float, float, float]:
    """Return utilization, power and traffic of a normal pod, as shares of the usual values."""
    wave, kind = random.gauss(1, 0.012), episode.kind
    use, power, network = shape.use * wave, shape.power * level * wave, level * wave
    if kind == "hang":
        return random.uniform(0.995, 1), shape.hung_power, random.uniform(2e-6, 1e-5)
    if kind in {"idle", "dead", "restart", "requeued"}:
        return random.uniform(0, 0.012), _IDLE_POWER, random.uniform(2e-6, 1e-4)
    if kind == "startup":
        ramp = random.uniform(0, 0.1)
        return ramp, _IDLE_POWER + 0.1 * ramp, random.uniform(0, 0.3)
    if kind == "checkpoint":
        return use * random.uniform(0, 0.3), 0.25, random.uniform(0.01, 0.4)
    if kind == "evaluation":
        varied = power * episode.strength * random.gauss(1, 0.05)
        return min(use * random.uniform(0.8, 1.1), 1), varied, eased * wave
    if kind in {"data stall", "fail-slow", "straggler"}:
        # A pod that waits for a slow machine is slower than usual, and faster than that machine.
        speed = episode.strength if kind != "straggler" else (1 + episode.strength) / 2
        use *= speed if kind == "data stall" else random.uniform(0.92, 1.03)
        return use, _IDLE_POWER + (power - _IDLE_POWER) * speed, network * speed
    return use, power, network


def _of_pods(random: Random, job: Job, episode: Episode, shape: _Shape, mean: tuple[float, float, float]) -> Readings:
    """Return the values of every pod, with the differences by pod, by uneven work and by faults."""
    use, power, network = [], [], []
    is_working = episode.kind in {"work", "straggler", "fail-slow", "evaluation", "data stall"}
    noise = 0.004 if episode.kind == "hang" else 0.015
    for pod in range(job.pods):
        u, p, n = mean
        if is_working:
            u, p = u * (shape.parts[pod] + 1) / 2, p * shape.parts[pod]
        if pod == episode.pod and episode.kind == "straggler":
            left = episode.strength
            p *= left if shape.slow == "power" else (1 + left) / 2
            n *= left if shape.slow == "network" else 1.0
            u *= left if shape.is_slow_seen else 1.0
        if pod == episode.pod and episode.kind == "hang" and shape.is_one_dead:
            u, p = random.uniform(0, 0.01), _IDLE_POWER
        use.append(min(max(u * random.gauss(shape.own[pod], noise), 0), 1))
        power.append(shape.full_power * max(p * random.gauss(shape.own[pod], noise), 0.05))
        network.append(shape.traffic * max(n * random.gauss(shape.own[pod], 0.04), 0) + random.uniform(5e3, 3e4))
    return Readings(use, power, network)
