"""From the samples of AOM's instant vectors to usage of jobs, pods (tasks) and devices: pure, tolerant.

A sample is one card's, or one pod's where there are no cards, or a whole job's where pods cannot be told apart. Each
level is made from the samples themselves: a ratio is their mean; amounts and rates are their sum, and only where every
part of the whole is there. Samples carry the time of the query and not their own: nothing here is dated.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeAlias

from msgspec.structs import replace

from trainfleet_exporter.model import Readings, Subject, UsageSource
from trainfleet_exporter.providers.huawei_modelarts.aom_levels import JobCells, Levels
from trainfleet_exporter.providers.huawei_modelarts.aom_parts import JobParts
from trainfleet_exporter.providers.huawei_modelarts.metric_map import Plan, Query
from trainfleet_exporter.providers.huawei_modelarts.payloads import Sample
from trainfleet_exporter.providers.readings import believable_ratio

_LONGEST = 40
"""Characters of a number that is believed to be one."""
_STEP = 500
"""Values that are made into columns before the loop has its turn."""
_TESTED = 5_000
"""Values that are sorted by their jobs before the loop has its turn."""
Shown: TypeAlias = Readings | UsageSource


@dataclass(slots=True)
class _Group:
    """The values of some queries, job by job."""

    by_cards: bool = False
    chosen: bool = False
    """Whether the config wrote the query: then what it names less finely is believed to be a whole."""
    jobs: dict[str, dict[Subject, float]] = field(default_factory=dict)
    ambiguous: set[Subject] = field(default_factory=set)
    """What came more than once: a pod that was replaced is told of for a while beside the one in its place."""

    def cells(self, job_id: str) -> dict[Subject, float]:
        """A job's values, less those that are ambiguous."""
        cells = self.jobs.get(job_id, {})
        if self.ambiguous:
            return {cell: value for cell, value in cells.items() if cell not in self.ambiguous}
        return cells


class Collected:
    """The answers to one plan's queries. `jobs` are those that run, `listed` all that the provider shows or showed."""

    def __init__(self, plan: Plan, jobs: Mapping[str, JobParts], listed: Collection[str]) -> None:
        self.dropped: Counter[str] = Counter()
        """Samples that are not shown, by reason."""
        self.job_ids: frozenset[str] = frozenset()
        """The jobs that have a value. Empty until `settle` has ended."""
        self._reading = plan.reading
        self._is_ratio = plan.reading.is_ratio
        self._bounded = plan.reading.bounded
        self._of_cards = plan.reading.sources[0].accelerator is not None
        self._jobs = jobs
        self._listed = listed
        self._levels = {query.metric if query.promql else "": query.levels for query in plan.queries}
        self._groups: dict[str, _Group] = {}
        self._readings: list[Readings] = []

    def add(self, query: Query, samples: Iterable[Sample | None]) -> None:
        """Take over samples of a query's answer. None stands for a row that is no object."""
        # The table's own queries tell of different kinds of cards; together they are a job's.
        group = self._groups.setdefault(query.metric if query.promql else "", _Group())
        group.chosen = bool(query.promql)
        group.by_cards = group.by_cards or query.accelerator is not None
        for sample in samples:
            labels = sample.metric if sample is not None else None
            if sample is None or labels is None:
                self.dropped["malformed"] += 1
                continue
            parts = self._jobs.get(labels.service_id)
            if parts is None:
                self._pass_over(labels.service_id)
                continue
            value = self._value(sample.value.value if sample.value is not None else None, query.factor)
            if value is None:
                continue
            cell = parts.place(labels, query, of_cards=self._of_cards)
            cells = group.jobs.get(parts.job_id)
            if cells is None:
                cells = group.jobs[parts.job_id] = {}
            if cell not in cells:
                cells[cell] = value
            elif cells[cell] == value:
                self.dropped["duplicate"] += 1
            else:
                # Which of them is the present one is not told: the one that came first is not shown either.
                self.dropped["duplicate"] += 1 if cell in group.ambiguous else 2
                group.ambiguous.add(cell)

    async def settle(self) -> None:
        """Make columns of what was added, once all of it was."""
        found: set[str] = set()
        for key, group in self._groups.items():
            levels, done = Levels(self._reading), 0
            for job_id, parts in self._jobs.items():  # in this order, however the answer is sorted today
                done += 1
                if cells := group.cells(job_id):
                    found.add(job_id)
                    done += len(cells)
                    levels.add(JobCells(parts, cells, group.by_cards, group.chosen), self._levels[key])
                if done >= _STEP:
                    done = 0
                    await asyncio.sleep(0)
            self._readings += levels.readings()
        self._groups.clear()
        self.job_ids = frozenset(found)

    def readings(self) -> Sequence[Readings]:
        """The columns. Empty until `settle` has ended."""
        return self._readings

    def _pass_over(self, job_id: str) -> None:
        if not job_id:
            self.dropped["malformed"] += 1
        elif job_id not in self._listed:
            self.dropped["unlisted"] += 1
        # Else it does not run any more: its last sample is from its end.

    def _value(self, given: str | float | None, factor: float) -> float | None:
        """A sample's value in base units; None, and counted, where it is none."""
        try:
            number = float(given) if isinstance(given, float) or (given and len(given) <= _LONGEST) else None
        except ValueError:
            number = None
        if number is None:
            self.dropped["malformed"] += 1
            return None
        if math.isnan(number) or number == -1:  # what the platform's other answers have for "no sample"
            self.dropped["no_data"] += 1
            return None
        value: float | None = number * factor
        if self._is_ratio:
            value = believable_ratio(number * factor, bounded=self._bounded)
        elif not 0 <= number * factor < math.inf:
            value = None
        if value is None:
            self.dropped["out_of_range"] += 1
        return value


async def without(objects: Sequence[Shown], job_ids: Collection[str]) -> list[Shown]:
    """The same, less what is of these jobs."""
    if not job_ids:
        return list(objects)
    kept: list[Shown] = []
    for number, one in enumerate(objects, start=1):
        if isinstance(one, Readings):
            kept.append(await _others(one, job_ids))
        elif one.job_id not in job_ids:
            kept.append(one)
        if not number % _TESTED:
            await asyncio.sleep(0)
    return kept


async def _others(readings: Readings, job_ids: Collection[str]) -> Readings:
    subjects: list[Subject] = []
    values = array("d")
    for start in range(0, len(readings.subjects), _TESTED):
        part = slice(start, start + _TESTED)
        kept = [subject.keys[0] not in job_ids for subject in readings.subjects[part]]
        subjects += compress(readings.subjects[part], kept)
        values.extend(compress(readings.values[part], kept))
        await asyncio.sleep(0)
    return replace(readings, subjects=subjects, values=values)
