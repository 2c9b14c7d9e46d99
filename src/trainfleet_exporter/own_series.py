"""The exporter's own gauges, counters and durations, as tables that are quickly written.

prometheus-client takes 8 to 12 microseconds to write a sample: with 20 providers it would hold the loop up for 40 ms at
every scrape. Here the name and the labels of a series are written once in its life. To a registry of prometheus-client
each table is a collector like any other.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeVar

from prometheus_client.core import Metric, Sample
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from trainfleet_exporter.page.formats import Format, head
from trainfleet_exporter.page.text import escape_label

T = TypeVar("T")
Values = tuple[str, ...]
"""The values of labels, in the order of their names."""
Series = tuple[str, Values]
"""The name of a sample and the values of its labels; of a bucket `le` stands last."""
Figures = Iterable[tuple[Series, float]]
_EXPONENT_FROM = 1e6
"""From here on Go, and prometheus-client with it, writes an exponent where Python does not."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What a family is. `name` is that of its samples, for counters with `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter", "histogram"] = "gauge"

    def figures(self, values: Iterable[tuple[Values, float]]) -> Figures:
        """One number for each of the values of the labels."""
        return [((self.name, labels), float(value)) for labels, value in values]

    def named(self, values: Values) -> dict[str, str]:
        """The labels of a sample with their names."""
        names = self.labels if len(values) == len(self.labels) else (*self.labels, "le")
        return dict(zip(names, values, strict=True))

    def start(self, series: Series) -> str:
        """A sample's line as far as its value."""
        name, values = series
        labels = ",".join(f'{label}="{escape_label(value)}"' for label, value in sorted(self.named(values).items()))
        return f"{name}{{{labels}}} " if labels else f"{name} "


class Table(Collector):
    """Families, one after the other: a base class, of which `families` is to be given."""

    def __init__(self) -> None:
        self._starts: dict[Series, str] = {}
        """Of the series that are written."""

    @abstractmethod
    def families(self) -> Iterator[tuple[Heading, Figures]]:
        """Each family with its samples as they are now."""

    def collect(self) -> Iterator[Metric]:
        """The same for prometheus-client."""
        for heading, figures in self.families():
            metric = Metric(heading.name.removesuffix("_total"), heading.help, heading.kind)
            metric.samples = [Sample(name, heading.named(values), value) for (name, values), value in figures]
            yield metric

    def text(self, fmt: Format) -> bytes:
        """The same as lines of an exposition page."""
        starts = self._starts
        lines: list[str] = []
        for heading, figures in self.families():
            lines.append(head(heading, fmt).decode())
            for series, value in figures:
                start = starts.get(series)
                if start is None:
                    start = starts[series] = heading.start(series)
                plain = -_EXPONENT_FROM < value < _EXPONENT_FROM
                lines.append(f"{start}{value!r}\n" if plain else f"{start}{floatToGoString(value)}\n")
        if len(starts) >= len(lines):
            self._starts = {}  # there are fewer samples than lines, so that some have gone: all are made anew, once
        return "".join(lines).encode()


class Counts(Table):
    """The counters of one family."""

    def __init__(self, heading: Heading) -> None:
        super().__init__()
        self._heading = heading
        self._counts: dict[Series, float] = {}

    def add(self, *values: str, count: float = 1.0) -> None:
        """Count something; 0 shows the counter from now on."""
        series = self._heading.name, values
        self._counts[series] = self._counts.get(series, 0.0) + count

    def forget(self, **labels: str) -> None:
        """Let go of the counters that have all of these labels."""
        self._counts = _without(self._counts, self._heading, labels)

    def families(self) -> Iterator[tuple[Heading, Figures]]:
        yield self._heading, self._counts.items()


class _Times:
    """How often it took how long: by bucket, the last being the one without a bound, and all of it in seconds."""

    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0.0] * buckets
        self.sum = 0.0


class Durations(Table):
    """The histograms of one family, in seconds. `bounds` are those of its buckets, rising, without the infinite one."""

    def __init__(self, heading: Heading, bounds: Sequence[float]) -> None:
        super().__init__()
        self._heading = heading
        self._bounds = tuple(bounds)
        self._written = (*map(floatToGoString, bounds), "+Inf")
        self._times: dict[Series, _Times] = {}

    def add(self, *values: str, seconds: float) -> None:
        """Note how long something took."""
        series = self._heading.name, values
        times = self._times.get(series)
        if times is None:
            times = self._times[series] = _Times(len(self._written))
        times.counts[bisect_left(self._bounds, seconds)] += 1
        times.sum += seconds

    def forget(self, **labels: str) -> None:
        """Let go of the histograms that have all of these labels."""
        self._times = _without(self._times, self._heading, labels)

    def families(self) -> Iterator[tuple[Heading, Figures]]:
        yield self._heading, self._figures()

    def _figures(self) -> Figures:
        name = self._heading.name
        bucket, count, total = f"{name}_bucket", f"{name}_count", f"{name}_sum"
        for (_, values), times in self._times.items():
            up_to = 0.0
            for bound, up_to in zip(self._written, accumulate(times.counts), strict=True):
                yield (bucket, (*values, bound)), up_to
            yield (count, values), up_to
            yield (total, values), times.sum


def _without(kept: Mapping[Series, T], heading: Heading, labels: Mapping[str, str]) -> dict[Series, T]:
    at = [(heading.labels.index(name), value) for name, value in labels.items()]
    return {
        (name, values): one
        for (name, values), one in kept.items()
        if any(values[place] != value for place, value in at)
    }
