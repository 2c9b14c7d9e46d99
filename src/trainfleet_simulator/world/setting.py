"""What sets one cloud's world apart from another's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from trainfleet_simulator.world.jobs import Draft
from trainfleet_simulator.world.nouns import PoolSpec
from trainfleet_simulator.world.pools import Pool

Submissions = list[tuple[int, Draft]]
"""What was submitted, and when (Unix seconds)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The pools of a cloud, what its users submit, and how its jobs are numbered."""

    pools: tuple[PoolSpec, ...]
    population: int
    """About how many jobs live at a time when the pools have the nodes that their specs say."""
    watched: int
    """How many of them live for ever."""
    draft: Callable[[Random], Draft]
    """One ordinary submission."""
    earlier: Callable[[Random, int, int, Mapping[str, Pool]], Submissions]
    """Everything submitted before the start but the last minutes' ordinary arrivals, oldest first, from: a generator,
    the start, how many ordinary jobs of the past, the pools."""
    job_id: Callable[[Random], str]
    history: int = 200
