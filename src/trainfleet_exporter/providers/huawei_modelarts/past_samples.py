"""From AOM's range vectors to dated readings, step by step as the daemon would have read them at that time.

Each step of a range is an instant vector: it is made into readings by what makes the present ones (aom_usage), so that
wholes, duplicates and what cannot be true are the same.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from trainfleet_exporter.model import Accelerator, UsageSource
from trainfleet_exporter.providers.history import Life, Range, Track
from trainfleet_exporter.providers.huawei_modelarts.aom_parts import JobParts
from trainfleet_exporter.providers.huawei_modelarts.aom_usage import Collected
from trainfleet_exporter.providers.huawei_modelarts.aom_vectors import Labels, Sample, Value
from trainfleet_exporter.providers.huawei_modelarts.metric_map import JOB_LABEL, Plan, Query
from trainfleet_exporter.quantities import mapping, text

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
        self._parts = {job_id: JobParts.of(life.job, life.tasks) for job_id, life in lives.items()}
        self._rows: dict[int, list[tuple[Query, Sample]]] = {}

    def add(self, query: Query, series: Sequence[Any]) -> None:
        """Take over the series of a query's answer."""
        for row in series:
            labels = mapping(row, "metric") if isinstance(row, dict) else {}
            values = row.get("values") if isinstance(row, dict) else None
            if not isinstance(values, list):
                self.dropped["malformed"] += 1
                continue
            job_id = text(labels, JOB_LABEL)
            if job_id not in self._runs:  # not held: a project may have many more jobs than those that are wanted
                self.dropped["unlisted" if job_id else "malformed"] += len(values)
                continue
            shared = Labels(**{name: text(labels, name) for name in Labels.__struct_fields__})
            for pair in values:
                if isinstance(pair, list) and len(pair) == 2 and _is_time(pair[0]):
                    time = int(pair[0])
                    if self._within.start <= time < self._within.end:
                        raw = pair[1] if isinstance(pair[1], str) else str(pair[1])
                        self._rows.setdefault(time, []).append((query, Sample(shared, Value(float(time), raw))))
                else:
                    self.dropped["malformed"] += 1

    def tracks(self, *, tells_source: bool) -> Iterator[Track]:
        """What there is to be shown; with `tells_source`, also that it was AOM which had a job's readings."""
        found: dict[_Key, tuple[array[int], array[float]]] = {}
        moments: dict[str, array[int]] = {}
        for time in sorted(self._rows):
            running = {job_id: self._parts[job_id] for job_id, runs in self._runs.items() if _is_in(runs, time)}
            collected = Collected(self._plan, running, self._runs.keys())
            for query in self._plan.queries:
                collected.add(query, [sample for of, sample in self._rows[time] if of is query])
            for _ in collected.settle():
                pass
            self.dropped.update(collected.dropped)
            for readings in collected.readings():
                for subject, value in zip(readings.subjects, readings.values, strict=True):
                    key = (readings.of, readings.field, readings.accelerator, subject.keys)
                    times, values = found.setdefault(key, (array("q"), array("d")))
                    times.append(time)
                    values.append(value)
            for job_id in collected.job_ids:
                moments.setdefault(job_id, array("q")).append(time)
        self.job_ids.update(moments)
        for (of, field, accelerator, keys), (times, values) in found.items():
            yield Track(of, field, keys, times, values, accelerator=accelerator, source=SOURCE)
        if tells_source:
            for job_id, times in moments.items():
                ones = array("d", [1.0]) * len(times)
                yield Track(UsageSource, "source", (job_id,), times, ones, source=SOURCE)


def _is_time(value: object) -> bool:
    """Whether it is a finite number: JSON as it is read here may hold others."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _is_in(runs: Range, time: int) -> bool:
    return runs.start <= time < runs.end
