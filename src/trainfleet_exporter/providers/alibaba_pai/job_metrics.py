"""Usage by DLC GetJobMetrics: up to eight calls for each running job, of at most `max_jobs` jobs, the newest first.

The platform keeps this call up for pay-as-you-go jobs on general computing only; `auto` asks for no others.

Units: utilizations are percent; network and disk rates are taken as MB/s of 10^6 bytes, as the same names are in
PaiStudio (unproven for DLC). Times are Unix milliseconds. One series for each pod, none for a single GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.families.usage import MEASURES, Family, Level
from trainfleet_exporter.fleet.collectors import EachJob
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import (
    FUTURE,
    FamilyReadings,
    Key,
    NewestReadings,
    Subjects,
    count,
    of_jobs,
    publish_fresh,
    usage_sources,
)
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.client import Api, Row, segment
from trainfleet_exporter.providers.alibaba_pai.usage import number_of
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import BULK, BodyLimits
from trainfleet_exporter.transport.json_fields import iso_time

SOURCE = "job_metrics"


class MetricPoint(Row):
    """Percent, or MB/s."""

    time: float | None = None
    value: str | float | None = None


class PodMetric(Row):
    pod_id: str | None = None
    metrics: list[MetricPoint | None] | None = None


class JobMetrics(Row):
    job_id: str | None = None
    pod_metrics: list[PodMetric | None] | None = None


class MetricType(Struct, frozen=True):
    """A MetricType of GetJobMetrics, and what it feeds."""

    name: str
    suffix: str
    of_accelerators: bool = False
    level: ClassVar[Level] = "pod"
    """Of its readings."""

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    @property
    def targets(self) -> dict[Family, float]:
        """The families of pods and jobs, and how many base units a value counts."""
        measure = MEASURES[self.suffix]
        return {measure.of(level): 0.01 if measure.is_ratio else 1e6 for level in ("pod", "job")}


METRIC_TYPES = (
    MetricType("CpuCoreUsage", "cpu_utilization_ratio"),
    MetricType("MemoryUsage", "memory_utilization_ratio"),
    MetricType("GpuCoreUsage", "accelerator_utilization_ratio", of_accelerators=True),
    MetricType("GpuMemoryUsage", "accelerator_memory_utilization_ratio", of_accelerators=True),
    MetricType("NetworkInputRate", "network_receive_bytes_per_second"),
    MetricType("NetworkOutputRate", "network_transmit_bytes_per_second"),
    MetricType("DiskReadRate", "disk_read_bytes_per_second"),
    MetricType("DiskWriteRate", "disk_write_bytes_per_second"),
)


async def get_job_metrics(
    api: Api, job_id: str, metric: MetricType, start: float, end: float, *, deadline: float, limits: BodyLimits = BULK
) -> JobMetrics:
    """DLC GetJobMetrics: one metric of every pod of one job, in one-minute steps. Unix seconds in."""
    query = {"MetricType": metric.name, "StartTime": iso_time(start), "EndTime": iso_time(end), "TimeStep": "1m"}
    return await api.get(
        "dlc",
        "GetJobMetrics",
        f"/api/v1/jobs/{segment(job_id)}/metrics",
        JobMetrics,
        query,
        deadline=deadline,
        no_data=lambda found: not found.pod_metrics,
        limits=limits,
    )


def pods_of(payload: JobMetrics) -> Iterator[tuple[str, list[tuple[float | None, float | None]]]]:
    """Yield each pod of an answer (empty if it is not named), with the Unix times and values of its points; None if
    there is none."""
    for item in payload.pod_metrics or ():
        points = []
        for point in (item.metrics if item else None) or ():
            milliseconds = None if point is None else whole(point.time)
            at = None if milliseconds is None else milliseconds / 1000
            points.append((at, None if point is None else number_of(point.value)))
        yield (item.pod_id if item else None) or "", points


def take(payload: JobMetrics, into: NewestReadings, job_id: str, now: float) -> None:
    """Take over the newest usable value of each pod in one answer."""
    if payload.job_id and payload.job_id != job_id:
        into.dropped["unlisted"] += 1
        return
    into.dropped["no_data"] += not payload.pod_metrics
    for pod_id, points in pods_of(payload):
        usable = [(at, value) for at, value in points if at is not None and value is not None and at <= now + FUTURE]
        if not pod_id:
            into.spoil(job_id)
        elif not usable:
            into.dropped["no_data"] += 1
        else:
            at, value = max(usable)
            into.put((job_id, pod_id), at, value)


def job_columns(found: Mapping[str, NewestReadings]) -> list[FamilyReadings]:
    """The readings of one job and its pods, by metric."""
    pods: dict[Key, float] = {}
    columns: list[FamilyReadings] = []
    spoiled = set[str]()
    for metric in METRIC_TYPES:
        newest = found.get(metric.name)
        if newest is not None and newest.found:
            for key, (at, _) in newest.found.items():
                pods[key] = max(at, pods.get(key, at))
            columns += newest.of_families(metric.targets, period=0)[:1]  # of the pods alone
            spoiled |= {columns[-1].family.path} if newest.spoiled else set()
    return [*columns, *of_jobs(columns, pods, spoiled=spoiled)]


def is_without_gpus(job: Job) -> bool:
    """Return whether a job certainly has no accelerator."""
    return bool(job.accelerators) and all(item.count == 0 for item in job.accelerators)


def collector_of_job_metrics(
    api: Api, fleet: Workspaces, interval: float, *, sources: JobSources, max_jobs: int
) -> EachJob:
    """The collector of the jobs that `sources` leave to this one."""

    async def read(part: Part) -> None:
        job, now, found = fleet.live[part.key], fleet.clock.now(), dict[str, NewestReadings]()
        age, begun = max(fleet.max_data_age, 2 * part.interval), {part.key: 0.0}
        for metric in METRIC_TYPES:
            if metric.of_accelerators and is_without_gpus(job):
                continue
            try:
                payload = await get_job_metrics(api, part.key, metric, now - age, now, deadline=part.deadline)
            except NotFound as error:
                await part.not_found(error)  # the next poll of jobs says what became of it
                return
            newest = found[metric.name] = NewestReadings("pod", begun, now=now, max_age=age)
            take(payload, newest, part.key, now)
            if not newest.found and (+newest.dropped).keys() <= {"no_data"} and len(found) == 1:
                break  # every running pod uses some CPU: a job without a CPU reading is not served at all
        columns, subjects = job_columns(found), Subjects()
        for newest in found.values():
            count(part, newest.dropped)

        def shown(fresh: Sequence[FamilyReadings]) -> Sequence[object]:
            return [*subjects.readings(fresh), *usage_sources(fresh, SOURCE)]

        age, clock = fleet.max_data_age, fleet.clock
        await publish_fresh(part, columns, shown, begun=lambda: begun, max_data_age=age, clock=clock)

    return EachJob(
        SOURCE,
        fleet,
        interval,
        read,
        max_jobs=max_jobs,
        need=lambda job: -(job.created or 0.0),
        data="usage from GetJobMetrics",
        sources=sources,
        calls=lambda job_id: len(METRIC_TYPES),
    )
