"""Usage by arrays that nothing dates: v2 tasks, v1 pods and cards; and the collector of the v2 tasks.

v2: one array of one-minute averages for each of six metrics, from the task's start on, percent, -1 for "no sample".
v1: arrays of text, `interval` minutes apart, network bytes and disk kilobytes a second (the latter unproven).
No array says when its last value was taken; it is believed to be now if it is among the last few.

Cost a cycle: one call for each task of each running job, of at most `max_jobs` jobs.

https://support.huaweicloud.com/intl/en-us/api-modelarts/ShowTrainingJobMetrics.html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import MEASURES, Family, Level
from trainfleet_exporter.fleet.collectors import EachJob
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import FamilyReadings, Key, Subjects, count, of_jobs, page_readings
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Accelerator, UsageSource
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.huawei_modelarts.client import Api, segment
from trainfleet_exporter.providers.usage.quantities import convert
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

# From answers to readings.


def kind_of(metric: str) -> Accelerator:
    """The kind of accelerator that a metric is of; of no importance for others."""
    return "npu" if metric.startswith("npu") else "gpu"


def number_of(raw: str | float | None) -> float | None:
    """A value of an array; -1 is "no sample". None if it is no number."""
    try:
        return None if raw is None else float(raw)
    except ValueError:
        return None


class JobReadings:
    """What the pods of a job, and their cards, use now. `dropped` counts by reason what is not shown."""

    def __init__(self, job_id: str) -> None:
        self.dropped: Counter[str] = Counter()
        self._job_id = job_id
        self._found: dict[tuple[Family, Accelerator], dict[Key, tuple[float, float, float]]] = {}
        self._pods: dict[Key, float] = {}
        """Those with a sample. Times mean nothing: all are of now."""

    def add_pod(self, pod_id: str, answer: Metrics) -> bool:
        """Take over what one task or pod uses; return whether there is anything."""
        found = False
        for item in answer.metrics or ():
            found |= self._put((item.metric or "").lower(), "pod", (pod_id,), item, answer)
        self.dropped["no_data"] += not found
        if found:
            self._pods[self._job_id, pod_id] = 0.0
        return found

    def add_cards(self, pod_id: str, answer: Metrics) -> None:
        """Take over what each card of a pod does (`statistic_type=each`).

        What distinguishes cards is documented nowhere: by a number in the metric's name, or by its place among equal
        names.
        """
        places = Counter[str]()
        for item in answer.metrics or ():
            if (match := _CARD.fullmatch((item.metric or "").lower())) is not None:
                name = match[1]
                device = match[2] if match[2] is not None else str(places[name])
                places[name] += 1
                self._put(name, "device", (pod_id, device, kind_of(name)), item, answer)

    def shown(self, source: str, *, has_all_pods: bool = True) -> list[object]:
        """Return what is shown, with the values of the job and its source. Without all pods, the job has no sums."""
        columns = [FamilyReadings(family, rows, kind) for (family, kind), rows in self._found.items() if rows]
        of_pods = [column for column in columns if column.family.level == "pod"]
        spoiled = () if has_all_pods else [column.family.path for column in of_pods]
        wholes = [column for column in of_jobs(of_pods, self._pods, spoiled=spoiled) if column.rows]
        named = [UsageSource(self._job_id, source, None)] if of_pods else []
        return [*page_readings(Subjects().columns([*wholes, *columns])), *named]

    def _put(self, name: str, level: Level, rest: Key, item: MetricValues, answer: Metrics) -> bool:
        """Take over the present value of one metric; return whether there is one."""
        if name not in METRICS or item.value is None:
            self.dropped["malformed"] += 1
            return False
        # v1 has the minutes between the values.
        recent = max(1, int(_RECENT // max(amount(answer.interval) or 1, 1)))
        given = [number_of(raw) for raw in item.value[-recent:]]
        samples = [number for number in given if number is not None and number != -1]
        if not samples:  # a kind of device that is not there is all -1: nothing is missing then
            return False
        suffix, factor = METRICS[name]
        family, key = MEASURES[suffix].of(level), (self._job_id, *rest)
        rows, value = self._found.setdefault((family, kind_of(name)), {}), convert(samples[-1], factor, family.quantity)
        if key in rows or value is None:
            self.dropped["out_of_range" if value is None else "duplicate"] += 1
        else:
            rows[key] = value, 0.0, 0.0
        return True


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
        readings, missing, is_there = JobReadings(part.key), None, False
        for task in tasks_of(part.key):
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
