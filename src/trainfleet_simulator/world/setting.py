"""The differences between the worlds of the clouds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from trainfleet_simulator.world.jobs import Draft, Plan
from trainfleet_simulator.world.nouns import FOR_EVER, STOPPED_BY_USER, SUCCEEDED, PoolSpec
from trainfleet_simulator.world.pools import Pool

Submissions = list[tuple[int, Draft]]
"""Submitted jobs with their times (Unix seconds)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The pools of a cloud, the jobs that its users submit, and the numbering of its jobs."""

    pools: tuple[PoolSpec, ...]
    population: int
    """Approximate number of live jobs if the pools have the nodes of their specs."""
    watched: int
    """Number of jobs that live forever."""
    draft: Callable[..., Draft]
    """Draws one ordinary job from a generator. With `short`, it runs 1 to 12 minutes, otherwise 10 minutes to 6
    hours."""
    earlier: Callable[[Random, int, Mapping[str, Pool]], Submissions]
    """Returns the interesting jobs submitted before the start. Arguments: a generator, the start, the pools."""
    job_id: Callable[[Random], str]
    history: int
    """Number of ordinary jobs in the month before the start."""


def running_and_end(
    rng: Random, *, short: bool, weights: Sequence[int], failures: Sequence[tuple[str, str]]
) -> tuple[int, str, tuple[str, str]]:
    """Draw the running time of an ordinary job (seconds), its outcome, and its reason. `weights` are those of success,
    failure and a stop."""
    running = rng.randint(60, 720) if short else int(rng.triangular(600, 21600, 2400))
    outcome = rng.choices(("Succeeded", "Failed", "Stopped"), weights)[0]
    reason = {"Succeeded": SUCCEEDED, "Stopped": STOPPED_BY_USER}.get(outcome) or rng.choice(failures)
    return running, outcome, reason


ENDLESS = Plan(3, 4, 30, FOR_EVER, "Stopped", STOPPED_BY_USER, stopping=8)
QUICK = Plan(2, 3, 15, 240, "Succeeded", SUCCEEDED)
