"""DLC GetJobMetrics: from eight answers for one job to what its pods use, now or in a range; and the collector.

The platform keeps this call up for pay-as-you-go jobs on general computing only; `auto` asks for no others. Cost a
cycle: up to eight calls for each running job, of at most `max_jobs` jobs, the newest first.

Units: utilizations are percent; network and disk rates are taken as MB/s of 10^6 bytes, as the same names are in
PaiStudio (unproven for DLC). Times are Unix milliseconds. One series for each pod, none for a single GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared
from trainfleet_exporter.providers.history import Range
from trainfleet_exporter.providers.usage.columns import Target
from trainfleet_exporter.providers.usage.dated import Past
from trainfleet_exporter.providers.usage.newest import FUTURE, Batch
from trainfleet_exporter.providers.usage.per_job import Cap, UsageByJobCollector
from trainfleet_exporter.providers.usage.sheet import Sheet
from trainfleet_exporter.providers.usage.staleness import count, max_age, publish_until_stale
from trainfleet_exporter.providers.usage.table import MEASURES, Family, Measure
from trainfleet_exporter.providers.values import whole

SOURCE = "job_metrics"
_BEYOND_REASON = 1e300


@dataclass(frozen=True, slots=True)
class MetricType:
    """A MetricType of GetJobMetrics, and what it feeds."""

    name: str
    measure: Measure
    needs_gpu: bool = False

    @property
    def pod(self) -> Family:
        """The family of pods."""
        return self.measure.of("pod")

    @property
    def targets(self) -> list[Target]:
        """Its objects on the page."""
        return [Target(self.measure.of(level), self.factor) for level in ("pod", "job")]

    @property
    def factor(self) -> float:
        """How many base units its values count."""
        return 0.01 if self.measure.is_ratio else 1e6


METRIC_TYPES = (
    MetricType("CpuCoreUsage", MEASURES["cpu_utilization_ratio"]),
    MetricType("MemoryUsage", MEASURES["memory_utilization_ratio"]),
    MetricType("GpuCoreUsage", MEASURES["accelerator_utilization_ratio"], needs_gpu=True),
    MetricType("GpuMemoryUsage", MEASURES["accelerator_memory_utilization_ratio"], needs_gpu=True),
    MetricType("NetworkInputRate", MEASURES["network_receive_bytes_per_second"]),
    MetricType("NetworkOutputRate", MEASURES["network_transmit_bytes_per_second"]),
    MetricType("DiskReadRate", MEASURES["disk_read_bytes_per_second"]),
    MetricType("DiskWriteRate", MEASURES["disk_write_bytes_per_second"]),
)


def is_without_gpus(job: Job) -> bool:
    """Return whether a job certainly has no accelerator."""
    return bool(job.accelerators) and all(item.count == 0 for item in job.accelerators)


def add(sheet: Sheet, payload: payloads.JobMetrics, metric: MetricType, *, job_id: str, now: float) -> None:
    """Take over the newest usable value of each pod in one answer."""
    if payload.job_id and payload.job_id != job_id:
        sheet.dropped["unlisted"] += 1
        return
    if not payload.pod_metrics:
        sheet.dropped["no_data"] += 1
    for item in payload.pod_metrics or ():
        if item is None or not item.pod_id:
            sheet.dropped["malformed"] += 1
            sheet.spoil(metric.pod)
            continue
        dated = ((time, value) for time, value in _dated(item.metrics or ()) if time is not None and value is not None)
        newest = max((one for one in dated if one[0] <= now + FUTURE), default=None, key=lambda one: one[0])
        if newest is None:
            sheet.dropped["no_data"] += 1
        else:
            sheet.put(metric.pod, (item.pod_id,), newest[1], metric.factor, time=newest[0])


def add_past(past: Past, payload: payloads.JobMetrics, *, job_id: str, within: Range) -> None:
    """Take over every reading of each pod in one answer from within a range."""
    if payload.job_id and payload.job_id != job_id:
        past.dropped["unlisted"] += 1
        return
    for item in payload.pod_metrics or ():
        if item is None or not item.pod_id:
            past.dropped["malformed"] += 1
            past.spoil(job_id)
            continue
        points = list(_dated(item.metrics or ()))
        other = [value for time, value in points if time is not None and not within.start <= time < within.end]
        past.dropped["malformed"] += other.count(None)
        times = [math.inf if time is None else time for time, _ in points]
        keys = [(job_id, item.pod_id)] * len(points)
        past.take(Batch(keys, [[value for _, value in points]], times), len(("job", "pod")))


def _dated(points: Iterable[payloads.MetricPoint | None]) -> Iterator[tuple[float | None, float | None]]:
    """The Unix time and the number of each point, infinite if that is beyond reason; None if there is none."""
    for point in points:
        milliseconds = None if point is None else whole(point.time)
        time = None if milliseconds is None else milliseconds / 1000
        yield time, None if point is None else _value(point)


def _value(point: payloads.MetricPoint) -> float | None:
    try:
        value = None if point.value is None else float(point.value)
    except ValueError:
        return None
    return value if value is None or abs(value) < _BEYOND_REASON else math.inf


class JobMetricsCollector(UsageByJobCollector):
    """The jobs that `serves` says are this source's."""

    def __init__(self, shared: PaiShared, interval: float, *, serves: Callable[[Job], bool], max_jobs: int) -> None:
        super().__init__(SOURCE, shared, interval, Cap("usage from GetJobMetrics", max_jobs))
        self._client = shared.client
        self._max_data_age = shared.max_data_age
        self._serves = serves

    def serves(self, job: Job) -> bool:
        """Return whether the job is this source's."""
        return self._serves(job)

    def calls(self, object_id: str) -> int:
        """One for each metric."""
        return len(METRIC_TYPES)

    async def poll(self, part: Part) -> None:
        """Read all metrics of one job."""
        job = self._jobs.live()[part.key]
        now, age = time.time(), max_age(part, self._max_data_age)
        sheet = Sheet(part.key, now=now, max_age=age)
        for metric in METRIC_TYPES:
            if metric.needs_gpu and is_without_gpus(job):
                continue
            try:
                payload = await self._client.get_job_metrics(
                    part.key, metric.name, start=now - age, end=now, deadline=part.deadline
                )
            except NotFound as error:
                await part.not_found(error)  # the next poll of jobs says what became of it
                return
            add(sheet, payload, metric, job_id=part.key, now=now)
            del payload  # before the next call
            is_silent = not sheet and sheet.dropped.keys() <= {"no_data"}
            count(part, sheet.dropped)
            if is_silent:
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all

        async def build(since: float) -> tuple[Sequence[object], float]:
            return sheet.of_job(SOURCE, since), sheet.oldest(since)

        await publish_until_stale(part, build, self._max_data_age, now=now)
