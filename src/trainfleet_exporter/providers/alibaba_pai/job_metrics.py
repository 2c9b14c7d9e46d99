"""GetJobMetrics to usage: from eight answers for one job to what its pods, and it as a whole, use.

Units: utilizations are percent; network and disk rates are taken as MB/s of 10^6 bytes, as the same names are in
PaiStudio (unproven for DLC). Times are Unix milliseconds. One series for each pod, none for a single GPU.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from trainfleet_exporter.model import JobUsage, PodUsage, UsageSource, UsageValues
from trainfleet_exporter.providers.alibaba_pai import payloads
from trainfleet_exporter.providers.dated import Dated
from trainfleet_exporter.providers.history import Range
from trainfleet_exporter.providers.readings import believable_ratio, mean
from trainfleet_exporter.providers.values import whole

SOURCE = "job_metrics"
_FUTURE = 900.0
"""A reading dated further ahead than a request's clock may be off is not believed."""
_BEYOND_REASON = 1e300
_SILENCE = 180.0
"""Readings come each minute; three that are missing mean that a pod no longer reports."""


@dataclass(frozen=True, slots=True)
class MetricType:
    """A MetricType of GetJobMetrics, the field it fills, and how its value counts."""

    name: str
    field: str
    kind: Literal["cpu", "bounded", "rate"]
    needs_gpu: bool = False


METRIC_TYPES = (
    MetricType("CpuCoreUsage", "cpu", "cpu"),
    MetricType("MemoryUsage", "memory", "bounded"),
    MetricType("GpuCoreUsage", "accelerator_utilization", "bounded", needs_gpu=True),
    MetricType("GpuMemoryUsage", "accelerator_memory", "bounded", needs_gpu=True),
    MetricType("NetworkInputRate", "network_receive", "rate"),
    MetricType("NetworkOutputRate", "network_transmit", "rate"),
    MetricType("DiskReadRate", "disk_read", "rate"),
    MetricType("DiskWriteRate", "disk_write", "rate"),
)
_RATES = tuple(metric.field for metric in METRIC_TYPES if metric.kind == "rate")
_RATIOS = tuple(metric.field for metric in METRIC_TYPES if metric.kind != "rate")


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest value of one metric of one pod, in the model's units, and its Unix time."""

    pod_id: str
    field: str
    value: float
    time: float


def readings(
    payload: payloads.JobMetrics, metric: MetricType, *, job_id: str, now: float, max_age: float
) -> tuple[list[Reading], Counter[str]]:
    """The newest believable value of each pod in one answer, and what was dropped, by reason."""
    dropped: Counter[str] = Counter()
    if payload.job_id and payload.job_id != job_id:
        dropped["unlisted"] += 1
        return [], dropped
    found: dict[str, Reading] = {}
    if not payload.pod_metrics:
        dropped["no_data"] += 1
    for item in payload.pod_metrics or ():
        if item is None or not item.pod_id:
            dropped["malformed"] += 1
            continue
        pod_id = item.pod_id
        newest = _newest(item.metrics or (), now)
        if newest is None:
            dropped["no_data"] += 1
            continue
        time, raw = newest
        value = _in_base_units(raw, metric)
        if pod_id in found:
            dropped["duplicate"] += 1
        elif now - time > max_age:
            dropped["stale"] += 1
        elif value is None:
            dropped["out_of_range"] += 1
        else:
            found[pod_id] = Reading(pod_id, metric.field, value, time)
    return list(found.values()), dropped


def usage(
    job_id: str, given: Iterable[Reading], lacking: Collection[str] = ()
) -> list[JobUsage | PodUsage | UsageSource]:
    """What a job and its pods use, from readings that may be shown. Nothing, where there is none.

    The job's ratios are the mean over pods. Its rates are sums, and only where every pod has one: a sum that lacks a
    pod would look like a drop. Fields that are `lacking` had readings of which it cannot be said whose they are.
    """
    by_pod: dict[str, dict[str, float]] = {}
    read_at: dict[str, float] = {}
    for reading in given:
        by_pod.setdefault(reading.pod_id, {})[reading.field] = reading.value
        read_at[reading.pod_id] = max(reading.time, read_at.get(reading.pod_id, 0.0))
    if not by_pod:
        return []
    newest = max(read_at.values())
    # A pod that fell silent while others go on is likely gone: it shows its last readings, and counts no more.
    present = [values for pod_id, values in by_pod.items() if newest - read_at[pod_id] <= _SILENCE]
    whole_job: dict[str, float] = {}
    for field in _RATIOS + _RATES:
        values = [pod[field] for pod in present if field in pod]
        if field in _RATIOS:
            average = mean(values)
            if average is not None:
                whole_job[field] = average
        elif len(values) == len(present) and field not in lacking:
            whole_job[field] = math.fsum(values)
    return [
        JobUsage(job_id, UsageValues(**whole_job)),  # type: ignore[arg-type]  # fields of METRIC_TYPES
        UsageSource(job_id, SOURCE, newest),
        *(PodUsage(job_id, pod_id, UsageValues(**values)) for pod_id, values in by_pod.items()),  # type: ignore[arg-type]  # likewise
    ]


def dated_readings(
    payload: payloads.JobMetrics, metric: MetricType, *, job_id: str, within: Range
) -> tuple[dict[str, Dated], Counter[str], bool]:
    """Every reading of each pod in one answer from within a range; what was dropped, by reason; and whether of some of
    that it is not known which pod's it was, or when. Where both are, a reading that has no value is one that cannot be
    true at its time (Dated.add)."""
    dropped: Counter[str] = Counter()
    found: dict[str, Dated] = {}
    spoiled = False
    if payload.job_id and payload.job_id != job_id:
        dropped["unlisted"] += 1
        return found, dropped, spoiled
    for item in payload.pod_metrics or ():
        if item is None or not item.pod_id:
            dropped["malformed"] += 1
            spoiled = True
            continue
        dated = found.setdefault(item.pod_id, Dated())
        for point in item.metrics or ():
            milliseconds = None if point is None else whole(point.time)
            if point is None or milliseconds is None:
                dropped["malformed"] += 1
                spoiled = True
                continue
            raw = _value(point)
            if not within.start <= milliseconds / 1000 < within.end:
                dropped["malformed"] += raw is None
                continue
            value = None if raw is None else _in_base_units(raw, metric)
            if value is None:
                dropped["malformed" if raw is None else "out_of_range"] += 1
            dated.add(milliseconds // 1000, value)
        dropped["duplicate"] += dated.sort()
    return {pod_id: dated for pod_id, dated in found.items() if dated.times}, dropped, spoiled


def _newest(points: Iterable[payloads.MetricPoint | None], now: float) -> tuple[float, float] | None:
    """The newest point that has a time and a number, as (Unix seconds, raw value)."""
    newest: tuple[float, float] | None = None
    for point in points:
        milliseconds = None if point is None else whole(point.time)
        if point is None or milliseconds is None or (value := _value(point)) is None:
            continue
        time = milliseconds / 1000
        if time <= now + _FUTURE and (newest is None or time > newest[0]):
            newest = time, value
    return newest


def _value(point: payloads.MetricPoint) -> float | None:
    """The number, infinite where it is beyond reason; None where there is none."""
    try:
        value = None if point.value is None else float(point.value)
    except ValueError:
        return None
    return value if value is None or abs(value) < _BEYOND_REASON else math.inf


def _in_base_units(raw: float, metric: MetricType) -> float | None:
    if metric.kind == "rate":
        return raw * 1e6 if math.isfinite(raw) and raw >= 0 else None
    return believable_ratio(raw / 100, bounded=metric.kind == "bounded")
