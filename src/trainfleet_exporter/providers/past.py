"""What backfill asks of a cloud: which jobs lived in a range, and dated readings of what they used.

    searches ─► lives ─► details ─► for each day: calls ─► tracks

A platform with a past has a `Past` (registry.Platform.past). Times are Unix seconds; everything else is in the
model's base units.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from trainfleet_exporter.model import Job, PhaseTime, Status

T = TypeVar("T")
DAY = 86_400
MINUTE = 60


@dataclass(frozen=True, slots=True)
class Range:
    """Unix seconds from `start` on and before `end`."""

    start: int
    end: int

    def clip(self, start: float, end: float) -> Range:
        """Return the part of it that is in another range; empty (`end` not after `start`) if they do not overlap."""
        return Range(*(math.ceil(min(max(moment, self.start), self.end)) for moment in (start, end)))

    @property
    def empty(self) -> bool:
        return self.end <= self.start


class Spell(msgspec.Struct, frozen=True, array_like=True):
    """A time for which the platform's own record proves a job's status. A spell without an end still lasts."""

    start: float
    end: float | None
    status: Status
    platform_status: str
    holds_resources: bool | None


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its times, from its record."""

    job: Job
    """As it was while it held or wanted resources; its status means nothing. It has only the tags that are shown."""
    until: float | None = None
    """When it released everything, or an estimate of it; None while it lives."""
    ended: float | None = None
    """When it ended, if its record has that; None for a live job, and if the end is unknown."""
    ceased: float | None = None
    """When its work ended, and its usage with it; None for a live job."""
    spells: tuple[Spell, ...] = ()
    tasks: tuple[str, ...] = ()
    """The names of its pods, if the record has them."""
    pods: int = 1
    """About how many pods it has. Calls are planned by it."""
    phases: tuple[PhaseTime, ...] = ()
    """How long it has spent on each phase, if its record has that."""
    cards: int = 0
    """About how many accelerators all of its pods have."""

    @property
    def since(self) -> float:
        """When it first existed; infinite if its record has no time at all."""
        known = (self.job.created, self.job.submitted, self.job.started, self.until)
        return min((moment for moment in known if moment is not None), default=math.inf)

    def is_in(self, within: Range, *, shown_after: float = 0.0) -> bool:
        """Return whether it lived in a range, or ended at most so many seconds before it."""
        return self.since < within.end and (self.until is None or self.until >= within.start - shown_after)

    def runs(self, within: Range) -> Range:
        """Return when it worked within a range; empty if it did not."""
        begun = [each.start for each in self.spells if each.status is Status.RUNNING]  # `started` may be later
        start = min([*begun, *filter(None, (self.job.started,))], default=math.inf)
        return within.clip(start, within.end if self.ceased is None else self.ceased + 1)


@dataclass(frozen=True, slots=True)
class Track:
    """Dated readings of one series, oldest first, each time once."""

    shown: object
    """The series as an object of the model: Readings of one subject, or UsageSource. Its own value does not count."""
    times: array[int]
    values: array[float]


@dataclass(frozen=True, slots=True)
class PastCall(Generic[T]):
    """A planned call, or several that only make sense together. `what` names it in errors.

    `read` yields what the call found, until a deadline (loop time). It raises CloudError, and may be called again.
    """

    what: str
    calls: Mapping[str, int]
    """By API, how many calls it is expected to take."""
    read: Callable[[float], AsyncIterator[T]]


class Past(ABC):
    """One provider's past."""

    def __init__(self) -> None:
        self.job_id = ""
        """The only job to read; empty for all."""
        self.dropped: Counter[str] = Counter()
        """Values that cannot be shown, by the daemon's reasons."""
        self.gone: set[str] = set()
        """Jobs that the cloud does not know any more."""

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        """Return texts for users about data of a range that the cloud no longer has, or never had."""
        return ()

    async def learn(self, deadline: float) -> None:  # noqa: B027 - a cloud may need nothing
        """Read what calls are planned by, such as catalogues and workspaces. Raises CloudError."""

    @abstractmethod
    def searches(self, wanted: Range, now: float) -> Iterator[Sequence[PastCall[Life]]]:
        """Yield rounds of calls that find all jobs that lived in a range, or the one of `job_id`. `now` is a Unix time.

        A round begins when the round before has ended. A job that leaves a list in the meantime must be in a list of a
        later round.
        """

    def details(self, lives: Iterable[Life]) -> Iterator[PastCall[Life]]:
        """Yield calls for single jobs, which complete their lives."""
        return iter(())

    @abstractmethod
    def readings(self, day: Range, lives: Sequence[Life]) -> Iterator[PastCall[Track]]:
        """Yield the calls that read the usage of a day. `lives` are the jobs that lived on it. No two calls yield the
        same series at the same time."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""


def seconds_after(moment: float, step: int) -> int:
    """Return the first multiple of `step` that is not before a moment."""
    return math.ceil(moment / step) * step
