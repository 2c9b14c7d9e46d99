"""Values of jobs, pods and cards from any source; arrays of v2 tasks, v1 pods and cards; the collector of v2 tasks.

    a source's JSON ──put(key, number, factor, time)──► Values ──► columns of now, or rows by time

v2: one array of one-minute averages for each of six metrics, from the task's start on, percent, -1 for "no sample".
v1: arrays of text, `interval` minutes apart, network bytes and disk kilobytes a second (the latter unproven).
No array says when its last value was taken; it is believed to be now if it is among the last few.

Cost a cycle: one call for each task of each running job, of at most `max_jobs` jobs.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowTrainingJobMetrics.html
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter

from msgspec import Struct

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import MEASURES, Level, Measure
from trainfleet_exporter.fleet.collectors import EachJob
from trainfleet_exporter.fleet.quantities import convert, mean
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import UNDATED, Column, Key, Row, Subjects, count, page_readings
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Accelerator, Job, UsageSource
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.huawei_modelarts.client import Api, segment
from trainfleet_exporter.providers.huawei_modelarts.jobs import role_of
from trainfleet_exporter.providers.values import amount
from trainfleet_exporter.transport import BULK

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

RATIO_METRICS = {
    "cpuUsage": "cpu_utilization_ratio",
    "memUsage": "memory_utilization_ratio",
    "gpuUtil": "accelerator_utilization_ratio",
    "npuUtil": "accelerator_utilization_ratio",
    "gpuMemUsage": "accelerator_memory_utilization_ratio",
    "npuMemUsage": "accelerator_memory_utilization_ratio",
}
"""The families of each metric, by their suffix."""
RATE_METRICS = {
    "recvBytesRate": ("network_receive_bytes_per_second", 1.0),
    "sendBytesRate": ("network_transmit_bytes_per_second", 1.0),
    "diskReadRate": ("disk_read_bytes_per_second", 1024.0),
    "diskWriteRate": ("disk_write_bytes_per_second", 1024.0),
}
"""Only v1 has them. It begins all of these names with a capital: they are compared without regard to case."""
METRICS: Mapping[str, tuple[str, float]] = {
    **{metric.lower(): (suffix, 0.01) for metric, suffix in RATIO_METRICS.items()},
    **{metric.lower(): row for metric, row in RATE_METRICS.items()},
}
"""By metric in small letters, the suffix of its families, and how many base units a value counts."""
_OF_CARDS = "|".join(name for name, (suffix, _) in METRICS.items() if MEASURES[suffix].device is not None)
_CARD = re.compile(rf"({_OF_CARDS})[^0-9]*([0-9]{{1,6}})?", re.ASCII)
_RECENT = 5
"""Minutes back in which the last sample still counts as current."""

# Values of parts, and of their wholes.

_LONGEST_NUMBER = 40
"""Characters of a number that is believed to be one."""


def number_of(raw: str | float | None) -> float | None:
    """A value as a number; None if it is none. -1 is "no sample"."""
    try:
        return float(raw) if isinstance(raw, float) or (raw and len(raw) <= _LONGEST_NUMBER) else None
    except ValueError:
        return None


def kind_of(metric: str) -> Accelerator:
    """The kind of accelerator that a metric is of; of no importance for others."""
    return "npu" if metric.startswith("npu") else "gpu"


class JobParts:
    """What a job consists of. None: not known."""

    def __init__(self, job: Job, pods: Collection[str]) -> None:
        self.job_id, self.names = job.job_id, frozenset(pods)
        self.pods = len(pods) or (int(job.nodes) if job.nodes else None)
        self.cards = math.fsum(item.count for item in job.accelerators) if job.accelerators else None
        is_uniform = len({role_of(pod) for pod in pods}) == 1
        self.cards_each = self.cards / self.pods if is_uniform and self.cards and self.pods else math.inf
        """How many accelerators each pod has; infinite if that differs, or is not known."""
        kinds = {item.kind for item in job.accelerators}
        self.kind = kinds.pop() if len(kinds) == 1 else None


class Values:
    """The values of one measure of the parts of `jobs`, at each time; those of `levels` are shown.

    A key is (job, pod), or (job, pod, card, kind of accelerator) with `of_cards`. A card without a name (an empty text)
    stands for all cards of its pod, and a pod without a name for all pods of its job. `is_chosen`: the query is the
    config's, and what it names less finely is believed to be of a whole. `dropped` counts by reason what is not shown.
    """

    def __init__(
        self,
        measure: Measure,
        levels: Collection[Level],
        jobs: Mapping[str, JobParts],
        dropped: Counter[str],
        *,
        of_cards: bool = False,
        is_chosen: bool = False,
    ) -> None:
        self.measure, self.jobs, self.dropped, self.of_cards = measure, jobs, dropped, of_cards
        self._quantity, self._is_ratio = measure.quantity, measure.is_ratio
        self._levels, self._is_chosen = levels, is_chosen
        self._found: defaultdict[tuple[int, str], dict[Key, float | None]] = defaultdict(dict)
        """By time and job. None: of several values, none can be believed."""

    def put(self, key: Key, number: float, factor: float, at: int = 0) -> None:
        """Take over a number that counts `factor` base units, at a Unix time or now (0)."""
        value = convert(number, factor, self._quantity)
        if value is None:
            self.dropped["out_of_range"] += 1
            return
        values = self._found[at, key[0]]
        if key in values:
            is_other = values[key] not in (None, value)
            self.dropped["duplicate"] += 1 + is_other
            value = None if is_other else values[key]
        values[key] = value

    @property
    def job_ids(self) -> frozenset[str]:
        """The jobs that have a value."""
        return frozenset(job_id for (_, job_id), found in self._found.items() if set(found.values()) != {None})

    def rows(self, job_ids: Collection[str] | None = None) -> Iterator[tuple[int, Level, Accelerator, Key, float]]:
        """Yield all values by time, level, kind of accelerator and key; of these jobs, or all.

        A ratio of a whole is the mean of what is there, by kind. A sum is of the whole or absent.
        """
        for at, job_id in sorted(self._found, key=itemgetter(0)):
            known = {key: value for key, value in self._found[at, job_id].items() if value is not None}
            if known and (job_ids is None or job_id in job_ids):
                for level, key, parts, has_sum in self._wholes(self.jobs[job_id], known):
                    groups: defaultdict[Accelerator, list[float]] = defaultdict(list)
                    for part in parts if level in self._levels else ():
                        groups[_kind(part) if self._is_ratio or level == "device" else "gpu"].append(known[part])
                    for kind, values in groups.items():
                        value = mean(values) if self._is_ratio else math.fsum(values) if has_sum else None
                        if value is not None:
                            yield at, level, kind, key, value

    def columns(self, subjects: Subjects, job_ids: Collection[str] | None = None) -> list[Column]:
        """Return the values of now; of these jobs, or all."""
        found: defaultdict[tuple[Level, Accelerator], dict[Key, Row]] = defaultdict(dict)
        for _, level, kind, key, value in self.rows(job_ids):
            found[level, kind][key] = value, UNDATED, UNDATED
        return [subjects.column(self.measure.of(level), rows, kind) for (level, kind), rows in found.items()]

    def _wholes(self, job: JobParts, keys: Collection[Key]) -> Iterator[tuple[Level, Key, Collection[Key], bool]]:
        """Yield each level and key with its parts, and whether these are all."""
        pods: defaultdict[str, list[Key]] = defaultdict(list)
        for key in keys:
            pods[key[1]].append(key)
        # More pods than there should be: some were replaced, and it is not known which.
        has_replaced = job.pods is not None and len(pods) > job.pods
        has_all_cards = len(keys) == job.cards and not has_replaced
        complete = {pod for pod, parts in pods.items() if has_all_cards or self._is_whole(job, parts)}
        if not has_replaced:
            is_whole = self._is_chosen and len(pods) == 1 if "" in pods else len(complete) == job.pods
            yield "job", (job.job_id,), keys, is_whole
        for pod, parts in pods.items():
            if pod:
                yield "pod", (job.job_id, pod), parts, pod in complete
                yield from (("device", part, (part,), True) for part in parts if _is_card(part))

    def _is_whole(self, job: JobParts, parts: Sequence[Key]) -> bool:
        """Return whether the readings of a pod are those of all of its cards. If there are more, it had some before."""
        has_unnamed = not all(map(_is_card, parts))
        if has_unnamed and (self._is_chosen or len(parts[0]) == 2):
            return True  # what has no name is of the pod as one
        return not has_unnamed if job.cards is None else len(parts) == job.cards_each


def _is_card(part: Key) -> bool:
    return len(part) > 2 and part[2] != ""


def _kind(part: Key) -> Accelerator:
    return "npu" if part[-1] == "npu" and len(part) > 2 else "gpu"


# From answers to readings.


def newest(answer: Metrics, values: Sequence[str | float | None]) -> float | None:
    """The last sample if it is current. v1 has the minutes between the values."""
    recent = max(1, int(_RECENT // max(amount(answer.interval) or 1, 1)))
    given = [number for raw in values[-recent:] if (number := number_of(raw)) is not None and number != -1]
    return next(reversed(list(filter(math.isfinite, given)) or given), None)


class ArrayReadings:
    """What the pods of a job, and their cards, use. `dropped` counts by reason what is not shown."""

    def __init__(self, job: JobParts) -> None:
        self.dropped: Counter[str] = Counter()
        self.values: dict[tuple[str, bool], Values] = {}
        """By the suffix of a measure, and whether its values are those of named cards."""
        self._job = job

    def add_pod(self, pod_id: str, answer: Metrics) -> bool:
        """Take over what one task or pod uses; return whether there is anything."""
        found = [self._put((item.metric or "").lower(), pod_id, "", item, answer) for item in answer.metrics or ()]
        self.dropped["no_data"] += not any(found)
        return any(found)

    def add_cards(self, pod_id: str, answer: Metrics) -> None:
        """Take over what each card of a pod does (`statistic_type=each`).

        What distinguishes cards is documented nowhere: by a number in the metric's name, or by its place among equal
        names.
        """
        places = Counter[str]()
        for item in answer.metrics or ():
            if (match := _CARD.fullmatch((item.metric or "").lower())) is not None:
                name = match[1]
                self._put(name, pod_id, match[2] or str(places[name]), item, answer)
                places[name] += 1

    def shown(self, source: str) -> list[object]:
        """Return what is shown of now, with the values of the job and its source."""
        subjects = Subjects()
        columns = [column for values in self.values.values() for column in values.columns(subjects)]
        named = [UsageSource(self._job.job_id, source, None)] if any(c.family.level == "pod" for c in columns) else []
        return [*page_readings(columns), *named]

    def _put(self, name: str, pod_id: str, card: str, item: MetricValues, answer: Metrics) -> bool:
        """Take over the sample of one metric; return whether there is one."""
        if name not in METRICS or item.value is None:
            self.dropped["malformed"] += 1
            return False
        suffix, factor = METRICS[name]
        measure = MEASURES[suffix]
        levels: Sequence[Level] = ("device",) if card else ("job", "pod")
        new = Values(measure, levels, {self._job.job_id: self._job}, self.dropped)
        values = self.values.setdefault((suffix, card != ""), new)
        key = (self._job.job_id, pod_id, *((card, kind_of(name)) if measure.device else ()))
        # A kind of device that is not there is all -1: nothing is missing then.
        if (number := newest(answer, item.value)) is not None:
            values.put(key, number, factor)
        return number is not None


# The collector.

SOURCE = "task_metrics"


async def get_task_metrics(api: Api, job_id: str, task: str, *, deadline: float) -> Metrics:
    """GET .../training-jobs/{id}/metrics/{task}: the whole history of one task. Empty before it runs (204)."""
    path = f"training-jobs/{segment(job_id)}/metrics/{segment(task)}"
    return await api.get("ShowTrainingJobMetrics", path, Metrics, deadline=deadline, may_be_empty=True, limits=BULK)


def collector_of_task_metrics(
    api: Api,
    fleet: Workspaces,
    interval: float,
    *,
    tasks_of: Callable[[str], Collection[str]],
    sources: JobSources,
    waits: bool,
    max_jobs: int,
) -> EachJob:
    """The collector of the jobs that `sources` leave to this one: running ones, because the last value of any other is
    from its end. `tasks_of` returns the names of a job's tasks. `waits` as in EachJob."""

    async def read(part: Part) -> None:
        tasks = tasks_of(part.key)
        readings, missing, is_there = ArrayReadings(JobParts(fleet.live[part.key], tasks)), None, False
        for task in tasks:
            try:
                answer = await get_task_metrics(api, part.key, task, deadline=part.deadline)
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
        max_jobs=max_jobs,
        need=lambda job: -(job.created or 0.0),
        data="usage from task metrics",
        sources=sources,
        waits=waits,
        calls=lambda job_id: len(tasks_of(job_id)),
    )
