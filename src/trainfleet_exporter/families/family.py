"""A family: one metric, its model class, and the way to read its values.

A read function is pure, and cannot fail on objects with valid types. It takes objects of one class and the labels
that name each, and returns columns: for each sample these labels, the values of the additional labels (nothing if the
family has none), and the value. An object has no sample of a value that the platform did not report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import compress
from operator import attrgetter
from typing import Any, Literal

from trainfleet_exporter import model

Samples = tuple[Sequence[str], Sequence[tuple[str, ...]], Sequence[Any]]
Read = Callable[[Sequence[Any], Sequence[str]], Samples]


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
    field: str = ""
    """The field of the `Readings` of that class that it shows, too."""


def is_denied(name: str, deny: Iterable[str]) -> bool:
    """Return whether a glob of `metrics.deny` matches a family, case-sensitive."""
    return any(fnmatchcase(name, glob) for glob in deny)


def _values(*paths: str) -> Callable[[Any], tuple[Any, ...]]:
    """Reads the attributes named as a tuple, also where there is one or none."""
    if not paths:
        return lambda _: ()
    if len(paths) == 1:
        get_one = attrgetter(paths[0])
        return lambda found: (get_one(found),)
    return attrgetter(*paths)


_KEY_LABELS: dict[str, tuple[type, ...]] = {
    "": (model.ProviderFacts, model.ProviderQuota),
    "workspace_id": (model.Workspace, model.JobCount, model.FinishedCount),
    "job_id": (
        *(model.Job, model.QueuePlace, model.JobPods, model.JobUsage, model.UsageSource),
        *(model.JobTime, model.JobFaults),
    ),
    "job_id pod_id": (model.Pod, model.PodUsage, model.PodExit),
    "job_id pod_id device accelerator": (model.DeviceUsage,),
    "pool_id": (
        *(model.Pool, model.PoolAmounts, model.PoolQueue, model.PoolWorkloads, model.PoolUsage, model.PoolWaits),
    ),
    "pool_id user_id user_name workload_type": (model.PoolUser,),
    "pool_id node_name": (model.Node, model.NodeFaults),
    "pool_id node_name event_id": (model.NodeMaintenance,),
}
KEYS: dict[type, tuple[tuple[str, ...], Callable[[Any], tuple[str, ...]]]] = {
    of: (tuple(labels.split()), _values(*labels.split())) for labels, classes in _KEY_LABELS.items() for of in classes
}
"""Which labels name an object of a class, and how to read them; they are rendered once an object, not once a family."""


def number(path: str, *labels: str) -> Read:
    """Reads one optional number or histogram, with the attributes named as labels. Paths may go through an inner object
    (`values.cpu`)."""
    get, get_labels = attrgetter(path), _values(*labels)

    def read(found: Sequence[Any], names: Sequence[str]) -> Samples:
        values = list(map(get, found))
        if None in values:
            given = [value is not None for value in values]
            found, names, values = (list(compress(column, given)) for column in (found, names, values))
        return names, list(map(get_labels, found)) if labels else (), values

    return read


def flag(path: str) -> Read:
    """Reads one optional truth as 1 or 0."""
    read_truth = number(path)

    def read(found: Sequence[Any], names: Sequence[str]) -> Samples:
        names, further, values = read_truth(found, names)
        return names, further, list(map(int, values))

    return read


def info(*paths: str) -> Read:
    """Always one sample of value 1, whose labels are the attributes named."""
    get_labels = _values(*paths)
    return lambda found, names: (names, list(map(get_labels, found)), [1] * len(names))


def word(path: str) -> Read:
    """Reads one sample of value 1 that carries a text as its label; none where the text is empty."""
    get = attrgetter(path)

    def read(found: Sequence[Any], names: Sequence[str]) -> Samples:
        words = list(map(get, found))
        shown = [(each,) for each in words if each]
        return list(compress(names, words)), shown, [1] * len(shown)

    return read


def amounts(path: str, *labels: str, value: str = "count", zeros: bool = True) -> Read:
    """One sample for each entry of a tuple, without `zeros` only if it is not 0. Entries that share their labels are
    added up, because a series may occur only once on a page."""
    get_entries, get_labels, get = attrgetter(path), _values(*labels), attrgetter(value)

    def read(found: Sequence[Any], names: Sequence[str]) -> Samples:
        samples: list[tuple[str, tuple[str, ...], float | int]] = []
        for name, each in zip(names, found, strict=True):
            total: dict[tuple[str, ...], float | int] = {}
            for entry in get_entries(each):
                key = get_labels(entry)
                total[key] = total.get(key, 0) + get(entry)
            samples += [(name, *sample) for sample in total.items() if zeros or sample[1]]
        return [each[0] for each in samples], [each[1] for each in samples], [each[2] for each in samples]

    return read


def accelerators(path: str, *, zeros: bool = True) -> Read:
    """Accelerators by kind and model, for the labels `accelerator` and `accelerator_model`. `zeros` as in `amounts`."""
    return amounts(path, "kind", "model", zeros=zeros)
