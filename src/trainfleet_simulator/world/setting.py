"""The differences between the worlds of the clouds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from trainfleet_simulator.world.jobs import Draft
from trainfleet_simulator.world.nouns import PoolSpec
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
    draft: Callable[[Random], Draft]
    """Draws one ordinary job."""
    earlier: Callable[[Random, int, int, Mapping[str, Pool]], Submissions]
    """Returns all jobs submitted before the start, oldest first, without the ordinary arrivals of the last minutes.
    Arguments: a generator, the start, the number of ordinary jobs of the past, the pools."""
    job_id: Callable[[Random], str]
    history: int = 200
