"""A family: one metric, its model class, and the way to read its values.

A read function is pure, and cannot fail on an object with valid types. It yields `(values of the additional labels,
sample value)`, and nothing for a value that the platform did not report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from trainfleet_exporter.model import (
    ClassicHistogram,
    DeviceUsage,
    FinishedCount,
    HeldTime,
    Job,
    JobCount,
    JobFaults,
    JobPods,
    JobTime,
    JobUsage,
    Node,
    NodeFaults,
    NodeMaintenance,
    Pod,
    PodExit,
    PodUsage,
    Pool,
    PoolAmounts,
    PoolQueue,
    PoolUsage,
    PoolUser,
    PoolWaits,
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
class MetricFamily:
    """One row of the table of metrics."""

    name: str
    """Sample name, for counters with `_total`, for histograms without `_bucket`, `_sum` and `_count`."""
    help: str
    """One line: what it measures, its unit, when it is absent."""
    of: type
    """The model class that `read` takes."""
    read: Read
    labels: tuple[str, ...] | None = ()
    """Further labels, after `provider` and the key labels of the class. None: the names vary with the object; `read`
    then yields names and values in turn, and the renderer decides which of them become labels."""
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    """A histogram has a `WholeHistogram` as its `read`."""


def _values(*paths: str) -> Callable[[Any], tuple[Any, ...]]:
    """Reads the attributes named as a tuple, also where there is one or none."""
    if not paths:
        return lambda _: ()
    if len(paths) == 1:
        get_one = attrgetter(paths[0])
        return lambda found: (get_one(found),)
    return attrgetter(*paths)


_KEY_LABELS: dict[type, tuple[str, ...]] = {
    ProviderFacts: (),
    ProviderQuota: (),
    Workspace: ("workspace_id",),
    JobCount: ("workspace_id",),
    FinishedCount: ("workspace_id",),
    Job: ("job_id",),
    QueuePlace: ("job_id",),
    JobPods: ("job_id",),
    Pod: ("job_id", "pod_id"),
    Pool: ("pool_id",),
    PoolAmounts: ("pool_id",),
    PoolQueue: ("pool_id",),
    PoolWorkloads: ("pool_id",),
    PoolUser: ("pool_id", "user_id", "user_name", "workload_type"),
    PoolUsage: ("pool_id",),
    Node: ("pool_id", "node_name"),
    NodeMaintenance: ("pool_id", "node_name", "event_id"),
    DeviceUsage: ("job_id", "pod_id", "device", "accelerator"),
    PodUsage: ("job_id", "pod_id"),
    JobUsage: ("job_id",),
    UsageSource: ("job_id",),
    JobTime: ("job_id",),
    JobFaults: ("job_id",),
    PodExit: ("job_id", "pod_id"),
    NodeFaults: ("pool_id", "node_name"),
    PoolWaits: ("pool_id",),
    HeldTime: (),
}
KEYS: dict[type, tuple[tuple[str, ...], Callable[[Any], tuple[str, ...]]]] = {
    of: (labels, _values(*labels)) for of, labels in _KEY_LABELS.items()
}
"""Which labels name an object of a class, and how to read them; they are rendered once an object, not once a family."""


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


def number(path: str) -> Read:
    """Reads one optional number; `path` may go through an inner object (`values.cpu`)."""
    return Number(path)


def flag(path: str) -> Read:
    """Reads one optional truth as 1 or 0."""
    get = attrgetter(path)

    def read(found: Any) -> Samples:
        value = get(found)
        return () if value is None else (((), 1 if value else 0),)

    return read


def info(*paths: str) -> Read:
    """Always one sample of value 1, whose labels are the attributes named."""
    get_labels = _values(*paths)
    return lambda found: ((get_labels(found), 1),)


class Word:
    """Reads one sample of value 1 that carries a text as its label; none where the text is empty."""

    __slots__ = ("path", "value")

    def __init__(self, path: str) -> None:
        self.path = path
        self.value: Callable[[Any], str | None] = attrgetter(path)

    def __call__(self, found: Any) -> Samples:
        value = self.value(found)
        return (((value,), 1),) if value else ()


def word(path: str) -> Read:
    """Reads one sample of value 1 that carries a text as its label."""
    return Word(path)


class NumbersByWord:
    """Reads one number for each entry of a tuple, with a word of it as label. No two entries of an object share theirs.

    Many objects have the same few words, and their numbers change at each poll.
    """

    __slots__ = ("entries", "value", "word")

    def __init__(self, path: str, word: str, value: str) -> None:
        self.entries: Callable[[Any], Iterable[Any]] = attrgetter(path)
        self.word: Callable[[Any], str] = attrgetter(word)
        self.value: Callable[[Any], float] = attrgetter(value)

    def __call__(self, found: Any) -> Samples:
        return [((self.word(entry),), self.value(entry)) for entry in self.entries(found)]


class WholeHistogram:
    """Reads one optional histogram: its buckets, with their upper bounds as label values, and its sum and count."""

    __slots__ = ("value",)

    def __init__(self, path: str) -> None:
        self.value: Callable[[Any], ClassicHistogram | None] = attrgetter(path)

    def __call__(self, found: Any) -> Samples:
        value = self.value(found)
        return () if value is None else (((), value.count),)


def amounts(path: str, *labels: str) -> Read:
    """One sample for each entry of a tuple. Entries that share their labels are added up, because a series may occur
    only once on a page."""
    get_entries, get_labels = attrgetter(path), _values(*labels)

    def read(found: Any) -> Samples:
        total: dict[tuple[str, ...], float | int] = {}
        for entry in get_entries(found):
            key = get_labels(entry)
            total[key] = total.get(key, 0) + entry.count
        return total.items()

    return read


def accelerators(path: str) -> Read:
    """Accelerators by kind and model, for the labels `ACCELERATOR_LABELS`."""
    return amounts(path, "kind", "model")


ACCELERATOR_LABELS = ("accelerator", "accelerator_model")
