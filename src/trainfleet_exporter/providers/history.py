"""What a cloud knows of the past: which jobs lived, and dated readings of what they used.

A platform that knows it has a `History` (registry.Platform.history). The backfill asks for it in small units of
work, each of which can be done again from its beginning: the results of a unit go into a `Sink`, and counts once the
unit has ended without an error. Times are Unix seconds; everything else is in the model's base units.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from trainfleet_exporter.model import Accelerator, Job, Status

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

    @property
    def minutes(self) -> int:
        """How many minutes it touches."""
        return max(0, -(-(self.end - self.start) // MINUTE))


class Spell(msgspec.Struct, frozen=True, array_like=True):
    """A time for which the platform's own record proves a job's status; without an end, it lasts still."""

    start: float
    end: float | None
    status: Status
    platform_status: str
    holds_resources: bool | None


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its times, from its record."""

    job: Job
    """As it was while it held or wanted resources; its status means nothing. Tags that are not shown are not kept."""
    until: float | None = None
    """When it held nothing any more, or a guess at it; None while it lives."""
    ended: float | None = None
    """When it ended, if its record has that; None for a live job, and if the end is unknown."""
    ceased: float | None = None
    """When its work ended, and its usage with it; None for a live job."""
    spells: tuple[Spell, ...] = ()
    tasks: tuple[str, ...] = ()
    """The names of its pods, where the record has them."""
    pods: int = 1
    """How many pods it has, about: what answers are planned by."""
    cards: int = 0
    """How many accelerators all of its pods have, about."""

    @property
    def since(self) -> float:
        """When it was first there; never, where its record has no time at all."""
        known = (self.job.created, self.job.submitted, self.job.started, self.until)
        return min((moment for moment in known if moment is not None), default=math.inf)

    def runs(self, within: Range) -> Range:
        """When it worked within a range; empty if it did not, or has not begun."""
        if self.job.started is None:
            return Range(within.end, within.end)
        return within.clip(self.job.started, within.end if self.ceased is None else self.ceased + 1)


@dataclass(frozen=True, slots=True)
class Track:
    """Dated readings of one series, oldest first, each time once."""

    of: type
    """JobUsage, PodUsage, DeviceUsage, PoolUsage or UsageSource."""
    field: str
    """As in model.Readings."""
    keys: tuple[str, ...]
    """As in model.Subject."""
    times: array[int]
    values: array[float]
    accelerator: Accelerator = "gpu"
    source: str = ""
    """The source of the reading, if jobs may be served by one or another."""


class Sink(Protocol):
    """Where a unit puts what it learns."""

    def life(self, life: Life) -> None:
        """A job; it takes the place of what was known of it."""
        ...

    def track(self, track: Track) -> None:
        """Readings."""
        ...

    def mark(self, job_id: str, mark: str, times: array[int] | None = None) -> None:
        """A note on a job, by which the units of `left` and `outshone` are planned. It is for the unit's day; a unit of
        several days gives `times` (Unix seconds, oldest first), and the note is for the days of these."""
        ...

    def dropped(self, reason: str, count: int = 1) -> None:
        """Count values that cannot be shown, by the daemon's reasons."""
        ...

    def gone(self, job_id: str) -> None:
        """The cloud does not know the job any more."""
        ...


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work. Its key is the same whenever the plan is made again."""

    key: str
    calls: Mapping[str, int]
    """By API, how many calls it is expected to take."""
    do: Callable[[Sink, float], Coroutine[Any, Any, None]] = field(compare=False, repr=False)
    """Does it until a deadline (loop time). Raises CloudError."""
    once: bool = False
    """Whether its answer is about all days: planned for several, it is done for the first."""


Marks = Mapping[str, Collection[str]]
"""By job, the notes on it."""
Lives = Callable[[Range], Iterable[Life]]
"""The jobs that lived in a range, in an order that does not change."""


class PastSource(Protocol):
    """A source of a cloud that has past usage."""

    def units(self, day: Range, lives: Lives) -> Iterator[Unit]:
        """Return the units that read a day."""
        ...


class History(ABC):
    """One provider's past. Everything that asks raises CloudError."""

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        """Return texts for users about data of a range that the cloud no longer has, or never had."""
        return ()

    @abstractmethod
    async def learn(self, deadline: float) -> bytes:
        """Read the data that plans are made from (catalogues, workspaces), in a form that `recall` accepts. It is read
        once."""

    @abstractmethod
    def recall(self, learned: bytes, job_id: str) -> None:
        """Take over what was learned, and which job alone is wanted (empty: all). Called once, before what follows."""

    @abstractmethod
    def searches(self, wanted: Range, now: float) -> Sequence[Sequence[Unit]]:
        """Yield the searches for the jobs that lived in a range: all jobs, or the wanted one. `now` is when the work
        began.

        A round begins when all searches of the previous round are done. A job that leaves a list in the meantime must
        be in a list of a later round.
        """

    def details(self, lives: Iterable[Life]) -> Iterator[Unit]:
        """Return the calls for single jobs that must be made before any day is read."""
        return iter(())

    @abstractmethod
    def readings(self, day: Range, lives: Lives) -> Iterator[Unit]:
        """Return the units that read a day."""

    def left(self, day: Range, lives: Lives, marks: Marks | None) -> Iterator[Unit]:
        """Return the further units of a day: for jobs without readings in `readings`.

        Without marks, no readings were requested yet: then these are the units that are certainly needed.
        """
        return iter(())

    def outshone(self, day: Range, lives: Lives, marks: Marks) -> Iterator[tuple[str, str]]:
        """Jobs, each with a source (Track.source) whose readings of the day are not shown, because others are."""
        return iter(())

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""


def seconds_after(moment: float, step: int) -> int:
    """The first multiple of `step` that is not before a moment."""
    return math.ceil(moment / step) * step


def packed_life(life: Life) -> bytes:
    """A life as bytes."""
    return msgspec.msgpack.encode(life)


def unpacked_life(data: bytes) -> Life:
    """The life again."""
    return msgspec.msgpack.decode(data, type=Life)
