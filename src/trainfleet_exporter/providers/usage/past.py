"""The usage of a past range: how a day is cut into calls, by a table of what each source answers and what that costs.

PastCalls ─► batches of jobs and times ─► units ─► the cloud ─► Batch of readings ─► Past (dated) ─► tracks
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Generic, Protocol, TypeAlias, TypeVar

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import Level
from trainfleet_exporter.providers.history import MINUTE, Life, Lives, Range, Sink, Unit
from trainfleet_exporter.providers.usage.columns import Target
from trainfleet_exporter.providers.usage.dated import Past
from trainfleet_exporter.providers.usage.entities import KEY_LENGTHS
from trainfleet_exporter.providers.usage.newest import Batch


@dataclass(frozen=True, slots=True)
class Asked:
    """What one unit asks for: some jobs (or pools), each with the time whose readings are shown."""

    within: Mapping[str, Range]
    readings: int
    """About how many they have."""
    step: int
    """Seconds between two of them."""

    @property
    def span(self) -> Range:
        """The whole time in which any of them has readings."""
        return Range(min(each.start for each in self.within.values()), max(each.end for each in self.within.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCalls:
    """What a source answers about the past, and what that costs: a row of a cloud's table."""

    source: str
    """As Track.source."""
    api: str
    """Whose budget the calls are of."""
    kept: Sequence[tuple[int, float]] = ((MINUTE, math.inf),)
    """Seconds between two readings, and for how many seconds they are kept; the finest first."""
    owners: int = 1
    """The most jobs (or pools) of one call."""
    readings: float = math.inf
    """About the most readings of a unit: they are in memory together, and asked for again if one call fails."""
    answered: float = math.inf
    """The most readings of one answer."""

    def step(self, age: float) -> int:
        """Seconds between two readings that are kept for so many seconds; 0 where there are none."""
        return next((step for step, kept in self.kept if age < kept), 0)

    def calls(self, asked: Asked) -> Mapping[str, int]:
        """Return the expected calls for one of these metrics, by API."""
        return {self.api: max(1, math.ceil(asked.readings / self.answered))}

    def batches(self, owners: Iterable[tuple[str, int, Range]], step: int) -> Iterator[Asked]:
        """Jobs (or pools) that are asked for together: each with its number of parts, and when it has readings. A large
        one is asked for alone, some of its time at once."""
        within: dict[str, Range] = {}
        readings = 0
        for owner, parts, runs in owners:
            own = parts * _steps(runs, step)
            if own > self.readings:
                for piece in _cut(runs, max(1, int(self.readings // parts)) * step):
                    yield Asked({owner: piece}, parts * _steps(piece, step), step)
                continue
            if within and (len(within) == self.owners or readings + own > self.readings):
                yield Asked(within, readings, step)
                within, readings = {}, 0
            within[owner] = runs
            readings += own
        if within:
            yield Asked(within, readings, step)


class PastMetric(Protocol):
    """A metric that is requested separately."""

    @property
    def key(self) -> str: ...
    @property
    def level(self) -> Level: ...
    @property
    def of_accelerators(self) -> bool:
        """Whether jobs without accelerators have no readings of it."""
        ...

    @property
    def targets(self) -> Sequence[Target]: ...


M = TypeVar("M", bound=PastMetric)
Owners: TypeAlias = Callable[[Range, Lives, M], Iterator[tuple[str, int, Range]]]
"""The jobs (or pools) that have readings of a metric on a day, as PastCalls.batches takes them: of all metrics of one
level the same, those of accelerators apart."""
Fetch: TypeAlias = Callable[[M, Asked, float], AsyncIterator[Batch]]
"""The readings of a metric, until a deadline (loop time). Raises CloudError."""


class PastMetrics(Generic[M]):
    """The metrics of a source, a unit for each metric and each batch of jobs (or pools).

    By the metric `deciding`, jobs are known to have readings.
    """

    def __init__(
        self,
        calls: PastCalls,
        metrics: Iterable[M],
        owners: Owners[M],
        fetch: Fetch[M],
        deciding: M | None = None,
    ) -> None:
        self._calls = calls
        self._metrics = sorted(metrics, key=lambda metric: (*_kind(metric), metric.key))
        self._owners = owners
        self._fetch = fetch
        self._deciding = deciding

    def units(self, day: Range, lives: Lives) -> Iterator[Unit]:
        """Return the units that read a day."""
        step = self._calls.step(time.time() - day.start)
        if not step:
            return
        for _, found in groupby(self._metrics, key=_kind):
            metrics = list(found)
            for number, asked in enumerate(self._calls.batches(self._owners(day, lives, metrics[0]), step)):
                for metric in metrics:
                    # Which jobs are in a batch goes by the step, which another day of asking may change.
                    key = f"{metric.key} {step} {number}"
                    yield Unit(key, self._calls.calls(asked), partial(self._read, metric, asked))

    async def _read(self, metric: M, asked: Asked, sink: Sink, deadline: float) -> None:
        past = Past(metric.targets, asked.within.get, self._calls.source)
        try:
            async for batch in self._fetch(metric, asked, deadline):
                past.take(batch, KEY_LENGTHS[metric.level])
                del batch  # before the next call
        except NotFound:
            if self._calls.owners > 1:
                raise  # no list of readings for several jobs says that there are none
            sink.gone(next(iter(asked.within)))
            return
        past.publish(sink, asked.span, names_source=metric is self._deciding)


def parts_of(life: Life, level: Level) -> int:
    """About how many readings a job has at a time, of a metric of this level."""
    return 1 if level == "job" else max(1, life.pods, life.cards if level == "device" else 0)


def _kind(metric: PastMetric) -> tuple[bool, int]:
    return metric.of_accelerators, KEY_LENGTHS[metric.level]


def _steps(within: Range, step: int) -> int:
    return math.ceil((within.end - within.start) / step)


def _cut(within: Range, length: int) -> Iterator[Range]:
    for start in range(within.start, within.end, length):
        yield Range(start, min(start + length, within.end))
