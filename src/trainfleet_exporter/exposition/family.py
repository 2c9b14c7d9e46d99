"""What a family is: one metric, the model class it reads, and how it reads it.

A read function is pure and cannot fail on an object that keeps its types: it yields `(values of the further labels,
sample value)` and yields nothing for what the platform did not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from trainfleet_exporter.model import (
    DeviceUsage,
    FinishedCount,
    Job,
    JobCount,
    JobPods,
    JobUsage,
    Node,
    Pod,
    PodUsage,
    Pool,
    PoolAmounts,
    PoolQueue,
    PoolUsage,
    PoolWorkloads,
    ProviderFacts,
    ProviderQuota,
    QueuePlace,
    UsageSource,
    Workspace,
)

Samples = Iterable[tuple[tuple[str, ...], float | int]]
Read = Callable[[Any], Samples]


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table of metrics."""

    name: str
    """Sample name, for counters with `_total`."""
    help: str
    """One line: meaning, source (API and field), and that it is cached between polls."""
    kind: Literal["gauge", "counter"]
    of: type
    """The model class that `read` takes."""
    labels: tuple[str, ...] | None
    """Further labels, after `provider` and the key labels of the class. None: the names vary with the object; `read`
    then yields names and values in turn, and the renderer decides which of them become labels."""
    read: Read


Keys = Callable[[Any], tuple[str, ...]]


def _keys(*names: str) -> tuple[tuple[str, ...], Keys]:
    """Key labels that are attributes of the same name."""
    if not names:
        return (), lambda _: ()
    if len(names) == 1:
        get_one = attrgetter(names[0])
        return names, lambda found: (get_one(found),)
    return names, attrgetter(*names)


KEYS: dict[type, tuple[tuple[str, ...], Keys]] = {
    ProviderFacts: _keys(),
    ProviderQuota: _keys(),
    Workspace: _keys("workspace_id"),
    JobCount: _keys("workspace_id"),
    FinishedCount: _keys("workspace_id"),
    Job: _keys("job_id"),
    QueuePlace: _keys("job_id"),
    JobPods: _keys("job_id"),
    Pod: _keys("job_id", "pod_id"),
    Pool: _keys("pool_id"),
    PoolAmounts: _keys("pool_id"),
    PoolQueue: _keys("pool_id"),
    PoolWorkloads: _keys("pool_id"),
    PoolUsage: _keys("pool_id"),
    Node: _keys("pool_id", "node_name"),
    DeviceUsage: _keys("job_id", "pod_id", "device", "accelerator"),
    PodUsage: _keys("job_id", "pod_id"),
    JobUsage: _keys("job_id"),
    UsageSource: _keys("job_id"),
}
"""Which labels name an object of a class, and how to read them; they are rendered once an object, not once a family."""


def described(meaning: str, *sources: str, experimental: str = "") -> str:
    """HELP text. `sources` name API and field, one a cloud; `experimental` says in a few words what is unproven."""
    warning = f" Experimental: {experimental}." if experimental else ""
    return f"{meaning}.{warning} Source: {'; or '.join(sources)}; cached between polls."


class Number:
    """Reads one optional number, without further labels.

    Most families are such, and on most objects most of them are absent: `value` lets the renderer see that without a
    call and a loop.
    """

    __slots__ = ("path", "value")

    def __init__(self, path: str) -> None:
        self.path = path
        self.value: Callable[[Any], float | int | None] = attrgetter(path)

    def __call__(self, found: Any) -> Samples:
        value = self.value(found)
        return () if value is None else (((), value),)


class NumberByAccelerator:
    """Reads one optional number, with the kind of accelerator that the values of a job, pod or pool are of."""

    __slots__ = ("_value", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._value: Callable[[Any], float | int | None] = attrgetter(path)

    def __call__(self, found: Any) -> Samples:
        value = self._value(found)
        return () if value is None else (((found.values.accelerator,), value),)


class OfSource:
    """Reads what `samples` makes of some attributes, and of nothing else: objects of which these are equal have equal
    samples, which is known without making them."""

    __slots__ = ("_samples", "source")

    def __init__(self, source: Callable[[Any], Any], samples: Callable[[Any], Samples]) -> None:
        self.source = source
        self._samples = samples

    def __call__(self, found: Any) -> Samples:
        return self._samples(self.source(found))


def number(path: str) -> Read:
    """Reads one optional number; `path` may go through an inner object (`values.cpu`)."""
    return Number(path)


def flag(path: str) -> Read:
    """Reads one optional truth as 1 or 0."""
    return OfSource(attrgetter(path), lambda value: () if value is None else (((), 1 if value else 0),))


def info(*paths: str) -> Read:
    """Always one sample of value 1, whose labels are the attributes named."""
    if len(paths) == 1:
        return OfSource(attrgetter(*paths), lambda value: (((value,), 1),))
    return OfSource(attrgetter(*paths), lambda values: ((values, 1),))


def word(path: str) -> Read:
    """One sample of value 1 that carries a text as its label; none where the text is empty."""
    return OfSource(attrgetter(path), lambda value: (((value,), 1),) if value else ())


def amounts(path: str, *labels: str, value: str = "count") -> Read:
    """One sample for each entry of a tuple. Entries that share their labels are added up, because a series may occur
    only once on a page."""
    get_labels = tuple(attrgetter(label) for label in labels)
    get_value = attrgetter(value)

    def samples(entries: Iterable[Any]) -> Samples:
        total: dict[tuple[str, ...], float | int] = {}
        for entry in entries:
            key = tuple([get_label(entry) for get_label in get_labels])
            total[key] = total.get(key, 0) + get_value(entry)
        return total.items()

    return OfSource(attrgetter(path), samples)


def accelerators(path: str) -> Read:
    """Accelerators by kind and model, for the labels `ACCELERATOR_LABELS`."""
    return amounts(path, "kind", "model")


ACCELERATOR_LABELS = ("accelerator", "accelerator_model")
