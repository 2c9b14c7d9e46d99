"""Datapoints as CloudMonitor returns them."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.monitor_metrics import HEALTH, Metric
from trainfleet_simulator.pai.monitor_subjects import Subject

_SPREAD = 0.05  # relative distance of minimum and maximum from the average


def value_of(metric: Metric, place: Subject, period: int) -> float | None:
    """Return the average of the minutes of the period that ends with the point."""
    values = []
    for at in range(place.at - period + 60, place.at + 60, 60):
        of_pods = [value for pod in place.pods if (value := metric.read(place.job, pod, at)) is not None]
        if of_pods:
            values.append(sum(of_pods) if metric.summed else sum(of_pods) / len(of_pods))
    if not values:
        return None
    value = sum(values) / len(values)
    if place.card is not None:
        value = _of_card(metric, value, place)
    return round(value, 4)


def _of_card(metric: Metric, value: float, place: Subject) -> float:
    """Return the value of a card. Cards of a pod are in pairs, one slightly above the pod's average, one equally below
    it.

    One card of a job that hangs is not healthy.
    """
    pod, card = place.pods[0], place.card or 0
    if metric.name == HEALTH:
        is_first = card == 0 and pod is place.job.pods[0]
        hung = place.job.hangs_at is not None and place.at >= place.job.hangs_at
        return 0.0 if is_first and hung else value
    if card == pod.role.cards - 1 and card % 2 == 0:
        return value
    apart = min(0.03 * value, 100 - value) if metric.unit == "%" else 0.03 * value
    apart *= crc32(f"{pod.uid}/{card // 2}".encode()) / 0xFFFFFFFF
    return value + (apart if card % 2 else -apart)


def point_of(metric: Metric, place: Subject, period: int) -> dict[str, Any] | None:
    """Return a datapoint with its dimensions and statistics; None if there is no reading."""
    value = value_of(metric, place, period)
    if value is None:
        return None
    point: dict[str, Any] = {
        "timestamp": place.at * 1000,
        "userId": catalog.ACCOUNT_ID,
        "regionId": catalog.REGION,
        "workspaceId": place.job.draft.workspace_id,
        "jobId": place.job.job_id,
    }
    if metric.level != "job":
        point["pod"] = place.pods[0].pod_id
    if place.card is not None:
        point["gpuId"] = str(place.card)
    return point | statistics(value, metric.statistics, metric.unit)


def statistics(value: float, names: tuple[str, ...], unit: str) -> dict[str, float]:
    """Return the statistics of a metric."""
    if names == ("Value",):
        return {"Value": value}
    highest = value * (1 + _SPREAD)
    return {
        "Average": value,
        "Minimum": round(value * (1 - _SPREAD), 4),
        "Maximum": round(min(highest, max(value, 100.0)) if unit == "%" else highest, 4),
    }


def row_of(name: str, point: dict[str, Any]) -> list[Any]:
    """Return a point's fields for the log of responses: subject, metric, value, time (ms)."""
    value = point["Value"] if "Value" in point else point["Average"]
    whose = point.get("jobId") or point["quotaId"]
    part = point.get("pod") or point.get("nodeId", "")
    return [whose, part, point.get("gpuId", ""), name, value, point["timestamp"]]
