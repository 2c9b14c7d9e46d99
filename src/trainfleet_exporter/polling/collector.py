"""What a provider hands over to be polled: a sweep, or a cycle of small polls that roll over its jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainfleet_exporter.polling.poll import Part, Poll


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A collector whose calls do not grow with the jobs (but by pages): all of it in one go, each interval.

    `run` reads every part through `poll.part(...)` and ends within the poll's deadline.
    """

    name: str
    interval: float
    run: Callable[[Poll], Awaitable[None]]
    expired: Callable[[str], None] = lambda key: None
    """Told of a part whose last good answer was kept long enough: nothing may be built on it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """A collector that needs calls for each job: every unit is a part, and a cycle over all takes one interval.

    `begin` waits until units are known, or reads them within the poll's deadline; `units` names them in order of
    need, or raises NotReady where there is none because the latest attempt to learn of any failed; `alive` tells
    whether one still is; `read` polls one; `watch` is given a function to call whenever units went away, so that what
    they showed goes at once rather than a cycle later. At most `workers` units are read at a time.
    """

    name: str
    interval: float
    units: Callable[[], Sequence[str]]
    read: Callable[[Part], Awaitable[None]]
    begin: Callable[[Poll], Awaitable[None]]
    alive: Callable[[str], bool]
    watch: Callable[[Callable[[], None]], None]
    workers: int
    calls: Callable[[str], int] = lambda unit: 1
    """About how many calls a unit takes: large ones are given more time than one poll's."""


Collector = Sweep | Rolling
