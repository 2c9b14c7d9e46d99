"""The history of a job: its time by phase, its faults and recoveries, for any cloud, and computations on them.

A cloud translates the history in its API into `Records`. Times are Unix seconds. An interval without an end lasts until
now: the API reports it as in progress.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from trainfleet_exporter.model import Cause, Phase, PhaseTime
from trainfleet_exporter.transport.json_fields import unusable

T = TypeVar("T")

_PRECEDENCE: Final[Sequence[Phase]] = ("checking", "preparing", "queued", "recovering", "finishing", "running")
"""Of intervals that overlap, the first of these counts: a job that waits or prepares within a recovery, or recovers
within a run, is not counted twice."""
_RANK = {phase: rank for rank, phase in enumerate(_PRECEDENCE)}
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)


class Interval(Struct, frozen=True, gc=False):
    """A time that a job spent on one phase. `end` is None while it lasts."""

    phase: Phase
    start: float
    end: float | None
    holds: bool = True
    """Whether the job held its accelerators. While it is queued, it never does."""


class JobFault(Struct, frozen=True, gc=False):
    """Something that broke. `part` names what broke (a task, a pod), so that faults of one second differ."""

    at: float
    cause: Cause
    platform_cause: str = ""
    part: str = ""
    nodes: tuple[tuple[str, Cause], ...] = ()
    """The nodes that the platform holds responsible, each with its own cause."""


class Recovery(Struct, frozen=True, gc=False):
    """An attempt to recover from a fault that has ended. `seconds` is None if the API does not report it."""

    start: float
    strategy: str
    result: str
    seconds: float | None
    part: str = ""


class Records(Struct, frozen=True, gc=False):
    """The history in one response. None: the response has nothing about that."""

    intervals: tuple[Interval, ...] | None = None
    faults: tuple[JobFault, ...] | None = None
    recoveries: tuple[Recovery, ...] = ()
    recovery_intervals: tuple[Interval, ...] = ()
    """Intervals of recoveries; apart from the others, which a newer answer may replace."""
    exit_codes: tuple[tuple[str, int], ...] = ()
    """Tasks that have ended, and their exit codes."""


class Elapsed(Struct, frozen=True, gc=False):
    """Seconds by phase, and the phase that lasts: with the seconds that it has had before, and since when it lasts."""

    over: tuple[PhaseTime, ...]
    """The phases that do not last."""
    lasting: Phase | None = None
    before: float = 0.0
    since: float = 0.0

    def until(self, now: float | None) -> tuple[PhaseTime, ...]:
        """Seconds by phase. The current phase counts until `now`; None: until its last known time."""
        if self.lasting is None:
            return self.over
        more = 0.0 if now is None or now < self.since else now - self.since
        return (*self.over, PhaseTime(self.lasting, self.before + more))


class Start(Struct, frozen=True, gc=False):
    """The first start of a job, and the seconds that it waited and prepared before; None if that is not known."""

    at: float
    queued: float | None
    prepared: float | None


def elapsed(intervals: Iterable[Interval]) -> Elapsed:
    """Add up intervals by phase. Each second counts once: see `_PRECEDENCE`."""
    events: list[tuple[float, int, int]] = []
    for interval in intervals:
        rank = _RANK[interval.phase]
        events.append((interval.start, rank, 1))
        if interval.end is not None:
            events.append((interval.end, rank, -1))
    events.sort()
    seconds: dict[int, float] = {}
    under_way = [0] * len(_PRECEDENCE)
    current: int | None = None
    last = 0.0
    for at, rank, change in events:
        if current is not None:
            seconds[current] = seconds.get(current, 0.0) + at - last
        last = at
        under_way[rank] += change
        current = next((rank for rank, count in enumerate(under_way) if count > 0), None)
    for _, rank, _ in events:
        seconds.setdefault(rank, 0.0)  # a phase of no length has been
    over = tuple(PhaseTime(_PRECEDENCE[rank], seconds[rank]) for rank in sorted(seconds) if rank != current)
    return Elapsed(over) if current is None else Elapsed(over, _PRECEDENCE[current], seconds[current], last)


def first_start(intervals: Sequence[Interval]) -> Start | None:
    """When a job began to run for the first time; None if it has not."""
    at = min((interval.start for interval in intervals if interval.phase == "running"), default=None)
    if at is None:
        return None
    before = [
        Interval(found.phase, found.start, at if found.end is None else min(found.end, at))
        for found in intervals
        if found.start < at
    ]
    seconds: dict[str, float] = {found.phase: found.seconds for found in elapsed(before).over}
    prepared = [seconds[phase] for phase in ("preparing", "checking") if phase in seconds]
    return Start(at, seconds.get("queued", 0.0 if before else None), sum(prepared) if prepared else None)


def while_held(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the intervals with the phase `queued` for each in which the job held nothing."""
    return [found if found.holds else replace(found, phase="queued") for found in intervals]


def held(intervals: Sequence[Interval], finished: float | None) -> tuple[float, float]:
    """Return the seconds for which a job that ended at `finished` held its accelerators, and those of them lost.

    A job loses the time of all phases but running. Between the last phase and its end, it stops or its accelerators
    stay reserved; unless it waited last.
    """
    known = while_held(intervals)
    seconds = {found.phase: found.seconds for found in elapsed(known).until(finished) if found.phase != "queued"}
    total, trained = sum(seconds.values()), seconds.get("running", 0.0)
    last, phase = max([(found.end or math.inf, found.phase) for found in known], default=(math.inf, ""))
    rest = finished - last if finished is not None and phase != "queued" else 0.0
    return total + max(0.0, rest), total - trained


def readable(items: Sequence[T | None] | None) -> list[T]:
    """The items of a list that could be read. The others are counted as malformed."""
    found = [item for item in items or () if item is not None]
    for _ in range(len(items or ()) - len(found)):
        unusable({}, "malformed")
    return found


def code(text: str | None) -> str:
    """A platform's word if it is a code; else nothing: texts may quote what users wrote."""
    return text if text and _CODE.fullmatch(text) else ""


def checked_code(text: str | None) -> str:
    """As `code`; but what is given and is no code counts as malformed."""
    found = code(text)
    if text and not found:
        unusable(text, "malformed")
    return found
