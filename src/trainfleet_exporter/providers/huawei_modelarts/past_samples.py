"""From AOM's range vectors to dated readings, step by step as the daemon would have read them at that time.

Each step of a range is an instant vector: it is made into readings by what makes the present ones (aom_usage), so that
wholes, duplicates and what cannot be true are the same.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from trainfleet_exporter.model import Accelerator
from trainfleet_exporter.providers.history import Life, Range, Track
from trainfleet_exporter.providers.huawei_modelarts.aom_samples import Collected, JobNames
from trainfleet_exporter.providers.huawei_modelarts.metric_map import Plan, Query
from trainfleet_exporter.providers.huawei_modelarts.payloads import Sample, Series
from trainfleet_exporter.providers.usage.entities import Entities
from trainfleet_exporter.providers.usage.past import source_tracks

SOURCE = "aom"
_Key: TypeAlias = tuple[type, str, Accelerator, tuple[str, ...]]


class Steps:
    """The samples of one plan's queries over a range, by their time."""

    def __init__(self, plan: Plan, lives: Mapping[str, Life], within: Range) -> None:
        self.dropped: Counter[str] = Counter()
        self.job_ids: set[str] = set()
        """Jobs that have a reading."""
        self._plan = plan
        self._within = within
        self._runs = {job_id: life.runs(within) for job_id, life in lives.items()}
        self._names = {job_id: JobNames.of(life.job, life.tasks) for job_id, life in lives.items()}
        self._entities = Entities()
        self._samples: dict[int, list[tuple[Query, Sample]]] = {}

    def add(self, query: Query, series: Iterable[Series | None]) -> None:
        """Take over the series of a query's answer. None stands for a row that is no object."""
        for one in series:
            if one is None or one.values is None:
                self.dropped["malformed"] += 1
                continue
            job_id = one.metric.service_id if one.metric is not None else ""
            if job_id not in self._runs:  # not held: a project may have many more jobs than those that are wanted
                self.dropped["unlisted" if job_id else "malformed"] += len(one.values)
                continue
            for value in one.values:
                if value is None or value.time is None or not math.isfinite(value.time):
                    self.dropped["malformed"] += 1
                elif self._within.start <= int(value.time) < self._within.end:
                    self._samples.setdefault(int(value.time), []).append((query, Sample(one.metric, value)))

    async def tracks(self, *, tells_source: bool) -> list[Track]:
        """What there is to be shown; with `tells_source`, also that it was AOM which had a job's readings."""
        found: dict[_Key, tuple[array[int], array[float]]] = {}
        moments: dict[str, array[int]] = {}
        for time in sorted(self._samples):
            running = {job_id: self._names[job_id] for job_id, runs in self._runs.items() if _is_in(runs, time)}
            collected = Collected(self._plan, running, self._runs.keys(), self._entities)
            for query in self._plan.queries:
                collected.add(query, [sample for of, sample in self._samples[time] if of is query])
            await collected.settle()
            self.dropped.update(collected.dropped)
            for readings in [column.readings for column in collected.columns]:
                for subject, value in zip(readings.subjects, readings.values, strict=True):
                    key = (readings.of, readings.field, readings.accelerator, subject.keys)
                    times, values = found.setdefault(key, (array("q"), array("d")))
                    times.append(time)
                    values.append(value)
            for job_id in collected.job_ids:
                moments.setdefault(job_id, array("q")).append(time)
        self.job_ids.update(moments)
        tracks = [
            Track(of, field, keys, times, values, accelerator=accelerator, source=SOURCE)
            for (of, field, accelerator, keys), (times, values) in found.items()
        ]
        if tells_source:
            for job_id, times in moments.items():
                tracks += source_tracks(job_id, SOURCE, times, are_dated=False)
        return tracks


def _is_in(runs: Range, time: int) -> bool:
    return runs.start <= time < runs.end
