"""Counters and histograms of prometheus-client, and a writer that puts the exporter's own metrics on a page.

prometheus-client's own writer takes about 5 µs a sample and so holds the event loop for 30 ms at each scrape of
20 providers. Here the text of a series up to its value is made once, and a sample takes about 1 µs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Self, cast

import prometheus_client as prometheus
from prometheus_client.core import Metric, Sample
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from trainfleet_exporter.page.formats import Format, head
from trainfleet_exporter.page.text import escape_label

_EXPONENT_FROM = 1e6
"""From here on Go, and prometheus-client with it, writes an exponent where Python does not."""


class _Instrument(MetricWrapperBase):
    """A metric with labels that can write its sample lines. It has no `_created` series."""

    def _metric_init(self) -> None:
        super()._metric_init()  # type: ignore[no-untyped-call]
        labels = tuple(zip(self._labelnames, self._labelvalues, strict=True))
        self._starts = [
            f"{self._name}{sample.name}{_label_text((*labels, *sample.labels.items()))} "
            for sample in self._child_samples()
        ]
        """The line of each sample up to its value."""

    def _child_samples(self) -> Iterable[Sample]:
        # prometheus-client can leave `_created` out only for the whole process, whose other metrics are not ours.
        return [sample for sample in super()._child_samples() if sample.name != "_created"]

    def _values(self) -> Iterable[float]:
        """The values of the samples, in their order."""
        raise NotImplementedError

    def lines(self) -> Iterator[str]:
        """The sample lines of all children, in the order in which they were created."""
        children = cast("Mapping[Sequence[str], Self]", self._metrics)
        for child in children.values():
            yield from map(_line, child._starts, child._values())


class Counter(_Instrument, prometheus.Counter):
    """A counter with labels."""

    def _values(self) -> Iterable[float]:
        return (self._value.get(),)

    def counts(self) -> list[tuple[Sequence[str], float]]:
        """Return the label values and the count of each child, in the order in which they were created."""
        children = cast("Mapping[Sequence[str], Self]", self._metrics)
        return [(labels, child._value.get()) for labels, child in children.items()]


class Histogram(_Instrument, prometheus.Histogram):
    """A histogram with labels."""

    def _values(self) -> Iterable[float]:
        counts = list(accumulate(bucket.get() for bucket in self._buckets))
        return *counts, counts[-1], self._sum.get()


class _Heading(NamedTuple):
    """A family as its HELP and TYPE lines show it: a counter's name ends in `_total`."""

    name: str
    help: str
    kind: str


def write(collectors: Iterable[Collector], fmt: Format) -> bytes:
    """Write the families of the collectors as lines of a page, without the page's end."""
    lines: list[str] = []
    for collector in collectors:
        if isinstance(collector, _Instrument):
            lines.extend(_head(family, fmt) for family in collector.describe())
            lines.extend(collector.lines())
            continue
        for family in collector.collect():
            lines.append(_head(family, fmt))
            for name, labels, value, *_ in family.samples:
                lines.append(_line(f"{name}{_cached_label_text(tuple(labels.items()))} ", float(value)))
    return "".join(lines).encode()


def forget_label_texts() -> None:
    """Free the label texts of series that are not shown any more."""
    _cached_label_text.cache_clear()


def _head(family: Metric, fmt: Format) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return head(_Heading(name, family.documentation, family.type), fmt).decode()


def _line(start: str, value: float) -> str:
    return f"{start}{value!r}\n" if -_EXPONENT_FROM < value < _EXPONENT_FROM else f"{start}{floatToGoString(value)}\n"


def _label_text(labels: Iterable[tuple[str, str]]) -> str:
    """The labels in braces, sorted by name; empty for a series without labels."""
    text = ",".join(f'{name}="{escape_label(value)}"' for name, value in sorted(labels))
    return f"{{{text}}}" if text else ""


_cached_label_text = lru_cache(maxsize=4096)(_label_text)
