"""Values of the pods and cards of jobs, from any source; arrays of v2 tasks and v1 pods; the collector of v2 tasks.

v2: one array of one-minute averages for each of six metrics, from the task's start on, percent, -1 for "no sample".
v1: arrays of text, `interval` minutes apart, network bytes and disk kilobytes a second (the latter unproven).
No array says when its last value was taken; it is believed to be now if it is among the last few.

Cost a cycle: one call for each task of each running job, of at most `max_jobs` jobs.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowTrainingJobMetrics.html
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import MEASURES, Family, Level
from trainfleet_exporter.fleet.collectors import EachJob
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import Column, Key, NewestReadings, Reading, Subjects, count, page_readings
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Accelerator, Job, UsageSource
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.huawei_modelarts.api import Api, segment
from trainfleet_exporter.providers.huawei_modelarts.config import Usage as UsageConfig
from trainfleet_exporter.providers.huawei_modelarts.jobs import role_of
from trainfleet_exporter.providers.values import amount
from trainfleet_exporter.transport import BULK
from trainfleet_exporter.transport.json_fields import as_number

# The answers, with the fields that are read.


class MetricValues(Struct, gc=False):
    """One metric of a task or pod: a value for each interval, oldest first, in percent or a rate. -1 is none."""

    metric: str | None = None
    value: list[str | float | None] | None = None


class Metrics(Struct, gc=False):
    """ShowTrainingJobMetrics (a minute between values), or metric-statistic of v1 (`interval` minutes)."""

    metrics: list[MetricValues] | None = None
    interval: float | None = None


# Words.

METRICS: Mapping[str, tuple[str, float]] = {
    "cpuUsage": ("cpu_utilization_ratio", 0.01),
    "memUsage": ("memory_utilization_ratio", 0.01),
    "gpuUtil": ("accelerator_utilization_ratio", 0.01),
    "npuUtil": ("accelerator_utilization_ratio", 0.01),
    "gpuMemUsage": ("accelerator_memory_utilization_ratio", 0.01),
    "npuMemUsage": ("accelerator_memory_utilization_ratio", 0.01),
    "recvBytesRate": ("network_receive_bytes_per_second", 1.0),
    "sendBytesRate": ("network_transmit_bytes_per_second", 1.0),
    "diskReadRate": ("disk_read_bytes_per_second", 1024.0),
    "diskWriteRate": ("disk_write_bytes_per_second", 1024.0),
}
"""By metric, the suffix of its families, and how many base units a value counts. Only v1 has rates."""
_METRICS = {metric.lower(): fed for metric, fed in METRICS.items()}
"""v1 begins names with a capital: they are compared without regard to case."""
_RECENT = 5
"""Minutes back in which the last sample still counts as current."""

# Values of parts, and of their wholes.


def kind_of(metric: str) -> Accelerator:
    """The kind of accelerator that a metric is of; of no importance for others."""
    return "npu" if metric.startswith("npu") else "gpu"


class JobParts:
    """What a job consists of."""

    def __init__(self, job: Job, pods: Collection[str]) -> None:
        self.names = frozenset(pods)
        cards = math.fsum(item.count for item in job.accelerators)
        self.counts: dict[Level, float | None] = {"job": 1, "pod": len(pods) or job.nodes, "device": cards or None}
        """How many parts of a level it has; None if that is not known."""
        is_uniform = len({role_of(pod) for pod in pods}) == 1
        self.cards_each = cards / len(pods) if is_uniform else None
        """How many accelerators each pod has; None if that differs, or is not known."""
        kinds = {item.kind for item in job.accelerators}
        self.kind: Accelerator = "npu" if kinds == {"npu"} else "gpu"

    def task(self, label: str) -> str:
        """The name of the task that a label of a pod ends with; of none, the label."""
        if label in self.names:
            return label
        words = label.split("-")
        ends = ("-".join(words[start:]) for start in range(len(words)))
        return next((end for end in ends if end in self.names), label)


@dataclass(frozen=True, slots=True)
class Found:
    """Readings of one level and kind of accelerator, and the families that they feed (as in Plan).

    A key is (job), (job, pod), or (job, pod, card, kind of accelerator).
    """

    level: Level
    accelerator: Accelerator
    targets: Mapping[Family, float]
    readings: Sequence[Reading]
    is_first: bool = True
    """Whether no other one has the same readings for other families: what is dropped counts once."""

    def incomplete(self, jobs: Mapping[str, JobParts], *, dated: bool = False) -> set[tuple[Key, int]]:
        """Return the jobs and pods that have no sums, each with the time (0 if not `dated`): a part has no reading, or
        there are more than there should be."""
        if all(family.is_ratio for family in self.targets):
            return set()
        # Of an unknown number of cards, it is the pods that must be there.
        by_pods = {job_id for job_id, each in jobs.items() if each.counts[self.level] is None}
        all_keys = (
            (key[:2] if key[0] in by_pods else key, int(time) if dated else 0) for key, time, _ in self.readings
        )
        keys = {each for each in all_keys if each[0][0] in jobs}
        wanted = {job_id: each.counts["pod" if job_id in by_pods else self.level] for job_id, each in jobs.items()}
        parts = Counter((key[:1], at) for key, at in keys)
        found = {each for each, number in parts.items() if number != wanted[each[0][0]]}
        by_pod = Counter((key[:2], at) for key, at in keys if len(key) > 2 and (key[:1], at) in found)
        return found | {each for each, number in by_pod.items() if number != jobs[each[0][0]].cards_each}

    def columns(
        self,
        jobs: Mapping[str, JobParts],
        subjects: Subjects,
        dropped: Counter[str],
        *,
        now: float = 0.0,
        is_known: Callable[[str], bool] = lambda job_id: False,
    ) -> list[Column]:
        """Return the values of `now`. `dropped` counts by reason what is not shown. `is_known` returns whether another
        job exists all the same."""
        known, given = dict.fromkeys(jobs, 0.0), {"now": now, "max_age": now}
        found = NewestReadings(
            self.level, known, subjects, **given, is_known=is_known, once=True, accelerator=self.accelerator
        )
        keys, _, values = zip(*self.readings, strict=True) if self.readings else ((), (), ())
        found.take(keys, [now] * len(keys), values)
        found.spoiled |= {key for key, _ in self.incomplete(jobs)}
        shown = found.of_families(self.targets, period=0)
        dropped.update(found.dropped if self.is_first else ())
        return shown


# From answers to readings.


def newest(answer: Metrics, values: Sequence[str | float | None]) -> float | None:
    """The last sample if it is current. v1 has the minutes between the values."""
    recent = max(1, int(_RECENT // max(amount(answer.interval) or 1, 1)))
    given = [number for raw in values[-recent:] if (number := as_number(raw)) is not None and number != -1]
    return next(reversed(list(filter(math.isfinite, given)) or given), None)


class ArrayReadings:
    """What the pods of a job, and their cards, use. `dropped` counts by reason what is not shown."""

    def __init__(self, job_id: str, parts: JobParts) -> None:
        self.dropped: Counter[str] = Counter()
        self._job_id, self._parts = job_id, parts
        self._found: defaultdict[tuple[str, bool], list[Reading]] = defaultdict(list)
        """By metric in small letters, and whether readings are those of cards."""

    def add_pod(self, pod_id: str, answer: Metrics) -> bool:
        """Take over what one task or pod uses; return whether there is anything."""
        found = [self._put((item.metric or "").lower(), (pod_id,), item, answer) for item in answer.metrics or ()]
        self.dropped["no_data"] += not any(found)
        return any(found)

    def add_cards(self, pod_id: str, answer: Metrics) -> None:
        """Take over what each card of a pod does (`statistic_type=each`).

        What distinguishes cards is documented nowhere: their place among equal names is taken for it.
        """
        places = Counter[str]()
        for item in answer.metrics or ():
            name = (item.metric or "").lower()
            if name in _METRICS and MEASURES[_METRICS[name][0]].device is not None:
                self._put(name, (pod_id, str(places[name]), kind_of(name)), item, answer)
                places[name] += 1

    def shown(self, source: str) -> list[object]:
        """Return what is shown of now, with the values of the job and its source."""
        shown, jobs = list[Column](), {self._job_id: self._parts}
        for (name, is_of_cards), readings in self._found.items():
            suffix, factor = _METRICS[name]
            levels: Sequence[Level] = ("device",) if is_of_cards else ("pod", "job")
            targets = {MEASURES[suffix].of(level): factor for level in levels}
            found = Found(levels[0], kind_of(name), targets, readings)
            shown += found.columns(jobs, Subjects(), self.dropped)
        named = [UsageSource(self._job_id, source, None)] if any(c.family.level == "pod" for c in shown) else []
        return [*page_readings(shown), *named]

    def _put(self, name: str, key: Key, item: MetricValues, answer: Metrics) -> bool:
        """Take over the sample of one metric; return whether there is one."""
        if name not in _METRICS or item.value is None:
            self.dropped["malformed"] += 1
            return False
        # A kind of device that is not there is all -1: nothing is missing then.
        if (number := newest(answer, item.value)) is not None:
            self._found[name, len(key) > 1].append(((self._job_id, *key), 0.0, number))
        return number is not None


# The collector.

SOURCE = "task_metrics"


def collector_of_task_metrics(
    api: Api,
    fleet: Workspaces,
    interval: float,
    config: UsageConfig,
    sources: JobSources,
    *,
    tasks_of: Callable[[str], Collection[str]],
) -> EachJob:
    """The collector of the jobs that `sources` leave to this one: running ones, because the last value of any other is
    from its end. `tasks_of` returns the names of a job's tasks."""

    async def read(part: Part) -> None:
        tasks = tasks_of(part.key)
        readings, missing, is_there = ArrayReadings(part.key, JobParts(fleet.live[part.key], tasks)), None, False
        for task in tasks:
            path = f"training-jobs/{segment(part.key)}/metrics/{segment(task)}"
            options: Mapping[str, Any] = {"may_be_empty": True, "limits": BULK}  # empty before it runs (204)
            try:
                answer = await api.get("ShowTrainingJobMetrics", path, Metrics, deadline=part.deadline, **options)
            except NotFound as error:
                missing = error  # the task or the whole job was deleted in the meantime
                continue
            is_there |= readings.add_pod(task, answer)
            del answer  # before the next call
        shown = readings.shown(SOURCE)
        count(part, readings.dropped)
        if missing is not None and not is_there:
            await part.not_found(missing)
        else:
            await part.publish(shown)
        sources.answered(part.key, with_usage=bool(shown))

    return EachJob(
        SOURCE,
        fleet,
        interval,
        read,
        max_jobs=config.max_jobs,
        sources=sources,
        waits=config.asks_aom,
        calls=lambda job_id: len(tasks_of(job_id)),
    )
