"""ModelArts' undated metric arrays to usage: v2 tasks, v1 pods and their cards.

v2: one array of one-minute averages for each of six metrics, from the task's start on, percent, -1 for "no sample".
v1: arrays of text, `interval` minutes apart, network bytes and disk kilobytes a second (the latter unproven).
No array says when its last value was taken; it is believed to be now if it is among the last few.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trainfleet_exporter.model import Accelerator, DeviceUsage, JobUsage, PodUsage, UsageSource, UsageValues
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.readings import believable_ratio, mean
from trainfleet_exporter.providers.values import amount

_RECENT = 5
"""How many minutes back the last sample may lie and still be taken for now."""
RATIO_METRICS = {
    "cpuUsage": "cpu",
    "memUsage": "memory",
    "gpuUtil": "accelerator_utilization",
    "npuUtil": "accelerator_utilization",
    "gpuMemUsage": "accelerator_memory",
    "npuMemUsage": "accelerator_memory",
}
RATE_METRICS = {
    "recvBytesRate": ("network_receive", 1.0),
    "sendBytesRate": ("network_transmit", 1.0),
    "diskReadRate": ("disk_read", 1024.0),
    "diskWriteRate": ("disk_write", 1024.0),
}
"""Only v1 has them. It begins all of these names with a capital: they are compared without regard to case."""
RATIO_FIELDS = {metric.lower(): field for metric, field in RATIO_METRICS.items()}
_RATE_FIELDS = {metric.lower(): of for metric, of in RATE_METRICS.items()}
_RATES = tuple(field for field, _ in RATE_METRICS.values())
_CARD_METRICS = "|".join(metric for metric, field in RATIO_FIELDS.items() if field.startswith("accelerator_"))
_CARD = re.compile(rf"({_CARD_METRICS})[^0-9]*([0-9]{{1,6}})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Sample:
    metric: str
    field: str
    value: float


def pod_values(answer: payloads.Metrics) -> tuple[UsageValues | None, Counter[str]]:
    """What one task or pod uses now; None where nothing can be said. And what was dropped, by reason."""
    dropped: Counter[str] = Counter()
    taken: dict[str, Any] = {}
    kind: Accelerator = "gpu"
    recent = _recent(answer)
    for item in answer.metrics or ():
        sample = _sample((item.metric or "").lower(), item.value, recent, dropped)
        if sample is None:
            continue
        if sample.field in taken:
            dropped["duplicate"] += 1
            continue
        taken[sample.field] = sample.value
        if sample.metric.startswith("npu"):
            kind = "npu"
    if not taken:
        dropped["no_data"] += 1
        return None, dropped
    return UsageValues(accelerator=kind, **taken), dropped


def device_usage(job_id: str, pod_id: str, answer: payloads.Metrics) -> tuple[list[DeviceUsage], Counter[str]]:
    """What each card of a pod does (`statistic_type=each`).

    How a card is told apart is documented nowhere: by a number in the metric's name, or by its place among equal names.
    """
    dropped: Counter[str] = Counter()
    found: dict[tuple[Accelerator, str], DeviceUsage] = {}
    places: Counter[str] = Counter()
    recent = _recent(answer)
    for item in answer.metrics or ():
        match = _CARD.fullmatch((item.metric or "").lower())
        if match is None:
            continue
        name = match[1]
        device = match[2] if match[2] is not None else str(places[name])
        places[name] += 1
        sample = _sample(name, item.value, recent, dropped)
        if sample is None:
            continue
        kind: Accelerator = "npu" if name.startswith("npu") else "gpu"
        card = found.get((kind, device), DeviceUsage(job_id, pod_id, device, kind))
        of_memory = sample.field == "accelerator_memory"
        if (card.memory_utilization if of_memory else card.utilization) is not None:
            dropped["duplicate"] += 1
        elif of_memory:
            found[(kind, device)] = msgspec.structs.replace(card, memory_utilization=sample.value)
        else:
            found[(kind, device)] = msgspec.structs.replace(card, utilization=sample.value)
    return list(found.values()), dropped


def usage(
    job_id: str, source: str, pods: Mapping[str, UsageValues], *, without: int = 0
) -> list[JobUsage | PodUsage | UsageSource]:
    """A job and its pods. The job's ratios are means over pods; its rates sums, where every pod has one, and there are
    no others `without` figures."""
    if not pods:
        return []
    whole: dict[str, Any] = {}
    for field in dict.fromkeys(RATIO_FIELDS.values()):
        average = mean(_given(pods.values(), field))
        if average is not None:
            whole[field] = average
    for field in _RATES:
        values = _given(pods.values(), field)
        if len(values) == len(pods) and not without:
            whole[field] = math.fsum(values)
    kinds = [values.accelerator for values in pods.values() if values.accelerator_utilization is not None]
    whole["accelerator"] = kinds[0] if kinds else "gpu"
    return [
        JobUsage(job_id, UsageValues(**whole)),
        UsageSource(job_id, source, None),
        *(PodUsage(job_id, pod_id, values) for pod_id, values in pods.items()),
    ]


def _given(pods: Iterable[UsageValues], field: str) -> list[float]:
    return [value for values in pods if (value := getattr(values, field)) is not None]


def _recent(answer: payloads.Metrics) -> int:
    """How many of the last values are recent; v1 says how many minutes lie between them."""
    return max(1, int(_RECENT // max(amount(answer.interval) or 1, 1)))


def _sample(
    metric: str, values: Sequence[str | float | None] | None, recent: int, dropped: Counter[str]
) -> _Sample | None:
    """The value that one metric has now, in the model's units; None where it has none."""
    if (metric not in RATIO_FIELDS and metric not in _RATE_FIELDS) or values is None:
        dropped["malformed"] += 1
        return None
    raw = _latest(values[-recent:])
    if raw is None:  # a device kind that is not there is all -1: nothing is missing then
        return None
    if metric in _RATE_FIELDS:
        field, unit = _RATE_FIELDS[metric]
        value = raw * unit if math.isfinite(raw) and raw >= 0 else None
    else:
        field = RATIO_FIELDS[metric]
        value = believable_ratio(raw / 100, bounded=field != "cpu")
    if value is None:
        dropped["out_of_range"] += 1
        return None
    return _Sample(metric, field, value)


def _latest(values: Sequence[str | float | None]) -> float | None:
    """The newest of some samples that is one (-1 is none); None where there is none among them."""
    for raw in reversed(values):
        if raw is None:
            continue
        try:
            value = float(raw)
        except ValueError:
            continue
        if value != -1:
            return value
    return None
