"""Columns of jobs whose size is known: what is missing of a job is noticed, so that a sum is of the whole or absent.

Readings are of cards, of pods, or of whole jobs where pods cannot be distinguished. Each level is made from the
readings themselves: a ratio is their mean; amounts and rates are their sum, and only where every part of the whole is
there.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from trainfleet_exporter.families.usage import LEVELS, Level, Measure
from trainfleet_exporter.model import Accelerator, Subject
from trainfleet_exporter.providers.usage.columns import Column, column_of
from trainfleet_exporter.providers.usage.entities import KEY_LENGTHS, Entities
from trainfleet_exporter.providers.usage.newest import Newest
from trainfleet_exporter.providers.usage.quantities import mean

_CARD, _KIND = 2, 3
"""Which of a card's keys is its name, and which its kind."""


@dataclass(frozen=True, slots=True)
class Makeup:
    """What a running job consists of. None: that is not known."""

    pods: int | None
    cards: float | None
    """How many accelerators all of its pods have together."""
    uniform: bool
    """Whether every pod has as many cards as any other."""


@dataclass(slots=True, eq=False)
class _Job:
    """The readings of one job. An empty text in place of a pod or card: they cannot be distinguished."""

    job_id: str
    makeup: Makeup
    values: Mapping[Subject, float]
    by_cards: bool
    """Whether a reading without a card's name may be one card's all the same, and not a whole pod's."""
    trusted: bool
    """Whether what is named less finely is believed to be a whole."""
    pods: dict[str, list[Subject]] = field(init=False, default_factory=dict)
    has_replaced: bool = field(init=False)
    """Whether there are more pods than there should be: some were replaced, and it is not known which."""
    _has_all_cards: bool = field(init=False)

    def __post_init__(self) -> None:
        for part in self.values:
            self.pods.setdefault(part.keys[1], []).append(part)
        pods, cards = self.makeup.pods, self.makeup.cards
        self.has_replaced = pods is not None and len(self.pods) > pods
        self._has_all_cards = cards is not None and len(self.values) >= cards and not self.has_replaced

    def is_whole(self) -> bool:
        """Return whether the readings are those of all of its parts."""
        if "" in self.pods:
            return self.trusted and len(self.pods) == 1
        return len(self.pods) == self.makeup.pods and all(map(self.is_whole_pod, self.pods.values()))

    def is_whole_pod(self, parts: Sequence[Subject]) -> bool:
        """Return whether the readings of a pod are those of all of its cards."""
        if self._has_all_cards:
            return True
        makeup = self.makeup
        unnamed = any(not _is_card(part) for part in parts)
        if not self.by_cards and unnamed:
            return True  # it is of the pod as one
        if makeup.cards is None:
            return not unnamed
        return makeup.uniform and makeup.pods is not None and len(parts) * makeup.pods >= makeup.cards


class SizedColumns:
    """The columns of one measure, from readings in base units. `by_kind`: ratios are shown by kind of accelerator."""

    def __init__(self, measure: Measure, entities: Entities, *, by_kind: bool) -> None:
        self._families = {level: family for level in LEVELS if (family := measure.at(level)) is not None}
        self._is_ratio = measure.is_ratio
        self._by_kind = by_kind
        self._entities = entities
        self._found: dict[tuple[Level, Accelerator], tuple[list[Subject], array[float]]] = {}

    def add(
        self,
        newest: Newest,
        jobs: Mapping[str, Makeup],
        levels: Collection[Level],
        *,
        by_cards: bool = False,
        trusted: bool = False,
    ) -> frozenset[str]:
        """Take over readings, for these levels; the jobs that have some. Columns are in the order of `jobs`."""
        by_job: dict[str, dict[Subject, float]] = {}
        for part, value in newest.values[0].items():
            if part not in newest.ambiguous:
                by_job.setdefault(part.keys[0], {})[part] = value
        for job_id, makeup in jobs.items():
            if values := by_job.get(job_id):
                self._add(_Job(job_id, makeup, values, by_cards, trusted), levels)
        newest.index.reported(len(newest.subjects))
        return frozenset(by_job)

    def columns(self) -> list[Column]:
        """Return the columns of the results, the coarsest level first."""
        found = []
        for wanted, family in self._families.items():
            for (level, kind), (subjects, values) in self._found.items():
                if level == wanted:
                    column = column_of(family, self._entities.entity_list(level, tuple(subjects)), values)
                    self._entities.of(level).reported(len(subjects))
                    found.append(replace(column, readings=msgspec.structs.replace(column.readings, accelerator=kind)))
        return found

    def _add(self, job: _Job, levels: Collection[Level]) -> None:
        if "job" in levels and not job.has_replaced:
            of = self._entities.of("job").subject((job.job_id,))
            if self._is_ratio:
                self._means("job", of, job.values.items())
            elif job.is_whole():
                self._put("job", "gpu", of, math.fsum(job.values.values()))
        named = [(pod_id, parts) for pod_id, parts in job.pods.items() if pod_id]
        if "pod" in levels:
            for pod_id, parts in named:
                self._add_pod(job, self._entities.of("pod").subject((job.job_id, pod_id)), parts)
        if "device" in levels and "device" in self._families:
            for _, parts in named:
                for part in parts:
                    if _is_card(part):
                        self._put("device", _kind(part), part, job.values[part])

    def _add_pod(self, job: _Job, of: Subject, parts: Sequence[Subject]) -> None:
        values = job.values
        if not self._is_ratio:
            if job.is_whole_pod(parts):
                self._put("pod", "gpu", of, math.fsum([values[part] for part in parts]))
        elif len(parts) > 1:
            self._means("pod", of, [(part, values[part]) for part in parts])
        else:  # it is its own mean
            self._put("pod", _kind(parts[0]) if self._by_kind else "gpu", of, values[parts[0]])

    def _means(self, level: Level, of: Subject, parts: Iterable[tuple[Subject, float]]) -> None:
        """The mean, for each kind of accelerator where it is of accelerators."""
        if not self._by_kind:
            self._put(level, "gpu", of, mean([value for _, value in parts]))
            return
        by_kind: dict[Accelerator, list[float]] = {}
        for part, value in parts:
            by_kind.setdefault(_kind(part), []).append(value)
        for kind, values in by_kind.items():
            self._put(level, kind, of, mean(values))

    def _put(self, level: Level, kind: Accelerator, of: Subject, value: float | None) -> None:
        column = self._found.get((level, kind))
        if column is None:
            column = self._found[level, kind] = ([], array("d"))
        if value is not None:
            column[0].append(of)
            column[1].append(value)


def _is_card(part: Subject) -> bool:
    return len(part.keys) == KEY_LENGTHS["device"] and part.keys[_CARD] != ""


def _kind(part: Subject) -> Accelerator:
    return "npu" if part.keys[_KIND] == "npu" else "gpu"
