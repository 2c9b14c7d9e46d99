"""From the values of a job's pods and cards to the readings of each level, as columns.

A ratio is the mean of what came; amounts and rates are sums, and only of wholes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trainfleet_exporter.model import Accelerator, DeviceUsage, JobUsage, PodUsage, Readings, Subject
from trainfleet_exporter.providers.huawei_modelarts.aom_parts import JobParts
from trainfleet_exporter.providers.huawei_modelarts.metric_map import Level, Reading
from trainfleet_exporter.providers.readings import mean

_CLASSES: Mapping[Level, type] = {"job": JobUsage, "pod": PodUsage, "device": DeviceUsage}
_OF_POD = 2
"""How many keys a pod has; a card has more."""
_CARD, _KIND = 2, 3
"""Which of a card's keys is its name, and which its kind."""


@dataclass(slots=True)
class _Column:
    subjects: list[Subject] = field(default_factory=list)
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True, eq=False)
class JobCells:
    """The values of one job, by what they are of (JobParts.place)."""

    parts: JobParts
    values: Mapping[Subject, float]
    by_cards: bool
    """Whether a value without a card's name may be one card's all the same, and not a whole pod's."""
    chosen: bool
    """Whether the config wrote the query: then what it names less finely is believed to be a whole."""
    pods: dict[str, list[Subject]] = field(init=False, default_factory=dict)
    """What there are values of, by pods; an empty text where nothing tells them apart."""
    has_replaced: bool = field(init=False)
    """Whether there are more pods than tasks: some were replaced, and nothing tells which of them are there no more."""
    _has_all_cards: bool = field(init=False)

    def __post_init__(self) -> None:
        for cell in self.values:
            self.pods.setdefault(cell.keys[1], []).append(cell)
        parts = self.parts
        self.has_replaced = parts.pods is not None and len(self.pods) > parts.pods
        self._has_all_cards = parts.cards is not None and len(self.values) >= parts.cards and not self.has_replaced

    def is_whole(self) -> bool:
        """Whether the values are those of all of its parts."""
        if "" in self.pods:
            return self.chosen and len(self.pods) == 1
        return len(self.pods) == self.parts.pods and all(map(self.is_whole_pod, self.pods.values()))

    def is_whole_pod(self, cells: Sequence[Subject]) -> bool:
        """Whether the values of a pod are those of all of its cards."""
        if self._has_all_cards:
            return True
        parts = self.parts
        unnamed = any(len(cell.keys) == _OF_POD or not cell.keys[_CARD] for cell in cells)
        if not self.by_cards and unnamed:
            return True  # it is of the pod as one
        if parts.cards is None:
            return not unnamed
        return parts.uniform and parts.pods is not None and len(cells) * parts.pods >= parts.cards


class Levels:
    """The columns of one reading, job after job."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._by_kind = reading.sources[0].accelerator is not None
        self._columns: dict[tuple[Level, Accelerator], _Column] = {}

    def readings(self) -> list[Readings]:
        """What came of it, the coarsest level first."""
        fields: dict[Level, str] = dict.fromkeys(_CLASSES, f"values.{self._reading.field}")
        if self._reading.device is not None:
            fields["device"] = self._reading.device[1]
        return [
            Readings(_CLASSES[level], fields[level], column.subjects, column.values, kind)
            for level in _CLASSES
            for (of, kind), column in self._columns.items()
            if of == level
        ]

    def add(self, job: JobCells, levels: Collection[Level]) -> None:
        """One job's values, at these levels."""
        if "job" in levels and not job.has_replaced:
            if self._reading.is_ratio:
                self._means("job", job.parts.job, job.values.items())
            elif job.is_whole():
                self._put("job", "gpu", job.parts.job, math.fsum(job.values.values()))
        named = [(pod_id, cells) for pod_id, cells in job.pods.items() if pod_id]
        if "pod" in levels:
            for pod_id, cells in named:
                self._add_pod(job, pod_id, cells)
        if "device" in levels and self._reading.device is not None:
            for _, cells in named:
                for cell in cells:
                    if len(cell.keys) != _OF_POD and cell.keys[_CARD]:
                        self._put("device", _kind(cell), cell, job.values[cell])

    def _add_pod(self, job: JobCells, pod_id: str, cells: Sequence[Subject]) -> None:
        of, values = job.parts.pod(pod_id), job.values
        if not self._reading.is_ratio:
            if job.is_whole_pod(cells):
                self._put("pod", "gpu", of, math.fsum([values[cell] for cell in cells]))
        elif len(cells) > 1:
            self._means("pod", of, [(cell, values[cell]) for cell in cells])
        else:  # it is its own mean
            self._put("pod", _kind(cells[0]) if self._by_kind else "gpu", of, values[cells[0]])

    def _means(self, level: Level, of: Subject, cells: Iterable[tuple[Subject, float]]) -> None:
        """The mean, for each kind of accelerator where it is of accelerators."""
        if not self._by_kind:
            self._put(level, "gpu", of, mean([value for _, value in cells]))
            return
        by_kind: dict[Accelerator, list[float]] = {}
        for cell, value in cells:
            by_kind.setdefault(_kind(cell), []).append(value)
        for kind, values in by_kind.items():
            self._put(level, kind, of, mean(values))

    def _put(self, level: Level, kind: Accelerator, of: Subject, value: float | None) -> None:
        column = self._columns.get((level, kind))
        if column is None:
            column = self._columns[level, kind] = _Column()
        if value is not None:
            column.subjects.append(of)
            column.values.append(value)


def _kind(cell: Subject) -> Accelerator:
    return "npu" if cell.keys[_KIND] == "npu" else "gpu"
